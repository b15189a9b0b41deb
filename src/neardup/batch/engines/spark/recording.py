"""What is there to say about a run on Spark? The content of run.json."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup.batch import record
from neardup.batch.ending import Told
from neardup.batch.engines.spark.bits import bits_of
from neardup.batch.engines.spark.buckets import BucketRecord
from neardup.batch.engines.spark.explaining import Explaining
from neardup.batch.engines.spark.pipeline import Decided
from neardup.batch.engines.spark.sketching import Read
from neardup.batch.engines.spark.tables import Batches, batch_of, numbers, run_in_arrow
from neardup.batch.engines.spark.verdicts import ranks_of
from neardup.batch.job import Job
from neardup.corpus.inputs import InputFile
from neardup.corpus.values import strings


def described(
    job: Job, read: Read, decided: Decided, removed: DataFrame, told: Told, explaining: Explaining
) -> dict[str, Any]:
    """What was asked for, and what came out."""
    spark = removed.sparkSession
    counts = record.Counts(
        read.count - read.new, removed.count(),
        decided.copies.where(sql.col("rank") >= read.new).count(), decided.tally, told.reasons,
        read.new,
    )  # fmt: skip
    made = record.describe(job, counts)
    buckets = _bucket_record(job, decided)
    made["metrics"] |= buckets.metrics() | _empty_bins(job, read)
    made |= buckets.describe(lambda docs: _names(docs, decided, explaining))
    skipped = [{"file": file, "reason": why} for file, why in read.skipped.items()]
    made |= {"pairs": None, "skipped_files": skipped, "inputs": _inputs(read)}
    made["spark"] = {
        "version": spark.version, "master": spark.sparkContext.master,
        "candidates": decided.sizes.candidates, "set_bytes": decided.sizes.bytes,
        "rounds": decided.told,
    }  # fmt: skip
    return made


def _inputs(read: Read) -> list[dict[str, Any]]:
    """Each input's size, hash and number of documents."""
    spark, files = read.sketches.sparkSession, read.files
    tasks = spark.range(0, len(files), 1, max(len(files), 1))
    hashing = Hashing(spark.sparkContext.broadcast(files))
    found = run_in_arrow(tasks, hashing, "number long, size long, hash string").collect()
    rows = np.diff(read.places.value.starts)[read.others :].tolist()
    return [
        {"file": files[one["number"]].name, "size": one["size"],
         "documents": rows[one["number"]], "xxh3_128": one["hash"]}
        for one in sorted(found, key=lambda one: one["number"])
    ]  # fmt: skip


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


def _empty_bins(job: Job, read: Read) -> dict[str, float]:
    """Of a one-permutation sketch: the share of slots that were empty before they were filled."""
    if job.options.spec.sketch != "oneperm":
        return {}
    new = read.sketches.where(sql.col("number") >= read.new)
    usable = sql.count(sql.when(sql.col("reason").isNull(), 1)).alias("usable")
    (row,) = new.agg(sql.sum("empty_slots").alias("empty"), usable).collect()
    slots = max(row["usable"] * job.options.spec.slots, 1)
    return {"empty_bin_rate": (row["empty"] or 0) / slots}


def _bucket_record(job: Job, decided: Decided) -> BucketRecord:
    spark = decided.removed.sparkSession
    ranks = ranks_of(decided.candidates, decided.removed)
    gone = bits_of(
        decided.removed.join(ranks, "rank").select("doc"),
        lambda batch: numbers(batch, "doc"),
        decided.sizes.candidates,
    )
    sent = spark.sparkContext.broadcast(gone)
    return BucketRecord.of(decided.buckets, sent, job.options.limit, decided.sizes.pieces)


def _names(docs: set[int], decided: Decided, explaining: Explaining) -> dict[int, str]:
    """The names of a few candidates."""
    ranks = ranks_of(decided.candidates, decided.removed)
    some = ranks.where(sql.col("doc").isin(sorted(docs))).join(explaining.documents, "rank")
    rows = some.select("doc", "number", "id").collect() if docs else []
    numbered = np.array([row["number"] for row in rows], np.int64)
    own = strings([row["id"] for row in rows])
    known = explaining.places.value.named(own, numbered).to_pylist()
    return {row["doc"]: name for row, name in zip(rows, known, strict=True)}
