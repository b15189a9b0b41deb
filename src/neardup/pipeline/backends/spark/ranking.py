"""Which copy is better? A dense rank for each document, best first.

Without a policy the order of the source is the rank; of files it is known from how many documents
each shard has. Otherwise the sketches are sorted once, and a rank is where one comes to lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import DoubleType, FloatType

from neardup.options import Options
from neardup.pipeline.backends.spark.keeping import keep_value
from neardup.pipeline.backends.spark.tables import Work, batch_of

PLACED = 33
"""Spark numbers rows in the lowest bits, partitions in those from here on."""


@dataclass(frozen=True)
class Ranked:
    """The sketches with a column `rank`; how many there are."""

    frame: DataFrame
    count: int


def by_starts(sketches: DataFrame, starts: NDArray[np.int64]) -> DataFrame:
    """With the number of each document: that of its part's first one, and its place."""
    parts = batch_of(part=np.arange(len(starts) - 1, dtype=np.int32), start=starts[:-1])
    first = _for_all(sketches.sparkSession, parts)
    placed = sketches.join(first, "part")
    return placed.withColumn("number", sql.col("start") + sql.col("place")).drop("start")


def by_order(
    work: Work, sketches: DataFrame, order: list[Column], name: str = "ranked"
) -> DataFrame:
    """With the place of each row in this order as its rank."""
    ordered = sketches.repartitionByRange(*order).sortWithinPartitions(*order)
    placed = ordered.withColumn("placed", sql.monotonically_increasing_id())
    stored = work.stored(placed, name)
    partition = sql.shiftright("placed", PLACED)
    counts = stored.groupBy(partition.alias("p")).count().orderBy("p").collect()
    sizes = np.array([row["count"] for row in counts], np.int64)
    partitions = np.array([row["p"] for row in counts], np.int64)
    starts = batch_of(p=partitions, start=np.cumsum(sizes) - sizes)
    first = _for_all(sketches.sparkSession, starts)
    inside = sql.col("placed").bitwiseAND((1 << PLACED) - 1)
    joined = stored.withColumn("p", partition).join(first, "p")
    return joined.withColumn("rank", sql.col("start") + inside).drop("p", "start", "placed")


def _for_all(spark: SparkSession, rows: pa.RecordBatch) -> DataFrame:
    """Some rows that go to all tasks."""
    return sql.broadcast(spark.createDataFrame(pa.Table.from_batches([rows])))


def keep_order(sketches: DataFrame, options: Options) -> list[Column]:
    """What the policy says about the order, besides ties."""
    policy, _ = options.keep_policy
    if policy == "first":
        return []
    if policy == "longest":
        return [sql.col("length").desc()]
    value = _own(sketches) if "keep" in sketches.columns else keep_value(sketches)
    return [value.desc_nulls_last() if policy == "max" else value.asc_nulls_last()]


def _own(sketches: DataFrame) -> Column:
    """The keep value of a DataFrame, which has a type of its own."""
    value = sql.col("keep")
    if isinstance(sketches.schema["keep"].dataType, (DoubleType, FloatType)):
        return sql.when(~sql.isnan(value), value + sql.lit(0.0))
    return value
