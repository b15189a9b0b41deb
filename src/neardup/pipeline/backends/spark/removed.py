"""Name the removed documents: input numbers and ids instead of ranks.

A query costs Spark half a second, however little it moves; small results are joined on the driver
with NumPy.
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

from neardup.formats.tables import to_arrow
from neardup.pipeline.backends.spark.arrow import Batches, read_numbers, run_in_arrow
from neardup.pipeline.backends.spark.bitmap import Bitmap
from neardup.pipeline.backends.spark.decide import SparkDecision
from neardup.pipeline.backends.spark.sketch import SketchedFiles

Integers = NDArray[np.int64]


def name_removed(
    decided: SparkDecision, documents: DataFrame, read: SketchedFiles, nameless: bool
) -> DataFrame | pa.Table:
    """(number, id, witness, witness_id, similarity, exact) of new documents.

    `nameless`: documents have no id, and their ranks are their numbers.
    """
    if decided.few is not None:
        return _name_on_driver(decided, decided.few, documents, read, nameless)
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


def _name_on_driver(
    decided: SparkDecision,
    near: pa.Table,
    documents: DataFrame,
    read: SketchedFiles,
    nameless: bool,
) -> pa.Table:
    """The same on the driver, where nothing is of an earlier corpus."""
    rank, witness, similarity, exact = _join_copies(decided, near)
    if nameless:
        none = pa.nulls(len(rank), pa.string())
        number, by, id, witness_id = rank, witness, none, none
    else:
        wanted = Bitmap.of(np.concatenate([rank, witness]), read.count)
        names = _read_names(documents, wanted)
        ranks = read_numbers(names, "rank")
        at, of_witness = (np.searchsorted(ranks, some) for some in (rank, witness))
        known, ids = read_numbers(names, "number"), names.column("id")
        number, by = known[at], known[of_witness]
        id, witness_id = ids.take(to_arrow(at)), ids.take(to_arrow(of_witness))
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


def _join_copies(
    decided: SparkDecision, near: pa.Table
) -> tuple[Integers, Integers, NDArray[np.float64], NDArray[np.bool_]]:
    """Rank, witness, similarity, exact: as `verdicts.removed` joins them."""
    candidates = decided.candidates.value.numbers
    near = near.sort_by("doc")
    judged, theirs = (
        candidates(read_numbers(near, "doc")),
        candidates(read_numbers(near, "witness")),
    )
    similarity = near.column("similarity").to_numpy()
    twins = decided.copies.toArrow()
    leader, rank = read_numbers(twins, "leader"), read_numbers(twins, "rank")
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


def _read_names(documents: DataFrame, wanted: Bitmap) -> pa.Table:
    """(rank, number, id) of some documents, in order."""
    named = documents.select("rank", "number", "id")
    asked = SelectRanks(documents.sparkSession.sparkContext.broadcast(wanted))
    return run_in_arrow(named, asked, named.schema).toArrow().combine_chunks().sort_by("rank")


@dataclass(frozen=True)
class SelectRanks:
    """In a task: the documents whose ranks are in a set."""

    wanted: Broadcast[Bitmap]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(to_arrow(self.wanted.value.has(read_numbers(batch, "rank"))))
