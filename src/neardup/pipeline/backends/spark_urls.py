"""Run over URLs: a reader and a writer in front of a run over DataFrames.

Spark reads and writes any file system that it supports. OUT gets kept, in the format of the inputs,
and removed.parquet, clusters.parquet, rejected.parquet (on request pairs.parquet, vetoed.parquet),
which are folders of Parquet files; then report.html, and run.json when all the rest is written.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from neardup.corpus.columns import Source
from neardup.corpus.documents import Columns
from neardup.corpus.urls import hide_secrets, is_url
from neardup.errors import MissingInput, OutputTaken, UsageError
from neardup.formats.tables import write_error
from neardup.pipeline.backends.spark import SparkBackend
from neardup.pipeline.backends.spark_dataframes import (
    RUN,
    DataFrameInput,
    DataFrameRun,
)
from neardup.pipeline.backends.spark_failures import translate_spark_errors
from neardup.pipeline.backends.spark_json_lines import JsonLinesInput
from neardup.pipeline.job import Job
from neardup.pipeline.output import FORCE, RUN_FILE, RUN_NAMES
from neardup.pipeline.record import FinishedRun, StageClock
from neardup.pipeline.stages.sketch import SKETCHES_FOLDER
from neardup.runtime import SILENT, Progress

FILE_SCHEME = "file://"
WRITING = ".neardup-writing"
"""This file is in OUT, and in the work folder, while a run writes there: it may be replaced."""


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

    def copy(self, file: Path) -> None:
        """Write a file that is a copy of one that the driver sees by its path."""
        system, path = self._opened
        with translate_spark_errors(f"writing {self.name}"):
            jvm: Any = self.spark.sparkContext._jvm
            local = jvm.org.apache.hadoop.fs.Path(file.as_uri())
            system.copyFromLocalFile(False, True, local, path)

    def write(self, data: bytes) -> None:
        """Write a file, replacing an existing one."""
        system, path = self._opened
        with translate_spark_errors(f"writing {self.name}"):
            stream = system.create(path, True)
            try:
                stream.write(bytearray(data))
            finally:
                stream.close()


@contextmanager
def shared_folder(spark: SparkSession, work: str | None) -> Iterator[Path]:
    """Yield an empty folder that all machines see by the same path; delete it after an error.

    Args:
        spark: The session.
        work: The user's choice: a path. None: in Spark's checkpoint folder, if that has a path, or
            temporary if all tasks run on this machine.
    """
    folder = _choose_folder(spark, work)
    if (folder / WRITING).exists():  # of a run that was killed
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists() and (names := os.listdir(folder)):
        first = ", ".join(sorted(names)[:3])
        raise OutputTaken(
            f"{folder} is not empty ({first}): choose another folder as work= (--work)"
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / WRITING).touch()
    except OSError as error:
        raise write_error(folder, error) from None
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _choose_folder(spark: SparkSession, work: str | None) -> Path:
    if work is not None:
        if is_url(work) and not work.startswith(FILE_SCHEME):
            raise UsageError(
                f"{hide_secrets(work)} is a URL: give the path of a folder that the driver and all "
                "executors see, such as a network file system or a mounted volume"
            )
        return Path(work.removeprefix(FILE_SCHEME)).absolute()
    if str(spark.sparkContext.master).startswith("local"):
        made = Path(tempfile.mkdtemp(prefix="neardup-"))
        # Not when the result is deleted: a frame made of it may be used longer.
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        return made
    checkpoints = re.match(r"file:/*(/.*)", spark.sparkContext.getCheckpointDir() or "")
    if checkpoints:
        return Path(checkpoints[1]) / f"neardup-{uuid.uuid4().hex}"
    raise UsageError(
        "files between the stages need a folder that the driver and all executors see by the same "
        "path, such as a network file system: give it as work= (--work), or as Spark's checkpoint "
        "folder"
    )


REPORT, REMOVED = "report.html", "removed.parquet"
SUFFIXES = {"parquet": "parquet", "jsonl": "jsonl", "json": "jsonl", "ndjson": "jsonl"}


def dedup_urls(
    inputs: Sequence[str],
    out: str,
    job: Job,
    *,
    format: str = "auto",
    against: Sequence[str] = (),
    force: bool = False,
    work: str | None = None,
    progress: Progress = SILENT,
) -> FinishedRun:
    """Deduplicate the rows behind URLs, and write OUT; run.json is written last.

    Args:
        inputs: URLs of files or folders, all of one format; may have wildcards.
        out: The URL of OUT.
        job: The job, without inputs, on Spark.
        format: parquet, jsonl, or auto: by the suffix.
        against: URLs of an earlier corpus, which is never removed.
        force: Whether to replace a finished run in OUT.
        work: The path of a folder that all machines see, for the files between the stages.
        progress: Shows the stages.
    """
    assert isinstance(job.backend, SparkBackend)  # noqa: S101
    clock = StageClock()
    spark = job.backend.spark
    place = UrlPath(spark, out)
    check_output_url(place, [*inputs, *against], force)
    sizes = {url: _measure_input(spark, url) for url in (*inputs, *against)}
    kind = _find_format(spark, list(sizes), format)
    new = open_input(spark, inputs, kind, job.columns)
    earlier = open_input(spark, against, kind, job.columns.plain) if against else None
    with shared_folder(spark, work) as folder:
        stored = replace(job, kept=kind == "jsonl")
        run = DataFrameRun(stored, new, earlier, folder, progress, clock)
        finished = run.finished
        finished.record["parameters"] |= {
            "against": list(map(hide_secrets, against)),
            "kept_files": job.kept,
        }
        # All inputs together: which row is from which input is not known.
        finished.record["inputs"] = [
            {
                "file": ", ".join(map(hide_secrets, inputs)),
                "size": sum(sizes[url] for url in inputs),
                "documents": finished.record["counts"]["documents"],
                "xxh3_128": "",
            }
        ]
        progress.stage("writing to the URL", None, "tables")
        (place / WRITING).write(b"")
        _delete_run(place)
        try:
            with clock.stage("write"):
                _write_tables(place, run, job)
            finished.record.update(seconds=clock.seconds, stages=clock.stages)
            (place / REPORT).write((folder / RUN / REPORT).read_bytes())
            data = json.dumps(finished.record, indent=2, ensure_ascii=False) + "\n"
            if job.save_sketches:
                _write_sketches(place / SKETCHES_FOLDER, folder / RUN, data.encode())
            (place / RUN_FILE).write(data.encode())
            (place / WRITING).delete()
        except BaseException:
            _delete_run(place)
            (place / WRITING).delete()
            if not place.names():
                place.delete()
            raise
    shutil.rmtree(folder, ignore_errors=True)
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
    names = out.names()
    if WRITING in names:  # OUT has a part of a run that was killed
        names = [name for name in names if name not in (WRITING, *RUN_NAMES)]
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
        raise MissingInput(f"{hide_secrets(url)} does not exist: check the URL", hide_secrets(url))
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
            raise MissingInput(f"{hide_secrets(url)} is empty: check the URL", hide_secrets(url))
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


def _write_tables(out: UrlPath, run: DataFrameRun, job: Job) -> None:
    """Write the tables and the kept rows into OUT."""
    if job.kept:
        kept, place = run.new.keep_rows(run), (out / "kept").url
        if run.new.format == "jsonl":
            kept.write.text(place, lineSep="\n")
        else:
            kept.write.parquet(place)
    rare = {"pairs": job.pairs, "vetoed": bool(job.options.veto)}
    for name in ("removed", "clusters", "rejected", *(name for name in rare if rare[name])):
        path = (out / f"{name}.parquet").url
        run.table(name).write.parquet(path, compression="zstd")


def _write_sketches(out: UrlPath, run: Path, record: bytes) -> None:
    """Write the sketches of a run with its decisions, from which an index is made.

    That needs run.json, and removed.parquet as one file in the order of the sketches.

    Args:
        out: Where to write them.
        run: The folder of the run, which the driver sees.
        record: The content of run.json.
    """
    for path in [*sorted((run / SKETCHES_FOLDER).iterdir()), run / REMOVED]:
        (out / path.name).copy(path)
    (out / RUN_FILE).write(record)
