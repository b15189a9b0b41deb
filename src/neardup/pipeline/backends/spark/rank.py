"""Rank documents on Spark, best first; find identical ones.

Without a keep policy the order of the source is the rank; for files it follows from the number of
documents in each shard. Otherwise the sketches are sorted once, and the rank is the position.

Files may disagree about the type of the keep column. So there is a column for each kind of type,
and one for the name of the type. When all files are read, the types are known, and so is the column
to order by: as `corpus.documents.concat_keep` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import DoubleType, FloatType

from neardup.corpus.documents import make_strings, mixed_keep_error
from neardup.errors import UsageError
from neardup.formats.tables import to_arrow
from neardup.options import Options
from neardup.pipeline.backends.spark.arrow import (
    Batches,
    StageTables,
    make_batch,
    read_numbers,
    run_in_arrow,
)

KEEP_COLUMNS = {
    "keep_type": "string",
    "keep_int": "long",
    "keep_unsigned": "long",
    "keep_decimal": "decimal(38,18)",
    "keep_real": "double",
    "keep_nanos": "long",
    "keep_micros": "long",
    "keep_text": "string",
}
"""Unsigned numbers are stored so that their order is that of signed ones."""
COLUMN_OF_TYPE = {
    "int64": "keep_int",
    "uint64": "keep_unsigned",
    "double": "keep_real",
    "timestamp[ns]": "keep_nanos",
    "timestamp[us]": "keep_micros",
    "large_string": "keep_text",
}
"""The column of a type; decimals are all others."""
NUMBER_COLUMNS = {"keep_int", "keep_unsigned", "keep_decimal", "keep_real"}
TIME_COLUMNS = {"keep_nanos", "keep_micros"}
SIGN_BIT = np.uint64(1 << 63)
ARROW_TYPES = {name: pa.int64() for name in KEEP_COLUMNS} | {
    "keep_type": pa.string(),
    "keep_decimal": pa.decimal128(38, 18),
    "keep_real": pa.float64(),
    "keep_text": pa.string(),
}


def split_keep_values(values: pa.Array | None, count: int) -> dict[str, Any]:
    """In a task: put the keep values of a batch into the column of their type.

    Numbers are stored as doubles too, and times as microseconds, in case that files disagree.
    """
    columns = {name: pa.nulls(count, kind) for name, kind in ARROW_TYPES.items()}
    if values is None or pa.types.is_null(values.type):
        return columns
    name = _find_column(str(values.type))
    if name in NUMBER_COLUMNS:
        columns["keep_real"] = values.cast(pa.float64(), safe=False)
    if name in TIME_COLUMNS:
        columns["keep_micros"] = values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    columns[name] = _cast_exactly(values, name)
    columns["keep_type"] = make_strings([str(values.type)] * count).cast(pa.string())
    return columns


def _find_column(kind: str) -> str:
    return COLUMN_OF_TYPE.get(kind, "keep_decimal")


def _cast_exactly(values: pa.Array, name: str) -> pa.Array:
    if name == "keep_unsigned":
        flipped = to_arrow(values.fill_null(0).to_numpy() ^ SIGN_BIT).view(pa.int64())
        return pc.if_else(values.is_valid(), flipped, pa.nulls(len(values), pa.int64()))
    try:
        return values.cast(ARROW_TYPES[name])
    except pa.ArrowInvalid:
        raise UsageError(
            f"the keep column is {values.type}, and Spark supports 20 digits before the point "
            "and 18 after it: cast it, or use --engine local"
        ) from None


def choose_keep_value(sketches: DataFrame) -> Column:
    """Return the column to order documents by; NaN comes last, and zero has no sign."""
    rows = sketches.select("keep_type").distinct().collect()
    name = choose_keep_column({row["keep_type"] for row in rows} - {None})
    if name != "keep_real":
        return sql.col(name)
    value = sql.col(name) + sql.lit(0.0)
    return sql.when(~sql.isnan(value), value)


def choose_keep_column(kinds: set[str]) -> str:
    """Return the name of the column by which values of these types are ordered."""
    names = set(map(_find_column, kinds))
    if len(kinds) <= 1:
        return names.pop() if names else "keep_int"
    if names <= NUMBER_COLUMNS:
        return "keep_real"
    if names <= TIME_COLUMNS:
        return "keep_micros"
    raise mixed_keep_error(kinds)


PARTITION_SHIFT = 33
"""Spark's ids have the row in the lowest bits, and the partition from this bit on."""


