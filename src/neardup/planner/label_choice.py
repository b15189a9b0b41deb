"""Chooses shingle and threshold by labelled pairs, with figures on pairs that were held out.

    labels -> clusters -> folds -> a choice for each part that is held out -> figures of the choices

Another threshold replaces the reference's only if it does better on the held-out pairs, by 0.005 of
F1 and by a sign test; another shingle only if it does better than that. Pairs of the same two
clusters are about the same texts, so that the test and the intervals count them once. What is
chosen is chosen by all labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import InputError, ParameterError
from neardup.evaluation.golden import FEW, LabelledPairs, format_flaws
from neardup.evaluation.operating_point import GoldenDocuments, OperatingPoint, usable_pairs
from neardup.evaluation.scores import (
    COSTLY,
    GAIN,
    LOWEST,
    SIGNIFICANT,
    Scores,
    components,
    note_easy_labels,
    sign_test,
)
from neardup.formatting import format_count
from neardup.options import Options
from neardup.planner.held_out import (
    FOLDS,
    HeldOutPairs,
    JudgedPoints,
    LabelledPoints,
    LabelledShingle,
    deal_out,
)
from neardup.planner.shingle_comparison import ComparedShingle
from neardup.runtime import Progress
from neardup.sketcher import Sketcher

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

SHINGLES: Final = ("word:5", "word:3", "word:2", "char:9", "char:5")
"""The shingles that labels choose from by default; that of the reference comes first."""
THRESHOLDS: Final = tuple(percent / 100 for percent in range(round(100 * LOWEST), 100))
COSINE: Final = "cosine"
"""What stands for a shingle where labels choose among cosines of vectors."""
LEAST: Final = 10
"""With fewer pairs of one label, or fewer clusters of duplicates, nothing is chosen."""


@dataclass(frozen=True)
class LabelChoice:
    """The shingle and threshold that labels choose, and what they gain.

    Attributes:
        golden: The labelled pairs that are used, and the flaws of the others.
        clusters: The clusters of labelled duplicates.
        reference: The shingle and threshold to compare with: the default.
        default: Its scores by all labels.
        chosen: The chosen shingle and threshold, or the reference.
        tried: Every shingle by its held-out scores; empty if there are too few labels.
        held_out: The scores of choosing both, on held-out pairs; None as above.
        better: Clusters and pairs of clusters that the choice judges right more often than the
            reference, on held-out pairs.
        worse: Those that the reference judges right more often.
        folds: The number of folds; 0 if there are too few labels.
        lowest: The lowest threshold that could be chosen.
        warnings: What the figures don't test, in sentences.
        missed: Labelled duplicates that reach the threshold and share no bucket, by the bands of
            the recommended point; filled in after the sweep.
    """

    golden: LabelledPairs
    clusters: int
    reference: ComparedShingle
    default: Scores
    chosen: ComparedShingle
    tried: Sequence[LabelledShingle] = field(default_factory=list)
    held_out: Scores | None = None
    better: int = 0
    worse: int = 0
    folds: int = 0
    lowest: float = 0.0
    warnings: Sequence[str] = ()
    missed: int | None = None

    @property
    def changed(self) -> bool:
        """Whether the labels chose another shingle or threshold than the reference's."""
        return self.chosen != self.reference

    @property
    def duplicates(self) -> int:
        """The number of pairs that are labelled as duplicates."""
        return int(np.count_nonzero(self.golden.label))

    def with_bands(self, golden: GoldenDocuments, options: Options, workers: int) -> LabelChoice:
        """Return the choice with the labelled duplicates that a recommended point misses."""
        used = self.golden
        a, b = used.a[used.label], used.b[used.label]
        point = OperatingPoint.of(options, golden, Sketcher(options.spec), workers)
        similar = point.similarity(a, b) >= self.chosen.threshold
        return replace(self, missed=int(np.count_nonzero(similar & ~point.duplicates(a, b))))

    def sentences(self) -> list[str]:
        """Return the choice and its figures in sentences."""
        others = len(self.golden) - self.duplicates
        documents = len(np.unique(np.concatenate([self.golden.a, self.golden.b])))
        flaws = format_flaws(self.golden)
        lines = [
            f"Labels: {format_count(self.duplicates, 'duplicate')} in "
            f"{format_count(self.clusters, 'cluster')} and {format_count(others, 'other pair')}, "
            f"of {format_count(documents, 'document')}{f'; left out: {flaws}' if flaws else ''}."
        ]
        name = f"The default, {self.reference}"
        if self.held_out is None:
            return [
                *lines,
                f"These are too few labels to choose by: label {LEAST} or more pairs of each kind, "
                f"with duplicates of {LEAST} or more clusters. {name}, stays; by these labels "
                f"{describe_scores(self.default)}.",
            ]
        intervals = "intervals count clusters, not pairs"
        if self.golden.weights is not None:
            stands = f"{self.golden.weights.pairs:,.0f}"
            intervals = f"of the {stands} pairs that the labelled ones stand for"
        lines += [
            f"By pairs held out ({self.folds} folds by cluster: no document has a part in the "
            f"choice that judges it), what labels choose has {describe_scores(self.held_out)} "
            f"({intervals}).",
            f"{name}, has {describe_scores(self.default)} on the same pairs.",
        ]
        if min(self.duplicates, others) < FEW:
            lines.append(f"With fewer than {FEW} labels of one kind, these figures are uncertain.")
        lines += [self._decision(), *self._lower(), *self.warnings]
        if self.missed is not None:
            lines.append(
                "Of the labelled duplicates that reach the threshold, the bands miss "
                f"{self.missed:,}."
            )
        if self.reference.shingle != COSINE:
            lines.append(
                "Recall and precision of the sweep below are of pairs that are similar in the "
                "sample, not of labelled ones."
            )
        return lines

    def _decision(self) -> str:
        """Return why the choice is taken, or the reference kept."""
        counted = (
            f"right where the default is wrong for {self.better:,} clusters and pairs of clusters, "
            f"wrong where it is right for {self.worse:,}"
        )
        if self.changed:
            return f"So {self.chosen} is used: {counted}."
        best = max(self.tried, key=lambda one: one.held_out.f1.value or 0.0)
        single = f"The best single shingle by F1 is {best.shingle} at {best.threshold:g}."
        if self.reference.shingle == COSINE:
            single = f"The best by F1 is {best.shingle} at {best.threshold:g}."
        chosen = self.default if self.held_out is None else self.held_out
        if (chosen.f1.value or 0.0) >= (self.default.f1.value or 0.0) + GAIN:
            return (
                "The default stays: what labels choose has a better F1, but the test counts "
                "clusters, since pairs of one cluster are right or wrong together, and by clusters "
                f"it may be chance ({counted}): label duplicates of more clusters. {single}"
            )
        return (
            f"The default stays: what labels choose is not better by {GAIN} of F1 ({counted}). "
            f"{single}"
        )

    def _lower(self) -> list[str]:
        """Return a sentence if labels would choose a lower threshold than the lowest one tried."""
        [tried] = [one for one in self.tried if one.shingle == self.chosen.shingle]
        sweep = tried.sweep
        least = tried.as_good[0] if self.changed else self.chosen.threshold
        if sweep.best is None or sweep.best >= self.lowest or least > COSTLY:
            return []
        f1 = sweep.at(sweep.best)[2] or 0.0
        return [
            f"{self.lowest:g} is the lowest threshold that was tried. By all labels the F1 of "
            f"{tried.shingle} is best at {sweep.best:g}, {f1:.4f}: lower thresholds compare many "
            "more pairs, and are worth it only if labels of pairs that look alike confirm them; "
            "--thresholds tries them."
        ]

    def to_json(self) -> dict[str, Any]:
        """Return everything but the pairs, for JSON."""
        return {
            "pairs": len(self.golden),
            "duplicates": self.duplicates,
            "clusters": self.clusters,
            "left_out": {name: flaw.count for name, flaw in self.golden.flaws.items()},
            "shingle": self.chosen.shingle,
            "threshold": self.chosen.threshold,
            "changed": self.changed,
            "folds": self.folds,
            "held_out": None if self.held_out is None else self.held_out.record,
            "default": self.default.record,
            "better": self.better,
            "worse": self.worse,
            "missed_by_bands": self.missed,
            "warnings": list(self.warnings),
            "tried": [one.to_json() for one in self.tried],
        }


