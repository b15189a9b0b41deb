"""Compare pairs of candidates, whose sets are read from disk, as many as fit into memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from neardup.measure_table import VECTORS
from neardup.options import Options
from neardup.overrides import Overrides
from neardup.pipeline.backends.backend import Advance
from neardup.pipeline.job import Job
from neardup.pipeline.merge_rows import MergedSets
from neardup.pipeline.set_files import CandidateSets
from neardup.pipeline.sorting import Keys, split_pairs
from neardup.pipeline.stages.rank import Ranking
from neardup.pipeline.stages.screen import VectorScreen
from neardup.runtime import Progress, map_in_order
from neardup.sketch.bulk import packed_shape
from neardup.verify import Comparison

PAIRS_PER_CALL = 1 << 14
BYTES_PER_PAIR = 64
"""About the memory for a pair besides its sets."""
READ_AT_ONCE = 256 << 20
"""Bytes of vectors that are in memory at once where codes leave few pairs to compare."""

MANY_PAIRS = 8
"""From this many pairs a document on, most are of hot buckets, and hardly any is similar."""

Integers = NDArray[np.int64]


def compare_sets(
    documents: Integers,
    comparison: Comparison,
    left: Integers,
    right: Integers,
    least: float | None,
    threads: int,
) -> NDArray[np.float64]:
    """Compare pairs of documents, which are among the sorted `documents` of the comparison."""
    if len(left) >= MANY_PAIRS * len(documents):
        comparison = comparison.for_many_pairs()
    left, right = np.searchsorted(documents, left), np.searchsorted(documents, right)

    def compare_from(start: int) -> NDArray[np.float64]:
        return comparison.pairs(
            left[start : start + PAIRS_PER_CALL], right[start : start + PAIRS_PER_CALL], least
        )

    parts = map_in_order(range(0, len(left), PAIRS_PER_CALL), compare_from, threads)
    return np.concatenate([np.empty(0), *(part for _, part in parts)])


def order_by_place(left: Integers, right: Integers, step: int) -> Integers:
    """Return an order in which `step` pairs after one another are of few ranges of documents.

    So are the parts of files that they are read from.

    Args:
        left: A document of each pair.
        right: The other one.
        step: How many pairs are read together.
    """
    tiles = math.isqrt(2 * len(left) // step) + 1
    if tiles == 1:
        return np.arange(len(left))
    tile = np.zeros(len(left), np.int64)
    for side in (left, right):
        first, last = int(side.min()), int(side.max())
        tile = tile * tiles + (side - first) * tiles // (last - first + 1)
    return np.argsort(tile, kind="stable")


@dataclass(frozen=True)
class ComparePairs:
    """Compares pairs of documents, as many at a time as have sets that fit into memory."""

    sets: CandidateSets | MergedSets
    options: Options
    weights: NDArray[np.uint32] | None
    least: float | None = None

    def __call__(
        self, items: Iterable[tuple[Integers, Integers]], threads: int, advance: Advance
    ) -> Iterator[NDArray[np.float64]]:
        for left, right in items:
            documents = np.unique(np.concatenate([left, right]))
            comparison = self.load(documents)
            yield compare_sets(documents, comparison, left, right, self.least, threads)
            advance(0)

    def load(self, documents: Integers) -> Comparison:
        """Return the comparison of documents, which are in ascending order."""
        rows, options = self.sets.gather(documents), self.options
        if options.verify == "exact":
            return options.comparison(rows.data, rows.offsets, self.weights)
        return options.estimated(rows.data.reshape(-1, packed_shape(options.spec)[0]))


class PairComparer:
    """Returns the similarity of pairs of ranks, -1.0 where it is below the threshold.

    Where the sets of all candidates fit into memory, they are compared in this process. Vectors are
    represented there by short codes, which rule out most pairs.
    """

    def __init__(
        self, job: Job, sets: CandidateSets | MergedSets, ranking: Ranking, progress: Progress
    ) -> None:
        self._job, self._sets, self._ranking = job, sets, ranking
        self._work = ComparePairs(sets, job.options, job.frequencies.weights)
        self._advance = progress.advance
        self._factor = _memory_factor(job.options)
        self._screen = _make_screen(job, sets)
        self._fits = self._screen is None and self._has_room()

    def _has_room(self) -> bool:
        """Return whether the sets of all candidates fit into memory."""
        needed = self._factor * self._sets.size + 8 * len(self._sets)
        return needed < self._job.budget.share(3)

    def hold_all(self) -> None:
        """Compare with all sets in memory from now on, if they fit: there will be many pairs."""
        self._fits = self._fits or self._has_room()

    def sift(self, pairs: Keys) -> Keys:
        """Return the pairs of ranks that are not ruled out by what is in memory.

        Args:
            pairs: Pairs as `sorting` packs them.
        """
        if self._screen is None:
            return pairs
        left, right = map(self._ranking.documents, split_pairs(pairs))
        return pairs[self._screen.may_be_similar(left, right)]

    def __call__(
        self, left: Integers, right: Integers, least: float | None = None
    ) -> NDArray[np.float64]:
        """Return the similarity of each pair (left[i], right[i]).

        `least` is used instead of the threshold, if it is not None.
        """
        left, right = self._ranking.documents(left), self._ranking.documents(right)
        threads = self._job.workers
        if self._fits:
            return compare_sets(*self._all_sets, left, right, least, threads)
        step = self._pairs_at_once()
        order = order_by_place(left, right, step)
        items = [
            (left[chosen], right[chosen])
            for chosen in (order[start : start + step] for start in range(0, len(left), step))
        ]
        work = replace(self._work, least=least)
        parts = self._job.backend.run(work, items, threads, self._advance)
        similarity = np.empty(len(left))
        similarity[order] = np.concatenate([np.empty(0), *parts])
        return similarity

    def _pairs_at_once(self) -> int:
        """Return how many pairs have sets that fit into memory, if each is of two documents."""
        each = self._factor * self._sets.size // max(len(self._sets), 1)
        room = self._job.budget.share(2)
        if self._screen is not None:
            room = min(room, READ_AT_ONCE)
        return max(room // (BYTES_PER_PAIR + 4 * each), 1)

    def forget(self) -> None:
        """Drop the sets in memory; they are read again if they are needed."""
        self.__dict__.pop("_all_sets", None)

    @cached_property
    def _all_sets(self) -> tuple[Integers, Comparison]:
        """All candidates, and their sets in memory."""
        documents = self._sets.documents()
        return documents, self._work.load(documents)

    def numbers(self, left: Integers, right: Integers) -> NDArray[np.float64]:
        """Return the similarity of the texts and the cosine of each pair of ranks, a row each."""
        left, right = self._ranking.documents(left), self._ranking.documents(right)
        parts = [np.empty((0, 2))]
        for start in range(0, len(left), PAIRS_PER_CALL):
            pairs = [side[start : start + PAIRS_PER_CALL] for side in (left, right)]
            documents = np.unique(np.concatenate(pairs))
            if self._fits:
                documents, comparison = self._all_sets
            else:
                comparison = self._work.load(documents)
            parts.append(comparison.numbers(*(np.searchsorted(documents, side) for side in pairs)))
        return np.concatenate(parts)


@dataclass(frozen=True)
class LexicalComparer:
    """Compares pairs of ranks as if no vector kept one that is lexically similar.

    Args:
        compare: Compares them by both.
        threshold: The least similarity of similar texts.
    """

    compare: PairComparer
    threshold: float

    def __call__(
        self, left: Integers, right: Integers, least: float | None = None
    ) -> NDArray[np.float64]:
        """Return the similarity of each pair, as `PairComparer` does."""
        return self.compare(left, right, self.threshold if least is None else least)

    def sift(self, pairs: Keys) -> Keys:
        """Return the pairs of ranks that are not ruled out, as `PairComparer` does."""
        return self.compare.sift(pairs)


@dataclass(frozen=True)
class PersonsComparer:
    """Compares pairs of ranks by the word of people, and other pairs by their sets.

    The similarity of documents that are the same is the measured one, however low. The right
    document of a pair that is different, or that stays, is similar to none: -1.0.
    """

    compare: PairComparer | LexicalComparer
    ranking: Ranking
    overrides: Overrides

    def __call__(self, left: Integers, right: Integers) -> NDArray[np.float64]:
        similar = self.compare(left, right)
        one, other = self.ranking.documents(left), self.ranking.documents(right)
        same, apart = self.overrides.judge(one, other)
        if same.any():
            similar[same] = self.compare(left[same], right[same], least=0.0)
        similar[apart | np.isin(other, self.overrides.staying)] = -1.0
        return similar

    def sift(self, pairs: Keys) -> Keys:
        """Return the pairs of ranks that are not ruled out; those that are the same for people are
        not, and may be returned twice."""
        possible = self.compare.sift(pairs)
        if len(possible) == len(pairs):
            return pairs
        same, _ = self.overrides.judge(*map(self.ranking.documents, split_pairs(pairs)))
        return np.concatenate([possible, pairs[same]])


def _make_screen(job: Job, sets: CandidateSets | MergedSets) -> VectorScreen | None:
    """Return codes of the candidates' vectors, if they are compared by these alone."""
    options, signal = job.options, job.options.vectors
    if signal is None or options.verify != "exact" or options.exact_measure.compares != VECTORS:
        return None
    dimension = options.spec.dimension
    return VectorScreen.of(sets, dimension, signal.threshold, job.budget.share(2), job.workers)


def _memory_factor(options: Options) -> int:
    """Return how many times its stored size a candidate takes in memory while it is compared."""
    if options.verify == "exact":
        return 4 if options.spec.of_bags else 1  # places, weights and sums beside the shingles
    return max(8 // options.spec.bits, 1) if options.spec.narrow else 1
