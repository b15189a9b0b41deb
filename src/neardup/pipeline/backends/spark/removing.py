"""What is removed, by numbers and names instead of ranks: few of them on the driver.

A query costs Spark half a second, however little it moves; what is little is joined by NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup.formats.tables import column
from neardup.pipeline.backends.spark.bits import Bits
from neardup.pipeline.backends.spark.pipeline import Decided
from neardup.pipeline.backends.spark.sketching import Read
from neardup.pipeline.backends.spark.tables import Batches, numbers, run_in_arrow

Integers = NDArray[np.int64]


def by_number(
    decided: Decided, documents: DataFrame, read: Read, nameless: bool
) -> DataFrame | pa.Table:
    """(number, id, witness, witness_id, similarity, exact) of new documents.

    `nameless`: documents have no id, and their ranks are their numbers.
    """
    if decided.few is not None:
        return _held(decided, decided.few, documents, read, nameless)
    removed = decided.removed.where(sql.col("rank") >= read.new)  # earlier ones come first
    if nameless:
        none = sql.lit(None).cast("string")
        return removed.select(
            sql.col("rank").alias("number"),
            none.alias("id"),
            "witness",
            none.alias("witness_id"),
            "similarity",
            "exact",
        )
    named = documents.select("rank", "number", "id")
    by = named.select(
        sql.col("rank").alias("witness"),
        sql.col("number").alias("by"),
        sql.col("id").alias("witness_id"),
    )
    return (
        removed.join(named, "rank")
        .join(by, "witness")
        .select("number", "id", sql.col("by").alias("witness"), "witness_id", "similarity", "exact")
    )


def _held(
    decided: Decided, near: pa.Table, documents: DataFrame, read: Read, nameless: bool
) -> pa.Table:
    """The same on the driver, where nothing is of an earlier corpus."""
    rank, witness, similarity, exact = _removed(decided, near)
    if nameless:
        none = pa.nulls(len(rank), pa.string())
        number, by, id, witness_id = rank, witness, none, none
    else:
        wanted = Bits.of(np.concatenate([rank, witness]), read.count)
        names = _names(documents, wanted)
        ranks = numbers(names, "rank")
        at, of_witness = (np.searchsorted(ranks, some) for some in (rank, witness))
        known, ids = numbers(names, "number"), names.column("id")
        number, by = known[at], known[of_witness]
        id, witness_id = ids.take(column(at)), ids.take(column(of_witness))
    return pa.table(
        {
            "number": number,
            "id": id,
            "witness": by,
            "witness_id": witness_id,
            "similarity": similarity,
            "exact": exact,
        }
    )


def _removed(
    decided: Decided, near: pa.Table
) -> tuple[Integers, Integers, NDArray[np.float64], NDArray[np.bool_]]:
    """Rank, witness, similarity, exact: as `verdicts.removed` joins them."""
    candidates = decided.candidates.value.numbers
    near = near.sort_by("doc")
    judged, theirs = candidates(numbers(near, "doc")), candidates(numbers(near, "witness"))
    similarity = near.column("similarity").to_numpy()
    twins = decided.copies.toArrow()
    leader, rank = numbers(twins, "leader"), numbers(twins, "rank")
    gone = np.isin(leader, judged)
    at = np.searchsorted(judged, leader[gone])
    witness, alike, exact = leader, np.ones(len(leader)), np.ones(len(leader), bool)
    witness[gone], alike[gone], exact[gone] = theirs[at], similarity[at], decided.exact
    return (
        np.concatenate([judged, rank]),
        np.concatenate([theirs, witness]),
        np.concatenate([similarity, alike]),
        np.concatenate([np.full(len(judged), decided.exact), exact]),
    )


def _names(documents: DataFrame, wanted: Bits) -> pa.Table:
    """(rank, number, id) of some documents, in order."""
    named = documents.select("rank", "number", "id")
    asked = Asked(documents.sparkSession.sparkContext.broadcast(wanted))
    return run_in_arrow(named, asked, named.schema).toArrow().combine_chunks().sort_by("rank")


@dataclass(frozen=True)
class Asked:
    """In a task: the documents whose ranks are in a set."""

    wanted: Broadcast[Bits]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(column(self.wanted.value.has(numbers(batch, "rank"))))
