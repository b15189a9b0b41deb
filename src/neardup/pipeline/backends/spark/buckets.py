"""How large are the buckets, which are the largest, and in which was not everyone compared?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup.pipeline.backends.spark.bits import Bits
from neardup.pipeline.backends.spark.members import Roots
from neardup.pipeline.backends.spark.tables import Batches, batch_of, flat, numbers, run_in_arrow
from neardup.pipeline.record import LISTED_BUCKETS, SAMPLED
from neardup.text.arrays import Ragged

COUNTED = "band int, key long, piece int, size long, beyond long, low int, high int, sample binary"
Integers = NDArray[np.int64]
Names = Callable[[set[int]], dict[int, str]]
Listed = list[dict[str, Any]]


@dataclass(frozen=True)
class Beyond:
    """In a task: how many members of each bucket are beyond a limit, and the lowest and highest of
    their roots.

    Of stars those who are gone don't count, and everyone is its own root.
    """

    known: Broadcast[Bits] | Broadcast[Roots]
    limit: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = flat(batch.column("members"), np.uint32)
            count, low, high = self._members(rows)
            spans = zip(rows.offsets[:-1], rows.offsets[1:], strict=True)
            firsts = [rows.data[at : min(at + SAMPLED, end)].tobytes() for at, end in spans]
            others = {name: batch.column(name) for name in ("band", "key", "piece", "size")}
            yield batch_of(**others, beyond=count - self.limit, low=low, high=high, sample=firsts)

    def _members(self, rows: Ragged) -> tuple[Integers, NDArray[np.int32], NDArray[np.int32]]:
        known, count, roots = self.known.value, rows.sizes, rows.data
        if isinstance(known, Bits):
            sums = np.concatenate([[0], np.cumsum(~known.has(rows.data.astype(np.int64)))])
            count = np.diff(sums[rows.offsets])
        else:
            roots = known[rows.data]
        starts, roots = rows.offsets[:-1], roots.view(np.int32)
        return count, np.minimum.reduceat(roots, starts), np.maximum.reduceat(roots, starts)


def whole(counted: DataFrame, limit: int) -> DataFrame:
    """The rows of buckets that are in several pieces, put together."""
    alone = counted.where("piece = 0")
    joined = (
        counted.where("piece > 0")
        .groupBy("band", "key")
        .agg(
            sql.lit(0).alias("piece"),
            sql.sum("size").alias("size"),
            (sql.sum(sql.col("beyond") + limit) - limit).alias("beyond"),
            sql.min("low").alias("low"),
            sql.max("high").alias("high"),
            sql.min_by("sample", "piece").alias("sample"),
        )
    )
    return alone.unionByName(joined)


@dataclass
class BucketRecord:
    """The sizes of all buckets, the largest and the fullest ones."""

    sizes: Counter[int] = field(default_factory=Counter)
    full: int = 0
    largest: Listed = field(default_factory=list)
    fullest: Listed = field(default_factory=list)

    @classmethod
    def of(cls, buckets: DataFrame, beyond: Beyond, pieces: bool) -> BucketRecord:
        counted = run_in_arrow(buckets, beyond, COUNTED)
        counted = whole(counted, beyond.limit) if pieces else counted
        found = cls()
        for row in run_in_arrow(counted, _summed, "told string").collect():
            found.join(cls(**json.loads(row["told"])))
        return found

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in some buckets."""
        size, beyond, band, low, high = (
            numbers(batch, name) for name in ("size", "beyond", "band", "low", "high")
        )
        beyond = np.where(low < high, np.maximum(beyond, 0), 0)
        key = numbers(batch, "key").view(np.uint64)
        values, counts = np.unique(size, return_counts=True)
        top = {
            at
            for by in (size, beyond)
            for at in np.lexsort((key, band, -by))[:LISTED_BUCKETS].tolist()
        }
        some = [
            {
                "band": int(band[at]),
                "key": f"{key[at]:016x}",
                "size": int(size[at]),
                "not_compared": int(beyond[at]),
                "sample": np.frombuffer(batch.column("sample")[at].as_py(), np.uint32).tolist(),
            }
            for at in sorted(top)
        ]
        here = Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        full = [one for one in some if one["not_compared"]]
        self.join(BucketRecord(here, int(np.count_nonzero(beyond)), some, full))

    def join(self, other: BucketRecord) -> None:
        self.sizes.update({int(size): count for size, count in other.sizes.items()})
        self.full += other.full
        self.largest = _first([*self.largest, *other.largest], "size")
        self.fullest = _first([*self.fullest, *other.fullest], "not_compared")

    def metrics(self) -> dict[str, Any]:
        count = self.sizes.total()
        if not count:
            return {"buckets": 0, "bucket_size_p99": 0}
        sizes = np.array(sorted(self.sizes))
        sums = np.cumsum([self.sizes[size] for size in sizes.tolist()])
        return {
            "buckets": count,
            "bucket_size_p99": int(sizes[np.searchsorted(sums, 0.99 * count)]),
        }

    def describe(self, names: Names) -> dict[str, Any]:
        """As run.json has it; `names` gives those of candidates."""
        known = names({doc for one in [*self.largest, *self.fullest] for doc in one["sample"]})

        def listed(some: Listed) -> Listed:
            return [one | {"sample": [known[doc] for doc in one["sample"]]} for one in some]

        return {
            "hot_buckets": listed(self.largest),
            "full_buckets": {"count": self.full, "listed": listed(self.fullest)},
        }


def _summed(batches: Batches) -> Iterator[pa.RecordBatch]:
    """In a task: what there is to tell of its buckets, in one row."""
    found = BucketRecord()
    for batch in batches:
        found.add(batch)
    told = json.dumps(vars(found))
    yield batch_of(told=pa.array([told]))


def _first(found: Listed, by: str) -> Listed:
    return sorted(found, key=lambda one: (-one[by], one["band"], one["key"]))[:LISTED_BUCKETS]
