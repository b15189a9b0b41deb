"""The ground truth: all pairs of documents that are at least so similar, exactly.

Two algorithms lead to the same pairs, without comparing every pair. Counting: a counter for every
other set, and a walk through the lists of a set's shingles; shingles in many sets are bits instead.
Matching: a very similar pair must share one of its rarest shingles, so only such pairs are
compared. The one with fewer steps is taken.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError
from neardup.runtime import SILENT, Progress, map_in_order
from neardup.text.arrays import Ragged

Integers = NDArray[np.int64]
Tokens = NDArray[np.uint32]
Pairs = tuple[Integers, Integers, NDArray[np.float64]]

DENSE = 16
"""A shingle that more than one in so many sets has is a bit: counting would cost more."""
MATCHING = 30
"""How many steps of counting the comparison of two sets costs, about."""
PAIRS_AT_ONCE = 1 << 22
ROWS_AT_ONCE = 1 << 14
SAMPLE_SECONDS = 0.2
SAMPLE_ROWS = 16
GUESSED_ROWS = 1_000
AT_MOST = 1 << 28


@dataclass(frozen=True)
class TokenSets:
    """Different sets, in order of their sizes, as sorted rows of tokens: the rarest first.

    begins    where each row begins in `tokens`, and `ends` where it ends
    order     the number that each row's set has elsewhere
    firsts    the first row that is large enough to be similar to each row
    counts    how many sets have each token
    """

    tokens: Tokens
    begins: Integers
    ends: Integers
    order: Integers
    firsts: Integers
    counts: Integers

    @classmethod
    def of(cls, sets: Ragged, rows: Integers, floor: float, workers: int) -> TokenSets:
        """Of some rows, which are different and not empty."""
        tokens, counts = kernels.number_shingles(sets.data, sets.offsets, rows)
        ranks = kernels.rank_counts(counts)
        sizes = sets.sizes[rows]
        ends = np.cumsum(sizes)
        begins = ends - sizes

        def rank(start: int) -> None:
            some = slice(start, start + ROWS_AT_ONCE)
            kernels.rank_rows(tokens, begins[some], ends[some], ranks)

        for _ in map_in_order(range(0, len(rows), ROWS_AT_ONCE), rank, workers):
            pass
        order = np.argsort(sizes, kind="stable")
        # One less than needed: rounding can't leave out a row, and the kernels decide.
        firsts = np.searchsorted(sizes[order], np.floor(floor * sizes[order]) - 1)
        return cls(tokens, begins[order], ends[order], order, firsts, np.sort(counts))

    @property
    def rows(self) -> tuple[Tokens, Integers, Integers]:
        """As the kernels take them."""
        return self.tokens, self.begins, self.ends

    @property
    def rare(self) -> int:
        """Tokens below this number are counted, the others are bits."""
        return int(np.searchsorted(self.counts, max(len(self) // DENSE, 1), side="right"))

    @property
    def sizes(self) -> Integers:
        return self.ends - self.begins

    def __len__(self) -> int:
        return len(self.order)


@dataclass(frozen=True)
class SetJoin:
    """An index of sets, ready to give their pairs.

    takes     how many first tokens of each row are looked up
    listed    the rows that have each token, and `starts` where each token's begin
    bits      of the tokens that are not looked up, when counting; None by rare tokens
    """

    sets: TokenSets
    floor: float
    takes: Integers
    listed: Tokens
    starts: Integers
    bits: NDArray[np.uint64] | None

    @classmethod
    def of(cls, sets: TokenSets, floor: float) -> SetJoin:
        """By the way that has less to do."""
        counting = counting_steps(sets) <= matching_steps(sets, floor)
        return cls.counting(sets, floor) if counting else cls.matching(sets, floor)

    @classmethod
    def counting(cls, sets: TokenSets, floor: float) -> SetJoin:
        """All pairs, by counting what they share."""
        takes = kernels.tokens_below(*sets.rows, sets.rare)
        listed, starts = kernels.index_rows(sets.tokens, sets.begins, takes, len(sets.counts))
        bits = kernels.token_bits(*sets.rows, takes, len(sets.counts))
        return cls(sets, floor, takes, listed, starts, bits)

    @classmethod
    def matching(cls, sets: TokenSets, floor: float) -> SetJoin:
        """The pairs that share one of their rarest tokens, by comparing them."""
        looked_up, in_index = kernels.prefixes(sets.sizes, floor)
        listed, starts = kernels.index_rows(sets.tokens, sets.begins, in_index, len(sets.counts))
        return cls(sets, floor, looked_up, listed, starts, None)

    def rows(self, wanted: Integers, held: Integers, most: int) -> Pairs:
        """The pairs of some rows with those before them: (row, row, similarity).

        `held` is how many all threads have found: with more than `most`, it ends.
        """
        sets = self.sets
        index = (*sets.rows, self.takes, self.listed, self.starts)
        limits = (sets.firsts, self.floor, wanted, held, most)
        found: Pairs = (
            kernels.match_rows(*index, *limits)
            if self.bits is None
            else kernels.count_rows(*index, self.bits, *limits)
        )
        return found

    def blocks(self, workers: int, most: int) -> Iterator[tuple[int, Pairs]]:
        """How many pairs of rows were settled, and those that are similar, block by block.

        All of them, or more than `most`.
        """
        size, held = len(self.sets), np.zeros(1, np.int64)
        by_matching = max(ROWS_AT_ONCE, size // 64)  # each has a mark for every row
        step = by_matching if self.bits is None else max(PAIRS_AT_ONCE // max(size, 1), 1)
        work = (np.arange(a, min(a + step, size)) for a in range(0, size, step))
        for wanted, found in map_in_order(work, lambda rows: self.rows(rows, held, most), workers):
            yield int(wanted.sum()), found

    def seconds(self, workers: int) -> float:
        """How long all blocks will take: by the time of some rows, evenly spread over all sizes."""
        size, many = len(self.sets), SAMPLE_ROWS
        while True:
            wanted = np.arange(0, size, max(size // many, 1))
            begun = time.perf_counter()
            self.rows(wanted, np.zeros(1, np.int64), AT_MOST)
            took = time.perf_counter() - begun
            if took > SAMPLE_SECONDS or len(wanted) == size:
                return took * size / max(len(wanted), 1) / workers
            many *= 4


def counting_steps(sets: TokenSets) -> float:
    """The lists of rare tokens, a look at each pair, and at its words of bits."""
    lists = sets.counts[: sets.rare].astype(np.float64)
    pairs = float((np.arange(len(sets)) - sets.firsts).sum())
    words = (len(sets.counts) - sets.rare) / 64
    return float((lists * (lists - 1) / 2).sum()) + pairs * (1 + words / 4)


def matching_steps(sets: TokenSets, floor: float) -> float:
    """Each entry of a list that is looked up is a pair; guessed from some rows."""
    looked_up, _ = kernels.prefixes(sets.sizes, floor)
    some = np.arange(0, len(sets), max(len(sets) // GUESSED_ROWS, 1))
    met = 0.0
    for row in some.tolist():
        begin = sets.begins[row]
        met += float(sets.counts[sets.tokens[begin : begin + looked_up[row]]].sum()) / 2
    return met * len(sets) / max(len(some), 1) * MATCHING


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


def _prepared(sets: Ragged, floor: float, workers: int) -> tuple[Integers, Integers, SetJoin]:
    """The number of each document's set, a document of each set, and the index of the sets."""
    if not 0.0 < floor <= 1.0:
        raise ParameterError(f"floor {floor} is not above 0 and at most 1: all pairs reach 0")
    hashes = kernels.hash_rows(sets.data.view(np.uint8), sets.offsets * 8, np.uint64(0))
    order = np.argsort(hashes, kind="stable")
    first = kernels.first_equal(sets.data, sets.offsets, hashes, order)
    rows = np.flatnonzero((first == np.arange(len(first))) & (sets.sizes > 0))
    number = np.where(sets.sizes > 0, np.searchsorted(rows, first), -1)
    return number, rows, SetJoin.of(TokenSets.of(sets, rows, floor, workers), floor)


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
