"""One run over files on Spark: sketch, rank, collapse, band, match, decide, write.

OUT is the same as that of a local run. All executors read the inputs and write to OUT by the
same paths.
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

from neardup.errors import UsageError
from neardup.formats import tables
from neardup.formats.tables import column
from neardup.in_memory import MAX_PAIRS
from neardup.options import Options
from neardup.pipeline import record
from neardup.pipeline.backends.spark import ranking, rows
from neardup.pipeline.backends.spark.bits import Bits, bits_of
from neardup.pipeline.backends.spark.explaining import Explaining
from neardup.pipeline.backends.spark.limits import MEMORY
from neardup.pipeline.backends.spark.pairs import by_number as pairs_by_number
from neardup.pipeline.backends.spark.pipeline import Decided, Setting, decide, similar_pairs
from neardup.pipeline.backends.spark.recording import described
from neardup.pipeline.backends.spark.removing import by_number
from neardup.pipeline.backends.spark.sketching import Read, sketched
from neardup.pipeline.backends.spark.stages import Stages
from neardup.pipeline.backends.spark.tables import Batches, Work, numbers, run_in_arrow
from neardup.pipeline.backends.spark.writing import WriteKept, write_files, write_table
from neardup.pipeline.earlier import Earlier
from neardup.pipeline.ending import complete
from neardup.pipeline.job import Job
from neardup.pipeline.ranks import MOST
from neardup.runtime import Progress


def near_duplicates_on(
    spark: SparkSession, memory: int = MEMORY
) -> Callable[[Job, Path, Progress], record.Finished]:
    """What `batch.run.run` calls to make everything that belongs into OUT."""

    def make(job: Job, folder: Path, progress: Progress) -> record.Finished:
        require_possible(job.options, job.merge_rows, job.save_sketches)
        return Run(spark, job, folder, progress, memory).finished()

    return make


def require_possible(
    options: Options, merge_rows: bool = False, save_sketches: bool = False
) -> None:
    """Refuse what only the local engine does."""
    refused = {
        "--merge-rows": merge_rows,
        "--save-sketches": save_sketches,
        "--strip lines": options.strip.lines is not None,
        "--weights tf-idf": options.weights == "tf-idf",
    }
    for option, asked in refused.items():
        if asked:
            raise UsageError(f"{option} is not there on Spark: leave it out, or use --engine local")


def require_fewer(count: int) -> None:
    """Refuse more documents than there are ranks."""
    if count >= MOST:
        raise UsageError(
            f"{count:,} documents are more than one run takes ({MOST:,}): "
            "split the input, and use --against"
        )


@dataclass
class Run:
    """The steps of a run, one after the other."""

    spark: SparkSession
    job: Job
    folder: Path
    progress: Progress
    memory: int

    def __post_init__(self) -> None:
        self.stage = Stages(self.spark, self.progress)
        self.earlier = Earlier.of(self.job.against)
        self.work = Work.at(self.spark, self.folder / "spark")

    def finished(self) -> record.Finished:
        """Everything that belongs into OUT."""
        with self.stage("sketching"):
            read = sketched(self.work, self.job, self.earlier, self.progress, self.memory)
        with self.stage("ranking"):
            documents = self._ranked(read)
        setting = Setting(self.work, self.job.options, self.stage, self.progress.say, self.memory)
        decided = decide(setting, read.source, self._taking_part(documents), read.count, read.new)
        with self.stage("writing tables"):
            removed = self._removed(decided, documents, read)
            explaining = Explaining(
                self.folder, read.source, documents, removed, read.places, read.new, read.rejected
            )
            count, told = explaining.told()
            made = described(self.job, read, decided, documents, count, told)
        if self.job.pairs:
            with self.stage("pairing"):
                made["pairs"] = self._write_pairs(decided, documents, read)
        if self.job.kept:
            with self.stage("writing"):
                self._write_kept(read, documents, removed)
        made["spark"]["stages"] = self.stage.told()
        return complete(self.job, self.folder, made, told, self.stage.clock, read.shards)

    # -- rank -----------------------------------------------------------------------------------

    def _ranked(self, read: Read) -> DataFrame:
        """The documents with their ranks."""
        require_fewer(read.count)
        policy = ranking.keep_order(read.sketches, self.job.options)
        if not policy:
            return read.sketches.withColumn("rank", sql.col("number"))
        preferred = sum(map(self.job.prefers, read.files))
        first = int(read.places.value.starts[read.others + preferred])
        group = (
            sql.when(sql.col("number") < read.new, 0)
            .when(sql.col("number") < first, 1)
            .otherwise(2)
        )
        # What an earlier corpus has in the keep column does not count.
        return ranking.by_order(self.work, read.sketches, [group, *policy, sql.col("number")])

    def _taking_part(self, documents: DataFrame) -> DataFrame:
        """Without what is rejected, and what an earlier run has removed."""
        usable = documents.where(sql.col("reason").isNull())
        kept = self.earlier.kept
        if kept is None or kept.all():
            return usable
        dropped = self.spark.sparkContext.broadcast(~kept)
        return run_in_arrow(usable, Without(dropped), usable.schema)

    # -- write ----------------------------------------------------------------------------------

    def _removed(self, decided: Decided, documents: DataFrame, read: Read) -> DataFrame | pa.Table:
        found = by_number(decided, documents, read, self._nameless(read))
        return found if isinstance(found, pa.Table) else self.work.stored(found, "removed")

    def _nameless(self, read: Read) -> bool:
        """Whether documents have no id, and their ranks are their numbers."""
        return not read.has_ids and self.job.options.keep_policy[0] == "first"

    def _write_pairs(self, decided: Decided, documents: DataFrame, read: Read) -> dict[str, int]:
        """pairs.parquet; and how many pairs are in it, or are not."""
        pairs = similar_pairs(decided)
        total = pairs.count()
        written = min(total, MAX_PAIRS)
        some = pairs.all() if total == written else pairs.first(MAX_PAIRS)
        none = sql.lit(None).cast("string")
        named = (
            some.withColumns({"a_id": none, "b_id": none})
            if self._nameless(read)
            else pairs_by_number(some, documents)
        )
        path = self.folder / "pairs.parquet"
        write_table(named, ["a", "b"], path, tables.PAIRS, rows.Pairs(), read.places)
        return {
            "written": written,
            "limit": MAX_PAIRS,
            "beyond_limit": total - written,
            "capped_buckets": decided.members.capped(),
        }

    def _write_kept(self, read: Read, documents: DataFrame, removed: DataFrame | pa.Table) -> None:
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
        write_files(self.spark, kept, read.files, write)

    def _bits(self, rows: DataFrame | pa.Table, read: Read) -> Bits:
        return bits_of(rows, lambda batch: numbers(batch, "number"), read.count)


@dataclass(frozen=True)
class Without:
    """In a task: the documents that are not among the first ones that are dropped."""

    dropped: Broadcast[NDArray[np.bool_]]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        dropped = self.dropped.value
        for batch in batches:
            number = numbers(batch, "number")
            early = number < len(dropped)
            early[early] = dropped[number[early]]
            yield batch.filter(column(~early))
