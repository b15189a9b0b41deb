"""The S-curve: how likely two documents are to meet, as a function of their similarity.

With b bands of r rows, documents of similarity s share a bucket with probability
P(s) = 1 - (1 - s^r)^b.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from neardup.errors import ParameterError

STEPS = 2_000


class Meeting:
    """How likely two documents are to meet, as a function of their similarity."""

    condition: ClassVar[str] = ""
    """What is supposed of the documents besides, if anything."""

    def probability(self, similarity: float) -> float:
        """P(s), the chance that two documents of this similarity share a bucket."""
        raise NotImplementedError

    @property
    def half(self) -> float:
        """The similarity that is found every other time: P = 1/2."""
        low, high = 0.0, 1.0
        while low < (middle := (low + high) / 2) < high:
            low, high = (low, middle) if self.probability(middle) >= 0.5 else (middle, high)
        return high

    def false_positive_area(self, threshold: float) -> float:
        """The area under the curve below the threshold: candidates that verification drops."""
        return _integral(self.probability, 0.0, threshold)

    def false_negative_area(self, threshold: float) -> float:
        """The area above the curve from the threshold on: similar pairs that never meet."""
        return _integral(lambda s: 1.0 - self.probability(s), threshold, 1.0)

    def false_positive_rate(self, threshold: float) -> float:
        """The mean of P below the threshold."""
        return self.false_positive_area(threshold) / threshold

    def false_negative_rate(self, threshold: float) -> float:
        """The mean of 1 - P from the threshold on."""
        if threshold >= 1.0:
            return 0.0
        return self.false_negative_area(threshold) / (1.0 - threshold)


@dataclass(frozen=True)
class Curve(Meeting):
    """b bands of r rows.

    >>> curve = Curve(20, 5)
    >>> f"{curve.probability(0.8):.4f}"
    '0.9996'
    >>> f"{curve.estimate:.3f} {curve.inflection:.3f} {curve.half:.3f}"
    '0.549 0.526 0.509'
    """

    bands: int
    rows: int

    def __post_init__(self) -> None:
        if self.bands < 1 or self.rows < 1:
            raise ParameterError(f"{self.bands} bands of {self.rows} rows: both must be at least 1")

    @property
    def slots(self) -> int:
        """How many slots of a signature the bands use."""
        return self.bands * self.rows

    def probability(self, similarity: float) -> float:
        """P(s), the chance that two documents of this similarity share a bucket."""
        # log1p and expm1 keep the tails: 1 - (1 - 1e-20)^20 is 2e-19, not 0.
        one_band = similarity**self.rows
        return 1.0 if one_band >= 1.0 else -math.expm1(self.bands * math.log1p(-one_band))

    @property
    def estimate(self) -> float:
        """(1/b)^(1/r), the usual estimate of the threshold."""
        return float((1 / self.bands) ** (1 / self.rows))

    @property
    def inflection(self) -> float:
        """Where the curve is steepest: ((r-1) / (br-1))^(1/r); 0 when it only bends one way."""
        if self.rows == 1:
            return 0.0
        return float(((self.rows - 1) / (self.slots - 1)) ** (1 / self.rows))

    @property
    def half(self) -> float:
        """The similarity that is found every other time: P = 1/2."""
        one_band = -math.expm1(math.log(0.5) / self.bands)
        return float(one_band ** (1 / self.rows))

    @property
    def parts(self) -> tuple[Curve, ...]:
        return (self,)

    def __str__(self) -> str:
        return f"{self.bands} bands of {self.rows}"


@dataclass(frozen=True)
class Curves(Meeting):
    """Bands of different sizes over slots of their own: 1 - (1 - P_1(s)) (1 - P_2(s)) ...

    >>> both = Curves((Curve(20, 5), Curve(4, 7)))
    >>> print(both, f"{both.probability(0.6):.4f} instead of {Curve(20, 5).probability(0.6):.4f}")
    20 bands of 5 and 4 of 7 0.8232 instead of 0.8019
    """

    parts: tuple[Curve, ...]

    @property
    def slots(self) -> int:
        """How many slots of a signature the bands use."""
        return sum(part.slots for part in self.parts)

    def probability(self, similarity: float) -> float:
        each = [part.probability(similarity) for part in self.parts]
        return 1.0 if max(each) >= 1.0 else -math.expm1(sum(math.log1p(-found) for found in each))

    def __str__(self) -> str:
        first, *others = self.parts
        return " and ".join([str(first), *(f"{part.bands} of {part.rows}" for part in others)])


@dataclass(frozen=True)
class ByContainment(Meeting):
    """The same as a function of containment instead of Jaccard, which depends on the sizes."""

    condition: ClassVar[str] = " for documents of equal size"
    curve: Curve | Curves

    def probability(self, similarity: float) -> float:
        return self.curve.probability(jaccard_of(similarity))

    def __str__(self) -> str:
        return str(self.curve)


def jaccard_of(containment: float, ratio: float = 1.0) -> float:
    """The Jaccard similarity of A and B, if this share of A is inside B, `ratio` times as large.

    >>> jaccard_of(0.8), jaccard_of(1.0, ratio=4)
    (0.6666666666666667, 0.25)
    """
    return containment / (1.0 + ratio - containment)


def choose(slots: int, threshold: float, recall: float) -> Curve:
    """The steepest curve that finds at least `recall` of the pairs *at* the threshold.

    More rows make fewer false candidates; whatever slots are left become bands, which only
    raises recall.

    >>> choose(128, 0.8, 0.99)
    Curve(bands=21, rows=6)
    """
    check_threshold(threshold)
    if not 0.0 < recall < 1.0:
        raise ParameterError(f"recall must be between 0 and 1, not {recall}")
    for rows in range(slots, 0, -1):
        curve = Curve(slots // rows, rows)
        if curve.probability(threshold) >= recall:
            return curve
    reached = Curve(slots, 1).probability(threshold)
    raise ParameterError(
        f"{slots} slots reach a recall of {reached:.4f} at threshold {threshold}, not {recall}: "
        "use more slots, a higher threshold or a lower recall"
    )


def check_threshold(threshold: float) -> None:
    if not 0.0 < threshold <= 1.0:
        raise ParameterError(f"threshold must be above 0 and at most 1, not {threshold}")


def _integral(function: Callable[[float], float], low: float, high: float) -> float:
    """Simpson's rule; the S-curve is smooth, 2,000 steps are good to about 1e-12."""
    step = (high - low) / STEPS
    inner = sum((4 if i % 2 else 2) * function(low + i * step) for i in range(1, STEPS))
    return step / 3 * (function(low) + inner + function(high))