def number_documents(sketches: DataFrame, starts: NDArray[np.int64]) -> DataFrame:
    """Add the number of each document: that of its part's first document, plus its place."""
    parts = make_batch(part=np.arange(len(starts) - 1, dtype=np.int32), start=starts[:-1])
    first = _broadcast_rows(sketches.sparkSession, parts)
    placed = sketches.join(first, "part")
    return placed.withColumn("number", sql.col("start") + sql.col("place")).drop("start")


def rank_by_order(
    work: StageTables, sketches: DataFrame, order: list[Column], name: str = "ranked"
) -> DataFrame:
    """Add the place of each row in this order as its rank."""
    ordered = sketches.repartitionByRange(*order).sortWithinPartitions(*order)
    placed = ordered.withColumn("placed", sql.monotonically_increasing_id())
    stored = work.store(placed, name)
    partition = sql.shiftright("placed", PARTITION_SHIFT)
    counts = stored.groupBy(partition.alias("p")).count().orderBy("p").collect()
    sizes = np.array([row["count"] for row in counts], np.int64)
    partitions = np.array([row["p"] for row in counts], np.int64)
    starts = make_batch(p=partitions, start=np.cumsum(sizes) - sizes)
    first = _broadcast_rows(sketches.sparkSession, starts)
    inside = sql.col("placed").bitwiseAND((1 << PARTITION_SHIFT) - 1)
    joined = stored.withColumn("p", partition).join(first, "p")
    return joined.withColumn("rank", sql.col("start") + inside).drop("p", "start", "placed")


def _broadcast_rows(spark: SparkSession, rows: pa.RecordBatch) -> DataFrame:
    """Return rows as a frame that is broadcast in joins."""
    return sql.broadcast(spark.createDataFrame(pa.Table.from_batches([rows])))


def order_by_policy(sketches: DataFrame, options: Options, ties: list[Column]) -> list[Column]:
    """Return the order of the keep policy; `ties` is that of the input."""
    policy = options.keep_policy
    if policy.name == "first":
        return ties
    if policy.name == "last":
        return [column.desc() for column in ties]
    if policy.name == "longest":
        return [sql.col("length").desc(), *ties]
    value = _order_by_keep(sketches) if "keep" in sketches.columns else choose_keep_value(sketches)
    best_first = value.desc_nulls_last if policy.order == "descending" else value.asc_nulls_last
    return [best_first(), *ties]


def count_undated(sketches: DataFrame, options: Options) -> int:
    """Return how many of the documents that are not rejected have no date to be ranked by."""
    if not options.keep_policy.dates:
        return 0
    return sketches.where(sql.col("reason").isNull() & sql.col("keep_micros").isNull()).count()


def _order_by_keep(sketches: DataFrame) -> Column:
    """Return the keep value of a DataFrame, all of one type; NaN is null, and zero has no sign."""
    value = sql.col("keep")
    if isinstance(sketches.schema["keep"].dataType, (DoubleType, FloatType)):
        return sql.when(~sql.isnan(value), value + sql.lit(0.0))
    return value


def find_copies(documents: DataFrame) -> DataFrame:
    """Return each copy's rank with that of the best identical document: (leader, rank)."""
    hashed = documents.select("c0", "c1", "rank").repartition("c0", "c1")
    return run_in_arrow(
        hashed.sortWithinPartitions("c0", "c1", "rank"), _list_copies, "leader long, rank long"
    )


def _list_copies(batches: Batches) -> Iterator[pa.RecordBatch]:
    """In a task: list the documents that follow one with the same hash, in sorted batches."""
    last: tuple[int, int, int] | None = None
    for batch in batches:
        if not len(batch):
            continue
        first, second, rank = (read_numbers(batch, name) for name in ("c0", "c1", "rank"))
        begins = np.ones(len(batch), bool)
        begins[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        leader = rank[np.maximum.accumulate(np.where(begins, np.arange(len(batch)), 0))]
        if last is not None and last[:2] == (first[0], second[0]):
            end = int(np.append(np.flatnonzero(begins[1:]) + 1, len(batch))[0])
            leader[:end], begins[0] = last[2], False
        last = int(first[-1]), int(second[-1]), int(leader[-1])
        yield make_batch(leader=leader[~begins], rank=rank[~begins])
