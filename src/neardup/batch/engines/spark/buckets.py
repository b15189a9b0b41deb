"""How large are the buckets, which are the largest, and in which was not everyone compared?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sql

from neardup.batch.engines.spark.bits import Bits
from neardup.batch.engines.spark.tables import Batches, batch_of, flat, run_in_arrow
from neardup.batch.record import LISTED_BUCKETS, SAMPLED

SIGN = -(2**63)
Names = Callable[[set[int]], dict[int, str]]


@dataclass(frozen=True)
class Counted:
    """In a task: how many members of each bucket are kept, and its first ones."""

    gone: Broadcast[Bits]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = flat(batch.column("members"), np.uint32)
            kept = ~self.gone.value.has(rows.data.astype(np.int64))
            sums = np.concatenate([[0], np.cumsum(kept)])
            spans = zip(rows.offsets[:-1], rows.offsets[1:], strict=True)
            firsts = [rows.data[at : min(at + SAMPLED, end)].tobytes() for at, end in spans]
            others = {name: batch.column(name) for name in ("band", "key", "piece", "size")}
            yield batch_of(**others, kept=np.diff(sums[rows.offsets]), sample=firsts)


@dataclass(frozen=True)
class BucketRecord:
    """The sizes of all buckets, the largest and the fullest ones."""

    sizes: NDArray[np.int64]
    full: int
    largest: list[Row]
    fullest: list[Row]

    @classmethod
    def of(
        cls, buckets: DataFrame, gone: Broadcast[Bits], limit: int, pieces: bool
    ) -> BucketRecord:
        schema = "band int, key long, piece int, size long, kept long, sample binary"
        counted = run_in_arrow(buckets, Counted(gone), schema)
        if pieces:
            counted = counted.groupBy("band", "key").agg(
                sql.sum("size").alias("size"), sql.sum("kept").alias("kept"),
                sql.min_by("sample", "piece").alias("sample"),
            )  # fmt: skip
        counted = counted.withColumn(
            "beyond", sql.greatest(sql.col("kept") - limit, sql.lit(0))
        ).cache()
        histogram = counted.groupBy("size").count().collect()
        sizes = np.zeros(max((row["size"] for row in histogram), default=0) + 1, np.int64)
        for row in histogram:
            sizes[row["size"]] = row["count"]
        order = sql.col("band"), sql.col("key").bitwiseXOR(sql.lit(SIGN))
        largest = counted.orderBy(sql.desc("size"), *order).limit(LISTED_BUCKETS).collect()
        full = counted.where("beyond > 0")
        fullest = full.orderBy(sql.desc("beyond"), *order).limit(LISTED_BUCKETS).collect()
        found = cls(sizes, full.count(), largest, fullest)
        counted.unpersist()
        return found

    def metrics(self) -> dict[str, Any]:
        count = int(self.sizes.sum())
        if not count:
            return {"buckets": 0, "bucket_size_p99": 0}
        ninety_nine = np.searchsorted(np.cumsum(self.sizes), 0.99 * count)
        return {"buckets": count, "bucket_size_p99": int(ninety_nine)}

    def describe(self, names: Names) -> dict[str, Any]:
        """As run.json has it; `names` gives those of candidates."""
        rows = [*self.largest, *self.fullest]
        known = names({doc for row in rows for doc in _sample(row)})
        return {
            "hot_buckets": [_bucket(row, known) for row in self.largest],
            "full_buckets": {
                "count": self.full, "listed": [_bucket(row, known) for row in self.fullest],
            },
        }  # fmt: skip


def _sample(row: Row) -> list[int]:
    return np.frombuffer(row["sample"], np.uint32).tolist()  # type: ignore[no-any-return]


def _bucket(row: Row, names: dict[int, str]) -> dict[str, Any]:
    return {"band": row["band"], "key": f"{row['key'] % 2**64:016x}", "size": row["size"],
            "not_compared": row["beyond"],
            "sample": [names[doc] for doc in _sample(row)]}  # fmt: skip
