"""Which of some documents are copies? The answer of the batch engine, in the order of arrival.

First against the kept documents that lead the buckets: the best-ranked similar one is the witness.
What is left is compared with one another, in order, by the same pass that a run makes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from neardup.cluster import find_identical
from neardup.index.arrivals import Arrivals
from neardup.index.postings import Integers, Keys, Numbers
from neardup.lsh.buckets import Buckets, group_by_key
from neardup.options import Options
from neardup.verify import Comparison

KEPT = -1


class CandidateSource(Protocol):
    """The documents that came before."""

    def leaders(self, keys: Keys, limit: int) -> tuple[Integers, Integers, Numbers]: ...
    def sets(self, numbers: list[int]) -> dict[int, bytes]: ...
    def compared(self, numbers: list[int]) -> NDArray[Any]: ...


@dataclass(frozen=True)
class Judgements:
    """For each document the number of its witness, or KEPT; and what it took to find out."""

    witness: Integers
    similarity: NDArray[np.float64]
    exact: NDArray[np.bool_]
    looked_up: int = 0
    """Band keys."""
    candidates: int = 0
    """Pairs that met."""
    compared: int = 0
    similar: int = 0


@dataclass(frozen=True)
class CandidatePairs:
    """Kept documents (numbers) and arrivals (rows) that share a bucket, by row, then by number."""

    numbers: Integers
    rows: Integers
    similarity: NDArray[np.float64]
    exact: NDArray[np.bool_]


@dataclass(frozen=True)
class Probes:
    """More keys to look up, in rows; and for which of the chosen ones each row is."""

    rows: Integers
    keys: Keys


@dataclass(frozen=True)
class Decider:
    """How documents are judged at an operating point."""

    options: Options
    weights: NDArray[np.uint32] | None = None
    """Those of the cells, if bags depend on the corpus."""

    def decide(self, arrivals: Arrivals, numbers: Integers, known: CandidateSource) -> Judgements:
        """Judge documents that have, or will have, these numbers."""
        leader = first_identical(arrivals.content)
        unique = np.flatnonzero(leader == np.arange(len(leader)))
        counts, pairs = self.meetings(arrivals, unique, known)
        witness = np.full(len(arrivals), KEPT, np.int64)
        similarity, exact = np.ones(len(arrivals)), np.ones(len(arrivals), bool)
        for row, place in first_similar(pairs):
            witness[row] = pairs.numbers[place]
            similarity[row], exact[row] = pairs.similarity[place], pairs.exact[place]
        left = np.flatnonzero(witness[unique] == KEPT)
        met, compared = 0, 0
        if len(left) > 1:
            among, found, alike, met, compared = self._among(
                arrivals, unique[left], counts[:, left]
            )
            gone = np.flatnonzero(found >= 0)
            witness[among[gone]] = numbers[among[found[gone]]]
            similarity[among[gone]] = alike[gone]
            exact[among[gone]] = self._by_sets(arrivals)
        copies = np.flatnonzero(leader != np.arange(len(leader)))
        stands = leader[copies]
        witness[copies] = np.where(witness[stands] == KEPT, numbers[stands], witness[stands])
        similarity[copies], exact[copies] = similarity[stands], exact[stands]
        return Judgements(
            witness,
            similarity,
            exact,
            counts.size,
            len(pairs.rows) + compared,
            len(pairs.rows) + compared,
            int(np.count_nonzero(pairs.similarity >= 0.0)) + met,
        )

    def meetings(
        self,
        arrivals: Arrivals,
        chosen: Integers,
        known: CandidateSource,
        probes: Probes | None = None,
    ) -> tuple[Integers, CandidatePairs]:
        """How many lead each bucket of the chosen ones, and all of those, compared."""
        counts, rows, numbers = known.leaders(arrivals.keys[chosen], self.options.limit)
        if probes is not None:
            _, places, more = known.leaders(probes.keys, self.options.limit)
            rows = np.concatenate([rows, probes.rows[places]])
            numbers = np.concatenate([numbers, more])
        if not len(rows):
            nothing = np.empty(0, np.int64)
            return counts, CandidatePairs(nothing, nothing, np.empty(0), np.empty(0, bool))
        codes = np.unique(rows << 32 | numbers.astype(np.int64))
        rows, found = chosen[codes >> 32], codes & 0xFFFFFFFF
        return counts, self.compared(arrivals, rows, found, known)

    def compared(
        self, arrivals: Arrivals, rows: Integers, numbers: Integers, known: CandidateSource
    ) -> CandidatePairs:
        """Each of some arrivals with a kept document."""
        distinct, left = np.unique(numbers, return_inverse=True)
        similarity, exact = np.full(len(rows), -1.0), np.zeros(len(rows), bool)
        sets = known.sets(distinct.tolist()) if self._by_sets(arrivals) else {}
        there = np.array([number in sets for number in distinct.tolist()], bool)[left]
        if there.any():
            verifier, place = self._verifier(arrivals, sets)
            among = np.array([place.get(number, 0) for number in distinct.tolist()], np.int64)
            similarity[there] = verifier.pairs(among[left[there]], len(place) + rows[there])
            exact[there] = True
        if not there.all():
            rest = np.flatnonzero(~there)
            stored = known.compared(distinct.tolist())
            judge = self._estimated(np.concatenate([stored, arrivals.compared]))
            similarity[rest] = judge.pairs(left[rest], len(stored) + rows[rest])
        return CandidatePairs(numbers, rows, similarity, exact)

    def _verifier(
        self, arrivals: Arrivals, sets: dict[int, bytes]
    ) -> tuple[Comparison, dict[int, int]]:
        """By shingles: of the stored documents, which have places, then of the arrivals."""
        assert arrivals.sets is not None  # noqa: S101  # `_by_sets` says so
        stored = [np.frombuffer(data, np.uint64) for data in sets.values()]
        sizes = np.array([len(row) for row in stored], np.int64)
        begins = np.cumsum(sizes)
        offsets = np.concatenate([[0], begins, begins[-1] + arrivals.sets.offsets[1:]])
        data = np.concatenate([*stored, arrivals.sets.data[: arrivals.sets.offsets[-1]]])
        verifier = self.options.exact(data, offsets.astype(np.int64), self.weights)
        return verifier, {number: place for place, number in enumerate(sets)}

    def _among(
        self, arrivals: Arrivals, left: Integers, counts: Integers
    ) -> tuple[Integers, Integers, NDArray[np.float64], int, int]:
        """Those that met among themselves: who they are, each one's witness among them, how
        similar; pairs that turned out similar, and comparisons."""
        buckets = group_by_key(arrivals.keys[left])
        among = left[buckets.documents]
        if not len(among):
            return among, among, np.empty(0), 0, 0
        room = np.concatenate([[0], np.cumsum(_room(buckets, counts, self.options.limit))])
        if self._by_sets(arrivals):
            assert arrivals.sets is not None  # noqa: S101  # the same
            sets = arrivals.sets.take(among)
            verifier: Any = self.options.exact(sets.data, sets.offsets, self.weights)
        else:
            verifier = self._estimated(arrivals.compared[among])
        witness, similarity, compared, _ = verifier.keep(buckets.numbers, room.astype(np.int64))
        return among, witness, similarity, int(np.count_nonzero(witness >= 0)), compared

    def _by_sets(self, arrivals: Arrivals) -> bool:
        return self.options.verify == "exact" and arrivals.shingles is not None

    def _estimated(self, rows: NDArray[Any]) -> Comparison:
        options = self.options
        if options.verify == "exact":
            options = replace(options, verify="estimate")
        return options.estimated(rows)


def first_identical(content: NDArray[np.uint64]) -> Integers:
    """For each document the first one with the same content."""
    if len(content) == 1:
        return np.zeros(1, np.int64)
    return find_identical(content, np.arange(len(content)))


def first_similar(pairs: CandidatePairs) -> list[tuple[int, int]]:
    """The rows that have a similar document, and the place of the first pair that says so."""
    similar = np.flatnonzero(pairs.similarity >= 0.0)
    if not len(similar):
        return []
    rows, first = np.unique(pairs.rows[similar], return_index=True)
    return list(zip(rows.tolist(), similar[first].tolist(), strict=True))


def _room(buckets: Buckets, counts: Integers, limit: int) -> Integers:
    """How many of the arrivals may lead each bucket: there may be leaders already."""
    members, starts = buckets.members()
    first = buckets.documents[members[starts[:-1]]]
    return np.minimum(buckets.sizes, limit - counts[buckets.band_of, first])
