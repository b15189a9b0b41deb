"""Which of the trials is to be followed, and why?

The cheapest that finds enough. A recall is enough if it is at least the wanted one twice over: as
measured, and as the S-curve expects it for the similarities of the true pairs. The measured one
alone would favour whatever was lucky with its hashes; the expected one alone would take theory's
word for it. No confidence bound is asked for, because a sample with a hundred pairs could never
give one above 0.97; the interval is said instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neardup.evaluate.truth import Truth
from neardup.plan.trial import Outcome, Point
from neardup.spec import MINHASHES

DEVIATIONS = 1.96
"""Of a normal distribution, 95 % are within so many standard deviations."""


@dataclass(frozen=True)
class Wanted:
    """What an operating point has to reach, and what that is measured by."""

    recall: float
    precision: float
    reference: Point
    truth: Truth
    share: float
    """Of the documents that are in the sample."""

    @cached_property
    def true_pairs(self) -> int:
        return self.truth.similar(self.reference.threshold)

    @cached_property
    def similarities(self) -> list[tuple[float, int]]:
        """The similarities that true pairs have, and how many have each."""
        similar = self.truth.similarity[self.truth.similarity >= self.reference.threshold]
        values, counts = np.unique(similar, return_counts=True)
        return list(zip(values.tolist(), counts.tolist(), strict=True))

    def expected(self, point: Point) -> float | None:
        """The recall by the S-curve, for the similarities that there are; None if it has no say."""
        if not self.true_pairs or not self._as_the_reference(point):
            return None
        curve = point.meeting
        met = sum(count * curve.probability(value) for value, count in self.similarities)
        return met / self.true_pairs

    def reached(self, row: Outcome) -> bool:
        """Whether a trial finds enough, and not too much."""
        expected = self.expected(row.point)
        return (
            row.recall is not None and row.recall >= self.recall
            and (expected is None or expected >= self.recall)
            and row.precision is not None and row.precision >= self.precision
        )  # fmt: skip

    def predicted(self, row: Outcome) -> bool:
        """Whether theory says that it finds enough of the pairs exactly at the threshold."""
        point = row.point
        at_threshold = self.reference.threshold
        return (
            self._as_the_reference(point)
            and point.meeting.probability(at_threshold) >= self.recall
        )  # fmt: skip

    def _as_the_reference(self, point: Point) -> bool:
        """Whether the similarities of the true pairs are those that the bands depend on."""
        mine, theirs = self.reference, point
        return (
            theirs.sketch in MINHASHES and not theirs.only_for_sweeps and theirs.verify == "exact"
            and (theirs.shingle, theirs.threshold) == (mine.shingle, mine.threshold)
        )  # fmt: skip


@dataclass(frozen=True)
class Advice:
    """The trial to follow; whether it does what is wanted, None if that can't be measured."""

    best: Outcome
    met: bool | None
    reasons: Sequence[str]


def advise(rows: Sequence[Outcome], wanted: Wanted) -> Advice:
    """The first row is that of the default. Rows that no run can be at are not advised."""
    usable = [row for row in rows if row.done and not row.point.only_for_sweeps]
    if not usable:
        why = f"No trial came to its end; the first {rows[0].error}: use a longer --time-limit."
        return Advice(rows[0], None, [why])
    if not wanted.true_pairs:
        return _by_theory(usable, rows[0], wanted)
    if enough := [row for row in usable if wanted.reached(row)]:
        best = min(enough, key=_cost)
        beside = _beside_default(best, rows[0])
        return Advice(best, True, [_said(best, wanted), *beside, *_grown(best, rows[0], wanted)])
    precise = [row for row in usable if (row.precision or 0.0) >= wanted.precision]
    best = min(precise or usable, key=lambda row: (-(row.recall or 0.0), _cost(row)))
    none = (
        f"No trial reaches a recall of {wanted.recall:g} and a precision of {wanted.precision:g}: "
        "this one comes nearest. Try more slots or bands with fewer rows."
    )
    return Advice(best, False, [none, _said(best, wanted)])


def _by_theory(usable: list[Outcome], default: Outcome, wanted: Wanted) -> Advice:
    """What to do where nothing is similar."""
    enough = [row for row in usable if wanted.predicted(row)] or [default]
    best = min(enough, key=_cost)
    chance = best.point.meeting.probability(wanted.reference.threshold)
    return Advice(best, None, [
        f"Nothing in the sample is {wanted.reference.threshold:g} similar, so that there is no "
        "recall to measure: take a larger --sample, or a lower --threshold.",
        f"{best.point} is the cheapest that the S-curve gives a recall of {wanted.recall:g} at the "
        f"threshold: {chance:.4f}.",
    ])  # fmt: skip


def _cost(row: Outcome) -> tuple[float, int, float]:
    """Times that differ in their third digit are the same: then memory counts."""
    return float(f"{row.seconds:.2g}"), row.memory, row.seconds


def _said(row: Outcome, wanted: Wanted) -> str:
    low, high = interval(row.recall or 0.0, row.true_pairs)
    expected = wanted.expected(row.point)
    theory = "" if expected is None else f", {expected:.4f} by the S-curve"
    precision = "undefined" if row.precision is None else f"{row.precision:.4f}"
    return (
        f"{row.point}, {row.point.verify} verification: recall {row.recall or 0.0:.4f} of "
        f"{row.true_pairs:,} true pairs (95 % interval {low:.4f} to {high:.4f}{theory}), precision "
        f"{precision}, {row.seconds * 1000:.3g} ms, {row.memory / 1e6:.3g} MB."
    )


def _beside_default(best: Outcome, default: Outcome) -> list[str]:
    if best.point == default.point:
        return ["That is the default: nothing that was tried is cheaper and finds enough."]
    if not default.done:
        return [f"The default, {default.point}, has no figures: {default.error}."]
    return [
        f"The default, {default.point}: recall {default.recall or 0.0:.4f}, "
        f"{default.seconds * 1000:.3g} ms, {default.memory / 1e6:.3g} MB, which is "
        f"{default.seconds / best.seconds:.2g} times the time and "
        f"{default.memory / best.memory:.2g} times the memory."
    ]


def _grown(best: Outcome, default: Outcome, wanted: Wanted) -> list[str]:
    """What a sample does not show: documents meet by chance the more often the more there are."""
    if wanted.share >= 1.0 or not default.done or best.point == default.point:
        return []
    mine, theirs = (
        (row.candidates - row.pairs) / wanted.truth.documents / wanted.share
        for row in (best, default)
    )
    return [
        f"The sample is {wanted.share:.2g} of the documents: among all of them up to {mine:.2g} "
        f"pairs a document will be compared in vain, {theirs:.2g} by the default. If that is many, "
        "take a larger --sample."
    ]


def interval(share: float, count: int) -> tuple[float, float]:
    """Wilson's interval of a share that was seen in so many cases, at 95 %.

    >>> low, high = interval(1.0, 30)
    >>> f"{low:.3f} {high:.3f}"
    '0.886 1.000'
    """
    z = DEVIATIONS
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2) / (1 + z * z / count)
    return max(middle - half, 0.0), min(middle + half, 1.0)
