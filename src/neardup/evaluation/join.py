"""All pairs of sets that are at least so similar: exact, and without comparing every pair.

Two ways lead to the same pairs. By counting: for each set, a counter for every other one, and the
lists of its shingles are gone through; shingles in many sets are bits instead. By rare shingles:
a pair that is very similar must share one of its rarest, so only such pairs are compared.
Whichever has less to do is taken.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.runtime import map_in_order
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
class Sets:
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
    def of(cls, sets: Ragged, rows: Integers, floor: float, workers: int) -> Sets:
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
class Join:
    """An index of sets, ready to give their pairs.

    takes     how many first tokens of each row are looked up
    listed    the rows that have each token, and `starts` where each token's begin
    bits      of the tokens that are not looked up, when counting; None by rare tokens
    """

    sets: Sets
    floor: float
    takes: Integers
    listed: Tokens
    starts: Integers
    bits: NDArray[np.uint64] | None

    @classmethod
    def of(cls, sets: Sets, floor: float) -> Join:
        """By the way that has less to do."""
        counting = counting_steps(sets) <= matching_steps(sets, floor)
        return cls.counting(sets, floor) if counting else cls.matching(sets, floor)

    @classmethod
    def counting(cls, sets: Sets, floor: float) -> Join:
        """All pairs, by counting what they share."""
        takes = kernels.tokens_below(*sets.rows, sets.rare)
        listed, starts = kernels.index_rows(sets.tokens, sets.begins, takes, len(sets.counts))
        bits = kernels.token_bits(*sets.rows, takes, len(sets.counts))
        return cls(sets, floor, takes, listed, starts, bits)

    @classmethod
    def matching(cls, sets: Sets, floor: float) -> Join:
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


def counting_steps(sets: Sets) -> float:
    """The lists of rare tokens, a look at each pair, and at its words of bits."""
    lists = sets.counts[: sets.rare].astype(np.float64)
    pairs = float((np.arange(len(sets)) - sets.firsts).sum())
    words = (len(sets.counts) - sets.rare) / 64
    return float((lists * (lists - 1) / 2).sum()) + pairs * (1 + words / 4)


def matching_steps(sets: Sets, floor: float) -> float:
    """Each entry of a list that is looked up is a pair; guessed from some rows."""
    looked_up, _ = kernels.prefixes(sets.sizes, floor)
    some = np.arange(0, len(sets), max(len(sets) // GUESSED_ROWS, 1))
    met = 0.0
    for row in some.tolist():
        begin = sets.begins[row]
        met += float(sets.counts[sets.tokens[begin : begin + looked_up[row]]].sum()) / 2
    return met * len(sets) / max(len(some), 1) * MATCHING
