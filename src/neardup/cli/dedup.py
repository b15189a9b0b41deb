"""neardup dedup: files in, the files without near-duplicates out, with every decision."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.arguments import (
    INPUT,
    KEEP,
    LAYOUT,
    OUTPUT,
    AsJson,
    Config,
    Force,
    Format,
    Id,
    Inputs,
    KeyFile,
    Memory,
    NoKept,
    Prefer,
    Quiet,
    SkipBadFiles,
    Strict,
    Text,
    Within,
    Workers,
    check_workers,
    read_key,
    stale_bands,
    with_options,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from neardup.options import Options
    from neardup.pipeline.job import Job
    from neardup.pipeline.record import FinishedRun
    from neardup.pipeline.run import MakeOutput, Signals
    from neardup.runtime import Progress


URL = re.compile("[A-Za-z][A-Za-z0-9+.-]*://")
OutOrUrl = Annotated[
    str,
    typer.Option(
        "--out",
        "-o",
        metavar="OUT",
        help="The folder to write; with --engine spark, or its URL.",
        show_default=False,
    ),
]
FLAT = 2
"""Bands of so few rows make documents meet that have little in common."""


@with_options("neardup dedup")
def dedup(
    context: typer.Context,
    inputs: Inputs,
    out: OutOrUrl,
    config: Config = None,
    text: Text = "text",
    id: Id = None,
    format: Format = "auto",
    strict: Strict = False,
    skip_bad_files: SkipBadFiles = False,
    key_file: KeyFile = None,
    within: Within = None,
    prefer: Prefer = None,
    merge_rows: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Rows with the same value are one document, wherever they are.",
            show_default=False,
            rich_help_panel=INPUT,
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="Also remove what is similar to a document of an earlier run, of "
            "saved sketches or of these files, which are only read. Can be given several times.",
            show_default=False,
            rich_help_panel=KEEP,
        ),
    ] = None,
    pairs: Annotated[
        bool,
        typer.Option(
            "--pairs",
            help="Also write pairs.parquet: all similar pairs, not only those that decided.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    no_kept: NoKept = False,
    save_sketches: Annotated[
        bool,
        typer.Option(
            "--save-sketches",
            help="Keep the sketches in OUT, for --against and for other thresholds.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    keep_full: Annotated[
        bool,
        typer.Option(
            "--keep-full",
            help="With --bits: keep the full slots in the saved sketches too, for other bands.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    force: Force = False,
    engine: Annotated[
        str,
        typer.Option(
            metavar="ENGINE",
            help="local, this machine; or spark, a cluster.",
            rich_help_panel=OUTPUT,
        ),
    ] = "local",
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="With --engine spark: the cluster's master, such as spark://host:7077, "
            "yarn or local[4].",
            show_default="what spark-submit or Spark's settings say",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    memory: Memory = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Remove near-duplicates from files and write what is kept, removed and why.

    OUT holds kept/ (same file names, formats and rows), removed.parquet,
    clusters.parquet, rejected.parquet, report.html and run.json. A run that was stopped goes on
    with the same command.
    """
    from neardup.cli.progress import progress_for
    from neardup.cli.summary import print_run
    from neardup.corpus.inputs import find_inputs
    from neardup.errors import UsageError
    from neardup.options import Options
    from neardup.spec import WEIGHTED

    key = read_key(key_file, quiet)
    stale = stale_bands(context) if config else set()
    options = Options.of(key=key, **{n: v for n, v in given.items() if n not in stale})
    threads = check_workers(workers)
    check_engine(engine, master, workers)
    if engine == "spark":
        check_spark(options, merge_rows is not None, save_sketches)
    by_url = urls_only([*inputs, out, *(against or ())], engine)
    found = [] if by_url else find_inputs(inputs, format)
    with progress_for(quiet=quiet or as_json) as progress:
        if stale and not LAYOUT & given.keys() - stale:
            progress.say(chosen_anew(config, options))
        from neardup.corpus.documents import Columns
        from neardup.formatting import parse_bytes
        from neardup.pipeline.budget import Budget
        from neardup.pipeline.job import Job
        from neardup.pipeline.run import run_job
        from neardup.report.run_page import write_report

        if merge_rows is not None and id is not None:
            raise UsageError("--merge-rows names the documents: leave out --id")
        if merge_rows is not None and options.spec.sketch in WEIGHTED:
            what = "fingerprints" if options.by_bits else "those of bags"
            raise UsageError(
                f"--merge-rows joins sketches, and {what} can't be joined: use --sketch minhash, "
                "or join the rows before"
            )
        columns = Columns(
            text=text,
            id=merge_rows or id,
            id_option="merge-rows" if merge_rows else "id",
            keep=options.keep_policy[1],
            within=within,
            tokens=options.spec.unit == "token",
        )
        if by_url:
            refuse_with_urls(prefer, merge_rows, save_sketches, skip_bad_files)
            from neardup.pipeline.backends.spark.urls import dedup_urls

            room = task_memory(memory)
            finished = dedup_urls(
                started(master, progress),
                inputs,
                out,
                columns,
                options,
                format=format,
                key=key,
                against=tuple(against or ()),
                kept=not no_kept,
                pairs=pairs,
                strict=strict,
                force=force,
                progress=progress,
                finish=partial(write_report, title=out.rstrip("/").rpartition("/")[2]),
                memory=room,
            )
        else:
            folder = Path(out)
            job = Job(
                inputs=found,
                out=folder,
                options=options,
                columns=columns,
                workers=threads,
                pairs=pairs,
                kept=not no_kept,
                folders=tuple(filter(os.path.isdir, inputs)),
                force=force,
                strict=strict,
                against=tuple(map(Path, against or ())),
                prefer=prefer,
                save_sketches=save_sketches,
                keep_full=keep_full,
                merge_rows=merge_rows is not None,
                skip_bad_files=skip_bad_files,
                key=key,
                finish=partial(write_report, title=folder.resolve().name),
                budget=Budget(None if memory is None else parse_bytes(memory)),
            )
            finished = run_job(job, progress, *making(engine, master, memory))
    print_run(finished.record, summary(finished, options, out), quiet, as_json)
    if engine == "spark":
        from neardup.pipeline.backends.spark.startup import save_archive as keep_java_classes

        keep_java_classes(quiet or as_json)


