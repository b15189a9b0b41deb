"""Every removed document with its witness: those that were decided, and copies of anybody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup.pipeline.backends.spark.bits import Bits
from neardup.pipeline.backends.spark.tables import Batches, batch_of, numbers, run_in_arrow


def by_rank(decided: DataFrame, candidates: Broadcast[Bits]) -> DataFrame:
    """The same (rank, witness, similarity) by ranks instead of the numbers of candidates."""
    some = decided.select("doc", "witness", "similarity")
    return run_in_arrow(some, Ranked(candidates), "rank long, witness long, similarity double")


@dataclass(frozen=True)
class Ranked:
    """In a task: numbers of candidates to ranks."""

    candidates: Broadcast[Bits]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        ranks = self.candidates.value.numbers
        for batch in batches:
            yield batch_of(
                rank=ranks(numbers(batch, "doc")),
                witness=ranks(numbers(batch, "witness")),
                similarity=batch.column("similarity"),
            )


def removed(near: DataFrame, copies: DataFrame, exact: bool) -> DataFrame:
    """(rank, witness, similarity, exact) of all removed documents: of those that were decided, and
    of copies; a copy of a removed document goes with that one's witness."""
    near = near.withColumn("exact", sql.lit(exact))
    judged = near.select(
        sql.col("rank").alias("leader"), sql.col("witness").alias("theirs"), "similarity", "exact"
    )
    twins = copies.join(judged, "leader", "left").select(
        "rank",
        sql.coalesce("theirs", "leader").alias("witness"),
        sql.coalesce("similarity", sql.lit(1.0)).alias("similarity"),
        sql.coalesce("exact", sql.lit(True)).alias("exact"),
    )
    return near.unionByName(twins)
