"""Recommends one of the trials of a sweep, with reasons.

The recommended trial is the one that reaches the target and costs least for all documents. A
recall is enough if it is at least the target's twice over: as measured, and as the S-curve expects
it for the similarities of the true pairs. The measured one alone would favour lucky hashes; the
expected one alone would trust theory without a test. No confidence bound is required, because a
sample with a hundred pairs could never give one above 0.97; the interval is reported instead, and
how large a sample would narrow it. The default is kept unless a trial is cheaper by a fifth and by
a second of one core: less is not worth the pairs that may be lost. So few documents keep it always.

The cost for all documents is extrapolated. Signatures, keys and buckets take time in proportion to
the documents. Comparisons don't:

- A document that is removed is compared with the one that it is removed for: one comparison each.
- Pairs of the truth that share a bucket without being similar enough stand for as many pairs of the
  corpus as the sample says.
- Other candidates are far apart and were chosen one by one: if a document of the sample stands for
  t documents, such a pair stands for t^2 pairs.

If there will be g times the documents of the corpus, of the same kind, the second are g^2 times as
many, too. That a run compares a document with the first kept ones of a bucket only is left out:
where that limit saves time it loses recall, and bands for which it matters are no bargain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.evaluation.shares import Share, Z
from neardup.evaluation.truth import Truth
from neardup.formatting import format_count, format_duration, format_number
from neardup.planner.tuning import TrialOutcome, TrialPoint
from neardup.spec import MINHASHES


@dataclass(frozen=True)
class Growth:
    """Extrapolates a trial from the sample to all documents.

    times      documents for each document of the sample
    truth      the similar pairs of the sample
    weights    pairs for each pair of the truth
    reference  the operating point whose shingle and threshold define a true pair
    """

    times: float
    truth: Truth
    weights: NDArray[np.float64]
    reference: TrialPoint

    def __call__(self, row: TrialOutcome) -> TrialOutcome:
        """Return the outcome with its candidates and its time for all documents."""
        if not row.done:
            return row
        compared = self.compared(row)
        each = row.t_compare / row.candidates if row.candidates else 0.0
        seconds = (row.seconds - row.t_compare) * self.times + compared * each
        return replace(row, all_candidates=compared, t_all=seconds)

    def compared(self, row: TrialOutcome) -> float:
        """Return the number of pairs that a run over all documents would compare."""
        similar = self.truth.similarity >= self.reference.threshold
        recall = row.recall or 0.0
        removed = len(np.unique(self.truth.b[similar])) * recall
        near = max(row.candidates - row.far - recall * np.count_nonzero(similar), 0.0)
        in_vain = near * self._mean_weight(row.point, ~similar) + row.far * self.times**2
        return float(removed * self.times + in_vain)

    def _mean_weight(self, point: TrialPoint, chosen: NDArray[np.bool_]) -> float:
        """Return how many pairs of the corpus one of the chosen candidates stands for."""
        if not chosen.any():
            return 1.0
        weights = self.weights[chosen]
        if point.sketch not in MINHASHES or point.shingle != self.reference.shingle:
            return float(weights.mean())
        values, place = np.unique(self.truth.similarity[chosen], return_inverse=True)
        curve = point.meeting
        met = np.array([curve.probability(value) for value in values.tolist()])[place]
        return float(met @ weights / met.sum()) if met.sum() else float(weights.mean())


GAIN: Final = 0.8
"""A trial replaces the default if it takes at most this share of its time,"""
SAVING: Final = 1.0
"""and at least so many seconds less, of one core, for all documents."""
FEW_PAIRS: Final = 100
"""A sample with fewer true pairs is small."""


@dataclass(frozen=True)
class Target:
    """The recall and precision to reach, and the truth that they are measured by."""

    recall: float
    precision: float
    reference: TrialPoint
    truth: Truth
    documents: int
    """The number of documents that a run will have."""
    sample: int
    """Documents of the sample, with copies."""
    largest_sample: int
    """The largest possible sample: the corpus, or the most that a sweep takes."""

    @cached_property
    def true_pairs(self) -> int:
        """Pairs of the sample that reach the reference's threshold."""
        return self.truth.similar(self.reference.threshold)

    @cached_property
    def similarities(self) -> list[tuple[float, int]]:
        """The similarities of the true pairs, and the number of pairs of each."""
        similar = self.truth.similarity[self.truth.similarity >= self.reference.threshold]
        values, counts = np.unique(similar, return_counts=True)
        return list(zip(values.tolist(), counts.tolist(), strict=True))

    def expected(self, point: TrialPoint) -> float | None:
        """Return the recall by the S-curve over the true pairs; None where it does not apply."""
        if not self.true_pairs or not self._is_comparable(point):
            return None
        curve = point.meeting
        met = sum(count * curve.probability(value) for value, count in self.similarities)
        return met / self.true_pairs

    def reached(self, row: TrialOutcome) -> bool:
        """Return whether a trial reaches recall and precision."""
        expected = self.expected(row.point)
        return (
            row.recall is not None
            and row.recall >= self.recall
            and (expected is None or expected >= self.recall)
            and row.precision is not None
            and row.precision >= self.precision
        )

    def predicted(self, row: TrialOutcome) -> bool:
        """Return whether the S-curve reaches the recall exactly at the threshold."""
        point = row.point
        at_threshold = self.reference.threshold
        return self._is_comparable(point) and point.meeting.probability(at_threshold) >= self.recall

    def _is_comparable(self, point: TrialPoint) -> bool:
        """Return whether the point's bands depend on the similarities of the true pairs."""
        return (
            point.sketch in MINHASHES
            and not point.only_for_sweeps
            and point.verify == "exact"
            and point.shingle == self.reference.shingle
            and point.threshold == self.reference.threshold
        )


