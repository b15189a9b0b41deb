"""The S-curve of a band layout, and the layout for a wanted recall.

With b bands of r rows, documents of similarity s share a bucket with probability
P(s) = 1 - (1 - s^r)^b. `lay_bands` uses the bands of the caller, or chooses the steepest ones that
reach the recall.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from neardup.errors import ParameterError
from neardup.measure_table import Measure
from neardup.spec import MAX_SLOTS, check_whole, suggest_share

STEPS = 2_000


class Meeting:
    """The probability that two documents share a bucket, as a function of their similarity."""

    @property
    def condition(self) -> str:
        """What the probability assumes about the documents, for reports; mostly nothing."""
        return ""

    def probability(self, similarity: float) -> float:
        """Return P(s), the probability that two documents of this similarity share a bucket."""
        raise NotImplementedError

    @property
    def half(self) -> float:
        """The similarity at which P = 1/2."""
        low, high = 0.0, 1.0
        while low < (middle := (low + high) / 2) < high:
            low, high = (low, middle) if self.probability(middle) >= 0.5 else (middle, high)
        return high

    def false_positive_area(self, threshold: float) -> float:
        """Return the area under the curve below the threshold: candidates that are not similar."""
        return _integral(self.probability, 0.0, threshold)

    def false_negative_area(self, threshold: float) -> float:
        """Return the area above the curve from the threshold on: similar pairs that are missed."""
        return _integral(lambda s: 1.0 - self.probability(s), threshold, 1.0)

    def false_positive_rate(self, threshold: float) -> float:
        """Return the mean of P below the threshold."""
        return self.false_positive_area(threshold) / threshold

    def false_negative_rate(self, threshold: float) -> float:
        """Return the mean of 1 - P from the threshold on."""
        if threshold >= 1.0:
            return 0.0
        return self.false_negative_area(threshold) / (1.0 - threshold)


@dataclass(frozen=True)
class Curve(Meeting):
    """The S-curve of b bands of r rows.

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
        """The number of slots of a signature that the bands use."""
        return self.bands * self.rows

    def probability(self, similarity: float) -> float:
        """Return P(s), the probability that two documents of this similarity share a bucket."""
        # log1p and expm1 keep the tails: 1 - (1 - 1e-20)^20 is 2e-19, not 0.
        one_band = similarity**self.rows
        return 1.0 if one_band >= 1.0 else -math.expm1(self.bands * math.log1p(-one_band))

    @property
    def estimate(self) -> float:
        """(1/b)^(1/r), the usual estimate of the threshold."""
        return float((1 / self.bands) ** (1 / self.rows))

    @property
    def inflection(self) -> float:
        """Where the curve is steepest: ((r-1) / (br-1))^(1/r); 0 for r = 1, which has no S."""
        if self.rows == 1:
            return 0.0
        return float(((self.rows - 1) / (self.slots - 1)) ** (1 / self.rows))

    @property
    def half(self) -> float:
        """The similarity at which P = 1/2."""
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
        """The number of slots of a signature that the bands use."""
        return sum(part.slots for part in self.parts)

    def probability(self, similarity: float) -> float:
        each = [part.probability(similarity) for part in self.parts]
        return 1.0 if max(each) >= 1.0 else -math.expm1(sum(math.log1p(-p) for p in each))

    def __str__(self) -> str:
        first, *others = self.parts
        return " and ".join([str(first), *(f"{part.bands} of {part.rows}" for part in others)])


@dataclass(frozen=True)
class ByMeasure(Meeting):
    """A curve as a function of another measure than the Jaccard similarity."""

    curve: Curve | Curves
    measure: Measure

    @property
    def condition(self) -> str:
        return self.measure.condition

    def probability(self, similarity: float) -> float:
        to_jaccard = self.measure.to_jaccard
        return self.curve.probability(to_jaccard(similarity) if to_jaccard else similarity)

    def __str__(self) -> str:
        return str(self.curve)


def meeting_by(measure: Measure, curve: Curve | Curves) -> Meeting:
    """Return the curve as a function of a measure."""
    return ByMeasure(curve, measure) if measure.to_jaccard else curve


BELOW_ONE: Final = "give one such as 0.99: only comparing every pair finds all of them"
"""The cure for a recall that bands can't reach."""


