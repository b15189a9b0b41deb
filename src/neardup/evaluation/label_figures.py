"""What the answers to drawn pairs say: recall and precision, how many more answers to go on with,
and the threshold that they ask for; and how far two people agree.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neardup.evaluation.drawn_pairs import RANDOM, PairWeights, StratumSize
from neardup.evaluation.scores import Scores, sweep_thresholds
from neardup.evaluation.shares import Share
from neardup.formatting import format_count

SAME, DIFFERENT, UNSURE = "same", "different", "unsure"
ANSWERS: Final = (SAME, DIFFERENT, UNSURE)
WIDTHS: Final = (0.05, 0.02, 0.01, 0.005)
"""Half widths of intervals that are aimed at, one after the other."""
FEW: Final = 10
"""With fewer answers of one kind no threshold is asked for."""
LEAST: Final = 30
"""With fewer answers, a few of each stratum, intervals cover the truth too rarely."""


class DrawnPair(NamedTuple):
    """A drawn pair: its place in the queue, two ids, its stratum, and how similar they are."""

    number: int
    a: str
    b: str
    stratum: str
    similarity: float


class WeightedLabel(NamedTuple):
    """A labelled pair as a golden set has it: whether it is a duplicate, what it stands for, and
    by how many independent pairs the size of its stratum was estimated.
    """

    pair: DrawnPair
    label: bool
    weight: float
    units: float


def weigh_answers(
    pairs: Sequence[DrawnPair], sizes: Mapping[str, StratumSize], answers: Mapping[int, str]
) -> list[WeightedLabel]:
    """Return the pairs that were answered with same or different, and what each stands for.

    Args:
        pairs: The pairs of the queue.
        sizes: The size of each stratum.
        answers: The answers by the numbers of pairs. Those who are unsure stand for pairs of which
            nothing is known: these count nowhere.
    """
    answered = Counter(pair.stratum for pair in pairs if pair.number in answers)
    weight = {name: sizes[name].pairs / count for name, count in answered.items()}
    return [
        WeightedLabel(
            pair,
            answers[pair.number] == SAME,
            weight[pair.stratum],
            sizes[pair.stratum].units,
        )
        for pair in pairs
        if answers.get(pair.number) in (SAME, DIFFERENT)
    ]


@dataclass(frozen=True)
class LabelFigures:
    """The figures of a run or another system by answers so far.

    Attributes:
        answered: The number of answers.
        unsure: How many of them are unsure.
        waiting: How many strata have no answer yet; until there is none, scores are None.
        scores: Recall, precision and F1 of all pairs.
        threshold: The threshold that the answers ask for; None if they are too few to tell.
        random: The answers to random pairs, of which none is the same; 0 if one is.
    """

    answered: int
    unsure: int
    waiting: int
    scores: Scores | None
    threshold: float | None
    random: int

    @classmethod
    def of(
        cls,
        pairs: Sequence[DrawnPair],
        sizes: Mapping[str, StratumSize],
        answers: Mapping[int, str],
        found: NDArray[np.bool_],
    ) -> LabelFigures:
        """Estimate the figures.

        Args:
            pairs: The pairs of the queue.
            sizes: The size of each stratum.
            answers: The answers by the numbers of pairs.
            found: Whether each pair has been found, by the numbers of pairs.
        """
        waiting = len(sizes) - len({pair.stratum for pair in pairs if pair.number in answers})
        labels = weigh_answers(pairs, sizes, answers)
        unsure = sum(answer == UNSURE for answer in answers.values())
        if waiting or not labels:
            return cls(len(answers), unsure, waiting, None, None, 0)
        names = sorted({one.pair.stratum for one in labels})
        weights = PairWeights(
            np.array([one.weight for one in labels]),
            np.array([names.index(one.pair.stratum) for one in labels]),
            names,
            [sizes[name].units for name in names],
        )
        label = np.array([one.label for one in labels])
        predicted = found[[one.pair.number for one in labels]]
        similarity = np.array([one.pair.similarity for one in labels])
        threshold = None
        if min(np.count_nonzero(label), np.count_nonzero(~label)) >= FEW:
            threshold = sweep_thresholds(similarity, label, weights.weight).advised
        random = [one.label for one in labels if one.pair.stratum == RANDOM]
        return cls(
            len(answers),
            unsure,
            0,
            Scores.of(predicted, label, weights=weights),
            threshold,
            0 if any(random) else len(random),
        )

    @property
    def aim(self) -> tuple[int, float] | None:
        """How many more answers give which half width, about; None if it is not known."""
        if self.scores is None:
            return None
        shares = self.scores.precision, self.scores.recall
        widths = [(one.high - one.low) / 2 for one in shares if one.low is not None is not one.high]
        width = max(widths, default=0.0)
        aim = next((one for one in WIDTHS if one < width), None)
        if aim is None:
            return None
        return math.ceil(self.answered * ((width / aim) ** 2 - 1)), aim

    def __str__(self) -> str:
        answers = f"After {format_count(self.answered, 'answer')}"
        if self.scores is None:
            some = f"{self.waiting} parts of all pairs have" if self.waiting else "nobody has"
            return f"{answers}: {some} no answer yet, so there are no figures."
        told = f"{answers}: precision {_range(self.scores.precision)}, recall "
        told += _range(self.scores.recall)
        if self.aim is not None:
            told += "; about {:,} more for ± {:g}".format(*self.aim)
        if self.threshold is not None:
            told += f"; these answers ask for a threshold of {self.threshold:g}"
        if self.answered < LEAST:
            told += f"; these intervals are too narrow, as there are fewer than {LEAST} answers"
        return told + "."


def _range(share: Share) -> str:
    """Return an interval in words.

    >>> _range(Share.of(99, 100)), _range(Share.of(0, 0))
    ('0.95 to 1.00', 'undefined')
    """
    return "undefined" if share.low is None else f"{share.low:.2f} to {share.high:.2f}"


@dataclass(frozen=True)
class LabelAgreement:
    """How far two people agree beyond chance.

    Attributes:
        pairs: The pairs that both have called the same or different.
        agreed: On how many of them they agree.
        kappa: Cohen's kappa, with its 95 % interval: 1 if they always agree, 0 if as often as by
            chance. None if it is undefined, because both always gave the same answer.

    >>> LabelAgreement.of([("same", "same")] * 20 + [("different", "different")] * 20).kappa.value
    1.0
    """

    pairs: int
    agreed: int
    kappa: Share

    @classmethod
    def of(cls, answers: Iterable[tuple[str, str]]) -> LabelAgreement:
        """Count the answers of two people to the same pairs.

        Args:
            answers: Their answers to each pair; those where one is unsure don't count.
        """
        counts = Counter(one for one in answers if UNSURE not in one)
        total = counts.total()
        agreed = sum(count for (mine, theirs), count in counts.items() if mine == theirs)
        mine, theirs = (
            sum(count for pair, count in counts.items() if pair[who] == SAME) / (total or 1)
            for who in (0, 1)
        )
        chance = mine * theirs + (1 - mine) * (1 - theirs)
        if not total or chance == 1:
            return cls(total, agreed, Share(None, None, None))
        return cls(total, agreed, _beyond(chance, agreed, total))

    def __str__(self) -> str:
        told = f"{self.agreed:,} of {format_count(self.pairs, 'pair')} alike"
        if self.kappa.value is None:
            return f"{told}; kappa is undefined"
        return (
            f"{told}; kappa {self.kappa.value:.2f} ({self.kappa.low:.2f} to {self.kappa.high:.2f})"
        )


def _beyond(chance: float, agreed: int, total: int) -> Share:
    """Return the agreement beyond chance, by the interval of the agreement itself.

    That of Wilson, so that full agreement in a few pairs is not taken for certainty; the variance
    of the chance is left out, which is small beside it.
    """
    share = Share.of(agreed, total)
    ends = (share.value, share.low, share.high)
    return Share(*(None if end is None else (end - chance) / (1 - chance) for end in ends))
