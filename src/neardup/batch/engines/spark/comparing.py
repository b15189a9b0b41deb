"""How similar are pairs of candidates? Their sets come to the task that compares them.

A pair of documents u < v is one number, v << 32 | u << 1 | hot, as in `kernels/rounds.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from neardup.batch.engines.spark.tables import batch_of, cogrouped_in_arrow, flat, numbers
from neardup.batch.rounds import PAIRS_AT_ONCE, split
from neardup.errors import FormatError
from neardup.options import Options
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


def compared(
    pairs: DataFrame, count: int, sets: DataFrame, compare: Compare, documents: int, width: int
) -> DataFrame:
    """The similarity of `count` pairs, -1.0 where it is too low: (pair, similarity).

    They are compared in groups of consecutive documents v, at most `width`, which may be cut by u
    so that there are no more of these. A set moves once to each group that needs it, however many
    pairs it is in: a document that leads a hot bucket is no heavier than others. Where there are
    many pairs, groups have fewer documents v, because leaders are few.
    """
    split_by = max(min(count // max(2 * documents, 1), -(-documents // width)), 1)
    width = max(min(width, documents * split_by * PAIRS_AT_ONCE // max(count, 1)), 1)
    group = sql.floor(right() / sql.lit(width)) * sql.lit(split_by) + left() % sql.lit(split_by)
    grouped = pairs.select(group.cast("long").alias("p"), "pair")
    needs = grouped.select("p", left().alias("doc")).union(
        grouped.select("p", right().alias("doc"))
    )
    there = needs.distinct().join(sets, "doc")
    there = there.select(sql.col("p").alias("q"), "doc", "data")  # or p would be ambiguous
    return cogrouped_in_arrow((grouped, "p"), (there, "q"), compare, "pair long, similarity double")