class RecallNotReached(ParameterError):  # noqa: N818  # reads as what happened
    """A recall that no bands of so many slots reach; the message names the slots that would.

    Args:
        slots: The slots of a signature.
        threshold: The Jaccard similarity at which the recall counts.
        recall: The recall.
        where: The threshold in words.
    """

    def __init__(self, slots: int, threshold: float, recall: float, where: str) -> None:
        self.slots, self.threshold, self.recall = slots, threshold, recall
        reached = Curve(slots, 1).probability(threshold)
        needed = math.ceil(math.log1p(-recall) / math.log1p(-threshold))
        cure = "a higher threshold or a lower recall"
        if needed <= MAX_SLOTS:
            cure = f"--slots {needed} or more, {cure}"
        super().__init__(
            f"{slots} slots reach a recall of {reached:.4f} at {where}, not {recall:g}: use {cure}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return ParameterError, (str(self),)


def choose_curve(slots: int, threshold: float, recall: float) -> Curve:
    """Return the steepest curve that finds at least `recall` of the pairs *at* the threshold.

    More rows make fewer false candidates; all remaining slots become bands, which only raises
    recall.

    >>> choose_curve(128, 0.8, 0.99)
    Curve(bands=21, rows=6)
    """
    check_threshold(threshold)
    if not 0.0 < recall < 1.0:
        cure = suggest_share(recall) or f": {BELOW_ONE}"
        raise ParameterError(f"recall must be above 0 and below 1, not {recall:g}{cure}")
    for rows in range(slots, 0, -1):
        curve = Curve(slots // rows, rows)
        if curve.probability(threshold) >= recall:
            return curve
    raise RecallNotReached(slots, threshold, recall, f"threshold {threshold:.4g}")


def check_threshold(threshold: float) -> None:
    """Raise `ParameterError` if a threshold is not above 0 and at most 1."""
    if not 0.0 < threshold <= 1.0:
        raise ParameterError(
            f"threshold must be above 0 and at most 1, not {threshold:g}{suggest_share(threshold)}"
        )


def _integral(function: Callable[[float], float], low: float, high: float) -> float:
    """Integrate by Simpson's rule; for the smooth S-curve 2,000 steps are exact to about 1e-12."""
    step = (high - low) / STEPS
    inner = 0.0  # not sum(), which rounds in another way from Python 3.12 on
    for i in range(1, STEPS):
        inner += (4 if i % 2 else 2) * function(low + i * step)
    return step / 3 * (function(low) + inner + function(high))


class TooFewSlots(ParameterError):  # noqa: N818  # reads as what happened
    """Bands that need more slots than a signature has; `cure` is the end of the message."""

    def __init__(self, curve: Curve | Curves, slots: int, cure: str) -> None:
        self.curve, self.slots = curve, slots
        super().__init__(
            f"{curve} rows need {curve.slots} slots, there are {slots}: use fewer bands or rows, "
            f"or {cure}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are rebuilt from their message by default; workers may send this one.
        return ParameterError, (str(self),)


def lay_bands(
    slots: int, threshold: float, recall: float, given: Curve | None = None, tables: int | str = 1
) -> Curve | Curves:
    """Return the bands of the caller, or those chosen for the recall at the threshold.

    Args:
        slots: The slots of a signature.
        threshold: The similarity at which the recall counts.
        recall: The recall at the threshold, if the bands are chosen.
        given: The bands of one table, chosen by the caller; None to choose them.
        tables: The number of tables. Each has the given bands, or those that are chosen for an
            equal part of the slots. Or the bands themselves, such as "20x5,10x8".

    >>> lay_bands(256, 0.8, 0.99, Curve(20, 5), tables=2)
    Curve(bands=40, rows=5)
    >>> print(lay_bands(256, 0.8, 0.99, tables="20x5,10x8"))
    20 bands of 5 and 10 of 8
    """
    if isinstance(tables, str) and not tables.strip().isdecimal():
        if given is not None:
            raise ParameterError(
                f"tables {tables!r} states the bands already: leave out bands, rows and preset"
            )
        curve = parse_layout(tables)
    else:
        many = check_whole("tables", int(tables) if isinstance(tables, str) else tables, 1, slots)
        curve = join_curves([given or choose_curve(slots // many, threshold, recall)] * many)
    if curve.slots > slots:
        raise TooFewSlots(curve, slots, f"--slots {curve.slots}")
    return curve


def parse_layout(text: str) -> Curve | Curves:
    """Parse bands and rows such as "20x5,10x8".

    >>> parse_layout("20x5"), str(parse_layout("20x5,10x8"))
    (Curve(bands=20, rows=5), '20 bands of 5 and 10 of 8')
    """
    curves = []
    for part in text.split(","):
        numbers = re.fullmatch(r"(\d{1,9})x(\d{1,9})", part.strip(), re.ASCII)
        if not numbers:
            raise ParameterError(
                f"tables {text!r} are not known: use a number, or bands and rows such as 20x5,10x8"
            )
        curves.append(Curve(int(numbers[1]), int(numbers[2])))
    return join_curves(curves)


def format_layout(curve: Curve | Curves) -> str:
    """Return bands and rows as text that `parse_layout` reads."""
    return ",".join(f"{part.bands}x{part.rows}" for part in curve.parts)


def join_curves(curves: list[Curve]) -> Curve | Curves:
    """Join curves over consecutive slots; neighbours with equal rows become one curve."""
    parts = tuple(
        Curve(sum(curve.bands for curve in same_rows), rows)
        for rows, same_rows in groupby(curves, key=lambda curve: curve.rows)
    )
    return parts[0] if len(parts) == 1 else Curves(parts)
