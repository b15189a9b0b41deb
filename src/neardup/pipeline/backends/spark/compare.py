"""Compare pairs of candidates: the sets are shuffled to the task that compares them.

A pair of documents u < v is one number, v << 32 | u << 1 | hot, as in `kernels/rounds.py`. One task
compares consecutive candidates, with ranges chosen by the bytes of their sets: ranks may go by
length, and ranges of equally many candidates would be of very unequal sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from neardup.errors import FormatError
from neardup.options import Options
from neardup.pipeline.backends.spark.arrow import (
    Batches,
    cogroup_in_arrow,
    make_batch,
    read_numbers,
    read_rows,
    run_in_arrow,
)
from neardup.pipeline.sorting import PAIRS_AT_ONCE, split_pairs
from neardup.sketch.bulk import packed_shape
from neardup.text.arrays import Ragged
from neardup.verify import Comparison

SLICES = 1 << 12
"""Slices of candidates whose bytes are counted; inside a slice, sets count as equally large."""


@dataclass(frozen=True)
class CandidateRanges:
    """Ranges of candidates, cut by the bytes of their sets.

    edges   the first candidate of each slice, then the number of candidates
    before  the bytes of the sets before each of these
    each    bytes of sets in a range
    """

    edges: NDArray[np.int64]
    before: NDArray[np.int64]
    each: int

    @classmethod
    def of(cls, sets: DataFrame, count: int, most: int, tasks: int) -> CandidateRanges:
        """Cut `count` candidates into at least `tasks` ranges of at most `most` bytes."""
        width = max(-(-count // SLICES), 1)
        edges = np.append(np.arange(0, count, width), count)
        sizes = np.zeros(len(edges) - 1, np.int64)
        by = sets.groupBy(sql.floor(sql.col("doc") / sql.lit(width)).alias("slice"))
        for row in by.agg(sql.sum("size").alias("bytes")).collect():
            sizes[row["slice"]] = row["bytes"]
        before = np.append(0, np.cumsum(sizes))
        return cls(edges, before, max(min(most, int(before[-1]) // tasks), 1))

    @property
    def count(self) -> int:
        """The number of candidates."""
        return int(self.edges[-1])

    @property
    def bytes(self) -> int:
        """The bytes of all sets."""
        return int(self.before[-1])

    @property
    def number(self) -> int:
        """The number of ranges."""
        return max(-(-self.bytes // self.each), 1)

    @property
    def width(self) -> int:
        """The average number of candidates in a range."""
        return max(-(-self.count // self.number), 1)

    def starts(self, pairs: float) -> NDArray[np.int64]:
        """Return where ranges begin if each candidate's pairs also fill this part of a range."""
        load = self.before / self.each + self.edges * pairs
        cuts = np.interp(np.arange(1, np.ceil(load[-1])), load, self.edges)
        return np.unique(np.append(0, cuts.astype(np.int64)))


Verifier = Comparison


def left_document(pair: str = "pair") -> Column:
    """Return the better-ranked document of a pair."""
    return sql.shiftright(sql.col(pair).bitwiseAND(0xFFFFFFFF), 1).cast("int")


def right_document(pair: str = "pair") -> Column:
    """Return the worse-ranked document of a pair."""
    return sql.shiftright(pair, 32).cast("int")


def make_verifier(rows: Ragged, options: Options, weights: NDArray[np.uint32] | None) -> Verifier:
    """Return the comparison of candidates by these rows: their shingles, or their signatures."""
    if options.verify == "exact":
        return options.exact(rows.data, rows.offsets, weights)
    return options.estimated(rows.data.reshape(-1, packed_shape(options.spec)[0]))


