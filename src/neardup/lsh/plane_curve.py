"""The probability that vectors of a cosine share a band of planes, in a form that travels.

`planes.py` predicts it from a sample. A run keeps some points of that curve; without a sample, it
is that of planes through the origin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from neardup.lsh.angles import angle_agreement
from neardup.lsh.curve import Meeting
from neardup.lsh.planes import PlanePrediction, Planes

STEPS: Final = 100
MEASURED: Final = 4_096
"""Pairs of the sample by which the points are computed."""
DIGITS: Final = 6


@dataclass(frozen=True)
class PlaneCurve(Meeting):
    """Bands of planes, and what they find.

    Attributes:
        planes: The bands.
        points: Cosines from 0 to 1, ascending, each with the probability; none if no vectors were
            counted.

    >>> round(PlaneCurve(Planes(20, 16)).probability(0.95), 4)
    0.9819
    """

    planes: Planes
    points: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, predicted: PlanePrediction) -> PlaneCurve:
        """Return points of a predicted curve, that at its threshold among them."""
        around = predicted.around
        step = max(-(-len(around.depths) // MEASURED), 1)
        rough = replace(predicted, around=replace(around, depths=around.depths[::step]))
        points = {place / STEPS: rough.probability(place / STEPS) for place in range(STEPS + 1)}
        points[predicted.threshold] = predicted.recall
        found = tuple((cosine, round(points[cosine], DIGITS)) for cosine in sorted(points))
        return cls(predicted.planes, found)

    def probability(self, similarity: float) -> float:
        """Return the probability that two documents of this cosine share a bucket."""
        if self.points:
            cosines, found = np.array(self.points).T
            return float(np.interp(similarity, cosines, found))
        one_band = angle_agreement(min(similarity, 1.0)) ** self.planes.rows
        return 1.0 if one_band >= 1.0 else -math.expm1(self.planes.bands * math.log1p(-one_band))

    def __str__(self) -> str:
        return str(self.planes)
