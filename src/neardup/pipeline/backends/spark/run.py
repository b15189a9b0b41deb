"""Run over files on Spark: sketch, rank, collapse, band, match, decide, write.

OUT is the same as that of a local run. All executors read the inputs and write to OUT by the same
paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from neardup.corpus.inputs import say_notes
from neardup.errors import UsageError
from neardup.formats import tables
from neardup.formats.tables import to_arrow
from neardup.in_memory import MAX_PAIRS
from neardup.options import Options
from neardup.pipeline import record
from neardup.pipeline.backends.spark.arrow import Batches, StageTables, read_numbers, run_in_arrow
from neardup.pipeline.backends.spark.bitmap import Bitmap, collect_bitmap
from neardup.pipeline.backends.spark.decide import (
    SparkDecision,
    SparkSetting,
    decide_documents,
    find_similar_pairs,
)
from neardup.pipeline.backends.spark.limits import TASK_MEMORY
from neardup.pipeline.backends.spark.pairs import name_pairs as pairs_by_number
from neardup.pipeline.backends.spark.progress import SparkStages
from neardup.pipeline.backends.spark.rank import order_by_policy, rank_by_order
from neardup.pipeline.backends.spark.record import describe_file_run
from neardup.pipeline.backends.spark.sketch import SketchedFiles, sketch_files
from neardup.pipeline.backends.spark.tables import OutTables, PairRows, name_removed
from neardup.pipeline.backends.spark.writer import WriteKept, write_kept_files, write_table
from neardup.pipeline.disk_estimate import look_at_shards
from neardup.pipeline.earlier_corpus import EarlierCorpus
from neardup.pipeline.job import Job
from neardup.pipeline.record import finish_run
from neardup.pipeline.stages.rank import MAX_DOCUMENTS
from neardup.runtime import Progress


def find_near_duplicates_on(
    spark: SparkSession, memory: int = TASK_MEMORY
) -> Callable[[Job, Path, Progress], record.FinishedRun]:
    """Return the function that `pipeline.run.run_job` calls to make the content of OUT."""

    def make(job: Job, folder: Path, progress: Progress) -> record.FinishedRun:
        require_supported(job.options, job.merge_rows, job.save_sketches)
        return SparkFileRun(spark, job, folder, progress, memory).run()

    return make


def require_supported(
    options: Options, merge_rows: bool = False, save_sketches: bool = False
) -> None:
    """Raise UsageError for options that only the local engine supports."""
    refused = {
        "--merge-rows": merge_rows,
        "--save-sketches": save_sketches,
        "--strip lines": options.strip.lines is not None,
        "--weights tf-idf": options.weights == "tf-idf",
    }
    if options.distinguish:
        raise UsageError(
            "--distinguish is not supported with --engine spark: use --engine local, or, for a "
            "column, --within"
        )
    for option, is_set in refused.items():
        if is_set:
            raise UsageError(f"{option} is not supported with --engine spark")


def require_document_limit(count: int) -> None:
    """Raise UsageError for more documents than there are ranks."""
    if count >= MAX_DOCUMENTS:
        raise UsageError(
            f"{count:,} documents are more than one run can take ({MAX_DOCUMENTS:,}): "
            "split the input, and use --against"
        )


@dataclass
class SparkFileRun:
    """The stages of a run over files, in order."""

    spark: SparkSession
    job: Job
    folder: Path
    progress: Progress
    memory: int

    def __post_init__(self) -> None:
        self.stage = SparkStages(self.spark, self.progress)
        self.earlier = EarlierCorpus.of(self.job.against, self.job.input_options)
        say_notes(self.earlier.inputs, self.progress)
        self.work = StageTables.at(self.spark, self.folder / "spark")

    def run(self) -> record.FinishedRun:
        """Make the content of OUT."""
        with self.stage("sketching"):
            read = sketch_files(self.work, self.job, self.earlier, self.progress, self.memory)
        with self.stage("ranking"):
            documents = self._ranked(read)
        setting = SparkSetting(
            self.work, self.job.options, self.stage, self.progress.say, self.memory
        )
        decided = decide_documents(
            setting, read.source, self._taking_part(documents), read.count, read.new
        )
        with self.stage("writing tables"):
            removed = self._removed(decided, documents, read)
            out_tables = OutTables(
                self.folder, read.source, documents, removed, read.places, read.new, read.rejected
            )
            count, summary = out_tables.write()
            made = describe_file_run(self.job, read, decided, documents, count, summary)
            made |= look_at_shards(read.shards, self.job.options.spec).describe(self.job.options)
        if self.job.pairs:
            with self.stage("pairing"):
                made["pairs"] = self._write_pairs(decided, documents, read)
        if self.job.kept:
            with self.stage("writing"):
                self._write_kept(read, documents, removed)
        made["spark"]["stages"] = self.stage.metrics()
        return finish_run(self.job, self.folder, made, summary, self.stage.clock, read.shards)

    # -- rank -----------------------------------------------------------------------------------

    def _ranked(self, read: SketchedFiles) -> DataFrame:
        """Return the documents with their ranks."""
        require_document_limit(read.count)
        if self.job.options.keep_policy.name == "first":
            return read.sketches.withColumn("rank", sql.col("number"))
        preferred = sum(map(self.job.prefers, read.files))
        first = int(read.places.value.starts[read.others + preferred])
        group = (
            sql.when(sql.col("number") < read.new, 0)
            .when(sql.col("number") < first, 1)
            .otherwise(2)
        )
        # The keep column of an earlier corpus is ignored.
        order = order_by_policy(read.sketches, self.job.options, [sql.col("number")])
        return rank_by_order(self.work, read.sketches, [group, *order])

    def _taking_part(self, documents: DataFrame) -> DataFrame:
        """Return the documents that are not rejected, and not removed by an earlier run."""
        usable = documents.where(sql.col("reason").isNull())
        kept = self.earlier.kept
        if kept is None or kept.all():
            return usable
        dropped = self.spark.sparkContext.broadcast(~kept)
        return run_in_arrow(usable, DropDocuments(dropped), usable.schema)

    # -- write ----------------------------------------------------------------------------------

    def _removed(
        self, decided: SparkDecision, documents: DataFrame, read: SketchedFiles
    ) -> DataFrame | pa.Table:
        named = name_removed(decided, documents, read, self._nameless(read))
        return named if isinstance(named, pa.Table) else self.work.store(named, "removed")

    def _nameless(self, read: SketchedFiles) -> bool:
        """Return whether documents have no id, and their ranks are their numbers."""
        return not read.has_ids and self.job.options.keep_policy.name == "first"

    def _write_pairs(
        self, decided: SparkDecision, documents: DataFrame, read: SketchedFiles
    ) -> dict[str, int]:
        """Write pairs.parquet; return how many pairs it has, and how many it lacks."""
        pairs = find_similar_pairs(decided)
        total = pairs.count()
        written = min(total, MAX_PAIRS)
        rows = pairs.all() if total == written else pairs.first(MAX_PAIRS)
        none = sql.lit(None).cast("string")
        named = (
            rows.withColumns({"a_id": none, "b_id": none})
            if self._nameless(read)
            else pairs_by_number(rows, documents)
        )
        path = self.folder / "pairs.parquet"
        write_table(named, ["a", "b"], path, tables.PAIRS, PairRows(), read.places)
        return {
            "written": written,
            "limit": MAX_PAIRS,
            "beyond_limit": total - written,
            "capped_buckets": decided.members.capped(),
        }

    def _write_kept(
        self, read: SketchedFiles, documents: DataFrame, removed: DataFrame | pa.Table
    ) -> None:
        send = self.spark.sparkContext.broadcast
        bits = self._bits(removed.select(["number"]), read)
        if read.rejected:
            rejected = documents.where(sql.col("reason").isNotNull()).select("number")
            bits = bits | self._bits(rejected, read)
        kept = self.folder / "kept"
        kept.mkdir(exist_ok=True)
        write = WriteKept(
            str(self.folder / "attempts"), send(read.files), read.places, send(bits), read.others
        )
        write_kept_files(self.spark, kept, read.files, write)

    def _bits(self, rows: DataFrame | pa.Table, read: SketchedFiles) -> Bitmap:
        return collect_bitmap(rows, lambda batch: read_numbers(batch, "number"), read.count)


@dataclass(frozen=True)
class DropDocuments:
    """In a task: drop the documents that an earlier run has removed, by their numbers."""

    dropped: Broadcast[NDArray[np.bool_]]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        dropped = self.dropped.value
        for batch in batches:
            number = read_numbers(batch, "number")
            early = number < len(dropped)
            early[early] = dropped[number[early]]
            yield batch.filter(to_arrow(~early))
