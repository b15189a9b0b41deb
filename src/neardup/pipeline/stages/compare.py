"""Compare pairs of candidates, whose sets are read from disk, as many as fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from neardup.options import Options
from neardup.pipeline.budget import Budget
from neardup.pipeline.job import Job
from neardup.pipeline.merge_rows import MergedSets
from neardup.pipeline.set_files import CandidateSets
from neardup.pipeline.stages.rank import RankedDocuments, Ranking
from neardup.runtime import map_in_order
from neardup.sketch.bulk import packed_shape
from neardup.text.arrays import Ragged
from neardup.verify import Comparison

PAIRS_PER_CALL = 1 << 14
BYTES_PER_PAIR = 64
"""About the memory for a pair besides its sets."""

MANY_PAIRS = 8
"""From this many pairs a document on, most are of hot buckets, and hardly any is similar."""

Integers = NDArray[np.int64]


class PairComparer:
    """Returns the similarity of pairs of ranks, -1.0 where it is below the threshold."""

    def __init__(
        self,
        sets: CandidateSets | MergedSets,
        ranking: Ranking,
        options: Options,
        budget: Budget,
        workers: int,
        weights: NDArray[np.uint32] | None = None,
    ) -> None:
        self._sets, self._ranking = sets, ranking
        self._options, self._budget, self._workers = options, budget, workers
        self._weights = weights
        self._factor = _memory_factor(options)
        self._fits = self._factor * sets.size + 8 * len(sets) < budget.share(3)

    def __call__(
        self, left: Integers, right: Integers, least: float | None = None
    ) -> NDArray[np.float64]:
        """Return the similarity of each pair (left[i], right[i]).

        `least` is used instead of the threshold, if it is not None.
        """
        left, right = self._ranking.documents(left), self._ranking.documents(right)
        similarities = [
            self._compare(documents, comparison, left[start:end], right[start:end], least)
            for start, end, documents, comparison in self._batches(left, right)
        ]
        return np.concatenate(similarities) if similarities else np.empty(0)

    def _batches(
        self, left: Integers, right: Integers
    ) -> Iterator[tuple[int, int, Integers, Comparison]]:
        if self._fits:
            yield 0, len(left), *self._all_sets
            return
        per_pair = BYTES_PER_PAIR + 4 * self._factor * self._sets.size // max(len(self._sets), 1)
        step = max(self._budget.share(2) // per_pair, 1)
        for start in range(0, len(left), step):
            end = min(start + step, len(left))
            documents = np.unique(np.concatenate([left[start:end], right[start:end]]))
            yield start, end, documents, self._comparison(self._sets.gather(documents))

    @cached_property
    def _all_sets(self) -> tuple[Integers, Comparison]:
        """All candidates, and their sets in memory."""
        documents = self._sets.documents()
        return documents, self._comparison(self._sets.gather(documents))

    def _comparison(self, rows: Ragged) -> Comparison:
        options = self._options
        if options.verify == "exact":
            return options.exact(rows.data, rows.offsets, self._weights)
        return options.estimated(rows.data.reshape(-1, packed_shape(options.spec)[0]))

    def _compare(
        self,
        documents: Integers,
        comparison: Comparison,
        left: Integers,
        right: Integers,
        least: float | None,
    ) -> NDArray[np.float64]:
        """Compare pairs of documents, which are among the sorted `documents` of the comparison."""
        if len(left) >= MANY_PAIRS * len(documents):
            comparison = comparison.for_many_pairs()
        left, right = np.searchsorted(documents, left), np.searchsorted(documents, right)

        def compare_from(start: int) -> NDArray[np.float64]:
            return comparison.pairs(
                left[start : start + PAIRS_PER_CALL], right[start : start + PAIRS_PER_CALL], least
            )

        parts = map_in_order(range(0, len(left), PAIRS_PER_CALL), compare_from, self._workers)
        return np.concatenate([np.empty(0), *(part for _, part in parts)])


def _memory_factor(options: Options) -> int:
    """Return how many times its stored size a candidate takes in memory while it is compared."""
    if options.verify == "exact":
        return 4 if options.spec.of_bags else 1  # places, weights and sums beside the shingles
    return max(8 // options.spec.bits, 1) if options.spec.narrow else 1


def make_comparer(
    job: Job, sets: CandidateSets | MergedSets, ranked: RankedDocuments
) -> PairComparer:
    """Return the comparer of this job's candidates."""
    return PairComparer(
        sets, ranked.ranking, job.options, job.budget, job.workers, job.frequencies.weights
    )
