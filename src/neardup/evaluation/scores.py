"""Recall, precision, F1 and the adjusted Rand index; the scores at all thresholds.

Undefined figures are None: without positives there is no recall, and 0 or 1 would be wrong.

Intervals are those of Wilson, at 95 %: they hold for small sets and near 0 and 1. F1 is
2 q / (1 + q) of q = tp / (tp + fp + fn), a share like the others, so its interval is that of q,
transformed. All take pairs as independent; pairs that share documents are not quite, and the true
interval is then somewhat wider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup import kernels

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

Z: Final = 1.959963984540054
"""95 % of a normal distribution are within this many standard deviations."""
THRESHOLDS: Final = 100
"""The thresholds of a sweep: 0.01, 0.02 to 1."""


@dataclass(frozen=True)
class Share:
    """A share with its 95 % interval.

    Attributes:
        value: The share; None if the whole is empty.
        low: The lower end of the Wilson interval; None as above.
        high: The upper end.

    >>> Share.of(20, 20)
    Share(value=1.0, low=0.8388748419471806, high=1.0)
    >>> Share.of(0, 0)
    Share(value=None, low=None, high=None)
    """

    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, part: int, whole: int) -> Share:
        """Return part / whole with its interval."""
        if not whole:
            return cls(None, None, None)
        share, spread = part / whole, Z * Z / whole
        middle = (share + spread / 2) / (1 + spread)
        half = Z * math.sqrt(share * (1 - share) / whole + spread / (4 * whole)) / (1 + spread)
        low = 0.0 if part == 0 else middle - half
        high = 1.0 if part == whole else middle + half
        return cls(share, low, high)

    def __str__(self) -> str:
        if self.value is None:
            return "undefined"
        return f"{self.value:.4f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Scores:
    """The counts of predictions against the truth, over labelled pairs.

    Attributes:
        tp: True positives.
        fp: False positives.
        fn: False negatives.
        tn: True negatives.

    >>> scores = Scores(tp=3, fp=1, fn=2, tn=4)
    >>> scores.recall.value, scores.precision.value
    (0.6, 0.75)
    """

    tp: int
    fp: int
    fn: int
    tn: int

    @classmethod
    def of(cls, predicted: Flags, truth: Flags) -> Scores:
        """Count predictions, one flag for each pair."""
        tp = int(np.count_nonzero(predicted & truth))
        fp = int(np.count_nonzero(predicted)) - tp
        fn = int(np.count_nonzero(truth)) - tp
        return cls(tp, fp, fn, len(truth) - tp - fp - fn)

    @property
    def recall(self) -> Share:
        """The share of the true pairs that are predicted."""
        return Share.of(self.tp, self.tp + self.fn)

    @property
    def precision(self) -> Share:
        """The share of the predicted pairs that are true."""
        return Share.of(self.tp, self.tp + self.fp)

    @property
    def f1(self) -> Share:
        """The harmonic mean of recall and precision."""
        overlap = Share.of(self.tp, self.tp + self.fp + self.fn)
        return Share(*(_harmonic(share) for share in (overlap.value, overlap.low, overlap.high)))

    @property
    def record(self) -> dict[str, Any]:
        """The counts and scores as evaluation.json has them."""
        shares = {name: asdict(getattr(self, name)) for name in ("recall", "precision", "f1")}
        return asdict(self) | shares


def _harmonic(share: float | None) -> float | None:
    """Return F1 for tp / (tp + fp + fn).

    >>> Scores(3, 1, 2, 0).f1.value == 2 * 3 / (2 * 3 + 1 + 2)
    True
    """
    return None if share is None else 2 * share / (1 + share)


@dataclass(frozen=True)
class ThresholdSweep:
    """Recall, precision and F1 at each threshold, and the best threshold by F1.

    Attributes:
        thresholds: The thresholds, ascending.
        recall: The recall at each threshold.
        precision: The precision at each threshold; None where nothing is predicted.
        f1: The F1 at each threshold.
        best: The threshold with the best F1, the middle one of several; None if all labels are
            the same.
        as_good: The lowest and the highest threshold around it that these labels don't show to be
            worse, by a sign test at 5 %; None if there is no best one.
    """

    thresholds: list[float]
    recall: list[float | None]
    precision: list[float | None]
    f1: list[float | None]
    best: float | None
    as_good: list[float] | None = None

    @property
    def at_best(self) -> tuple[float | None, float | None, float | None]:
        """Recall, precision and F1 at the best threshold."""
        if self.best is None:
            return None, None, None
        place = self.thresholds.index(self.best)
        return self.recall[place], self.precision[place], self.f1[place]


def sweep_thresholds(similarity: NDArray[np.float64], label: Flags) -> ThresholdSweep:
    """Score all thresholds by the exact similarity of labelled pairs, as if all pairs met."""
    thresholds = np.arange(1, THRESHOLDS + 1) / THRESHOLDS
    positives = int(np.count_nonzero(label))
    tp = _at_least(similarity[label], thresholds)
    fp = _at_least(similarity[~label], thresholds)
    scores = [
        Scores(right, wrong, positives - right, 0)
        for right, wrong in zip(tp.tolist(), fp.tolist(), strict=True)
    ]
    f1 = [one.f1.value for one in scores]
    best = as_good = None
    if 0 < positives < len(label):
        place = best_place([value or 0.0 for value in f1])
        best = float(thresholds[place])
        low, high = find_as_good(tp, fp, place)
        as_good = [float(thresholds[low]), float(thresholds[high])]
    return ThresholdSweep(
        thresholds.tolist(),
        [one.recall.value for one in scores],
        [one.precision.value for one in scores],
        f1,
        best,
        as_good,
    )


def best_place(f1: Sequence[float]) -> int:
    """Return the place of the best F1, the middle one of several.

    >>> best_place([0.1, 0.9, 0.9, 0.9, 0.2])
    2
    """
    most = max(f1)
    equal = [place for place, value in enumerate(f1) if value == most]
    return equal[len(equal) // 2]


SIGNIFICANT: Final = 0.05
"""A difference that a fair coin makes less often than this is taken for one."""


def find_as_good(tp: Integers, fp: Integers, best: int) -> tuple[int, int]:
    """Return the places of the first and last threshold around the best that are not worse.

    Between two thresholds only the pairs in between are judged differently: a duplicate is right
    at the lower one, another pair at the higher one. A threshold is worse if it is wrong about so
    many more of these pairs than the best one that a fair coin would rarely do it.
    """

    def is_worse(place: int) -> bool:
        duplicates, others = abs(int(tp[best] - tp[place])), abs(int(fp[best] - fp[place]))
        wrong = duplicates if place > best else others
        return sign_test(wrong, duplicates + others) < SIGNIFICANT

    low = high = best
    while low > 0 and not is_worse(low - 1):
        low -= 1
    while high < len(tp) - 1 and not is_worse(high + 1):
        high += 1
    return low, high


def sign_test(wrong: int, count: int) -> float:
    """Return the probability of at least `wrong` heads in `count` throws of a fair coin.

    >>> sign_test(5, 5), sign_test(0, 5)
    (0.03125, 1.0)
    """
    if wrong <= count // 2:
        return 1.0  # at least about a half: far from rare
    log_half = count * math.log(0.5)
    logs = [
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) + log_half
        for k in range(wrong, count + 1)
    ]
    return math.fsum(map(math.exp, logs))


def _at_least(values: NDArray[np.float64], thresholds: NDArray[np.float64]) -> Integers:
    """Return the number of values that reach each threshold."""
    return len(values) - np.searchsorted(np.sort(values), thresholds)


def adjusted_rand(mine: Integers, theirs: Integers) -> float | None:
    """Return the agreement of two clusterings beyond chance: 1 if they are the same.

    None if it is undefined: both have every document alone, or all together.

    >>> adjusted_rand(np.array([0, 0, 1, 1]), np.array([5, 5, 7, 7]))
    1.0
    """
    documents = len(mine)
    _, a = np.unique(mine, return_inverse=True)
    _, b = np.unique(theirs, return_inverse=True)
    _, together = np.unique(a * documents + b, return_counts=True)
    both, of_a, of_b = (_pairs(counts) for counts in (together, np.bincount(a), np.bincount(b)))
    all_pairs = documents * (documents - 1) // 2
    chance = of_a * of_b / all_pairs if all_pairs else 0.0
    most = (of_a + of_b) / 2
    return None if most == chance else (both - chance) / (most - chance)


def _pairs(counts: Integers) -> int:
    """Return the number of pairs inside groups of these sizes."""
    return int((counts * (counts - 1) // 2).sum())


def components(documents: int, a: Integers, b: Integers) -> Integers:
    """Return the connected component of each document, if these pairs are its edges.

    >>> components(5, np.array([0, 3]), np.array([3, 4])).tolist()
    [0, 1, 2, 0, 0]
    """
    parent = np.arange(documents, dtype=np.uint32)
    kernels.join_all(parent, a, b)
    kernels.to_roots(parent)
    return parent.astype(np.int64)