@dataclass(frozen=True)
class Advice:
    """The recommended trial; `met` is None if the sample has no true pair to measure it by."""

    best: TrialOutcome
    met: bool | None
    reasons: Sequence[str]


def advise(rows: Sequence[TrialOutcome], wanted: Target) -> Advice:
    """Recommend one of the outcomes.

    Args:
        rows: The outcomes, that of the default first. Points that a run can't have are skipped.
        wanted: The recall and precision to reach.
    """
    usable = [row for row in rows if row.done and not row.point.only_for_sweeps]
    if not usable:
        why = f"No trial came to its end; the first {rows[0].error}: use a longer --time-limit."
        return Advice(rows[0], None, [why])
    if not wanted.true_pairs:
        return _by_theory(usable, rows[0], wanted)
    if enough := [row for row in usable if wanted.reached(row)]:
        best, cheapest = _chosen(enough, rows[0])
        reasons = [_describe(best, wanted), *_interval(best, wanted)]
        return Advice(best, True, [*reasons, *_beside_default(best, cheapest, rows[0], wanted)])
    precise = [row for row in usable if (row.precision or 0.0) >= wanted.precision]
    best = min(precise or usable, key=lambda row: (-(row.recall or 0.0), _cost(row)))
    none = (
        f"No trial reaches a recall of {wanted.recall:g} and a precision of {wanted.precision:g}: "
        "this one comes nearest. Try more slots or bands with fewer rows."
    )
    return Advice(best, False, [none, _describe(best, wanted)])


def _by_theory(usable: list[TrialOutcome], default: TrialOutcome, wanted: Target) -> Advice:
    """Recommend by the S-curve alone, if the sample has no true pair."""
    enough = [row for row in usable if wanted.predicted(row)] or [default]
    best, _ = _chosen(enough, default)
    chance = best.point.meeting.probability(wanted.reference.threshold)
    rank = "is the default for" if best is default else "is the cheapest that the S-curve gives"
    return Advice(
        best,
        None,
        [
            f"Nothing in the sample is {wanted.reference.threshold:g} similar, so that there is no "
            "recall to measure: take a larger --sample, or a lower --threshold.",
            f"{best.point} {rank} a recall of {wanted.recall:g} at the threshold: {chance:.4f} by "
            "the S-curve.",
        ],
    )


def _chosen(enough: list[TrialOutcome], default: TrialOutcome) -> tuple[TrialOutcome, TrialOutcome]:
    """Return the recommended outcome, and the cheapest; the default is kept unless it gains."""
    cheapest = min(enough, key=_cost)
    saved = default.t_all - cheapest.t_all
    gains = saved >= SAVING and cheapest.t_all <= GAIN * default.t_all
    return default if default in enough and not gains else cheapest, cheapest


def _cost(row: TrialOutcome) -> tuple[float, int, float]:
    """Return the sort key: time to two digits, then memory."""
    return float(f"{row.t_all:.2g}"), row.memory, row.t_all


