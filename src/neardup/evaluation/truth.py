"""Which documents are similar? By brute force: every pair, exactly."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError
from neardup.evaluation.join import Integers, Join, Pairs, Sets
from neardup.runtime import SILENT, Progress
from neardup.text.arrays import Ragged

BINS = 100
MOST_PAIRS = 50_000_000
"""More pairs are refused: they would take more than four GB."""


@dataclass(frozen=True)
class Truth:
    """All pairs a < b that are at least `floor` similar, sorted by a, then b."""

    documents: int
    floor: float
    a: Integers
    b: Integers
    similarity: NDArray[np.float64]

    def of(self, a: Integers, b: Integers) -> NDArray[np.float64]:
        """The exact similarity of some pairs; 0.0 below the floor."""
        if not len(self.a):
            return np.zeros(len(a))
        known, asked = self.a * self.documents + self.b, a * self.documents + b
        place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        found: NDArray[np.float64] = np.where(known[place] == asked, self.similarity[place], 0.0)
        return found

    def similar(self, threshold: float) -> int:
        """How many pairs reach a threshold."""
        return int(np.count_nonzero(self.similarity >= threshold))

    def histogram(self) -> Integers:
        """How many pairs are in each of 100 bins of width 0.01; the last one includes 1.0.

        Pairs below the floor are in none: the bins below it say nothing.
        """
        edges = np.arange(1, BINS) / BINS
        return np.bincount(np.searchsorted(edges, self.similarity, side="right"), minlength=BINS)


@dataclass(frozen=True)
class SetTruth:
    """The truth about different sets instead of documents: ten thousand copies are one set.

    truth     pairs of sets, by their numbers
    number    the set of each document, -1 if it is empty
    copies    how many documents have each set
    """

    truth: Truth
    number: Integers
    copies: Integers

    def similar(self, threshold: float) -> int:
        """How many pairs of documents reach a threshold; copies are pairs too."""
        good = self.truth.similarity >= threshold
        apart = self.copies[self.truth.a[good]] * self.copies[self.truth.b[good]]
        return int(apart.sum() + (self.copies * (self.copies - 1) // 2).sum())

    def of_documents(self, most: int = MOST_PAIRS) -> Truth:
        """The pairs of documents."""
        _refuse_more(self.similar(self.truth.floor), most, self.truth.floor)
        sets = np.arange(len(self.copies))[self.copies > 1]
        left, right = np.concatenate([sets, self.truth.a]), np.concatenate([sets, self.truth.b])
        similarity = np.concatenate([np.ones(len(sets)), self.truth.similarity])
        members = np.argsort(self.number, kind="stable")[np.count_nonzero(self.number < 0) :]
        ends = np.concatenate([[0], np.cumsum(self.copies)])
        a, b, found, _ = kernels.spread_pairs(left, right, similarity, members, ends, most)
        return _sorted(len(self.number), self.truth.floor, (a, b, found))


def brute_force(
    sets: Ragged,
    floor: float,
    workers: int,
    progress: Progress = SILENT,
    most: int = MOST_PAIRS,
) -> Truth:
    """All similar pairs of documents, which are sorted sets of shingles.

    An empty document is similar to nothing. More than `most` pairs are an error.
    """
    return similar_sets(sets, floor, workers, progress, most).of_documents(most)


def similar_sets(
    sets: Ragged,
    floor: float,
    workers: int,
    progress: Progress = SILENT,
    most: int = MOST_PAIRS,
) -> SetTruth:
    """All similar pairs of different sets: for corpora that are too full of copies otherwise."""
    number, rows, join = _prepared(sets, floor, workers)
    progress.stage("comparing", len(rows) * (len(rows) - 1) // 2, "pairs")
    parts: list[Pairs] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    held = 0
    for settled, found in join.blocks(workers, most):
        parts.append(found)
        held += len(found[0])
        _refuse_more(held, most, floor)
        progress.advance(settled)
    left, right, similarity = (np.concatenate(column) for column in zip(*parts, strict=True))
    pairs = join.sets.order[left], join.sets.order[right], similarity
    copies = np.bincount(number[number >= 0], minlength=len(rows))
    return SetTruth(_sorted(len(rows), floor, pairs), number, copies)


def expected_seconds(sets: Ragged, floor: float, workers: int) -> float:
    """How long `brute_force` will take; to know it takes a small part of that time."""
    # Of no sets at all first: what has to be compiled is not part of the time.
    _prepared(Ragged(sets.data, sets.offsets[:1]), floor, workers)
    begun = time.perf_counter()
    _, _, join = _prepared(sets, floor, workers)
    return time.perf_counter() - begun + join.seconds(workers)


def _prepared(sets: Ragged, floor: float, workers: int) -> tuple[Integers, Integers, Join]:
    """The number of each document's set, a document of each set, and the index of the sets."""
    if not 0.0 < floor <= 1.0:
        raise ParameterError(f"floor {floor} is not above 0 and at most 1: all pairs reach 0")
    hashes = kernels.hash_rows(sets.data.view(np.uint8), sets.offsets * 8, np.uint64(0))
    order = np.argsort(hashes, kind="stable")
    first = kernels.first_equal(sets.data, sets.offsets, hashes, order)
    rows = np.flatnonzero((first == np.arange(len(first))) & (sets.sizes > 0))
    number = np.where(sets.sizes > 0, np.searchsorted(rows, first), -1)
    return number, rows, Join.of(Sets.of(sets, rows, floor, workers), floor)


def _sorted(documents: int, floor: float, pairs: Pairs) -> Truth:
    left, right, similarity = pairs
    a, b = np.minimum(left, right), np.maximum(left, right)
    order = np.argsort(a * documents + b)
    return Truth(documents, floor, a[order], b[order], similarity[order])


def _refuse_more(pairs: int, most: int, floor: float) -> None:
    if pairs > most:
        raise ParameterError(
            f"more than {most:,} pairs are at least {floor:g} similar: "
            "take a smaller sample or a higher floor"
        )
