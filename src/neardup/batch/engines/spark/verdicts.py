"""Every removed document with its witness: those that were decided, and copies of anybody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup.batch.engines.spark.bits import SLICE, Bits
from neardup.batch.engines.spark.tables import Batches, batch_of, numbers, run_in_arrow


def ranks_of(candidates: Broadcast[Bits], frame: DataFrame) -> DataFrame:
    """The rank of each candidate: (doc, rank). `frame` is of any session."""
    slices = (candidates.value.size + SLICE - 1) // SLICE
    numbered = frame.sparkSession.range(0, max(slices, 1))
    return run_in_arrow(numbered, Unpacked(candidates), "doc int, rank long")


@dataclass(frozen=True)
class Unpacked:
    """In a task: the numbers in some slices of a set."""

    bits: Broadcast[Bits]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        bits = self.bits.value
        for batch in batches:
            for number in numbers(batch, "id").tolist():
                start, end = number * SLICE, min((number + 1) * SLICE, bits.size)
                ranks = start + np.flatnonzero(bits.among(start, end))
                yield batch_of(doc=bits.places(ranks).astype(np.int32), rank=ranks)


def removed(decided: DataFrame, copies: DataFrame, ranks: DataFrame, exact: bool) -> DataFrame:
    """(rank, witness, similarity, exact) of all removed documents; both are ranks.

    A copy of a removed document goes with that one's witness.
    """
    of_witness = ranks.select(sql.col("doc").alias("witness"), sql.col("rank").alias("by"))
    near = (
        decided.join(ranks, "doc")
        .join(of_witness, "witness")
        .select("rank", sql.col("by").alias("witness"), "similarity", sql.lit(exact).alias("exact"))
    )
    judged = near.select(
        sql.col("rank").alias("leader"), sql.col("witness").alias("theirs"), "similarity", "exact"
    )
    twins = copies.join(judged, "leader", "left").select(
        "rank", sql.coalesce("theirs", "leader").alias("witness"),
        sql.coalesce("similarity", sql.lit(1.0)).alias("similarity"),
        sql.coalesce("exact", sql.lit(True)).alias("exact"),
    )  # fmt: skip
    return near.unionByName(twins)