def _describe(row: TrialOutcome, wanted: Target) -> str:
    """Return recall, precision and cost of a trial as a sentence."""
    recall, expected = _recall(row), wanted.expected(row.point)
    theory = "" if expected is None else f", {expected:.4f} by the S-curve"
    precision = "undefined" if row.precision is None else f"{row.precision:.4f}"
    return (
        f"{row.point}, {row.point.verify} verification: recall {row.recall or 0.0:.4f} of "
        f"{format_count(row.true_pairs, 'true pair')}, those of the sample that are "
        f"{wanted.reference.threshold:g} similar by {wanted.reference.shingle} (95 % interval "
        f"{recall.low:.4f} to {recall.high:.4f}"
        f"{theory}), precision {precision}. Sketching and matching all {wanted.documents:,} "
        f"documents takes about {format_duration(row.t_all)} of one core (a run also reads, "
        "writes and "
        f"starts); {_costs(row, wanted)}."
    )


def _recall(row: TrialOutcome) -> Share:
    """Return the recall with its interval."""
    return Share.of(round((row.recall or 0.0) * row.true_pairs), row.true_pairs)


def _costs(row: TrialOutcome, wanted: Target) -> str:
    """Return comparisons and bytes per document as a phrase."""
    each = row.all_candidates / wanted.documents
    return (
        f"{format_number(each)} pairs compared and "
        f"{row.memory / wanted.truth.documents:,.0f} bytes a "
        "document"
    )


def _interval(row: TrialOutcome, wanted: Target) -> list[str]:
    """Return a sentence on a larger sample, if the interval reaches below the recall."""
    if (_recall(row).low or 0.0) >= wanted.recall:
        return []
    pairs = "1 true pair" if row.true_pairs == 1 else f"{row.true_pairs:,} true pairs"
    small = f"The sample is small, {pairs}. " if row.true_pairs < FEW_PAIRS else ""
    reaches = f"{small}The interval reaches below {wanted.recall:g}: "
    most = wanted.largest_sample
    if wanted.sample >= most:
        return [f"{reaches}only more documents than these {wanted.sample:,} would narrow it."]
    needed = wanted.sample * pairs_needed(row.recall or 0.0, wanted.recall) / row.true_pairs
    size = min(rounded_up(min(needed, most)), most)
    return [f"{reaches}--sample {size} would narrow it{', not enough' * (needed > size)}."]


def pairs_needed(recall: float, least: float) -> float:
    """Return the number of pairs at which the Wilson interval of a recall begins at `least`.

    >>> round(pairs_needed(1.0, 0.95)), round(pairs_needed(0.96, 0.95))
    (73, 1825)
    >>> f"{Share.of(73, 73).low:.3f} {Share.of(1752, 1825).low:.3f}"
    '0.950 0.950'
    """
    if recall <= least:
        return math.inf
    return Z * Z * least * (1 - least) / (recall - least) ** 2


def rounded_up(value: float) -> int:
    """Round up to one significant digit.

    >>> rounded_up(21_017.3), rounded_up(30_000), rounded_up(99)
    (30000, 30000, 100)
    """
    unit = int(10 ** math.floor(math.log10(value)))
    return math.ceil(value / unit) * unit


def _beside_default(
    best: TrialOutcome, cheapest: TrialOutcome, default: TrialOutcome, wanted: Target
) -> list[str]:
    """Return a sentence that compares the recommended trial with the default."""
    name = f"default for a recall of {wanted.recall:g}"
    if cheapest is default:
        return [f"That is the {name}: nothing that was tried is cheaper and finds enough."]
    if best is default:
        return [
            f"That is the {name}, and it stands: nothing that finds enough is cheaper by a fifth "
            f"and by {format_duration(SAVING)}. The cheapest is {cheapest.point} with a recall of "
            f"{cheapest.recall or 0.0:.4f}, "
            f"about {format_duration(cheapest.t_all)} of one core; {_costs(cheapest, wanted)}."
        ]
    if not default.done:
        return [f"The {name}, {default.point}, has no figures: {default.error}."]
    return [
        f"The {name}, {default.point}: recall {default.recall or 0.0:.4f}, about "
        f"{format_duration(default.t_all)} of one core; {_costs(default, wanted)}. That is "
        f"{format_number(default.t_all / best.t_all)} times the time and "
        f"{format_number(default.memory / best.memory)} times the memory."
    ]
