"""The content of run.json of a run on Spark, with statistics of its buckets."""

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
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from neardup.cluster import BUCKET_CAP
from neardup.corpus.documents import Columns, make_strings
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import count_unread
from neardup.pipeline import record
from neardup.pipeline.backends.spark.arrow import (
    Batches,
    make_batch,
    read_numbers,
    read_rows,
    run_in_arrow,
)
from neardup.pipeline.backends.spark.bitmap import Bitmap, collect_bitmap
from neardup.pipeline.backends.spark.components import Roots
from neardup.pipeline.backends.spark.decide import SparkDecision
from neardup.pipeline.backends.spark.rank import count_undated
from neardup.pipeline.backends.spark.sketch import SketchedFiles
from neardup.pipeline.job import Job
from neardup.pipeline.record import LISTED_BUCKETS, SAMPLED_MEMBERS
from neardup.pipeline.run_inputs import describe_earlier, describe_file, hash_file
from neardup.pipeline.stages.tables import TableSummary
from neardup.text.arrays import Ragged

COUNTED_SCHEMA = (
    "band int, key long, piece int, size long, beyond long, low int, high int, sample binary"
)
Integers = NDArray[np.int64]
Names = Callable[[set[int]], dict[int, str]]
Listed = list[dict[str, Any]]


@dataclass(frozen=True)
class CountBeyondLimit:
    """In a task: count the members of each bucket beyond a limit, and find the lowest and highest
    of their roots.

    removed_or_roots  the removed candidates, of stars: they don't count, and each other member is
                      its own root; or the root of each candidate, of components
    """

    removed_or_roots: Broadcast[Bitmap] | Broadcast[Roots]
    limit: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = read_rows(batch.column("members"), np.uint32)
            count, low, high = self._members(rows)
            spans = zip(rows.offsets[:-1], rows.offsets[1:], strict=True)
            firsts = [rows.data[at : min(at + SAMPLED_MEMBERS, end)].tobytes() for at, end in spans]
            others = {name: batch.column(name) for name in ("band", "key", "piece", "size")}
            yield make_batch(**others, beyond=count - self.limit, low=low, high=high, sample=firsts)

    def _members(self, rows: Ragged) -> tuple[Integers, NDArray[np.int32], NDArray[np.int32]]:
        known, count, roots = self.removed_or_roots.value, rows.sizes, rows.data
        if isinstance(known, Bitmap):
            sums = np.concatenate([[0], np.cumsum(~known.has(rows.data.astype(np.int64)))])
            count = np.diff(sums[rows.offsets])
        else:
            roots = known[rows.data]
        starts, roots = rows.offsets[:-1], roots.view(np.int32)
        return count, np.minimum.reduceat(roots, starts), np.maximum.reduceat(roots, starts)


