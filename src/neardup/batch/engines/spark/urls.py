"""One run over URLs: read and written by Spark, on anything that it reads and writes.

OUT gets kept, in the format of the inputs, and removed.parquet, clusters.parquet, rejected.parquet,
which are folders of Parquet files; then report.html, and run.json when all the rest is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructField, StructType

from neardup.batch.engines.spark.addresses import Address
from neardup.batch.engines.spark.deciding import Deciding, Outcome
from neardup.batch.engines.spark.failures import in_plain_words
from neardup.batch.engines.spark.frames import Given
from neardup.batch.engines.spark.limits import MEMORY
from neardup.batch.engines.spark.showing import Showing
from neardup.batch.engines.spark.tables import Work
from neardup.batch.job import Job
from neardup.batch.output import NAMES, RUN, WORK
from neardup.batch.record import Finished
from neardup.corpus.documents import Columns
from neardup.corpus.tables import Source, resolve
from neardup.errors import InputError, OutputError, RowError, UsageError
from neardup.keys import Key
from neardup.options import Options
from neardup.progress import SILENT, Progress

REPORT = "report.html"
LINE, BAD = "line of the file", "no JSON object"
SUFFIXES = {"parquet": "parquet", "jsonl": "jsonl", "json": "jsonl", "ndjson": "jsonl"}


def dedup_urls(
    spark: SparkSession, inputs: Sequence[str], out: str, columns: Columns, options: Options, *,
    format: str = "auto", key: Key | None = None, against: Sequence[str] = (),
    kept: bool = True, pairs: bool = False, strict: bool = False, force: bool = False,
    finish: Callable[[Path], object] | None = None, memory: int = MEMORY,
    progress: Progress = SILENT,
) -> Finished:  # fmt: skip
    """Do the run; OUT has a run.json afterwards if it is complete.

    `finish` makes report.html in the folder of a run; it goes to a task.
    """
    place = Address(spark, out)
    check_out(place, [*inputs, *against], force)
    job = Job(
        inputs=[], out=Path(), options=options, columns=columns, pairs=pairs, kept=kept,
        strict=strict, key=key, workers=spark.sparkContext.defaultParallelism,
    )  # fmt: skip
    work = place / WORK
    work.delete()  # of a run that was stopped
    try:
        new = opened(spark, inputs, format, columns)
        if strict and new.lost:
            raise RowError(
                f"lines that hold no JSON object: {new.lost:,}. "
                "Mend them, or run without --strict to set such rows aside"
            )
        earlier = opened(spark, against, format, columns.plain).given if against else None
        job = replace(job, columns=new.given.columns)
        deciding = Deciding(job, new.given, earlier, Work(spark, work.url), memory, progress)
        outcome = new.with_lost(deciding.outcome())
        outcome.record["parameters"]["against"] = list(against)
        outcome.record["skipped_files"] = []
        outcome.record["inputs"] = [_inputs(spark, inputs, outcome)]
        with deciding.stage("writing"):
            _write(place, new, outcome, job)
            showing = Showing(outcome, new.given)
        deciding.clocked(outcome.record)
        if finish is not None:
            (place / REPORT).write(showing.report(finish, REPORT))
        data = json.dumps(outcome.record, indent=2, ensure_ascii=False) + "\n"
        (place / RUN).write(data.encode())
        return Finished(outcome.record, showing.largest(), showing.examples())
    finally:
        work.delete()
        if not place.names():
            place.delete()


def check_out(out: Address, others: Sequence[str], force: bool) -> None:
    """Refuse an OUT that is not empty, or that is in an input, or an input in it."""
    place = out.whole.rstrip("/") + "/"
    for url in others:
        other = Address(out.spark, url).whole.rstrip("/") + "/"
        if other.startswith(place) or place.startswith(other):
            raise UsageError(
                f"{out.url} and {url} are in each other: choose an output outside of the input"
            )
    there = [name for name in out.names() if name != WORK]
    if there and not force:
        raise OutputError(
            f"{out.url} is not empty ({', '.join(there[:3])}): choose another output, or use "
            "--force, which replaces the files of a run and leaves others alone"
        )
    if there and RUN not in there and set(there) & set(NAMES):
        raise OutputError(
            f"{out.url} holds no finished run, and {min(set(there) & set(NAMES))} would be "
            "replaced: move it away, or choose another output"
        )


def _inputs(spark: SparkSession, urls: Sequence[str], outcome: Outcome) -> dict[str, object]:
    """All inputs together: whose row is whose is not known."""
    size = sum(Address(spark, url).size() for url in urls if "*" not in url)
    return {"file": ", ".join(urls), "size": size,
            "documents": outcome.record["counts"]["documents"], "xxh3_128": ""}  # fmt: skip


@dataclass(frozen=True)
class Opened:
    """What is read: the rows, and how many lines are lost, because they hold no JSON object.

    Of JSON lines each row has the line itself, so that kept ones are written as they were.
    """

    given: Given
    lines: bool
    lost: int = 0

    def with_lost(self, outcome: Outcome) -> Outcome:
        """With the lost lines among the rejected documents; nobody knows their ids."""
        if not self.lost:
            return outcome
        none = sql.lit(None).cast(outcome.rejected.schema["id"].dataType)
        lost = outcome.rejected.sparkSession.range(self.lost).select(none, sql.lit(BAD))
        record = outcome.record
        record["counts"]["documents"] += self.lost
        record["counts"]["rejected"] += self.lost
        record["reasons"][BAD] = self.lost
        return replace(outcome, rejected=outcome.rejected.union(lost))

    def write(self, frame: DataFrame, to: Address) -> None:
        """Some rows, in the format of the inputs."""
        if self.lines:
            frame.select(sql.col(f"`{LINE}`")).write.text(to.url, lineSep="\n")
        else:
            frame.write.parquet(to.url)


def opened(spark: SparkSession, urls: Sequence[str], format: str, columns: Columns) -> Opened:
    """The rows behind some URLs, all of one format."""
    called = Source(urls[0] if len(urls) == 1 else f"{urls[0]} and others", "--{}")
    kinds = {_format(spark, url) for url in urls} if format == "auto" else {format}
    if kinds == {"parquet"}:
        with in_plain_words("opening the inputs"):
            frame = spark.read.option("mergeSchema", True).parquet(*urls)
        return Opened(Given(frame, _resolved(columns, frame.columns, called), called), False)
    if kinds == {"jsonl"}:
        return _json_lines(spark, list(urls), columns, called)
    raise UsageError(
        f"Spark reads URLs of one format, Parquet or JSON lines, not {' and '.join(sorted(kinds))}"
        ": convert them, or say with --format what they are"
    )


def _json_lines(spark: SparkSession, urls: list[str], columns: Columns, called: Source) -> Opened:
    with in_plain_words("opening the inputs"):
        lines = spark.read.text(urls, lineSep="\n").withColumnRenamed("value", LINE)
        there = spark.read.json(urls, columnNameOfCorruptRecord=BAD).schema
    names = [field.name for field in there if field.name != BAD]
    columns = _resolved(columns, names, called)
    needed = set(columns.asked().values())
    schema = StructType(
        [field for field in there if field.name in needed] + [StructField(BAD, StringType())]
    )
    line = sql.col(f"`{LINE}`")
    parsed = sql.from_json(line, schema, {"columnNameOfCorruptRecord": BAD}).alias("row")
    rows = lines.where(sql.trim(line) != "").select(line, parsed).select(line, "row.*")
    if BAD not in there.fieldNames():
        return Opened(Given(rows.drop(BAD), columns, called), True)
    bad = sql.col(f"`{BAD}`").isNotNull()
    with in_plain_words("reading the inputs"):
        lost = rows.where(bad).count()
    return Opened(Given(rows.where(~bad).drop(BAD), columns, called), True, lost)


def _resolved(columns: Columns, names: list[str], called: Source) -> Columns:
    found = resolve(columns, names, called)
    if found.id is None:
        raise UsageError(
            "rows that Spark reads have no numbers: say with --id which column names them"
        )
    return found


def _format(spark: SparkSession, url: str) -> str:
    """By the suffix, or that of the files in a folder."""
    names = [url.rstrip("/").rsplit("/", 1)[-1]]
    if not _known(names[0]):
        names = [name for name in Address(spark, url).names() if name[0] not in "._"]
        if not names:
            raise InputError(f"{url} is not there, or is empty: check the URL", url)
    kind = _known(names[0])
    if kind is None:
        raise UsageError(
            f"{url} is neither .parquet nor .jsonl by its name: say with --format what it is"
        )
    return kind


def _known(name: str) -> str | None:
    return next((SUFFIXES[part] for part in name.lower().split(".")[1:] if part in SUFFIXES), None)


def _write(out: Address, new: Opened, outcome: Outcome, job: Job) -> None:
    """The tables and rows that belong into OUT, instead of those of an earlier run."""
    for name in reversed(NAMES):
        (out / name).delete()
    if job.kept:
        new.write(outcome.kept(new.given), out / "kept")
    tables = {"removed": outcome.removed, "clusters": outcome.clusters(),
              "rejected": outcome.rejected}  # fmt: skip
    if job.pairs:
        tables["pairs"] = outcome.pairs()
    for name, frame in tables.items():
        frame.write.parquet((out / f"{name}.parquet").url, compression="zstd")
