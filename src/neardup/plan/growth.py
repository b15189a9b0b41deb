"""What would a trial cost with all documents? A sample hides what grows with the square of them.

Signatures, keys and buckets take time in proportion to the documents. Comparisons don't. Pairs that
the truth knows stand for so many pairs of the corpus as the sample says. The others that met in the
trial are far apart, chosen one by one, and each stands for as many pairs as there are for one of
the sample: twice the documents make four times as many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.evaluate.truth import Truth
from neardup.plan.trial import Outcome, Point
from neardup.spec import MINHASHES


@dataclass(frozen=True)
class Growth:
    """From a sample to all documents.

    times      how many documents each one of the sample stands for
    weights    how many pairs each pair of the truth stands for
    """

    times: float
    truth: Truth
    weights: NDArray[np.float64]
    reference: Point

    def __call__(self, row: Outcome) -> Outcome:
        """The same row, with what it would be for all documents."""
        if not row.done:
            return row
        compared = self.compared(row)
        each = row.t_compare / row.candidates if row.candidates else 0.0
        seconds = (row.seconds - row.t_compare) * self.times + compared * each
        return replace(row, all_candidates=compared, t_all=seconds)

    def compared(self, row: Outcome) -> float:
        """How many pairs would be compared."""
        near, stood_for = self._near(row)
        return stood_for + max(row.candidates - near, 0.0) * self.times**2

    def _near(self, row: Outcome) -> tuple[float, float]:
        """How many pairs of the truth meet in the sample, and for how many they stand."""
        point = row.point
        if not len(self.weights):
            return 0.0, 0.0
        if (
            point.sketch not in MINHASHES
            or point.only_for_sweeps
            or (point.shingle != self.reference.shingle)
        ):
            # What was found without a look at the texts need not be near.
            near = row.pairs * (1.0 if point.verify == "exact" else row.precision or 0.0)
            return near, near * float(self.weights.mean())
        values, counts, weights = self._similarities
        curve = point.meeting
        met = np.array([curve.probability(value) for value in values.tolist()])
        return float(met @ counts), float(met @ weights)

    @cached_property
    def _similarities(
        self,
    ) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[Any]]:
        """The similarities that there are, how many pairs have each, and stand for how many."""
        values, place, counts = np.unique(
            self.truth.similarity, return_inverse=True, return_counts=True
        )
        return values, counts, np.bincount(place, self.weights)
