"""The keep list: documents in rank order and their candidates to kept and removed ones.

`keep_stars` gives the answer that the promises are about: every removed document is similar to a
kept one of better rank. `keep_components` is what other tools do, as an option: whole connected
components are removed but for one document, however long the chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from neardup import kernels

Integers = NDArray[np.int64]
PAIRS_AT_ONCE = 1_000_000
BUCKET_CAP = 2_000
KEPT, REJECTED = -1, -2


class Verifier(Protocol):
    """Tells how similar candidates are; `neardup.verify` has them."""

    @property
    def exact(self) -> bool: ...
    def keep(
        self, buckets: Integers, room: Integers
    ) -> tuple[Integers, NDArray[np.float64], int, Integers]: ...
    def pairs(
        self, left: Integers, right: Integers, least: float | None = None
    ) -> NDArray[np.float64]: ...
    def connect(self, members: Integers, starts: Integers, cap: int) -> tuple[Integers, int]: ...


class Grouped(Protocol):
    """Documents in shared buckets; `neardup.lsh.buckets` makes them."""

    @property
    def numbers(self) -> Integers: ...
    @property
    def sizes(self) -> Integers: ...
    @property
    def band_of(self) -> Integers: ...
    def members(self) -> tuple[Integers, Integers]: ...


@dataclass(frozen=True)
class Kept:
    """For each candidate in rank order: its witness, or -1 if it stays; and how similar."""

    witness: Integers
    similarity: NDArray[np.float64]
    compared: int
    turned_away: Integers
    """By bucket: documents that were not compared with everyone. For stars, kept ones that found
    the leaders' places taken; for components, those beyond the first `cap`."""


@dataclass(frozen=True)
class FullBucket:
    """A bucket that has more kept documents than are compared with."""

    band: int
    key: int
    size: int
    beyond: int
    sample: int


@dataclass(frozen=True)
class Decisions:
    """The keep list: for each document its witness, KEPT or REJECTED."""

    witness: Integers
    similarity: NDArray[np.float64]
    exact: NDArray[np.bool_]
    identical: int
    compared: int
    full_buckets: list[FullBucket]

    @property
    def kept(self) -> NDArray[np.bool_]:
        return np.equal(self.witness, KEPT)

    @property
    def removed(self) -> Integers:
        """The removed documents, in input order."""
        return np.flatnonzero(self.witness >= 0)


@dataclass(frozen=True)
class Pairs:
    """Verified pairs, a before b in input order; `capped` buckets were not paired in full."""

    a: Integers
    b: Integers
    similarity: NDArray[np.float64]
    dropped: int
    capped: int


def find_identical(content: NDArray[np.uint64], order: Integers) -> Integers:
    """For each document the best-ranked one with the same 128-bit content hash.

    `order` lists the documents that take part, best rank first; the others get -1.
    """
    first, second = content[order, 0], content[order, 1]
    by_hash = np.lexsort((second, first))  # stable: equal hashes stay in rank order
    begins = np.ones(len(order), bool)
    begins[1:] = (first[by_hash[1:]] != first[by_hash[:-1]]) | (
        second[by_hash[1:]] != second[by_hash[:-1]]
    )
    leader = np.full(len(content), -1, np.int64)
    leader[order[by_hash]] = order[by_hash][begins][np.cumsum(begins) - 1]
    return leader


def keep_stars(grouped: Grouped, verifier: Verifier, limit: int) -> Kept:
    """The keep list as DESIGN defines it, for candidates numbered in rank order."""
    room = np.concatenate([[0], np.cumsum(np.minimum(grouped.sizes, limit))]).astype(np.int64)
    return Kept(*verifier.keep(grouped.numbers, room))


def keep_components(grouped: Grouped, verifier: Verifier, cap: int = BUCKET_CAP) -> Kept:
    """Connected components of the similar pairs; each keeps its best-ranked document.

    A document is compared with the first `cap` documents of its bucket.
    """
    members, starts = grouped.members()
    root, compared = verifier.connect(members, starts, cap)
    left_out = count_beyond_cap(root[members], starts, cap)
    places = np.arange(len(root))
    witness = np.where(root == places, -1, root)
    gone = np.flatnonzero(witness >= 0)
    similarity = np.ones(len(root))
    similarity[gone] = verifier.pairs(witness[gone], gone, least=0.0)
    return Kept(witness, similarity, compared, left_out)


def count_beyond_cap(roots: Integers, starts: Integers, cap: int = BUCKET_CAP) -> Integers:
    """By bucket: members that were not compared with all others, unless all are connected."""
    sizes = np.diff(starts)
    if not len(sizes):
        return sizes
    alike = np.maximum.reduceat(roots, starts[:-1]) == np.minimum.reduceat(roots, starts[:-1])
    return np.where(alike, 0, np.maximum(sizes - cap, 0))


def pair_candidates(grouped: Grouped, cap: int = BUCKET_CAP) -> Iterator[tuple[Integers, Integers]]:
    """Every pair that shares a bucket, once, in blocks; u < v by rank.

    Of a bucket only the first `cap` documents are paired.
    """
    members, starts = grouped.members()
    bucket, place = 0, 1
    while bucket < len(grouped.sizes):
        left, right, bucket, place = kernels.candidate_pairs(
            grouped.numbers,
            members,
            starts,
            grouped.band_of,
            cap,
            bucket,
            place,
            PAIRS_AT_ONCE,
        )
        yield left, right
