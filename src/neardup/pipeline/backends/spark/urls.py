"""Run over URLs: read and written by Spark, on any file system that it supports.

OUT gets kept, in the format of the inputs, and removed.parquet, clusters.parquet, rejected.parquet,
which are folders of Parquet files; then report.html, and run.json when all the rest is written.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from neardup.corpus.columns import Source
from neardup.corpus.documents import Columns
from neardup.corpus.urls import hide_secrets
from neardup.errors import InputError, OutputTaken, UsageError
from neardup.keys import Key
from neardup.options import Options
from neardup.pipeline.backends.spark.arrow import StageTables
from neardup.pipeline.backends.spark.dataframe_report import DataFrameReport
from neardup.pipeline.backends.spark.dataframes import DataFrameOutcome, DataFrameRun
from neardup.pipeline.backends.spark.failures import translate_spark_errors
from neardup.pipeline.backends.spark.inputs import DataFrameInput, JsonLinesInput
from neardup.pipeline.backends.spark.limits import TASK_MEMORY
from neardup.pipeline.job import MAX_REJECTED, Job
from neardup.pipeline.output import FORCE, RUN_FILE, RUN_NAMES, WORK_FOLDER
from neardup.pipeline.record import FinishedRun
from neardup.runtime import SILENT, Progress


@dataclass(frozen=True)
class UrlPath:
    """A folder or a file, as Hadoop's file systems see it."""

    spark: SparkSession
    url: str

    def __truediv__(self, name: str) -> UrlPath:
        return UrlPath(self.spark, f"{self.url.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The URL without secrets, for messages."""
        return hide_secrets(self.url)

    @cached_property
    def _opened(self) -> tuple[Any, Any]:
        jvm: Any = self.spark.sparkContext._jvm
        with translate_spark_errors(f"opening {self.name}"):
            path = jvm.org.apache.hadoop.fs.Path(self.url)
            settings = self.spark._jsparkSession.sessionState().newHadoopConf()
            return path.getFileSystem(settings), path

    @property
    def whole(self) -> str:
        """The URL with the file system and the host, so that two URLs can be compared."""
        system, path = self._opened
        return str(system.makeQualified(path).toString())

    def matches(self) -> list[UrlPath]:
        """Return the existing files and folders of this name, which may have wildcards."""
        system, path = self._opened
        with translate_spark_errors(f"looking for {self.name}"):
            found = system.globStatus(path) or []
            return [UrlPath(self.spark, entry.getPath().toString()) for entry in found]

    def size(self) -> int:
        """Return the bytes of a file, or of everything in a folder."""
        system, path = self._opened
        with translate_spark_errors(f"looking into {self.name}"):
            return int(system.getContentSummary(path).getLength())

    def names(self) -> list[str]:
        """Return the names in a folder; none if it does not exist, its own name if it is a file."""
        system, path = self._opened
        with translate_spark_errors(f"looking into {self.name}"):
            entries = system.listStatus(path) if system.exists(path) else []
            return sorted(entry.getPath().getName() for entry in entries)

    def delete(self) -> None:
        """Delete it with everything in it; do nothing if it does not exist."""
        system, path = self._opened
        with translate_spark_errors(f"deleting {self.name}"):
            system.delete(path, True)

    def write(self, data: bytes) -> None:
        """Write a file, replacing an existing one."""
        system, path = self._opened
        with translate_spark_errors(f"writing {self.name}"):
            stream = system.create(path, True)
            try:
                stream.write(bytearray(data))
            finally:
                stream.close()


def create_work_folder(spark: SparkSession, url: str | None) -> UrlPath:
    """Return an empty folder for the tables between stages, which all executors can write.

    Args:
        url: The user's choice. None: in Spark's checkpoint folder, or temporary on one machine.
    """
    if url is not None:
        folder = UrlPath(spark, url)
        if names := folder.names():
            raise OutputTaken(
                f"{folder.name} is not empty ({', '.join(names[:3])}): choose another folder as "
                "work="
            )
        return folder
    checkpoints = spark.sparkContext.getCheckpointDir()
    if checkpoints:
        return UrlPath(spark, checkpoints) / f"neardup-{uuid.uuid4().hex}"
    if str(spark.sparkContext.master).startswith("local"):
        made = Path(tempfile.mkdtemp(prefix="neardup-"))
        # Not when the result is deleted: a frame made of it may be used longer.
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        # Not as_uri(): Hadoop does not decode what that encodes, such as a space.
        return UrlPath(spark, f"file://{made}")
    raise UsageError(
        "tables between the stages need a folder that all executors can write: give one as "
        "work=, such as hdfs:///tmp/neardup or s3a://bucket/neardup, or set a checkpoint folder"
    )


REPORT = "report.html"
WRITING = "writing"
"""This file is in WORK while OUT has a part of a run, which the next run may replace."""
SUFFIXES = {"parquet": "parquet", "jsonl": "jsonl", "json": "jsonl", "ndjson": "jsonl"}


def dedup_urls(
    spark: SparkSession,
    inputs: Sequence[str],
    out: str,
    columns: Columns,
    options: Options,
    *,
    format: str = "auto",
    key: Key | None = None,
    against: Sequence[str] = (),
    kept: bool = True,
    pairs: bool = False,
    strict: bool = False,
    max_rejected: float = MAX_REJECTED,
    force: bool = False,
    finish: Callable[[Path], object] | None = None,
    memory: int = TASK_MEMORY,
    progress: Progress = SILENT,
) -> FinishedRun:
    """Deduplicate the rows behind URLs, and write OUT; run.json is written last.

    Args:
        inputs: URLs of files or folders, all of one format; may have wildcards.
        out: The URL of OUT.
        columns: The columns, or fields of JSON, that are used.
        options: What counts as similar and which copy is kept.
        format: parquet, jsonl, or auto: by the suffix.
        key: The secret key of hash siphash.
        against: URLs of an earlier corpus, which is never removed.
        kept: Whether to write the kept rows.
        pairs: Whether to write all similar pairs.
        strict: Whether a rejected document is an error.
        max_rejected: The largest share of rejected documents; it is recorded, not checked.
        force: Whether to replace a finished run in OUT.
        finish: Makes report.html in the folder of a run; called in a task.
        memory: The bytes that a task may hold, approximately.
        progress: Shows the stages.
    """
    place = UrlPath(spark, out)
    check_output_url(place, [*inputs, *against], force)
    work = place / WORK_FOLDER
    work.delete()  # of a run that was stopped
    try:
        sizes = {url: _measure_input(spark, url) for url in (*inputs, *against)}
        kind = _find_format(spark, list(sizes), format)
        new = open_input(spark, inputs, kind, columns)
        earlier = open_input(spark, against, kind, columns.plain) if against else None
        job = Job(
            inputs=[],
            out=Path(),
            options=options,
            columns=new.columns,
            pairs=pairs,
            kept=kept,
            strict=strict,
            max_rejected=max_rejected,
            key=key,
            workers=spark.sparkContext.defaultParallelism,
        )
        dataframe_run = DataFrameRun(
            job, new, earlier, StageTables(spark, work.url), memory, progress
        )
        outcome = dataframe_run.run()
        outcome.record["parameters"]["against"] = list(map(hide_secrets, against))
        outcome.record["skipped_files"] = []
        # All inputs together: which row is from which input is not known.
        size, count = sum(sizes[url] for url in inputs), outcome.record["counts"]["documents"]
        outcome.record["inputs"] = [
            {
                "file": ", ".join(map(hide_secrets, inputs)),
                "size": size,
                "documents": count,
                "xxh3_128": "",
            }
        ]
        (work / WRITING).write(b"")
        with dataframe_run.stage("writing"):
            _write_tables(place, new, outcome, job)
            report = DataFrameReport(outcome, new)
        dataframe_run.add_timings(outcome.record)
        if finish is not None:
            (place / REPORT).write(report.report(finish, REPORT))
        data = json.dumps(outcome.record, indent=2, ensure_ascii=False) + "\n"
        (place / RUN_FILE).write(data.encode())
    except BaseException:
        if WRITING in work.names():
            _delete_run(place)
        work.delete()
        if not place.names():
            place.delete()
        raise
    finished = FinishedRun(outcome.record, report.largest(), report.examples())
    work.delete()
    return finished


def check_output_url(out: UrlPath, others: Sequence[str], force: bool) -> None:
    """Raise an error if OUT is not empty (unless forced), contains an input, or is in one."""
    place = out.whole.rstrip("/") + "/"
    for one in [one for url in others for one in UrlPath(out.spark, url).matches()]:
        other = one.whole.rstrip("/") + "/"
        if other.startswith(place) or place.startswith(other):
            raise UsageError(
                f"{out.name} and {one.name} contain one another: choose an output outside the input"
            )
    names = [name for name in out.names() if name != WORK_FOLDER]
    if WRITING in (out / WORK_FOLDER).names():  # OUT has a part of a run that was stopped
        names = [name for name in names if name not in RUN_NAMES]
    if names and not force:
        raise OutputTaken(
            f"{out.name} is not empty ({', '.join(names[:3])}): choose another output, or use "
            f"{FORCE}, which replaces the files of a run and leaves others alone"
        )
    if names and RUN_FILE not in names and set(names) & set(RUN_NAMES):
        raise OutputTaken(
            f"{out.name} holds no finished run, and {min(set(names) & set(RUN_NAMES))} would be "
            "replaced: move it away, or choose another output"
        )


def _measure_input(spark: SparkSession, url: str) -> int:
    found = UrlPath(spark, url).matches()
    if not found:
        raise InputError(f"{hide_secrets(url)} does not exist: check the URL", hide_secrets(url))
    return sum(one.size() for one in found)


def open_input(
    spark: SparkSession, urls: Sequence[str], kind: str, columns: Columns
) -> DataFrameInput:
    """Return the rows of the files behind URLs."""
    first = hide_secrets(urls[0])
    called = Source(first if len(urls) == 1 else f"{first} and others", "--{}")
    with translate_spark_errors("opening the inputs"):
        if kind == "parquet":
            rows = spark.read.option("mergeSchema", True).parquet(*urls)
        else:
            rows = spark.read.text(list(urls), lineSep="\n")
    return (DataFrameInput if kind == "parquet" else JsonLinesInput)(rows, columns, called)


def _find_format(spark: SparkSession, urls: Sequence[str], format: str) -> str:
    """Return the format of all inputs; raise UsageError if there are several."""
    kinds = {_guess_format(spark, url) for url in urls} if format == "auto" else {format}
    if len(kinds) > 1 or not kinds <= set(SUFFIXES.values()):
        raise UsageError(
            "Spark reads URLs of one format, Parquet or JSON lines, not "
            f"{' and '.join(sorted(kinds))}: convert them, or give their format with --format"
        )
    return kinds.pop()


def _guess_format(spark: SparkSession, url: str) -> str:
    """Return the format by the suffix, or by that of the files in a folder."""
    names = [url.rstrip("/").rsplit("/", 1)[-1]]
    if not _format_of_name(names[0]):
        every = [name for one in UrlPath(spark, url).matches() for name in one.names()]
        names = [name for name in every if name[0] not in "._"]
        if not names:
            raise InputError(f"{hide_secrets(url)} is empty: check the URL", hide_secrets(url))
    kind = _format_of_name(names[0])
    if kind is None:
        raise UsageError(
            f"{hide_secrets(url)} has neither the suffix .parquet nor .jsonl: give its format with "
            "--format"
        )
    return kind


def _format_of_name(name: str) -> str | None:
    return next((SUFFIXES[part] for part in name.lower().split(".")[1:] if part in SUFFIXES), None)


def _delete_run(out: UrlPath) -> None:
    """Delete a run, run.json first."""
    for name in reversed(RUN_NAMES):
        (out / name).delete()


def _write_tables(out: UrlPath, new: DataFrameInput, outcome: DataFrameOutcome, job: Job) -> None:
    """Write the tables and kept rows into OUT, replacing those of an earlier run."""
    _delete_run(out)
    if job.kept:
        write, kept = outcome.kept(new).write, (out / "kept").url
        if isinstance(new, JsonLinesInput):
            write.text(kept, lineSep="\n")
        else:
            write.parquet(kept)
    tables = {
        "removed": outcome.removed,
        "clusters": outcome.clusters(),
        "rejected": outcome.rejected,
    }
    if job.pairs:
        tables["pairs"] = outcome.pairs()
    for name, frame in tables.items():
        frame.write.parquet((out / f"{name}.parquet").url, compression="zstd")
