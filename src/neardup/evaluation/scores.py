"""Recall, precision, F1 and the adjusted Rand index; the scores at all thresholds.

Undefined figures are None: without positives there is no recall, and 0 or 1 would be wrong.

Intervals are those of Wilson, at 95 %: they hold for small sets and near 0 and 1. F1 is
2 q / (1 + q) of q = tp / (tp + fp + fn), a share like the others, so its interval is that of q,
transformed. They take pairs as independent, unless it is said which pairs belong together: pairs of
one cluster are about the same texts and mostly right or wrong together, so that each tells less.
Where pairs stand for others, figures and intervals are those of all (`drawn_pairs.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.evaluation.drawn_pairs import PairWeights, ScoreShares
from neardup.evaluation.shares import Share

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

THRESHOLDS: Final = 100
"""The thresholds of a sweep: 0.01, 0.02 to 1."""


class IndependentPairs(NamedTuple):
    """How many independent pairs would tell as much as those that belong together.

    Attributes:
        recall: Of the true pairs.
        precision: Of the predicted pairs.
        f1: Of the pairs that are true or predicted.
    """

    recall: float
    precision: float
    f1: float


@dataclass(frozen=True)
class Scores:
    """The counts of predictions against the truth, over labelled pairs.

    Attributes:
        tp: True positives.
        fp: False positives.
        fn: False negatives.
        tn: True negatives.
        independent: What intervals count instead of pairs; None counts each pair.
        estimated: The scores of all pairs, for which the labelled ones stand; None if these stand
            for themselves.

    >>> scores = Scores(tp=3, fp=1, fn=2, tn=4)
    >>> scores.recall.value, scores.precision.value
    (0.6, 0.75)
    """

    tp: int
    fp: int
    fn: int
    tn: int
    independent: IndependentPairs | None = None
    estimated: ScoreShares | None = None

    @classmethod
    def of(
        cls,
        predicted: Flags,
        truth: Flags,
        unit: Integers | None = None,
        weights: PairWeights | None = None,
    ) -> Scores:
        """Count predictions, one flag for each pair.

        Args:
            predicted: Which pairs are predicted.
            truth: Which pairs are true.
            unit: Of each pair the number of what it belongs to, such as a cluster, if intervals
                shall not take pairs of one unit as independent.
            weights: How the pairs were drawn, if each stands for others.
        """
        both = predicted & truth
        tp = int(np.count_nonzero(both))
        fp = int(np.count_nonzero(predicted)) - tp
        fn = int(np.count_nonzero(truth)) - tp
        independent = None
        if unit is not None:
            wholes = truth, predicted, truth | predicted
            independent = IndependentPairs(*(count_independent(both, one, unit) for one in wholes))
        estimated = None if weights is None else weights.score(predicted, truth)
        return cls(tp, fp, fn, len(truth) - tp - fp - fn, independent, estimated)

    @property
    def recall(self) -> Share:
        """The share of the true pairs that are predicted."""
        if self.estimated is not None:
            return self.estimated.recall
        return Share.of(self.tp, self.tp + self.fn, self.independent and self.independent.recall)

    @property
    def precision(self) -> Share:
        """The share of the predicted pairs that are true."""
        if self.estimated is not None:
            return self.estimated.precision
        return Share.of(self.tp, self.tp + self.fp, self.independent and self.independent.precision)

    @property
    def f1(self) -> Share:
        """The harmonic mean of recall and precision."""
        if self.estimated is not None:
            return self.estimated.f1
        whole = self.tp + self.fp + self.fn
        overlap = Share.of(self.tp, whole, self.independent and self.independent.f1)
        return Share(*(_harmonic(share) for share in (overlap.value, overlap.low, overlap.high)))

    @property
    def record(self) -> dict[str, Any]:
        """The counts and scores as evaluation.json has them."""
        shares = {name: asdict(getattr(self, name)) for name in ("recall", "precision", "f1")}
        counts = {name: getattr(self, name) for name in ("tp", "fp", "fn", "tn")}
        return counts | shares


def count_independent(part: Flags, whole: Flags, unit: Integers) -> float:
    """Return how many independent pairs would tell a share as well as pairs of these units do.

    The spread of the share between units says it, as for samples of clusters in surveys: the
    variance of a ratio. Units are the most: that pairs of one differ may be chance.

    >>> flags = np.array([1, 1, 1, 1, 0, 0, 0, 0], bool)
    >>> count_independent(flags, np.ones(8, bool), np.arange(8) // 2)  # right or wrong together
    3.0
    """
    counted = np.bincount(unit[whole], minlength=1)
    right = np.bincount(unit[whole], part[whole], minlength=len(counted))
    right, counted = right[counted > 0], counted[counted > 0]
    units, pairs = len(counted), int(counted.sum())
    if units < 2:
        return float(units)
    share = right.sum() / pairs
    squares = float(np.sum((right - share * counted) ** 2))
    if not squares:
        return float(units)
    variance = squares / pairs**2 * units / (units - 1)
    return float(min(units, max(1.0, share * (1 - share) / variance)))


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
        advised: The threshold to use, as `neardup tune` chooses it: the highest that is as good as
            the best of those from 0.3 on, because it removes the least; None as above.
        advised_as_good: The lowest and the highest threshold that are as good as the best of those
            from 0.3 on.
    """

    thresholds: list[float]
    recall: list[float | None]
    precision: list[float | None]
    f1: list[float | None]
    best: float | None
    as_good: list[float] | None = None
    advised: float | None = None
    advised_as_good: list[float] | None = None

    @property
    def at_best(self) -> tuple[float | None, float | None, float | None]:
        """Recall, precision and F1 at the best threshold."""
        return self.at(self.best)

    def at(self, threshold: float | None) -> tuple[float | None, float | None, float | None]:
        """Return recall, precision and F1 at one of the thresholds."""
        if threshold is None:
            return None, None, None
        place = self.thresholds.index(threshold)
        return self.recall[place], self.precision[place], self.f1[place]


def sweep_thresholds(
    similarity: NDArray[np.float64], label: Flags, weight: NDArray[np.float64] | None = None
) -> ThresholdSweep:
    """Score all thresholds by the exact similarity of labelled pairs, as if all pairs met.

    Args:
        similarity: The similarity of each pair.
        label: Whether it is a duplicate.
        weight: How many pairs each stands for; None for one.
    """
    thresholds = np.arange(1, THRESHOLDS + 1) / THRESHOLDS
    positives = int(np.count_nonzero(label))
    tp = _at_least(similarity[label], thresholds)
    fp = _at_least(similarity[~label], thresholds)
    right, wrong, all_right = tp, fp, positives
    if weight is not None:
        right = _at_least(similarity[label], thresholds, weight[label])
        wrong = _at_least(similarity[~label], thresholds, weight[~label])
        all_right = weight[label].sum()
    recall = _shares(right, all_right)
    precision = _shares(right, right + wrong)
    f1 = [_harmonic(share) for share in _shares(right, wrong + all_right)]
    best = as_good = advised = advised_as_good = None
    if 0 < positives < len(label):
        place = best_place([value or 0.0 for value in f1])
        best = float(thresholds[place])
        low, high = find_as_good(tp, fp, place)
        as_good = [float(thresholds[low]), float(thresholds[high])]
        tried = thresholds >= LOWEST
        usable = thresholds[tried].tolist()
        tried_f1 = np.array(f1, np.float64)[tried]
        low, high = choose_threshold(tried_f1, tp[tried], fp[tried], positives, usable)
        advised, advised_as_good = usable[high], [usable[low], usable[high]]
    return ThresholdSweep(
        thresholds.tolist(),
        recall,
        precision,
        f1,
        best,
        as_good,
        advised,
        advised_as_good,
    )


LOWEST: Final = 0.3
"""The lowest threshold that is advised: below, most documents of a large corpus are candidates."""
GAIN: Final = 0.005
"""F1 that another choice must gain at least: less is not worth its cost."""
COSTLY: Final = 0.5
"""Below this threshold, each lower one makes many more candidates."""
NEAR: Final = 0.2
"""A pair is near a threshold if its similarity is at most this much lower."""


def choose_threshold(
    f1: NDArray[np.float64],
    tp: Integers,
    fp: Integers,
    positives: int,
    thresholds: Sequence[float],
) -> tuple[int, int]:
    """Return the places of the first and the last threshold that are as good as the best one.

    The last is the one to use: it removes the least.

    Args:
        f1: The F1 at each threshold.
        tp: The labelled duplicates that reach each threshold.
        fp: The other pairs that do.
        positives: All labelled duplicates, at least one.
        thresholds: The thresholds to choose from, ascending.
    """
    best = best_place(f1.tolist())
    low, high = find_as_good(tp, fp, best)
    # With fewer duplicates, one more that is missed costs more than the gain.
    if positives * GAIN >= 1:
        about = np.flatnonzero((f1 >= f1[best] - GAIN) & (np.array(thresholds) <= COSTLY))
        high = int(about.max(initial=high))
    return low, high


def note_easy_labels(
    similarity: NDArray[np.float64], label: Flags, shingle: str, threshold: float, few: int
) -> list[str]:
    """Return a warning if hardly any of the pairs that are no duplicates look alike.

    Their labels test the precision; dissimilar ones, such as random pairs, are right at any
    threshold. At least `few` and a fiftieth should look alike, or `few` are all that there are.
    """
    others = similarity[~label]
    least = max(threshold - NEAR, 0.01)
    near = int(np.count_nonzero(others >= least))
    needed = max(few, len(others) // 50)
    if near >= needed or len(others) < few:
        return []
    return [
        f"only {near:,} of the {len(others):,} pairs labelled as different are {least:.2g} similar "
        f"or more: precision near the threshold of {threshold:g} is hardly tested, and a run may "
        f"remove much that is no duplicate; neardup dedup INPUT -o OUT --shingle {shingle} "
        f"--threshold {least:.2g} --pairs lists pairs that look alike: label {needed - near:,} or "
        "more of them that are different"
    ]


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


def _at_least(
    values: NDArray[np.float64],
    thresholds: NDArray[np.float64],
    weight: NDArray[np.float64] | None = None,
) -> Any:
    """Return the number of values that reach each threshold, or the sum of their weights."""
    order = np.argsort(values)
    places = np.searchsorted(values[order], thresholds)
    if weight is None:
        return len(values) - places
    return np.append(np.cumsum(weight[order[::-1]])[::-1], 0.0)[places]


def _shares(parts: Any, wholes: Any) -> list[float | None]:
    """Return shares; None where the whole is empty."""
    parts, wholes = np.broadcast_arrays(parts, wholes)
    pairs = zip(parts.tolist(), wholes.tolist(), strict=True)
    return [part / whole if whole else None for part, whole in pairs]


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
