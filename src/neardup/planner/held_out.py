"""Judges labelled pairs by choices in which no document of theirs has had a part.

The clusters of the labelled duplicates are dealt out to folds. A pair inside of a fold is judged by
the shingle and threshold that are best by the pairs of the other folds; a pair of two folds by
those that are best without both. So every pair is held out once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from neardup.evaluation.golden import LabelledPairs
from neardup.evaluation.operating_point import GoldenDocuments, OperatingPoint
from neardup.evaluation.scores import (
    Scores,
    ThresholdSweep,
    choose_threshold,
    sweep_thresholds,
)
from neardup.options import Options
from neardup.runtime import Progress
from neardup.sketcher import Sketcher

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

FOLDS: Final = 5


@dataclass(frozen=True)
class LabelledShingle:
    """How well one shingle tells the labels apart.

    Attributes:
        shingle: The shingle.
        threshold: The threshold to use, by all labels: the highest that is as good as the best.
        as_good: The lowest and the highest threshold that are as good as the best of those tried.
        sweep: The figures at all thresholds, also at those that were not tried.
        held_out: The scores on held-out pairs, each with the threshold that the others chose.
    """

    shingle: str
    threshold: float
    as_good: tuple[float, float]
    sweep: ThresholdSweep
    held_out: Scores

    def to_json(self) -> dict[str, Any]:
        """Return the figures for JSON; of the sweep, the best threshold of all."""
        return {
            "shingle": self.shingle,
            "threshold": self.threshold,
            "as_good": self.as_good,
            "best_of_all": self.sweep.best,
            "held_out": self.held_out.record,
        }


def deal_out(used: LabelledPairs, group: Integers) -> Integers:
    """Return the fold of each document: clusters are dealt out whole, largest first.

    Folds get equal numbers of labelled duplicates, then of documents that are a cluster alone: most
    are of pairs that are no duplicates, and a fold with all of those would give its label away.
    The order of clusters of the same size is that of a hash of an id, so that it does not depend
    on the order of the rows.
    """
    name: dict[int, str] = {}
    for number, id in zip(group.tolist(), used.ids, strict=True):
        name[number] = min(id, name.get(number, id))
    size = np.bincount(group[used.a[used.label]], minlength=len(group))
    digest = {
        number: hashlib.blake2b(id.encode(), digest_size=8).digest() for number, id in name.items()
    }
    fold = np.zeros(len(group), np.int64)
    pairs, alone = [0] * FOLDS, [0] * FOLDS
    for number in sorted(name, key=lambda number: (-int(size[number]), digest[number])):
        filled = pairs if size[number] else alone
        least = filled.index(min(filled))
        fold[number] = least
        filled[least] += int(size[number]) or 1
    return fold[group]


class JudgedPoints(Protocol):
    """Judges labelled pairs at each of several ways to compare, and at any threshold."""

    def similarity(self, shingle: str, threshold: float, a: Integers, b: Integers, /) -> Reals:
        """Return the figure of each pair that the threshold is compared with."""

    def met(self, shingle: str, threshold: float, a: Integers, b: Integers, /) -> Flags:
        """Return which pairs are compared at a point."""


class LabelledPoints:
    """Operating points over the golden documents; those of a shingle share their sketches."""

    def __init__(
        self, golden: GoldenDocuments, recall: float, shared: Mapping[str, Any], workers: int
    ) -> None:
        self._golden, self._recall, self._shared = golden, recall, shared
        self._workers = workers
        self._sketched: dict[str, OperatingPoint] = {}
        self._banded: dict[Any, OperatingPoint] = {}

    def options(self, shingle: str, threshold: float) -> Options:
        """Return the options of a shingle and a threshold."""
        return Options.of(shingle=shingle, threshold=threshold, recall=self._recall, **self._shared)

    def at(self, shingle: str, threshold: float) -> OperatingPoint:
        """Return the operating point of a shingle and a threshold."""
        options = self.options(shingle, threshold)
        if shingle not in self._sketched:
            self._sketched[shingle] = OperatingPoint.of(
                options, self._golden, Sketcher(options.spec), self._workers
            )
        return replace(self._sketched[shingle], options=options)

    def similarity(self, shingle: str, threshold: float, a: Integers, b: Integers) -> Reals:
        """Return the similarities of pairs."""
        return self.at(shingle, threshold).similarity(a, b)

    def met(self, shingle: str, threshold: float, a: Integers, b: Integers) -> Flags:
        """Return which pairs share a bucket at a point."""
        point = self.at(shingle, threshold)
        key = shingle, tuple(point.options.curve.parts)
        return self._banded.setdefault(key, point).met(a, b)


@dataclass(frozen=True)
class HeldOutPairs:
    """The labelled pairs by the part that they are held out in, and by the thresholds they reach.

    used        the labelled pairs
    part        of each pair, its part: the two folds of its documents
    thresholds  the thresholds, ascending
    usual       the place of the one that is next to the reference's
    shingles    the shingles
    reached     for each shingle, of each pair the number of thresholds that its similarity reaches
    counts      for each shingle the pairs by part, label and thresholds that are reached
    sums        the same of their weights: how many pairs they stand for
    sweeps      for each shingle the figures by all labels, at all thresholds
    points      the operating points, for the buckets that pairs share
    """

    used: LabelledPairs
    part: Integers
    thresholds: list[float]
    usual: int
    shingles: list[str]
    reached: list[NDArray[np.uint16]]
    counts: list[Integers]
    sums: list[Reals]
    sweeps: list[ThresholdSweep]
    points: JudgedPoints

    @classmethod
    def of(
        cls,
        used: LabelledPairs,
        fold: Integers,
        thresholds: list[float],
        reference: float,
        shingles: list[str],
        points: JudgedPoints,
        progress: Progress,
    ) -> HeldOutPairs:
        """Compare the pairs by each shingle, the reference's first."""
        usual = min(range(len(thresholds)), key=lambda at: abs(thresholds[at] - reference))
        x, y = fold[used.a], fold[used.b]
        part = np.minimum(x, y) * FOLDS + np.maximum(x, y)
        size = len(thresholds) + 1
        weight = None if used.weights is None else used.weights.weight
        reached, sweeps = [], []
        counts: list[Integers] = []
        sums: list[Reals] = []
        for shingle in shingles:
            similarity = points.similarity(shingle, thresholds[-1], used.a, used.b)
            bins = np.searchsorted(np.array(thresholds), similarity, side="right")
            reached.append(bins.astype(np.uint16))
            sweeps.append(sweep_thresholds(similarity, used.label, weight))
            places = (part * 2 + used.label) * size + bins
            cells = FOLDS, FOLDS, 2, size
            counts.append(np.bincount(places, minlength=math.prod(cells)).reshape(cells))
            each = np.ones(len(places)) if weight is None else weight
            sums.append(np.bincount(places, each, math.prod(cells)).reshape(cells).astype(float))
            progress.advance(1)
        return cls(used, part, thresholds, usual, shingles, reached, counts, sums, sweeps, points)

    def best(self, part: int | None, among: Sequence[int]) -> tuple[int, int]:
        """Return the places of the best shingle and of the threshold to use with it.

        Args:
            part: The part that is held out: no pair of its folds counts. None for all labels.
            among: The places of the shingles to choose from.
        """
        # As the reference, if the labels that are left are all the same.
        chosen, most = (among[0], self.usual), -1.0
        for number in among:
            tp, fp, positives, negatives = self._counted(self.counts[number], part)
            if not positives or not negatives:
                continue
            f1 = self._f1(number, part)
            if float(f1.max()) > most:
                most = float(f1.max())
                chosen = number, choose_threshold(f1, tp, fp, positives, self.thresholds)[1]
        return chosen

    def _f1(self, number: int, part: int | None) -> Reals:
        """Return the F1 at each threshold, of the pairs for which the labelled ones stand."""
        tp, fp, positives, _ = self._counted(self.sums[number], part)
        f1: Reals = 2 * tp / (tp + fp + positives)
        return f1

    @staticmethod
    def _counted(counts: NDArray[Any], part: int | None) -> tuple[Any, Any, Any, Any]:
        """Return duplicates and others that reach each threshold, and the number of both."""
        held = set() if part is None else set(divmod(part, FOLDS))
        kept = [fold for fold in range(FOLDS) if fold not in held]
        counts = counts[np.ix_(kept, kept)].sum(axis=(0, 1))
        at_least = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
        others, duplicates = counts.sum(axis=1).tolist()
        return at_least[1], at_least[0], duplicates, others

    def predict(self, among: Sequence[int]) -> Flags:
        """Judge each pair by the choice among shingles of the parts without its documents."""
        predicted = np.zeros(len(self.used), bool)
        for part in np.unique(self.part).tolist():
            number, place = self.best(part, among)
            rows = np.flatnonzero((self.part == part) & (self.reached[number] > place))
            predicted[rows] = self.points.met(
                self.shingles[number],
                self.thresholds[place],
                self.used.a[rows],
                self.used.b[rows],
            )
        return predicted

    def tried(self, number: int, unit: Integers) -> LabelledShingle:
        """Return the figures of one shingle; pairs of a unit are not taken as independent."""
        tp, fp, positives, _ = self._counted(self.counts[number], None)
        f1 = self._f1(number, None)
        low, high = choose_threshold(f1, tp, fp, positives, self.thresholds)
        return LabelledShingle(
            self.shingles[number],
            self.thresholds[high],
            (self.thresholds[low], self.thresholds[high]),
            self.sweeps[number],
            Scores.of(self.predict([number]), self.used.label, unit, self.used.weights),
        )
