"""How similar are pairs of candidates? Their sets come to the task that compares them.

A pair of documents u < v is one number, v << 32 | u << 1 | hot, as in `kernels/rounds.py`.
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
from neardup.pipeline.backends.spark.ranges import Ranges
from neardup.pipeline.backends.spark.tables import (
    Batches,
    batch_of,
    cogrouped_in_arrow,
    flat,
    numbers,
    run_in_arrow,
)
from neardup.pipeline.rounds import PAIRS_AT_ONCE, split
from neardup.sketch.bulk import compared_shape
from neardup.text.arrays import Ragged
from neardup.verify import Estimated, Exact, Weighed

Verifier = Exact | Weighed | Estimated


def left(pair: str = "pair") -> Column:
    """The better-ranked document of a pair."""
    return sql.shiftright(sql.col(pair).bitwiseAND(0xFFFFFFFF), 1).cast("int")


def right(pair: str = "pair") -> Column:
    """The other document of a pair."""
    return sql.shiftright(pair, 32).cast("int")


def verifier(rows: Ragged, options: Options, weights: NDArray[np.uint32] | None) -> Verifier:
    """Judges candidates by what is compared of them, a row each."""
    if options.verify == "exact":
        return options.exact(rows.data, rows.offsets, weights)
    return options.estimated(rows.data.reshape(-1, compared_shape(options.spec)[0]))


def held(table: pa.Table, options: Options) -> tuple[NDArray[np.int64], Ragged]:
    """Documents in ascending order, and their sets."""
    dtype = np.uint64 if options.verify == "exact" else compared_shape(options.spec)[1]
    docs, ends = [np.empty(0, np.int64)], [np.zeros(1, np.int64)]
    parts: list[NDArray[Any]] = [np.empty(0, dtype)]
    for batch in table.to_batches():
        if len(batch):
            rows = flat(batch.column("data"), dtype)
            docs.append(numbers(batch, "doc"))
            parts.append(rows.data)
            ends.append(rows.offsets[1:] + ends[-1][-1])
    every, whole = np.concatenate(docs), Ragged(np.concatenate(parts), np.concatenate(ends))
    order = np.argsort(every)
    return every[order], whole.take(order)


@dataclass(frozen=True)
class Compare:
    """In a task: pairs and the sets of their documents to similarities."""

    options: Options
    weights: NDArray[np.uint32] | None = None
    least: float | None = None

    def __call__(self, pairs: pa.Table, sets: pa.Table) -> pa.Table:
        docs, rows = held(sets, self.options)
        pair = pairs.column("pair").to_numpy()
        u, v = split(pair.view(np.uint64))
        judge = verifier(rows, self.options, self.weights)
        found = judge.pairs(_places(docs, u), _places(docs, v), self.least)
        return pa.Table.from_batches([batch_of(pair=pair, similarity=found)])


def _places(docs: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the wanted documents are; an error if one is not there."""
    places = np.searchsorted(docs, wanted)
    if len(wanted) and (not len(docs) or (docs[places.clip(max=len(docs) - 1)] != wanted).any()):
        raise FormatError("a candidate has no set: run again with another output")
    return places


@dataclass(frozen=True)
class Groups:
    """Pairs that are compared by one task: their documents v are in a range, their u in a class.

    starts    where ranges begin
    split_by  how many classes there are
    """

    starts: NDArray[np.int64]
    split_by: int

    @classmethod
    def of(cls, ranges: Ranges, pairs: int) -> Groups:
        """There are so many classes that a group has about as many documents u as v, and ranges
        end before they have more than some pairs: because leaders are few, these may be many."""
        split_by = max(min(pairs // max(2 * ranges.count, 1), ranges.number), 1)
        filled = pairs / (max(ranges.count, 1) * split_by * PAIRS_AT_ONCE)
        return cls(ranges.starts(filled), split_by)

    def group(self, u: NDArray[np.int64], v: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of each pair's group."""
        found: NDArray[np.int64] = np.searchsorted(self.starts, v, side="right") - 1
        return found * self.split_by + u % self.split_by


@dataclass(frozen=True)
class Grouped:
    """In a task: pairs with their groups."""

    groups: Groups

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            pair = numbers(batch, "pair")
            yield batch_of(p=self.groups.group(*split(pair.view(np.uint64))), pair=pair)


@dataclass(frozen=True)
class Needed:
    """In a task: which documents the groups of some pairs need."""

    groups: Groups

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            u, v = split(numbers(batch, "pair").view(np.uint64))
            group = self.groups.group(u, v)
            found = np.unique(np.concatenate([group << 32 | u, group << 32 | v]))
            yield batch_of(q=found >> 32, doc=(found & 0xFFFFFFFF).astype(np.int32))


def compared(
    pairs: DataFrame, count: int, sets: DataFrame, compare: Compare, ranges: Ranges
) -> DataFrame:
    """The similarity of `count` pairs, -1.0 where it is too low: (pair, similarity).

    A set moves once to each group that needs it, however many pairs it is in: a document that
    leads a hot bucket is no heavier than others.
    """
    groups = Groups.of(ranges, count)
    grouped = run_in_arrow(pairs, Grouped(groups), "p long, pair long")
    needed = run_in_arrow(pairs, Needed(groups), "q long, doc int").distinct()
    there = needed.join(sets, "doc").select("q", "doc", "data")
    return cogrouped_in_arrow((grouped, "p"), (there, "q"), compare, "pair long, similarity double")
