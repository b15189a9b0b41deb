"""The S-curve: how likely two documents are to meet, as a function of their similarity.

With b bands of r rows, documents of similarity s share a bucket with probability
P(s) = 1 - (1 - s^r)^b.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from neardup.errors import ParameterError

STEPS = 2_000


@dataclass(frozen=True)
class Curve:
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
