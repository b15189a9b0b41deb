"""One run over URLs: read and written by Spark, on anything that it reads and writes.

OUT gets kept, in the format of the inputs, and removed.parquet, clusters.parquet, rejected.parquet,
which are folders of Parquet files; then report.html, and run.json when all the rest is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from neardup.corpus.columns import Source
from neardup.corpus.documents import Columns
from neardup.errors import InputError, OutputError, UsageError
from neardup.keys import Key
from neardup.options import Options
from neardup.pipeline.backends.spark.addresses import Address
from neardup.pipeline.backends.spark.deciding import Deciding, Outcome
from neardup.pipeline.backends.spark.failures import in_plain_words
from neardup.pipeline.backends.spark.given import Given, Lines
from neardup.pipeline.backends.spark.limits import MEMORY
from neardup.pipeline.backends.spark.showing import Showing
from neardup.pipeline.backends.spark.tables import Work
from neardup.pipeline.job import Job
from neardup.pipeline.output import NAMES, RUN, WORK
from neardup.pipeline.record import Finished
from neardup.runtime import SILENT, Progress

REPORT = "report.html"
WRITING = "writing"
"""In WORK as long as OUT has a part of a run: the next one may replace it."""
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
    force: bool = False,
    finish: Callable[[Path], object] | None = None,
    memory: int = MEMORY,
    progress: Progress = SILENT,
) -> Finished:
    """Do the run; OUT has a run.json afterwards if it is complete.

    `finish` makes report.html in the folder of a run; it goes to a task.
    """
    place = Address(spark, out)
    check_out(place, [*inputs, *against], force)
    work = place / WORK
    work.delete()  # of a run that was stopped
    try:
        sizes = {url: _size(spark, url) for url in (*inputs, *against)}
        kind = _kind(spark, list(sizes), format)
        new = opened(spark, inputs, kind, columns)
        earlier = opened(spark, against, kind, columns.plain) if against else None
        job = Job(
            inputs=[],
            out=Path(),
            options=options,
            columns=new.columns,
            pairs=pairs,
            kept=kept,
            strict=strict,
            key=key,
            workers=spark.sparkContext.defaultParallelism,
        )
        deciding = Deciding(job, new, earlier, Work(spark, work.url), memory, progress)
        outcome = deciding.outcome()
        outcome.record["parameters"]["against"] = list(against)
        outcome.record["skipped_files"] = []
        # All inputs together: whose row is whose is not known.
        size, count = sum(sizes[url] for url in inputs), outcome.record["counts"]["documents"]
        outcome.record["inputs"] = [
            {"file": ", ".join(inputs), "size": size, "documents": count, "xxh3_128": ""}
        ]
        (work / WRITING).write(b"")
        with deciding.stage("writing"):
            _write(place, new, outcome, job)
            showing = Showing(outcome, new)
        deciding.clocked(outcome.record)
        if finish is not None:
            (place / REPORT).write(showing.report(finish, REPORT))
        data = json.dumps(outcome.record, indent=2, ensure_ascii=False) + "\n"
        (place / RUN).write(data.encode())
    except BaseException:
        if WRITING in work.names():
            _clear(place)
        work.delete()
        if not place.names():
            place.delete()
        raise
    finished = Finished(outcome.record, showing.largest(), showing.examples())
    work.delete()
    return finished


def check_out(out: Address, others: Sequence[str], force: bool) -> None:
    """Refuse an OUT that is not empty, or that is in an input, or an input in it."""
    place = out.whole.rstrip("/") + "/"
    for one in [one for url in others for one in Address(out.spark, url).matches()]:
        other = one.whole.rstrip("/") + "/"
        if other.startswith(place) or place.startswith(other):
            raise UsageError(
                f"{out.url} and {one.url} are in each other: choose an output outside of the input"
            )
    there = [name for name in out.names() if name != WORK]
    if WRITING in (out / WORK).names():  # what is there is a part of a run that was stopped
        there = [name for name in there if name not in NAMES]
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


def _size(spark: SparkSession, url: str) -> int:
    found = Address(spark, url).matches()
    if not found:
        raise InputError(f"{url} is not there: check the URL", url)
    return sum(one.size() for one in found)


def opened(spark: SparkSession, urls: Sequence[str], kind: str, columns: Columns) -> Given:
    """The rows behind some URLs."""
    called = Source(urls[0] if len(urls) == 1 else f"{urls[0]} and others", "--{}")
    with in_plain_words("opening the inputs"):
        if kind == "parquet":
            rows = spark.read.option("mergeSchema", True).parquet(*urls)
        else:
            rows = spark.read.text(list(urls), lineSep="\n")
    return (Given if kind == "parquet" else Lines)(rows, columns, called)


def _kind(spark: SparkSession, urls: Sequence[str], format: str) -> str:
    """The format of all inputs."""
    kinds = {_format(spark, url) for url in urls} if format == "auto" else {format}
    if len(kinds) > 1 or not kinds <= set(SUFFIXES.values()):
        raise UsageError(
            "Spark reads URLs of one format, Parquet or JSON lines, not "
            f"{' and '.join(sorted(kinds))}: convert them, or say with --format what they are"
        )
    return kinds.pop()


def _format(spark: SparkSession, url: str) -> str:
    """By the suffix, or that of the files in a folder."""
    names = [url.rstrip("/").rsplit("/", 1)[-1]]
    if not _known(names[0]):
        every = [name for one in Address(spark, url).matches() for name in one.names()]
        names = [name for name in every if name[0] not in "._"]
        if not names:
            raise InputError(f"{url} is empty: check the URL", url)
    kind = _known(names[0])
    if kind is None:
        raise UsageError(
            f"{url} is neither .parquet nor .jsonl by its name: say with --format what it is"
        )
    return kind


def _known(name: str) -> str | None:
    return next((SUFFIXES[part] for part in name.lower().split(".")[1:] if part in SUFFIXES), None)


def _clear(out: Address) -> None:
    """Delete a run, run.json first."""
    for name in reversed(NAMES):
        (out / name).delete()


def _write(out: Address, new: Given, outcome: Outcome, job: Job) -> None:
    """The tables and rows that belong into OUT, instead of those of an earlier run."""
    _clear(out)
    if job.kept:
        write, kept = outcome.kept(new).write, (out / "kept").url
        if isinstance(new, Lines):
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
