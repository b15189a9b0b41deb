"""Find the passages that two texts have in common: runs of equal words, the longest first.

For each word of a text, the longest run from it on that occurs in the other text is found in a
suffix array of both (matching statistics; the array is made by prefix doubling). All common runs
are found, wherever they are and in whatever order; the time does not depend on how many there are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import ParameterError

Integers = NDArray[np.int64]
COMPARED: Final = 200_000
"""The words of each text that are compared."""
LEAST: Final = 8
"""The fewest words of a passage: fewer are often equal by chance."""
MOST: Final = 5
"""The passages that are listed."""

# Scripts without spaces (Thai, Lao, Myanmar, Khmer, kana, Han) are compared by character.
ALONE: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
)
_WORD: Final = re.compile(rf"[{ALONE}]|[^\W{ALONE}]+")


@dataclass(frozen=True)
class PassagePlace:
    """Where a passage is in a text.

    Attributes:
        word: The number of its first word, counted from 1.
        start, stop: The characters from which and to which it goes.
    """

    word: int
    start: int
    stop: int


@dataclass(frozen=True)
class CommonPassage:
    """A run of words that two texts have in common.

    Attributes:
        words: The number of its words.
        first: Where it is in the first text.
        second: Where it is in the second text; the first such place of several is not promised.
        text: The passage as it is in the first text.
    """

    words: int
    first: PassagePlace
    second: PassagePlace
    text: str


@dataclass(frozen=True)
class CommonPassages:
    """The passages that two texts have in common.

    Attributes:
        listed: The longest ones, which do not overlap in the first text.
        least: The fewest words of a passage.
        words: The number of words of each text.
        covered: How many words of each text are in any passage, listed or not.
        complete: Whether both texts were compared to their ends.
    """

    listed: tuple[CommonPassage, ...]
    least: int
    words: tuple[int, int]
    covered: tuple[int, int]
    complete: bool

    @property
    def shares(self) -> tuple[float, float]:
        """The share of the words of each text that are in any passage."""
        first, second = (
            covered / words if words else 0.0
            for covered, words in zip(self.covered, self.words, strict=True)
        )
        return first, second


def common_passages(
    first: str, second: str, *, least: int = LEAST, most: int = MOST
) -> CommonPassages:
    """Return the passages that two texts have in common, the longest first.

    Case, punctuation and white space don't count. Of texts with more than 200,000 words only the
    first 200,000 are compared.

    Args:
        first: A text.
        second: Another text.
        least: The fewest words of a passage.
        most: The number of passages that are listed.

    >>> found = common_passages("He said: to be, or not to be.", "To be or not to be?", least=4)
    >>> found.listed[0].text, found.listed[0].words, found.shares
    ('to be, or not to be', 6, (0.75, 1.0))
    """
    for name, value, lowest in (("least", least, 1), ("most", most, 0)):
        if not isinstance(value, int) or value < lowest:
            raise ParameterError(f"{name} must be a whole number of at least {lowest}: {value!r}")
    found = [list(islice(_WORD.finditer(text), COMPARED + 1)) for text in (first, second)]
    words = [one[:COMPARED] for one in found]
    (lengths, places), (others, _) = _match(*([one.group() for one in side] for side in words))
    covered = [_cover(one, least) for one in (lengths, others)]
    runs = _choose(lengths, least, most)
    return CommonPassages(
        tuple(_passage(first, words, (at, int(places[run]) + at - run), n) for run, at, n in runs),
        least,
        (len(words[0]), len(words[1])),
        (int(np.count_nonzero(covered[0])), int(np.count_nonzero(covered[1]))),
        words == found,
    )


def _passage(
    text: str, words: Sequence[Sequence[re.Match[str]]], at: tuple[int, int], size: int
) -> CommonPassage:
    """Return the passage of `size` words that begins at these words of the two texts."""
    first, second = (
        PassagePlace(place + 1, side[place].start(), side[place + size - 1].end())
        for side, place in zip(words, at, strict=True)
    )
    return CommonPassage(size, first, second, text[first.start : first.stop])


def _match(
    a: Sequence[str], b: Sequence[str]
) -> tuple[tuple[Integers, Integers], tuple[Integers, Integers]]:
    """Return for each word of a text the length of the longest run from it on that the other text
    has too, and where that has it; for both texts.
    """
    numbers: dict[str, int] = {}
    coded = [[numbers.setdefault(x.casefold(), len(numbers)) for x in text] for text in (a, b)]
    # No run goes beyond a text: after each is a mark that occurs once.
    marks = [len(numbers), len(numbers) + 1]
    levels = _rank_runs(np.array([*coded[0], marks[0], *coded[1], marks[1]], np.int64))
    order = np.argsort(levels[-1])
    in_a, in_b = order < len(a), (order > len(a)) & (order < len(order) - 1)
    own = _longest(levels, order, in_a, in_b)[:, : len(a)]
    its = _longest(levels, order, in_b, in_a)[:, len(a) + 1 : -1]
    return (own[0], own[1] - len(a) - 1), (its[0], its[1])


def _rank_runs(words: Integers) -> list[Integers]:
    """Return the ranks of the runs of 1, 2, 4, ... words from each place on, until all differ."""
    levels = [np.unique(words, return_inverse=True)[1].reshape(-1)]
    while levels[-1].max() < len(words) - 1:
        size = 1 << (len(levels) - 1)
        pairs = levels[-1] * (len(words) + 1)
        pairs[:-size] += levels[-1][size:] + 1
        levels.append(np.unique(pairs, return_inverse=True)[1].reshape(-1))
    return levels


def _longest(
    levels: Sequence[Integers],
    order: Integers,
    asked: NDArray[np.bool_],
    wanted: NDArray[np.bool_],
) -> Integers:
    """Return for each place how many words it shares with the most similar wanted one, and that.

    In the suffix array, that is the nearest wanted one before it or after it. Places that are not
    asked for have zeros.
    """
    numbers, asked_for = np.arange(len(order)), np.flatnonzero(asked)
    before = np.maximum.accumulate(np.where(wanted, numbers, -1))[asked_for]
    after = np.minimum.accumulate(np.where(wanted, numbers, len(order))[::-1])[::-1][asked_for]
    found = np.zeros((2, len(order)), np.int64)
    for near in (before, after):
        known = (near >= 0) & (near < len(order))
        one, other = order[asked_for[known]], order[near[known]]
        shared = _count_shared(levels, one, other)
        better = shared > found[0, one]
        found[:, one[better]] = shared[better], other[better]
    return found


def _count_shared(levels: Sequence[Integers], one: Integers, other: Integers) -> Integers:
    """Return how many words are equal from two places on, for many pairs of places."""
    shared: Integers = np.zeros(len(one), np.int64)
    for level in range(len(levels) - 1, -1, -1):
        ranks = levels[level]
        same = ranks[one + shared] == ranks[other + shared]
        shared += same.astype(np.int64) << level
    return shared


def _cover(lengths: Integers, least: int) -> NDArray[np.bool_]:
    """Return for each word whether it is in a run of at least so many words."""
    starts = np.flatnonzero(lengths >= least)
    changes = np.zeros(len(lengths) + 1, np.int64)
    changes[starts] += 1
    np.subtract.at(changes, starts + lengths[starts], 1)
    inside: NDArray[np.bool_] = np.cumsum(changes[:-1]) > 0
    return inside


def _choose(lengths: Integers, least: int, most: int) -> list[tuple[int, int, int]]:
    """Choose runs, the longest first, each without the words that chosen ones have.

    Args:
        lengths: The length of the run from each word on.
        least: The fewest words of what is left of a run.
        most: The number of runs to choose.

    Returns:
        Where each run begins, where what is left of it begins, and the length of that.
    """
    if not len(lengths):
        return []
    before = np.concatenate([[0], lengths[:-1]])
    runs = np.flatnonzero((lengths >= least) & (lengths >= before))
    starts, stops = runs.copy(), runs + lengths[runs]
    chosen: list[tuple[int, int, int]] = []
    while len(chosen) < most and len(runs):
        best = int(np.argmax(stops - starts))
        first, last = int(starts[best]), int(stops[best])
        if last - first < least:
            break
        chosen.append((int(runs[best]), first, last - first))
        # Runs don't contain one another: what is left of one is in one piece.
        starts = np.where((starts >= first) & (starts < last), last, starts)
        stops = np.where((stops > first) & (stops <= last), first, stops)
    return chosen