def describe_scores(scores: Scores) -> str:
    """Return recall, precision and F1 with their intervals as a phrase."""
    return f"recall {scores.recall}, precision {scores.precision}, F1 {scores.f1}"


@dataclass(frozen=True)
class LabelledDocuments:
    """The documents of a golden set, and the pairs that are labelled.

    labelled   the pairs, as they were read
    golden     the documents that the corpus has
    """

    labelled: LabelledPairs
    golden: GoldenDocuments


def choose_by_labels(
    documents: LabelledDocuments,
    reference: ComparedShingle,
    recall: float,
    shingles: Sequence[str],
    thresholds: Sequence[float],
    shared: Mapping[str, Any],
    workers: int,
    progress: Progress,
) -> LabelChoice:
    """Choose a shingle and a threshold by labelled pairs.

    Args:
        documents: The documents with their labels.
        reference: The shingle and threshold that are kept unless others are better.
        recall: The recall that bands are chosen for.
        shingles: The shingles to choose from.
        thresholds: The thresholds to choose from.
        shared: Options that all points share.
        workers: Threads.
        progress: Receives the progress.
    """
    points = LabelledPoints(documents.golden, recall, shared, workers)
    default = points.at(reference.shingle, reference.threshold)
    used = usable_pairs(documents.labelled, default)
    choice = choose_among_points(
        used,
        default.duplicates(used.a, used.b),
        reference,
        list(dict.fromkeys([reference.shingle, *shingles])),
        lambda: _possible(sorted(set(thresholds)), points, reference),
        points,
        progress,
    )
    if not choice.folds:
        return choice
    chosen = choice.chosen
    similarity = points.at(chosen.shingle, chosen.threshold).similarity(used.a, used.b)
    warnings = note_easy_labels(similarity, used.label, chosen.shingle, chosen.threshold, FEW)
    return replace(choice, warnings=[f"{line[0].upper()}{line[1:]}." for line in warnings])


