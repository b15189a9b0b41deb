"""Compare pairs of candidates; their sets are read from disk, as many as fit into memory."""

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
from neardup.pipeline.stages.rank import (
    RankedDocuments,
    Ranking,
)
from neardup.runtime import map_in_order
from neardup.sketch.bulk import packed_shape
from neardup.text.arrays import Ragged
from neardup.verify import Comparison

PAIRS_PER_CALL = 1 << 14
BYTES_PER_PAIR = 64
"""What a pair takes besides its sets, about."""

Integers = NDArray[np.int64]
Verifier = Comparison


class PairComparer:
    """The similarity of pairs of ranks, -1.0 where it is below the threshold."""

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
        self._times = _memory_factor(options)
        self._fits = self._times * sets.size + 8 * len(sets) < budget.share(3)

    def __call__(
        self, left: Integers, right: Integers, least: float | None = None
    ) -> NDArray[np.float64]:
        """Of each pair (left[i], right[i]); below `least`, if given, instead of the threshold."""
        left, right = self._ranking.documents(left), self._ranking.documents(right)
        found = [
            self._compared(documents, verifier, left[start:end], right[start:end], least)
            for start, end, documents, verifier in self._batches(left, right)
        ]
        return np.concatenate(found) if found else np.empty(0)

    def _batches(
        self, left: Integers, right: Integers
    ) -> Iterator[tuple[int, int, Integers, Verifier]]:
        if self._fits:
            yield 0, len(left), *self._everything
            return
        each = BYTES_PER_PAIR + 4 * self._times * self._sets.size // max(len(self._sets), 1)
        step = max(self._budget.share(2) // each, 1)
        for start in range(0, len(left), step):
            end = min(start + step, len(left))
            documents = np.unique(np.concatenate([left[start:end], right[start:end]]))
            yield start, end, documents, self._verifier(self._sets.gather(documents))

    @cached_property
    def _everything(self) -> tuple[Integers, Verifier]:
        documents = self._sets.documents()
        return documents, self._verifier(self._sets.gather(documents))

    def _verifier(self, rows: Ragged) -> Verifier:
        options = self._options
        if options.verify == "exact":
            return options.exact(rows.data, rows.offsets, self._weights)
        return options.estimated(rows.data.reshape(-1, packed_shape(options.spec)[0]))

    def _compared(
        self,
        documents: Integers,
        verifier: Verifier,
        left: Integers,
        right: Integers,
        least: float | None,
    ) -> NDArray[np.float64]:
        left, right = np.searchsorted(documents, left), np.searchsorted(documents, right)

        def some(start: int) -> NDArray[np.float64]:
            return verifier.pairs(
                left[start : start + PAIRS_PER_CALL], right[start : start + PAIRS_PER_CALL], least
            )

        parts = map_in_order(range(0, len(left), PAIRS_PER_CALL), some, self._workers)
        return np.concatenate([np.empty(0), *(part for _, part in parts)])


def _memory_factor(options: Options) -> int:
    """How many times what is stored of a candidate it takes while it is compared."""
    if options.verify == "exact":
        return 4 if options.spec.of_bags else 1  # places, weights and sums beside the shingles
    return max(8 // options.spec.bits, 1) if options.spec.narrow else 1


# -- decide -------------------------------------------------------------------------------------


def make_comparer(
    job: Job, sets: CandidateSets | MergedSets, ranked: RankedDocuments
) -> PairComparer:
    """Compares candidates by their sets."""
    return PairComparer(
        sets, ranked.ranking, job.options, job.budget, job.workers, job.frequencies.weights
    )
