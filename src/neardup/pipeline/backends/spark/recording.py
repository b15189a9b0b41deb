"""What is there to say about a run on Spark? The content of run.json."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from neardup.cluster import BUCKET_CAP
from neardup.corpus.documents import strings
from neardup.corpus.inputs import InputFile
from neardup.pipeline import record
from neardup.pipeline.backends.spark.bits import bits_of
from neardup.pipeline.backends.spark.buckets import Beyond, BucketRecord
from neardup.pipeline.backends.spark.pipeline import Decided
from neardup.pipeline.backends.spark.sketching import Read
from neardup.pipeline.backends.spark.tables import Batches, batch_of, numbers, run_in_arrow
from neardup.pipeline.ending import Told
from neardup.pipeline.job import Job


def described(
    job: Job, read: Read, decided: Decided, documents: DataFrame, removed: int, told: Told
) -> dict[str, Any]:
    """What was asked for, and what came out."""
    spark = decided.removed.sparkSession
    counts = record.Counts(
        read.count - read.new, removed, decided.identical, decided.tally, told.reasons, read.new
    )
    made = record.describe(job, counts)
    buckets = bucket_record(job, decided)
    new = read.sketches.where(sql.col("number") >= read.new)
    made["metrics"] |= buckets.metrics() | empty_bins(job, new)
    made |= buckets.describe(lambda docs: _names(docs, decided, documents, read))
    skipped = [{"file": file, "reason": why} for file, why in read.skipped.items()]
    made |= {"pairs": None, "skipped_files": skipped, "inputs": _inputs(read)}
    made["spark"] = on_spark(spark, decided)
    return made


def on_spark(spark: SparkSession, decided: Decided) -> dict[str, Any]:
    """What a run on Spark has to say besides."""
    return {
        "version": spark.version,
        "master": spark.sparkContext.master,
        "candidates": decided.sizes.candidates,
        "set_bytes": decided.sizes.bytes,
        "rounds": decided.told,
    }


def _inputs(read: Read) -> list[dict[str, Any]]:
    """Each input's size, hash and number of documents."""
    spark, files = read.sketches.sparkSession, read.files
    tasks = spark.range(0, len(files), 1, max(len(files), 1))
    hashing = Hashing(spark.sparkContext.broadcast(files))
    found = run_in_arrow(tasks, hashing, "number long, size long, hash string").collect()
    rows = np.diff(read.places.value.starts)[read.others :].tolist()
    return [
        {
            "file": files[one["number"]].name,
            "size": one["size"],
            "documents": rows[one["number"]],
            "xxh3_128": one["hash"],
        }
        for one in sorted(found, key=lambda one: one["number"])
    ]


@dataclass(frozen=True)
class Hashing:
    """In a task: the hashes of some inputs."""

    files: Broadcast[list[InputFile]]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in numbers(batch, "id").tolist():
                size, digest = record.hashed(self.files.value[number])
                yield batch_of(
                    number=np.array([number]), size=np.array([size]), hash=pa.array([digest])
                )


def empty_bins(job: Job, new: DataFrame) -> dict[str, float]:
    """Of a one-permutation sketch: the share of slots that were empty before they were filled."""
    if job.options.spec.sketch != "oneperm":
        return {}
    usable = sql.count(sql.when(sql.col("reason").isNull(), 1)).alias("usable")
    (row,) = new.agg(sql.sum("empty_slots").alias("empty"), usable).collect()
    slots = max(row["usable"] * job.options.spec.slots, 1)
    return {"empty_bin_rate": (row["empty"] or 0) / slots}


def bucket_record(job: Job, decided: Decided) -> BucketRecord:
    """The buckets, when it is known who is removed."""
    send, sizes = decided.removed.sparkSession.sparkContext.broadcast, decided.sizes
    if decided.roots is None:
        who = decided.decided if decided.few is None else decided.few
        gone = bits_of(who, lambda batch: numbers(batch, "doc"), sizes.candidates)
        beyond = Beyond(send(gone), job.options.limit)
    else:
        beyond = Beyond(send(decided.roots), BUCKET_CAP)
    return BucketRecord.of(decided.members.buckets, beyond, sizes.pieces)


def _names(docs: set[int], decided: Decided, documents: DataFrame, read: Read) -> dict[int, str]:
    """The names of a few candidates."""
    some = np.array(sorted(docs), np.int64)
    ranks = decided.candidates.value.numbers(some)
    rows = documents.where(sql.col("rank").isin(ranks.tolist())).select("rank", "number", "id")
    found = {row["rank"]: row for row in rows.collect()} if docs else {}
    placed = np.array([found[rank]["number"] for rank in ranks.tolist()], np.int64)
    own = strings([found[rank]["id"] for rank in ranks.tolist()])
    names = read.places.value.named(own, placed).to_pylist()
    return dict(zip(some.tolist(), names, strict=True))
