"""What would a trial cost with all documents? A sample hides what grows with the square of them.

Signatures, keys and buckets take time in proportion to the documents. Comparisons don't:

- A document that is removed is compared with the one that it is removed for: so many documents.
- Pairs of the truth that met without being similar enough stand for as many pairs of the corpus as
  the sample says.
- Others that met are far apart and were chosen one by one: if a document of the sample stands for
  t documents, such a pair stands for t^2 pairs.

If there will be g times the documents of the corpus, of the same kind, the second are g^2 times as
many, too. That a run compares a document with the first kept ones of a bucket only is left out:
where that limit saves time it loses recall, and bands for which it matters are no bargain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from neardup.evaluation.truth import Truth
from neardup.planner.trial import Outcome, Point
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
        similar = self.truth.similarity >= self.reference.threshold
        recall = row.recall or 0.0
        removed = len(np.unique(self.truth.b[similar])) * recall
        near = max(row.candidates - row.far - recall * np.count_nonzero(similar), 0.0)
        in_vain = near * self._stands_for(row.point, ~similar) + row.far * self.times**2
        return float(removed * self.times + in_vain)

    def _stands_for(self, point: Point, chosen: NDArray[np.bool_]) -> float:
        """For how many pairs one stands that met, of these pairs of the truth."""
        if not chosen.any():
            return 1.0
        weights = self.weights[chosen]
        if point.sketch not in MINHASHES or point.shingle != self.reference.shingle:
            return float(weights.mean())
        values, place = np.unique(self.truth.similarity[chosen], return_inverse=True)
        curve = point.meeting
        met = np.array([curve.probability(value) for value in values.tolist()])[place]
        return float(met @ weights / met.sum()) if met.sum() else float(weights.mean())
