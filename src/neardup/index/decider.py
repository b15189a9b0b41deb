"""Judge documents in the order of arrival, with the answer of the batch engine.

First each is compared with the kept documents that lead its buckets: the first similar one is the
witness. Those without a witness are then compared with one another, by the same pass that a batch
run makes. Shingles of stored documents are loaded in slices, so that long documents that share a
bucket with many others don't fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
SLICE_BYTES = 32 << 20
"""Shingles of stored documents that are compared at a time, about."""
FIRST_DOCUMENTS, MOST_DOCUMENTS = 64, 512
"""Stored documents that are loaded together: at first, and when their sizes are known."""


class CandidateSource(Protocol):
    """The stored documents that arrivals are compared with."""

    def leaders(self, keys: Keys, limit: int) -> tuple[Integers, Integers, Numbers]: ...
    def shingles(self, numbers: Sequence[int]) -> dict[int, bytes]: ...
    def signatures(self, numbers: Sequence[int]) -> NDArray[Any]: ...


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
    """-1.0 where a pair is not similar, or was not compared."""
    exact: NDArray[np.bool_]
    compared: int = 0


@dataclass(frozen=True)
class Probes:
    """More keys to look up, in rows; and which of the chosen arrivals each row is for."""

    rows: Integers
    keys: Keys


@dataclass(frozen=True)
class Decider:
    """Judges documents at an operating point. Any thread."""

    options: Options
    weights: NDArray[np.uint32] | None = None
    """The weights of the cells, if bags depend on the corpus."""

    def decide(self, arrivals: Arrivals, numbers: Integers, source: CandidateSource) -> Judgements:
        """Judge documents that have, or will have, these numbers."""
        leader = first_identical(arrivals.content)
        unique = np.flatnonzero(leader == np.arange(len(leader)))
        counts, pairs = self.compare_candidates(arrivals, unique, source)
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
            pairs.compared + compared,
            int(np.count_nonzero(pairs.similarity >= 0.0)) + met,
        )

    def compare_candidates(
        self,
        arrivals: Arrivals,
        chosen: Integers,
        source: CandidateSource,
        probes: Probes | None = None,
        *,
        stop_early: bool = True,
    ) -> tuple[Integers, CandidatePairs]:
        """How many documents lead each bucket of the chosen arrivals; and all of them, compared.

        `probes` are more keys to look up; for `stop_early` see `compare_pairs`.
        """
        counts, rows, numbers = source.leaders(arrivals.keys[chosen], self.options.limit)
        if probes is not None:
            _, places, more = source.leaders(probes.keys, self.options.limit)
            rows = np.concatenate([rows, probes.rows[places]])
            numbers = np.concatenate([numbers, more])
        if not len(rows):
            nothing = np.empty(0, np.int64)
            return counts, CandidatePairs(nothing, nothing, np.empty(0), np.empty(0, bool))
        codes = np.unique(rows << 32 | numbers.astype(np.int64))
        rows, candidates = chosen[codes >> 32], codes & 0xFFFFFFFF
        return counts, self.compare_pairs(arrivals, rows, candidates, source, stop_early=stop_early)

    def compare_pairs(
        self,
        arrivals: Arrivals,
        rows: Integers,
        numbers: Integers,
        source: CandidateSource,
        *,
        stop_early: bool = False,
    ) -> CandidatePairs:
        """Compare arrivals, by row, with stored documents, by number.

        With `stop_early` an arrival that is similar to a document of one slice is not compared with
        those of later slices, which have larger numbers: its witness is found.
        """
        distinct, left = np.unique(numbers, return_inverse=True)
        similarity, exact = np.full(len(rows), -1.0), np.zeros(len(rows), bool)
        waiting, compared = np.ones(len(rows), bool), 0
        for start, end, sets in self._slices(distinct, arrivals, source):
            if end - start == len(distinct):
                similarity, exact = self._compare_slice(
                    arrivals, rows, distinct, left, sets, source
                )
                return CandidatePairs(numbers, rows, similarity, exact, len(rows))
            pairs = np.flatnonzero(waiting & (left >= start) & (left < end))
            if not len(pairs):
                continue
            compared += len(pairs)
            similarity[pairs], exact[pairs] = self._compare_slice(
                arrivals, rows[pairs], distinct[start:end], left[pairs] - start, sets, source
            )
            if stop_early:
                waiting &= ~np.isin(rows, rows[pairs[similarity[pairs] >= 0.0]])
                if not waiting.any():
                    break
        return CandidatePairs(numbers, rows, similarity, exact, compared)

    def _slices(
        self, distinct: Integers, arrivals: Arrivals, source: CandidateSource
    ) -> Iterator[tuple[int, int, dict[int, bytes]]]:
        """Where slices of the stored documents start and end, each with its documents' shingles."""
        if not self._by_sets(arrivals):
            yield 0, len(distinct), {}
            return
        start = end = size = 0
        count = FIRST_DOCUMENTS
        sets: dict[int, bytes] = {}
        while end < len(distinct):
            chunk = distinct[end : end + count].tolist()
            sets |= source.shingles(chunk)
            end += len(chunk)
            size = sum(map(len, sets.values()))
            count = min(max((SLICE_BYTES - size) * len(sets) // max(size, 1), 1), MOST_DOCUMENTS)
            if size >= SLICE_BYTES or end == len(distinct):
                yield start, end, sets
                start, sets = end, {}

    def _compare_slice(
        self,
        arrivals: Arrivals,
        rows: Integers,
        distinct: Integers,
        left: Integers,
        sets: dict[int, bytes],
        source: CandidateSource,
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Similarities of arrivals and stored documents, and which of them are exact.

        Pair i is of arrival `rows[i]` and document `distinct[left[i]]`.
        """
        similarity = np.full(len(rows), -1.0)
        exact = np.array([number in sets for number in distinct.tolist()], bool)[left]
        if exact.any():
            verifier, place = self._verifier(arrivals, sets)
            among = np.array([place.get(number, 0) for number in distinct.tolist()], np.int64)
            similarity[exact] = verifier.pairs(among[left[exact]], len(place) + rows[exact])
        if not exact.all():
            rest = np.flatnonzero(~exact)
            stored = source.signatures(distinct.tolist())
            judge = self._estimated(np.concatenate([stored, arrivals.compared]))
            similarity[rest] = judge.pairs(left[rest], len(stored) + rows[rest])
        return similarity, exact

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
        """Compare arrivals that share buckets with one another.

        Which arrivals they are, the witness of each among them, its similarity; then how many pairs
        are similar, and how many were compared.
        """
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