def choose_among_points(
    used: LabelledPairs,
    predicted: Flags,
    reference: ComparedShingle,
    shingles: Sequence[str],
    thresholds: Callable[[], list[float]],
    points: JudgedPoints,
    progress: Progress,
) -> LabelChoice:
    """Choose how pairs are compared, and the threshold; the reference stays if labels are too few.

    Args:
        used: The labelled pairs.
        predicted: Which of them the reference calls duplicates.
        reference: What is kept unless others are better.
        shingles: What to choose from, that of the reference first.
        thresholds: Returns the thresholds to choose from, ascending.
        points: Judges the pairs.
        progress: Receives the progress.
    """
    _require_both(used)
    group = components(len(used.ids), used.a[used.label], used.b[used.label])
    clusters = len(np.unique(group[used.a[used.label]]))
    unit = _units(used, group)
    choice = LabelChoice(
        golden=used,
        clusters=clusters,
        reference=reference,
        default=Scores.of(predicted, used.label, unit, used.weights),
        chosen=reference,
    )
    others = len(used) - choice.duplicates
    if min(choice.duplicates, others, clusters) < LEAST:
        return choice
    progress.stage("judging by labels", len(shingles), "shingles")
    fold, usual = deal_out(used, group), reference.threshold
    judged = HeldOutPairs.of(used, fold, thresholds(), usual, list(shingles), points, progress)
    return _decide(choice, judged, predicted, unit)


def _units(used: LabelledPairs, group: Integers) -> Integers:
    """Return of each pair the number of its cluster, or of its pair of clusters."""
    pair = np.sort(np.stack([group[used.a], group[used.b]]), axis=0)
    return np.unique(pair[0] * len(group) + pair[1], return_inverse=True)[1]


def _decide(
    choice: LabelChoice, judged: HeldOutPairs, default: Flags, unit: Integers
) -> LabelChoice:
    """Take what labels choose if it is better than the default on held-out pairs."""
    label = choice.golden.label
    tried = [judged.tried(number, unit) for number in range(len(judged.shingles))]
    predicted, best = default, None
    for among in ([0], list(range(len(tried)))):  # the default's shingle first
        other = judged.predict(among)
        better, worse = _compare(other, predicted, label, unit)
        f1 = [
            Scores.of(one, label, weights=choice.golden.weights).f1.value or 0.0
            for one in (other, predicted)
        ]
        if f1[0] >= f1[1] + GAIN and sign_test(better, better + worse) < SIGNIFICANT:
            predicted, best = other, tried[judged.best(None, among)[0]]
    if best is None:  # the figures of what was not good enough
        predicted = judged.predict(range(len(tried)))
    better, worse = _compare(predicted, default, label, unit)
    choice = replace(
        choice,
        held_out=Scores.of(predicted, label, unit, choice.golden.weights),
        tried=tried,
        better=better,
        worse=worse,
        folds=FOLDS,
        lowest=judged.thresholds[0],
    )
    if best is None:
        return choice
    return replace(choice, chosen=ComparedShingle(best.shingle, best.threshold))


def _compare(mine: Flags, theirs: Flags, label: Flags, unit: Integers) -> tuple[int, int]:
    """Return how many units of pairs mine judges right more often than theirs, and less often."""
    net = np.bincount(unit, (mine == label).astype(np.int64) - (theirs == label))
    return int(np.count_nonzero(net > 0)), int(np.count_nonzero(net < 0))


def _require_both(used: LabelledPairs) -> None:
    """Raise an error if all labels are the same: there is nothing to tell apart."""
    if used.label.all():
        raise InputError(
            f"all {len(used):,} labelled pairs are duplicates: a threshold can't be chosen without "
            f"pairs that look alike and are not; label {LEAST} or more of them (0)"
        )
    if not used.label.any():
        raise InputError(
            f"none of the {len(used):,} labelled pairs is a duplicate: a threshold can't be chosen "
            f"without duplicates; label {LEAST} or more of them (1)"
        )


def _possible(
    thresholds: Sequence[float], points: LabelledPoints, reference: ComparedShingle
) -> list[float]:
    """Return the thresholds at which the slots reach the recall."""
    possible = []
    for threshold in thresholds:
        try:
            points.options(reference.shingle, threshold)
        except ParameterError:
            continue
        possible.append(threshold)
    if not possible:
        raise ParameterError("no threshold reaches the recall: give higher --thresholds")
    return possible
