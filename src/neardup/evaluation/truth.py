"""The ground truth: all pairs of documents whose exact similarity reaches a floor.

Two algorithms find the same pairs without comparing every pair. Counting keeps a counter for every
other set and walks through the lists of a set's shingles; shingles of many sets are bits instead.
Matching uses that a very similar pair must share one of its rarest shingles, and compares only such
pairs. The one with fewer expected steps is used.
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
"""A shingle of more than one in DENSE sets is stored as a bit: counting would cost more."""
MATCHING = 30
"""The cost of comparing two sets, in steps of counting."""
PAIRS_AT_ONCE = 1 << 22
ROWS_AT_ONCE = 1 << 14
SAMPLE_SECONDS = 0.2
SAMPLE_ROWS = 16
GUESSED_ROWS = 1_000
AT_MOST = 1 << 28


@dataclass(frozen=True)
class TokenSets:
    """Distinct sets, in order of their sizes, as rows of tokens, the rarest first.

    begins    where each row begins in `tokens`
    ends      where it ends
    order     the number of each row's set among all sets
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
        """Number the shingles of these rows, which are distinct and not empty, by their rarity."""
        tokens, counts = kernels.number_shingles(sets.data, sets.offsets, rows)
        ranks = kernels.rank_counts(counts)
        sizes = sets.sizes[rows]
        ends = np.cumsum(sizes)
        begins = ends - sizes

        def rank(start: int) -> None:
            batch = slice(start, start + ROWS_AT_ONCE)
            kernels.rank_rows(tokens, begins[batch], ends[batch], ranks)

        for _ in map_in_order(range(0, len(rows), ROWS_AT_ONCE), rank, workers):
            pass
        order = np.argsort(sizes, kind="stable")
        # One less than needed, so that rounding drops no row; the kernels decide.
        firsts = np.searchsorted(sizes[order], np.floor(floor * sizes[order]) - 1)
        return cls(tokens, begins[order], ends[order], order, firsts, np.sort(counts))

    @property
    def rows(self) -> tuple[Tokens, Integers, Integers]:
        """The arguments of the kernels."""
        return self.tokens, self.begins, self.ends

    @property
    def rare(self) -> int:
        """Tokens below this number are counted; the others are bits."""
        return int(np.searchsorted(self.counts, max(len(self) // DENSE, 1), side="right"))

    @property
    def sizes(self) -> Integers:
        return self.ends - self.begins

    def __len__(self) -> int:
        return len(self.order)


@dataclass(frozen=True)
class SetJoin:
    """An index of sets that finds their similar pairs.

    takes     the number of first tokens of each row that are looked up
    listed    the rows of each token
    starts    where the rows of each token begin in `listed`
    bits      the tokens that are not looked up, as bits, for counting; None for matching
    """

    sets: TokenSets
    floor: float
    takes: Integers
    listed: Tokens
    starts: Integers
    bits: NDArray[np.uint64] | None

    @classmethod
    def of(cls, sets: TokenSets, floor: float) -> SetJoin:
        """Build the index for the algorithm with fewer expected steps."""
        counting = counting_steps(sets) <= matching_steps(sets, floor)
        return cls.counting(sets, floor) if counting else cls.matching(sets, floor)

    @classmethod
    def counting(cls, sets: TokenSets, floor: float) -> SetJoin:
        """Build the index for counting shared tokens."""
        takes = kernels.tokens_below(*sets.rows, sets.rare)
        listed, starts = kernels.index_rows(sets.tokens, sets.begins, takes, len(sets.counts))
        bits = kernels.token_bits(*sets.rows, takes, len(sets.counts))
        return cls(sets, floor, takes, listed, starts, bits)

    @classmethod
    def matching(cls, sets: TokenSets, floor: float) -> SetJoin:
        """Build the index for matching: pairs that share a rarest token are compared."""
        looked_up, in_index = kernels.prefixes(sets.sizes, floor)
        listed, starts = kernels.index_rows(sets.tokens, sets.begins, in_index, len(sets.counts))
        return cls(sets, floor, looked_up, listed, starts, None)

    def rows(self, wanted: Integers, held: Integers, most: int) -> Pairs:
        """Return the pairs of the wanted rows with earlier rows: (row, row, similarity).

        `held` counts the pairs of all threads; the search ends beyond `most`.
        """
        sets = self.sets
        index = (*sets.rows, self.takes, self.listed, self.starts)
        limits = (sets.firsts, self.floor, wanted, held, most)
        pairs: Pairs = (
            kernels.match_rows(*index, *limits)
            if self.bits is None
            else kernels.count_rows(*index, self.bits, *limits)
        )
        return pairs

    def blocks(self, workers: int, most: int) -> Iterator[tuple[int, Pairs]]:
        """Yield the number of settled pairs, and the similar ones, block by block.

        It ends early when there are more than `most` pairs.
        """
        size, held = len(self.sets), np.zeros(1, np.int64)
        by_matching = max(ROWS_AT_ONCE, size // 64)  # each has a mark for every row
        step = by_matching if self.bits is None else max(PAIRS_AT_ONCE // max(size, 1), 1)
        work = (np.arange(a, min(a + step, size)) for a in range(0, size, step))
        for wanted, found in map_in_order(work, lambda rows: self.rows(rows, held, most), workers):
            yield int(wanted.sum()), found

    def seconds(self, workers: int) -> float:
        """Estimate the seconds of all blocks from rows evenly spread over all sizes."""
        size, rows = len(self.sets), SAMPLE_ROWS
        # First no row, so that loading or compiling the kernel is not part of the time.
        self.rows(np.empty(0, np.int64), np.zeros(1, np.int64), AT_MOST)
        while True:
            wanted = np.arange(0, size, max(size // rows, 1))
            begun = time.perf_counter()
            self.rows(wanted, np.zeros(1, np.int64), AT_MOST)
            took = time.perf_counter() - begun
            if took > SAMPLE_SECONDS or len(wanted) == size:
                return took * size / max(len(wanted), 1) / workers
            rows *= 4


def counting_steps(sets: TokenSets) -> float:
    """Estimate the steps of counting: lists of rare tokens, and bits of each pair."""
    lists = sets.counts[: sets.rare].astype(np.float64)
    pairs = float((np.arange(len(sets)) - sets.firsts).sum())
    words = (len(sets.counts) - sets.rare) / 64
    return float((lists * (lists - 1) / 2).sum()) + pairs * (1 + words / 4)


def matching_steps(sets: TokenSets, floor: float) -> float:
    """Estimate the steps of matching from a part of the rows: each list entry is a pair."""
    looked_up, _ = kernels.prefixes(sets.sizes, floor)
    rows = np.arange(0, len(sets), max(len(sets) // GUESSED_ROWS, 1))
    met = 0.0
    for row in rows.tolist():
        begin = sets.begins[row]
        met += float(sets.counts[sets.tokens[begin : begin + looked_up[row]]].sum()) / 2
    return met * len(sets) / max(len(rows), 1) * MATCHING


BINS = 100
MOST_PAIRS = 50_000_000
"""The most pairs: more would take over four GB."""


@dataclass(frozen=True)
class Truth:
    """All pairs a < b that are at least `floor` similar, sorted by a, then b.

    Attributes:
        documents: The number of documents.
        floor: The least similarity of a pair.
        a: The first document of each pair.
        b: The second document of each pair.
        similarity: The exact similarity of each pair.
    """

    documents: int
    floor: float
    a: Integers
    b: Integers
    similarity: NDArray[np.float64]

    def of(self, a: Integers, b: Integers) -> NDArray[np.float64]:
        """Return the exact similarity of pairs; 0.0 below the floor."""
        if not len(self.a):
            return np.zeros(len(a))
        codes, wanted = self.a * self.documents + self.b, a * self.documents + b
        place = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        exact: NDArray[np.float64] = np.where(codes[place] == wanted, self.similarity[place], 0.0)
        return exact

    def similar(self, threshold: float) -> int:
        """Return the number of pairs that reach a threshold."""
        return int(np.count_nonzero(self.similarity >= threshold))

    def histogram(self) -> Integers:
        """Return the number of pairs in each of 100 bins of width 0.01; the last includes 1.0.

        The bins below the floor are empty, because the truth has no such pairs.
        """
        edges = np.arange(1, BINS) / BINS
        return np.bincount(np.searchsorted(edges, self.similarity, side="right"), minlength=BINS)


@dataclass(frozen=True)
class SetTruth:
    """The truth about distinct sets instead of documents: ten thousand copies are one set.

    truth     pairs of sets, by their numbers
    number    the set of each document; -1 if it is empty
    copies    the number of documents of each set
    """

    truth: Truth
    number: Integers
    copies: Integers

    def similar(self, threshold: float) -> int:
        """Return the number of pairs of documents that reach a threshold, copies included."""
        good = self.truth.similarity >= threshold
        apart = self.copies[self.truth.a[good]] * self.copies[self.truth.b[good]]
        return int(apart.sum() + (self.copies * (self.copies - 1) // 2).sum())

    def of_documents(self, most: int = MOST_PAIRS) -> Truth:
        """Return the pairs of documents; more than `most` are an error."""
        _refuse_more(self.similar(self.truth.floor), most, self.truth.floor)
        sets = np.arange(len(self.copies))[self.copies > 1]
        left, right = np.concatenate([sets, self.truth.a]), np.concatenate([sets, self.truth.b])
        similarity = np.concatenate([np.ones(len(sets)), self.truth.similarity])
        members = np.argsort(self.number, kind="stable")[np.count_nonzero(self.number < 0) :]
        ends = np.concatenate([[0], np.cumsum(self.copies)])
        a, b, found, _ = kernels.spread_pairs(left, right, similarity, members, ends, 0, most)
        return _sorted(len(self.number), self.truth.floor, (a, b, found))


def brute_force(
    sets: Ragged,
    floor: float,
    workers: int,
    progress: Progress = SILENT,
    most: int = MOST_PAIRS,
) -> Truth:
    """Return all similar pairs of documents.

    An empty document is similar to no other.

    Args:
        sets: A sorted set of shingles for each document.
        floor: The least similarity, above 0.
        workers: Threads.
        progress: Receives the settled pairs.
        most: More pairs are an error.
    """
    return similar_sets(sets, floor, workers, progress, most).of_documents(most)


def similar_sets(
    sets: Ragged,
    floor: float,
    workers: int,
    progress: Progress = SILENT,
    most: int = MOST_PAIRS,
) -> SetTruth:
    """Return all similar pairs of distinct sets, for corpora with very many copies."""
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
    """Estimate the seconds of `brute_force`, in a small part of that time."""
    # First without sets, so that compiling is not part of the time.
    _prepared(Ragged(sets.data, sets.offsets[:1]), floor, workers)
    begun = time.perf_counter()
    _, _, join = _prepared(sets, floor, workers)
    return time.perf_counter() - begun + join.seconds(workers)


def _prepared(sets: Ragged, floor: float, workers: int) -> tuple[Integers, Integers, SetJoin]:
    """Return the number of each document's set, a document of each set, and the index."""
    if not 0.0 < floor <= 1.0:
        raise ParameterError(f"floor {floor} is not above 0 and at most 1: all pairs reach 0")
    hashes = kernels.hash_rows(sets.data.view(np.uint8), sets.offsets * 8, np.uint64(0))
    order = np.argsort(hashes, kind="stable")
    first = kernels.first_equal(sets.data, sets.offsets, hashes, order)
    rows = np.flatnonzero((first == np.arange(len(first))) & (sets.sizes > 0))
    number = np.where(sets.sizes > 0, np.searchsorted(rows, first), -1)
    return number, rows, SetJoin.of(TokenSets.of(sets, rows, floor, workers), floor)


def _sorted(documents: int, floor: float, pairs: Pairs) -> Truth:
    """Return the truth with its pairs in order."""
    left, right, similarity = pairs
    a, b = np.minimum(left, right), np.maximum(left, right)
    order = np.argsort(a * documents + b)
    return Truth(documents, floor, a[order], b[order], similarity[order])


def _refuse_more(pairs: int, most: int, floor: float) -> None:
    """Raise an error if there are too many pairs."""
    if pairs > most:
        raise ParameterError(
            f"more than {most:,} pairs are at least {floor:g} similar: "
            "take a smaller sample or a higher floor"
        )
