"""Draws pairs of a sample of documents for people to label: in strata, with known chances.

Strata are the pairs that the system has found and those that it has not, each by similarity, with
the bins narrower near the threshold; and the rest of all pairs, drawn as random pairs of documents.
Each stratum has a random order of its pairs, and the queue takes the next pair of one stratum or
another: any beginning of it is a sample with known chances, so that people can stop when they like,
and a longer queue begins as a shorter one does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.evaluation.drawn_pairs import RANDOM

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
Weigh = Callable[[Integers, Integers], Reals]
"""Returns how many pairs of the corpus each pair of the sample stands for."""

LISTED: Final = 1 << 22
"""A stratum of at most so many pairs is listed; of a larger one, pairs are drawn and looked at."""
POOL: Final = 20_000
"""Pairs that are drawn of a stratum that is not listed."""
TRIES: Final = 100
FOUND_ENDS: Final = (0.0, 0.25, 0.5, 1.0)
MISSED_ENDS: Final = (1.0, 0.5, 0.25, 0.0)
"""Where bins end: of found pairs as parts of the way from the threshold to 1, of others as parts of
the way from the threshold down to the lowest similarity that was searched for."""
FOUND_RATES: Final = (0.5, 0.8, 0.9, 0.97)
MISSED_RATES: Final = (0.05, 0.2, 0.5, 0.9)
"""The shares of duplicates that are expected in the bins, the least similar first: labels are
shared out by them. Wrong ones cost labels, and make nothing wrong."""
RANDOM_SHARE: Final = 0.05
EVEN_SHARE: Final = 0.2
"""The part of the labels that all strata share evenly, whatever is expected of them."""
BLOCK: Final = 10
"""Strata are mixed among so many pairs, so that their order tells nothing."""


@dataclass(frozen=True)
class Stratum:
    """A part of all pairs.

    Attributes:
        name: Its name.
        size: The number of its pairs in the corpus.
        a: The first documents of its pairs in the order in which they are drawn.
        b: The second ones.
        rate: The share of duplicates that is expected.
        found: Whether the system has found these pairs.
        units: How many independent pairs of a sample its size is estimated by; infinity if it is
            known, because all documents were compared.
    """

    name: str
    size: float
    a: Integers
    b: Integers
    rate: float
    found: bool
    units: float = math.inf

    def __len__(self) -> int:
        return len(self.a)


@dataclass(frozen=True)
class SearchedPairs:
    """The pairs of a sample of documents that are at least `floor` similar.

    Attributes:
        documents: The number of documents of the sample.
        a: The first document of each pair.
        b: The second one, a < b.
        similarity: Their similarity.
        floor: The lowest similarity.
        found: Which of them the system has found.
        cluster: The cluster of each document; pairs of one are found, too. -1 for none.
        group: The group of similar documents that each is of: they are chosen together.
        share: The chance of a document of the corpus to be in the sample.
    """

    documents: int
    a: Integers
    b: Integers
    similarity: Reals
    floor: float
    found: Flags
    cluster: Integers
    group: Integers
    share: float = 1.0

    def units(self, pairs_of: Integers) -> float:
        """Return how many independent pairs would tell the size of a stratum as well.

        Pairs of one group are chosen together or not at all: the variance is that of the groups.

        Args:
            pairs_of: The pairs of the stratum by the group of their first document.
        """
        if self.share >= 1:
            return math.inf
        squares = float(np.sum(pairs_of.astype(np.float64) ** 2))
        return float(pairs_of.sum()) ** 2 / squares / (1 - self.share)


def draw_strata(
    pairs: SearchedPairs, threshold: float, weigh: Weigh, seed: int
) -> Iterator[Stratum]:
    """Yield the strata of all pairs of a sample, without those that have no pair.

    Args:
        pairs: The pairs that are similar.
        threshold: The similarity at which answers are open; strata are narrower near it.
        weigh: Returns how many pairs of the corpus each pair of the sample stands for.
        seed: The seed of all that is drawn.
    """
    weights = weigh(pairs.a, pairs.b)
    for number, (name, rows, rate, found) in enumerate(_bins(pairs, threshold)):
        chance = np.random.default_rng([seed, number])
        order = rows[_order(weights[rows], chance)]
        size = float(weights[rows].sum())
        if len(order):
            units = pairs.units(np.bincount(pairs.group[pairs.a[rows]]))
            yield Stratum(name, size, pairs.a[order], pairs.b[order], rate, found, units)
    yield from _others(pairs, weigh, seed)


def _bins(pairs: SearchedPairs, threshold: float) -> Iterator[tuple[str, Integers, float, bool]]:
    """Yield the name, the rows and the expected rate of each bin of similar pairs."""
    up = [threshold + part * (1 - threshold) for part in FOUND_ENDS]
    down = [threshold - part * (threshold - pairs.floor) for part in MISSED_ENDS]
    for found, ends, rates in (
        (True, [pairs.floor, *up], FOUND_RATES),
        (False, [*down, 1.0], MISSED_RATES),
    ):
        word = "found" if found else "missed"
        for (low, high), rate in zip(pairwise(ends), rates, strict=True):
            if low >= high:  # the threshold is 1
                continue
            below = pairs.similarity < high if high < 1 else True
            rows = np.flatnonzero((pairs.found == found) & (pairs.similarity >= low) & below)
            yield f"{word} {low:.2f} to {high:.2f}", rows, rate, found


def _others(pairs: SearchedPairs, weigh: Weigh, seed: int) -> Iterator[Stratum]:
    """Yield the found pairs that are less similar than the floor, and the rest of all pairs."""
    codes = np.sort(pairs.a * pairs.documents + pairs.b)
    members = np.flatnonzero(pairs.cluster >= 0)
    members = members[np.argsort(pairs.cluster[members], kind="stable")]
    sizes = np.unique(pairs.cluster[members], return_counts=True)[1]
    together = PairSpace(members, sizes)
    everything = PairSpace(np.arange(pairs.documents), np.array([pairs.documents]))
    similar = pairs.cluster[pairs.a]
    in_cluster = int(np.count_nonzero((similar >= 0) & (similar == pairs.cluster[pairs.b])))

    def unlike(a: Integers, b: Integers) -> Flags:
        known: Flags = np.isin(a * pairs.documents + b, codes)
        return ~known

    def apart(a: Integers, b: Integers) -> Flags:
        cluster = pairs.cluster[a]
        others: Flags = (cluster < 0) | (cluster != pairs.cluster[b])
        return others & unlike(a, b)

    count = len(together) - in_cluster
    rest = len(everything) - len(codes) - count
    for name, space, size, wanted, found in (
        (f"found below {pairs.floor:.2f}", together, count, unlike, True),
        (RANDOM, everything, rest, apart, False),
    ):
        chance = np.random.default_rng([seed, 100 + found])
        a, b = space.draw(size, wanted, chance)
        if len(a):
            weights = weigh(a, b)
            order = _order(weights, chance)
            rate = FOUND_RATES[0] if found else 0.0
            units = pairs.units(sizes * (sizes - 1) // 2) if found else math.inf
            whole = size * float(weights.mean())
            yield Stratum(name, whole, a[order], b[order], rate, found, units)


@dataclass(frozen=True)
class PairSpace:
    """All pairs of documents of the same group.

    Attributes:
        members: The documents, group by group.
        sizes: The number of documents of each group.
    """

    members: Integers
    sizes: Integers

    def __len__(self) -> int:
        return int((self.sizes * (self.sizes - 1) // 2).sum())

    def pair(self, number: Integers) -> tuple[Integers, Integers]:
        """Return the pairs of these numbers, the lower document first."""
        ends = np.cumsum(self.sizes * (self.sizes - 1) // 2)
        group = np.searchsorted(ends, number, side="right")
        inside = number - np.append(0, ends)[group]
        later = ((1 + np.sqrt(1 + 8 * inside.astype(np.float64))) / 2).astype(np.int64)
        later -= later * (later - 1) // 2 > inside  # the root was rounded up
        later += (later + 1) * later // 2 <= inside
        start = np.append(0, np.cumsum(self.sizes))[group]
        a = self.members[start + inside - later * (later - 1) // 2]
        b = self.members[start + later]
        return np.minimum(a, b), np.maximum(a, b)

    def draw(
        self, size: int, wanted: Callable[[Integers, Integers], Flags], chance: np.random.Generator
    ) -> tuple[Integers, Integers]:
        """Return the wanted pairs, or of more than fit a random part of them.

        Args:
            size: How many of the pairs are wanted.
            wanted: Returns which pairs are wanted.
            chance: What the draws are made with.
        """
        found = np.empty(0, np.int64)
        if size <= 0:
            return self.pair(found)
        if len(self) <= LISTED:
            a, b = self.pair(np.arange(len(self)))
            rows = np.flatnonzero(wanted(a, b))
            return a[rows], b[rows]
        enough = min(POOL, size)
        for _ in range(TRIES):
            numbers = chance.integers(0, len(self), 2 * POOL)
            found = np.append(found, numbers[wanted(*self.pair(numbers))])
            found = found[np.sort(np.unique(found, return_index=True)[1])]
            if len(found) >= enough:
                break
        return self.pair(found[:enough])


def _order(weights: Reals, chance: np.random.Generator) -> Integers:
    """Return a random order in which pairs that stand for more come sooner, in proportion."""
    return np.argsort(chance.standard_exponential(len(weights)) / weights, kind="stable")


def share_out(strata: Sequence[Stratum]) -> Reals:
    """Return the share of the labels that each stratum gets.

    It is what makes the variances of precision and recall together the least (Neyman), by the
    rates that are expected.
    """
    size = np.array([one.size for one in strata])
    rate = np.array([one.rate for one in strata])
    found = np.array([one.found for one in strata])
    random = np.array([one.name == RANDOM for one in strata])
    spread = size * np.sqrt(rate * (1 - rate))
    right, missed = (size * rate)[found].sum(), (size * rate)[~found].sum()
    duplicates = max(right + missed, 1.0)
    by_found = np.hypot(1 / max(size[found].sum(), 1.0), missed / duplicates**2)
    value = spread * np.where(found, by_found, right / duplicates**2)
    value = np.where(random, 0.0, value)
    if value.sum():
        value = (1 - EVEN_SHARE) * value / value.sum() + EVEN_SHARE / len(strata)
    value = np.where(random, 0.0, value + ~random * 1e-12)
    return np.where(random, RANDOM_SHARE, value * (1 - RANDOM_SHARE) / max(value.sum(), 1e-12))


def queue(strata: Sequence[Stratum], count: int, seed: int) -> list[tuple[int, int]]:
    """Return the stratum of each pair of a queue, and the place of the pair in it.

    Args:
        strata: The strata.
        count: The number of pairs.
        seed: The seed of the order.
    """
    return list(islice(_mixed(_in_turns(strata), seed), count))


def _in_turns(strata: Sequence[Stratum]) -> Iterator[tuple[int, int]]:
    """Yield pairs so that after any number each stratum has about its share; one of each first."""
    shares = share_out(strata)
    taken = np.zeros(len(strata), np.int64)
    sizes = np.array([len(one) for one in strata])
    for _ in range(int(sizes.sum())):
        due = np.where(taken == 0, 1e9 + shares, shares / (2 * taken + 1))
        stratum = int(np.argmax(np.where(taken < sizes, due, -1.0)))
        yield stratum, int(taken[stratum])
        taken[stratum] += 1


def _mixed(places: Iterable[tuple[int, int]], seed: int) -> Iterator[tuple[int, int]]:
    """Yield blocks of places in random order."""
    chance, waiting = np.random.default_rng([seed, 1_000]), iter(places)
    while block := list(islice(waiting, BLOCK)):
        yield from (block[place] for place in chance.permutation(len(block)))