def check_engine(engine: str, master: str | None, workers: int | None) -> None:
    """Refuse what does not go together."""
    from neardup.errors import UsageError
    from neardup.pipeline.backends import ENGINES
    from neardup.spec import check_choice

    check_choice("engine", engine, ENGINES)
    if engine == "local" and master is not None:
        raise UsageError("--master belongs to --engine spark: give both, or leave it out")
    if engine == "spark" and workers is not None:
        raise UsageError(
            "--workers belongs to --engine local: how many tasks run at once is up to Spark, as in "
            "--master local[4]"
        )


def check_spark(options: Options, merge_rows: bool, save_sketches: bool) -> None:
    """Refuse what is not there on Spark; starting it takes its time."""
    from neardup.pipeline.backends.spark.session import require_spark

    require_spark()
    from neardup.pipeline.backends.spark.run import require_supported

    require_supported(options, merge_rows, save_sketches)


def urls_only(places: Sequence[str], engine: str) -> bool:
    """Whether everything is a URL, which Spark reads and writes; a mixture is refused."""
    from neardup.errors import UsageError

    urls = [place for place in places if URL.match(place)]
    if urls and engine != "spark":
        raise UsageError(f"{urls[0]} is a URL, which only Spark reads: use --engine spark")
    if urls and len(urls) < len(places):
        other = next(place for place in places if not URL.match(place))
        raise UsageError(
            f"{urls[0]} is a URL and {other} is not: write all of them as URLs, such as "
            "file:///data/in, or none"
        )
    return bool(urls)


def refuse_with_urls(
    prefer: str | None, merge_rows: str | None, save_sketches: bool, skip_bad_files: bool
) -> None:
    """Refuse what is about files, of which Spark's own readers know nothing."""
    from neardup.errors import UsageError

    given = {
        "--prefer": prefer,
        "--merge-rows": merge_rows,
        "--save-sketches": save_sketches,
        "--skip-bad-files": skip_bad_files,
    }
    for option, value in given.items():
        if value:
            raise UsageError(f"{option} is not there for URLs: leave it out")


def started(master: str | None, progress: Progress, size: int | None = None) -> SparkSession:
    """A session whose executors have what is needed, for so many bytes of inputs."""
    from neardup.pipeline.backends.spark.session import check_executors, open_session
    from neardup.pipeline.backends.spark.startup import is_this_python

    progress.say("starting Spark")
    spark = open_session(master, size=size)
    here = str(spark.sparkContext.master).startswith("local")
    if not here or not is_this_python(spark.sparkContext.pythonExec):
        check_executors(spark, progress)
    return spark


def task_memory(memory: str | None) -> int:
    """What a task on Spark may hold."""
    from neardup.formatting import parse_bytes
    from neardup.pipeline.backends.spark.limits import TASK_MEMORY

    return TASK_MEMORY if memory is None else parse_bytes(memory)


def making(
    engine: str, master: str | None, memory: str | None
) -> tuple[()] | tuple[MakeOutput, Signals]:
    """What makes the run, and when signals are obeyed; nothing for the local engine.

    Spark starts when OUT is known to be free.
    """
    if engine == "local":
        return ()
    from neardup.pipeline.backends.spark.run import find_near_duplicates_on
    from neardup.pipeline.run_progress import interrupt_at_once

    room = task_memory(memory)

    def make(job: Job, folder: Path, progress: Progress) -> FinishedRun:
        size = sum(file.path.stat().st_size for file in job.inputs)
        return find_near_duplicates_on(started(master, progress, size), room)(job, folder, progress)

    return make, interrupt_at_once


def chosen_anew(config: Path | None, options: Options) -> str:
    """That the bands of a config file are not used."""
    if options.by_bits:
        return f"the bands of {config} were chosen for something else: a simhash has none"
    flat = min(part.rows for part in options.curve.parts) <= FLAT
    cure = "; few slots make flat bands: give --slots, or plan again" if flat else ""
    return (
        f"the bands of {config} were chosen for something else: chosen anew, {options.curve}{cure}"
    )


def summary(finished: FinishedRun, options: Options, out: Path | str) -> str:
    """The end of a run, as a person sees it."""
    from neardup.cli.summary import last_lines, rejected_line
    from neardup.result import format_counts, format_example, format_largest_clusters, format_method

    record = finished.record
    counts = {
        name: record["counts"][name]
        for name in ("documents", "kept", "removed", "identical", "rejected")
    }
    lines = [
        format_counts(**counts),
        format_method(options, record["predicted"]["recall_at_threshold"]),
    ]
    if finished.largest:
        lines.append(format_largest_clusters(finished.largest))
    for name, witness, similarity in finished.examples:
        lines.append(format_example(options, name, witness, similarity))
    lines += rejected_line(record)
    if ignored := record.get("ignored_lines"):
        lines.append(
            f"ignored             {ignored['count']:,} lines that are in too many documents; "
            "run.json lists them"
        )
    if record["full_buckets"]["count"]:
        lines.append(
            f"hot buckets         {record['full_buckets']['count']:,} in which not every document "
            "was compared; run.json lists them"
        )
    return "\n".join([*lines, *last_lines(record, out)]) + "\n"
