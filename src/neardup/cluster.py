"""The keep list: decide in rank order which candidates are kept, and which witness removes others.

`keep_stars` gives the answer that the promises are about: every removed document is similar to a
kept one of better rank. `keep_components`, an option, does what other tools do: of each connected
component one document is kept, however long the chains in it are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from neardup import kernels

Integers = NDArray[np.int64]
PAIRS_AT_ONCE = 1_000_000
BUCKET_CAP = 2_000
KEPT, REJECTED, DROPPED = -1, -2, -3


class Verifier(Protocol):
    """How candidates are compared; `neardup.verify` implements it."""

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
    """Candidates by their shared buckets; `neardup.lsh.buckets` implements it."""

    @property
    def numbers(self) -> Integers: ...
    @property
    def sizes(self) -> Integers: ...
    @property
    def band_of(self) -> Integers: ...
    def members(self) -> tuple[Integers, Integers]: ...


@dataclass(frozen=True)
class Kept:
    """The decisions about candidates, which are numbered in rank order.

    Attributes:
        witness: The witness of each candidate, -1 if it is kept.
        similarity: How similar each removed candidate is to its witness.
        compared: The number of comparisons.
        turned_away: By bucket, the candidates that were not compared with all others: for stars,
            kept ones beyond the limit of leaders; for components, those beyond the first `cap`.
    """

    witness: Integers
    similarity: NDArray[np.float64]
    compared: int
    turned_away: Integers


@dataclass(frozen=True)
class FullBucket:
    """A bucket with more kept documents than are compared.

    Attributes:
        band: The number of its band.
        key: Its key in the band.
        size: The number of its documents.
        beyond: The number of kept documents beyond the limit.
        sample: One of its documents.
    """

    band: int
    key: int
    size: int
    beyond: int
    sample: int


@dataclass(frozen=True)
class KeepList:
    """The keep list of all documents, in input order.

    Attributes:
        witness: The witness of each document, or KEPT, REJECTED or DROPPED.
        similarity: How similar each removed document is to its witness; NaN if it has none.
        exact: Whether that similarity is exact.
        identical: The number of documents identical to one of better rank.
        compared: The number of comparisons.
        full_buckets: The buckets with more kept documents than are compared.
        undated: The number of documents without a date, if the keep policy compares dates.
        leaders: The documents by which clusters are named, where they are removed too.
        cosine: Of documents with a second signal, the cosine of each removed document and its
            witness; NaN of a copy, and of kept ones.
    """

    witness: Integers
    similarity: NDArray[np.float64]
    exact: NDArray[np.bool_]
    identical: int
    compared: int
    full_buckets: list[FullBucket]
    undated: int = 0
    leaders: Integers | None = None
    cosine: NDArray[np.float64] | None = None

    @cached_property
    def cluster(self) -> Integers:
        """The document that names the cluster of each, itself if it is kept; REJECTED of others."""
        cluster = np.where(self.witness == KEPT, np.arange(len(self.witness)), self.witness)
        if self.leaders is not None:
            cluster[self.leaders] = self.leaders
        return cluster

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Whether each document is kept."""
        return np.equal(self.witness, KEPT)

    @property
    def removed(self) -> Integers:
        """The removed documents, in input order."""
        return np.flatnonzero((self.witness >= 0) | (self.witness == DROPPED))

    @property
    def dropped(self) -> int:
        """How many documents were removed by decisions alone."""
        return int(np.count_nonzero(self.witness == DROPPED))


@dataclass(frozen=True)
class Pairs:
    """Verified pairs of documents.

    Attributes:
        a: The document of each pair that comes first in the input.
        b: The other one.
        similarity: How similar they are.
        dropped: The number of pairs that are not listed, because there are too many.
        capped: The number of buckets of which not all documents were paired.
    """

    a: Integers
    b: Integers
    similarity: NDArray[np.float64]
    dropped: int
    capped: int


def remove_leaders(decided: KeepList) -> KeepList:
    """Return the keep list without the kept documents that have copies: no document of a cluster.

    The witness of such a document is the first of its copies, as similar as that is to it.

    Args:
        decided: The keep list, of documents that are ranked in input order.
    """
    removed = decided.removed
    leaders, first = np.unique(decided.witness[removed], return_index=True)
    copies = removed[first]
    columns = decided.witness.copy(), decided.similarity.copy(), decided.exact.copy()
    for column, values in zip(
        columns, (copies, decided.similarity[copies], decided.exact[copies]), strict=True
    ):
        column[leaders] = values
    witness, similarity, exact = columns
    cosine = decided.cosine
    if cosine is not None:
        cosine = cosine.copy()
        cosine[leaders] = cosine[copies]
    return replace(
        decided,
        witness=witness,
        similarity=similarity,
        exact=exact,
        leaders=leaders,
        cosine=cosine,
    )


def find_identical(
    content: NDArray[np.uint64], order: Integers, alone: Integers | None = None
) -> Integers:
    """Return for each document the best-ranked one with the same content, itself if it is that.

    Args:
        content: The 128-bit content hash of each document, as two columns.
        order: The documents that take part, best rank first; the others get -1.
        alone: Documents that are nobody's copy and have none.
    """
    if alone is not None:
        named = np.intersect1d(alone, order)
        leader = find_identical(content, order[~np.isin(order, named)])
        leader[named] = named
        return leader
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
    """Return the keep list of candidates that are numbered in rank order.

    A candidate is removed if and only if it is similar to one of the first `limit` kept ones of one
    of its buckets, as `reference.keep_list` defines it.
    """
    room = np.concatenate([[0], np.cumsum(np.minimum(grouped.sizes, limit))]).astype(np.int64)
    return Kept(*verifier.keep(grouped.numbers, room))


def keep_components(grouped: Grouped, verifier: Verifier, cap: int = BUCKET_CAP) -> Kept:
    """Keep the best-ranked candidate of each connected component of similar candidates.

    A candidate is compared with the first `cap` ones of its bucket.
    """
    members, starts = grouped.members()
    root, compared = verifier.connect(members, starts, cap)
    turned_away = count_beyond_cap(root[members], starts, cap)
    places = np.arange(len(root))
    witness = np.where(root == places, -1, root)
    removed = np.flatnonzero(witness >= 0)
    similarity = np.ones(len(root))
    similarity[removed] = verifier.pairs(witness[removed], removed, least=0.0)
    return Kept(witness, similarity, compared, turned_away)


def count_beyond_cap(roots: Integers, starts: Integers, cap: int = BUCKET_CAP) -> Integers:
    """Return, by bucket, the members beyond the first `cap`; 0 if all are connected anyway.

    Args:
        roots: The component of each member, bucket after bucket.
        starts: Where each bucket begins; one more than buckets.
        cap: The number of members with which others are compared.
    """
    sizes = np.diff(starts)
    if not len(sizes):
        return sizes
    highest = np.maximum.reduceat(roots, starts[:-1])
    connected = highest == np.minimum.reduceat(roots, starts[:-1])
    return np.where(connected, 0, np.maximum(sizes - cap, 0))


def pair_candidates(grouped: Grouped, cap: int = BUCKET_CAP) -> Iterator[tuple[Integers, Integers]]:
    """Yield each pair of candidates that share a bucket once, in blocks, the better rank left.

    Of a bucket only the first `cap` candidates are paired.
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