def join_pieces(counted: DataFrame, limit: int) -> DataFrame:
    """Join the rows of the buckets that are in several pieces."""
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
class SparkBucketStatistics:
    """The sizes of all buckets, the largest ones, and those with most members not compared."""

    sizes: Counter[int] = field(default_factory=Counter)
    full: int = 0
    largest: Listed = field(default_factory=list)
    fullest: Listed = field(default_factory=list)

    @classmethod
    def of(
        cls, buckets: DataFrame, beyond: CountBeyondLimit, pieces: bool
    ) -> SparkBucketStatistics:
        counted = run_in_arrow(buckets, beyond, COUNTED_SCHEMA)
        counted = join_pieces(counted, beyond.limit) if pieces else counted
        statistics = cls()
        for row in run_in_arrow(counted, _summarize_buckets, "summary string").collect():
            statistics.join(cls(**json.loads(row["summary"])))
        return statistics

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch of buckets."""
        size, beyond, band, low, high = (
            read_numbers(batch, name) for name in ("size", "beyond", "band", "low", "high")
        )
        beyond = np.where(low < high, np.maximum(beyond, 0), 0)
        key = read_numbers(batch, "key").view(np.uint64)
        values, counts = np.unique(size, return_counts=True)
        top = {
            at
            for by in (size, beyond)
            for at in np.lexsort((key, band, -by))[:LISTED_BUCKETS].tolist()
        }
        listed = [
            {
                "band": int(band[at]),
                "key": f"{key[at]:016x}",
                "size": int(size[at]),
                "not_compared": int(beyond[at]),
                "sample": np.frombuffer(batch.column("sample")[at].as_py(), np.uint32).tolist(),
            }
            for at in sorted(top)
        ]
        sizes = Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        full = [bucket for bucket in listed if bucket["not_compared"]]
        self.join(SparkBucketStatistics(sizes, int(np.count_nonzero(beyond)), listed, full))

    def join(self, other: SparkBucketStatistics) -> None:
        self.sizes.update({int(size): count for size, count in other.sizes.items()})
        self.full += other.full
        self.largest = _sort_hottest([*self.largest, *other.largest], "size")
        self.fullest = _sort_hottest([*self.fullest, *other.fullest], "not_compared")

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
        """Return the entries of run.json; `names` gives the names of candidates."""
        known = names({doc for one in [*self.largest, *self.fullest] for doc in one["sample"]})

        def listed(buckets: Listed) -> Listed:
            return [one | {"sample": [known[doc] for doc in one["sample"]]} for one in buckets]

        return {
            "hot_buckets": listed(self.largest),
            "full_buckets": {"count": self.full, "listed": listed(self.fullest)},
        }


def _summarize_buckets(batches: Batches) -> Iterator[pa.RecordBatch]:
    """In a task: return the statistics of its buckets in one row, as JSON."""
    statistics = SparkBucketStatistics()
    for batch in batches:
        statistics.add(batch)
    summary = json.dumps(vars(statistics))
    yield make_batch(summary=pa.array([summary]))


def _sort_hottest(buckets: Listed, by: str) -> Listed:
    return sorted(buckets, key=lambda one: (-one[by], one["band"], one["key"]))[:LISTED_BUCKETS]


def describe_file_run(
    job: Job,
    read: SketchedFiles,
    decided: SparkDecision,
    documents: DataFrame,
    removed: int,
    summary: TableSummary,
) -> dict[str, Any]:
    """Return the content of run.json, without the times."""
    spark = decided.removed.sparkSession
    counts = record.RunCounts(
        read.count - read.new,
        removed,
        decided.identical,
        decided.tally,
        summary.reasons,
        read.new,
        summary.by_earlier,
    )
    new = read.sketches.where(sql.col("number") >= read.new)
    counts.undated = count_undated(new, job.options)
    made = record.describe_run(job, counts)
    buckets = collect_bucket_statistics(job, decided)
    made["metrics"] |= buckets.metrics() | measure_empty_bins(job, new)
    made |= buckets.describe(lambda docs: _name_candidates(docs, decided, documents, read))
    skipped = [{"file": file, "reason": why} for file, why in read.skipped.items()]
    inputs, unread = _describe_inputs(read, job.columns)
    made |= {"pairs": None, "skipped_files": skipped, "inputs": inputs}
    made |= describe_earlier(read.earlier)
    made["not_documents"] = dict(unread.most_common())
    made["spark"] = describe_spark(spark, decided)
    return made


def describe_spark(spark: SparkSession, decided: SparkDecision) -> dict[str, Any]:
    """Return the entry `spark` of run.json."""
    return {
        "version": spark.version,
        "master": spark.sparkContext.master,
        "candidates": decided.sizes.candidates,
        "set_bytes": decided.sizes.bytes,
        "rounds": decided.round_log,
    }


def _describe_inputs(
    read: SketchedFiles, columns: Columns
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return each input's size, hash and number of documents, and what is no document in them."""
    spark, files = read.sketches.sparkSession, read.files
    tasks = spark.range(0, len(files), 1, max(len(files), 1))
    hashing = HashInputs(spark.sparkContext.broadcast(files), columns)
    schema = "number long, size long, hash string, unread string"
    hashed = run_in_arrow(tasks, hashing, schema).collect()
    rows = np.diff(read.places.value.starts)[read.others :].tolist()
    inputs = [
        {
            "file": files[one["number"]].name,
            "size": one["size"],
            "documents": rows[one["number"]],
            "xxh3_128": one["hash"],
            "source": describe_file(files[one["number"]]),
        }
        for one in sorted(hashed, key=lambda one: one["number"])
    ]
    unread: Counter[str] = Counter()
    for one in hashed:
        unread.update(json.loads(one["unread"]))
    return inputs, unread


@dataclass(frozen=True)
class HashInputs:
    """In a task: hash inputs, and count their parts that are no documents."""

    files: Broadcast[list[InputFile]]
    columns: Columns

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in read_numbers(batch, "id").tolist():
                file = self.files.value[number]
                size, digest = hash_file(file)
                yield make_batch(
                    number=np.array([number]),
                    size=np.array([size]),
                    hash=pa.array([digest]),
                    unread=pa.array([json.dumps(count_unread(file, self.columns))]),
                )


def measure_empty_bins(job: Job, new: DataFrame) -> dict[str, float]:
    """Return the share of slots that were empty before densification, of sketch oneperm only."""
    if job.options.spec.sketch != "oneperm":
        return {}
    usable = sql.count(sql.when(sql.col("reason").isNull(), 1)).alias("usable")
    (row,) = new.agg(sql.sum("empty_slots").alias("empty"), usable).collect()
    slots = max(row["usable"] * job.options.spec.slots, 1)
    return {"empty_bin_rate": (row["empty"] or 0) / slots}


def collect_bucket_statistics(job: Job, decided: SparkDecision) -> SparkBucketStatistics:
    """Collect the statistics of the buckets, after the documents are decided."""
    send, sizes = decided.removed.sparkSession.sparkContext.broadcast, decided.sizes
    if decided.roots is None:
        rows = decided.decided if decided.few is None else decided.few
        removed = collect_bitmap(rows, lambda batch: read_numbers(batch, "doc"), sizes.candidates)
        beyond = CountBeyondLimit(send(removed), job.options.limit)
    else:
        beyond = CountBeyondLimit(send(decided.roots), BUCKET_CAP)
    return SparkBucketStatistics.of(decided.members.buckets, beyond, sizes.pieces)


def _name_candidates(
    docs: set[int], decided: SparkDecision, documents: DataFrame, read: SketchedFiles
) -> dict[int, str]:
    """Return the names of these candidates, which must be few."""
    numbers = np.array(sorted(docs), np.int64)
    ranks = decided.candidates.value.numbers(numbers)
    rows = documents.where(sql.col("rank").isin(ranks.tolist())).select("rank", "number", "id")
    row_of = {row["rank"]: row for row in rows.collect()} if docs else {}
    placed = np.array([row_of[rank]["number"] for rank in ranks.tolist()], np.int64)
    own = make_strings([row_of[rank]["id"] for rank in ranks.tolist()])
    names = read.places.value.name_documents(own, placed).to_pylist()
    return dict(zip(numbers.tolist(), names, strict=True))
