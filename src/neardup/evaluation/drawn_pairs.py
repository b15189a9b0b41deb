"""Recall and precision of all pairs, by labels of some that were drawn with known chances.

A drawn pair stands for others: for as many as its weight says, 1 / its chance to be drawn. Pairs
were drawn in strata, such as those of about the same similarity; what all pairs of a stratum are is
estimated by its labels, and the sum over the strata is unbiased, whatever was drawn more often
(Horvitz and Thompson).

Intervals are the middle 95 % of what all pairs may be, given the labels: in each stratum the shares
are drawn from their distribution given its labels (Dirichlet, as a Polya posterior), widened as any
variance of a sample is, and narrowed by the part of the stratum that is labelled. Where the number
of pairs of a stratum was estimated by a sample of the documents, it is drawn, too. Half a label of
either kind is added as in the interval of Jeffreys, once in all and not in each stratum: with one
stratum this is that interval. Decision 051 has its coverage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neardup.evaluation.shares import Share

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

RANDOM: Final = "random"
"""The stratum of random pairs of documents: all that no search has found. They are so many that
none of a few hundred would say anything: unless one is a duplicate, no interval counts them."""
DRAWS: Final = 5_000
ENDS: Final = (0.025, 0.975)
SEED: Final = 51


class StratumSize(NamedTuple):
    """How many pairs a stratum has.

    pairs   their number, or an estimate of it
    units   how many independent pairs the estimate is made by; infinity if the number is known
    """

    pairs: float
    units: float = math.inf


class ScoreShares(NamedTuple):
    """Recall, precision and F1, each with its interval."""

    recall: Share
    precision: Share
    f1: Share


@dataclass(frozen=True)
class PairWeights:
    """How labelled pairs were drawn.

    Attributes:
        weight: How many pairs each stands for.
        stratum: The place of its stratum in `names`.
        names: The names of the strata; `RANDOM` is that of random pairs.
        units: By how many independent pairs the size of each stratum was estimated; infinity where
            it is known.
    """

    weight: Reals
    stratum: Integers
    names: Sequence[str]
    units: Sequence[float]

    def take(self, rows: Flags | Integers) -> PairWeights:
        """Return the weights of some of the pairs."""
        return PairWeights(self.weight[rows], self.stratum[rows], self.names, self.units)

    def score(self, predicted: Flags, truth: Flags) -> ScoreShares:
        """Return recall, precision and F1 of all pairs, for which these stand.

        Args:
            predicted: Which of these pairs are predicted.
            truth: Which are true.
        """
        count = len(self.names)
        places = (self.stratum * 2 + predicted) * 2 + truth
        counts = np.bincount(places, minlength=4 * count).reshape(count, 2, 2)
        sizes = np.bincount(self.stratum, self.weight, count).astype(np.float64)
        # By name: the order of rows has no part in what is drawn for the intervals.
        used = np.array([n for n in np.argsort(self.names).tolist() if counts[n].any()], np.int64)
        random = np.array([self.names[n] == RANDOM for n in used.tolist()], bool)
        units = np.array(self.units, np.float64)[used]
        return estimate(*_join_lone(counts[used], sizes[used], random, units))

    @property
    def pairs(self) -> float:
        """The number of pairs that all of them stand for."""
        return float(self.weight.sum())


def _join_lone(
    counts: Integers, sizes: Reals, random: Flags, units: Reals
) -> tuple[Reals, Reals, Flags, Reals]:
    """Return strata of which those with one label are one, if there are several.

    One label tells nothing of how others of its stratum would differ. Those of the joined stratum
    keep their weights, and are as many as equally weighted ones that would tell as much (Kish).

    Args:
        counts: The labelled pairs by stratum, prediction and truth.
        sizes: All pairs of each stratum.
        random: Which strata are of random pairs; none of them is joined.
        units: By how many independent pairs each size was estimated.
    """
    lone = (counts.sum(axis=(1, 2)) == 1) & ~random
    if np.count_nonzero(lone) < 2:
        return counts.astype(np.float64), sizes, random, units
    whole = float(sizes[lone].sum())
    squares = sizes[lone] ** 2
    cells = np.einsum("h,hjl->jl", sizes[lone], counts[lone]) * whole / float(squares.sum())
    spread = float((squares / units[lone]).sum())
    return (
        np.concatenate([counts[~lone], cells[None]]),
        np.append(sizes[~lone], whole),
        np.append(random[~lone], False),
        np.append(units[~lone], whole**2 / spread if spread else math.inf),
    )


def estimate(counts: Integers | Reals, sizes: Reals, random: Flags, units: Reals) -> ScoreShares:
    """Return recall, precision and F1 of all pairs by the labels of each stratum.

    Args:
        counts: The labelled pairs by stratum, prediction and truth; some of each stratum.
        sizes: All pairs of each stratum.
        random: Which strata are of random pairs.
        units: By how many independent pairs each size was estimated.
    """
    shares = counts / counts.sum(axis=(1, 2), keepdims=True)
    values = _scores(np.einsum("h,hjl->jl", sizes, shares))
    low, high = intervals(counts, sizes, random, units, np.random.default_rng(SEED))
    found = zip(values.tolist(), low.tolist(), high.tolist(), strict=True)
    return ScoreShares(*(Share(*(None if np.isnan(x) else x for x in one)) for one in found))


def intervals(
    counts: Integers | Reals,
    sizes: Reals,
    random: Flags,
    units: Reals,
    generator: np.random.Generator,
    draws: int = DRAWS,
) -> tuple[Reals, Reals]:
    """Return the ends of the intervals of recall, precision and F1, in the last axis.

    Args:
        counts: The labelled pairs by stratum, prediction and truth, in the last three axes.
        sizes: All pairs of each stratum.
        random: Which strata are of random pairs.
        units: By how many independent pairs each size was estimated.
        generator: What the draws are made with.
        draws: Their number.
    """
    labelled = counts.sum(axis=(-2, -1))[..., None, None]
    whole = np.maximum(sizes[:, None, None], labelled)
    by_prediction = counts.sum(axis=-1)
    told = np.where(random[:, None] & (counts[..., 1] == 0), 0, by_prediction)
    half = 0.5 * told / np.maximum(told.sum(axis=-2, keepdims=True), 1)
    drawn = generator.standard_gamma(counts + half[..., None], (draws, *counts.shape))
    drawn /= drawn.sum(axis=(-2, -1), keepdims=True)
    found = counts / labelled
    spread = (1 - labelled / whole) * labelled / np.maximum(labelled - 1, 1)
    drawn = found + np.sqrt(spread) * (drawn - found)
    totals = whole * np.clip(drawn, counts / whole, 1)
    guessed = np.isfinite(units)
    if guessed.any():
        size = np.ones((draws, *counts.shape[:-2]))
        size[..., guessed] = generator.standard_gamma(
            units[guessed], (*size.shape[:-1], guessed.sum())
        )
        totals *= (size / np.where(guessed, units, 1.0))[..., None, None]
    low, high = np.quantile(np.nan_to_num(_scores(totals.sum(axis=-3))), ENDS, axis=0)
    seen = counts.sum(axis=-3)
    tp, fp, fn = seen[..., 1, 1], seen[..., 1, 0], seen[..., 0, 1]
    right = tp[..., None]
    wrong = np.stack([fn, fp, fn + fp], axis=-1)
    undefined = np.where(right + wrong == 0, np.nan, 0.0)
    return (
        np.where(right == 0, 0.0, low) + undefined,
        np.where(wrong == 0, 1.0, high) + undefined,
    )


def _scores(totals: Reals) -> Reals:
    """Return recall, precision and F1 of pairs by prediction and truth; NaN if undefined."""
    tp, fp, fn = totals[..., 1, 1], totals[..., 1, 0], totals[..., 0, 1]
    with np.errstate(invalid="ignore"):
        return np.stack([tp / (tp + fn), tp / (tp + fp), 2 * tp / (2 * tp + fp + fn)], axis=-1)