def read_sets(table: pa.Table, options: Options) -> tuple[NDArray[np.int64], Ragged]:
    """Return the documents of a table in ascending order, and their sets."""
    dtype = np.uint64 if options.verify == "exact" else packed_shape(options.spec)[1]
    docs, ends = [np.empty(0, np.int64)], [np.zeros(1, np.int64)]
    parts: list[NDArray[Any]] = [np.empty(0, dtype)]
    for batch in table.to_batches():
        if len(batch):
            rows = read_rows(batch.column("data"), dtype)
            docs.append(read_numbers(batch, "doc"))
            parts.append(rows.data)
            ends.append(rows.offsets[1:] + ends[-1][-1])
    every, whole = np.concatenate(docs), Ragged(np.concatenate(parts), np.concatenate(ends))
    order = np.argsort(every)
    return every[order], whole.take(order)


@dataclass(frozen=True)
class ComparePairs:
    """In a task: compare pairs by the sets of their documents."""

    options: Options
    weights: NDArray[np.uint32] | None = None
    least: float | None = None

    def __call__(self, pairs: pa.Table, sets: pa.Table) -> pa.Table:
        docs, rows = read_sets(sets, self.options)
        pair = pairs.column("pair").to_numpy()
        u, v = split_pairs(pair.view(np.uint64))
        judge = make_verifier(rows, self.options, self.weights)
        similarity = judge.pairs(_find_places(docs, u), _find_places(docs, v), self.least)
        return pa.Table.from_batches([make_batch(pair=pair, similarity=similarity)])


def _find_places(docs: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of the wanted documents in `docs`; raise FormatError if one is missing."""
    places = np.searchsorted(docs, wanted)
    if len(wanted) and (not len(docs) or (docs[places.clip(max=len(docs) - 1)] != wanted).any()):
        raise FormatError("a candidate has no set: run again with another output")
    return places


@dataclass(frozen=True)
class PairGroups:
    """Groups of pairs that one task compares: their documents v are in a range, their u in a class.

    starts    where ranges begin
    split_by  the number of classes
    """

    starts: NDArray[np.int64]
    split_by: int

    @classmethod
    def of(cls, ranges: CandidateRanges, pairs: int) -> PairGroups:
        """Choose the groups for this many pairs.

        Classes are made so that a group has about as many documents u as v. Ranges end before they
        have too many pairs: leaders are few, and each may be in many pairs.
        """
        split_by = max(min(pairs // max(2 * ranges.count, 1), ranges.number), 1)
        filled = pairs / (max(ranges.count, 1) * split_by * PAIRS_AT_ONCE)
        return cls(ranges.starts(filled), split_by)

    def group(self, u: NDArray[np.int64], v: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each pair's group."""
        range_of: NDArray[np.int64] = np.searchsorted(self.starts, v, side="right") - 1
        return range_of * self.split_by + u % self.split_by


@dataclass(frozen=True)
class AssignGroups:
    """In a task: add its group to each pair."""

    groups: PairGroups

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            pair = read_numbers(batch, "pair")
            yield make_batch(p=self.groups.group(*split_pairs(pair.view(np.uint64))), pair=pair)


@dataclass(frozen=True)
class ListNeeded:
    """In a task: list the documents that each group of pairs needs."""

    groups: PairGroups

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            u, v = split_pairs(read_numbers(batch, "pair").view(np.uint64))
            group = self.groups.group(u, v)
            needed = np.unique(np.concatenate([group << 32 | u, group << 32 | v]))
            yield make_batch(q=needed >> 32, doc=(needed & 0xFFFFFFFF).astype(np.int32))


def compare_pairs(
    pairs: DataFrame, count: int, sets: DataFrame, compare: ComparePairs, ranges: CandidateRanges
) -> DataFrame:
    """Return the similarity of `count` pairs, -1.0 where it is too low: (pair, similarity).

    A set moves once to each group that needs it, however many pairs it is in: a document that
    leads a hot bucket is no heavier than others.
    """
    groups = PairGroups.of(ranges, count)
    grouped = run_in_arrow(pairs, AssignGroups(groups), "p long, pair long")
    needed = run_in_arrow(pairs, ListNeeded(groups), "q long, doc int").distinct()
    needed_sets = needed.join(sets, "doc").select("q", "doc", "data")
    return cogroup_in_arrow(
        (grouped, "p"), (needed_sets, "q"), compare, "pair long, similarity double"
    )
