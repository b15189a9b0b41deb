"""neardup dedup: remove near-duplicates from files, and write every decision."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.arguments import (
    INPUT,
    KEEP,
    OUTPUT,
    RARE,
    AsJson,
    Config,
    Engine,
    KeyFile,
    Master,
    Quiet,
    RunInputs,
    RunOut,
    complete,
    flag,
    option,
)
from neardup.cli.bare_options import PARQUET, read_bare
from neardup.cli.console import print_run, progress_for
from neardup.cli.key_files import read_key
from neardup.cli.option_values import stale_bands
from neardup.cli.settings import SETTINGS
from neardup.cli.signatures import with_options, with_run_options
from neardup.corpus.urls import hide_secrets, is_url
from neardup.option_table import LAYOUT

if TYPE_CHECKING:
    from neardup.index.stored_corpus import IndexCorpus
    from neardup.options import Options


FLAT = 2
"""In bands of at most this many rows, documents with few common shingles become candidates."""


@with_options("neardup dedup")
@with_run_options
def dedup(
    context: typer.Context,
    inputs: RunInputs,
    out: RunOut = None,
    config: Config = None,
    *,
    run_options: dict[str, Any],
    key_file: KeyFile = None,
    merge_rows: Annotated[
        str | None,
        option(
            "COLUMN",
            "Join rows with the same value in this column into one document, in any file.",
            default="every row is a document",
            panel=INPUT,
        ),
        RARE,
    ] = None,
    against: Annotated[
        list[str] | None,
        option(
            "PATH",
            "Also remove documents that are similar to one of an earlier run, of an index, of "
            "saved sketches or of these files, which are only read. Can be given several times.",
            default="none",
            panel=KEEP,
        ),
    ] = None,
    decisions: Annotated[
        Path | None,
        option(
            "FILE",
            "Obey what people decided about documents and pairs, before anything is compared: a "
            "file that neardup review has exported.",
            default="none",
            panel=KEEP,
        ),
    ] = None,
    same_ids: Annotated[
        bool,
        flag(
            "Obey decisions that were made about other inputs too: each id still names the same "
            "document.",
            "--same-ids",
            panel=KEEP,
        ),
        RARE,
    ] = False,
    pairs: Annotated[
        bool,
        flag(
            "Also write pairs.parquet: all similar pairs, not only those that decided.",
            "--pairs",
            panel=OUTPUT,
        ),
        RARE,
    ] = False,
    annotate: Annotated[
        str | None,
        option(
            "ROWS",
            "Write the columns cluster, cluster_size, witness and similarity: kept, to the rows "
            "that are kept; all, to all rows, of which none is removed.",
            default="no columns",
            panel=OUTPUT,
            autocompletion=complete(["kept", "all"]),
        ),
        RARE,
    ] = None,
    save_sketches: Annotated[
        str | None,
        option(
            "[parquet]",
            "Keep the sketches in OUT, for --against and for other thresholds; parquet: as Parquet "
            "files, which any engine can read.",
            default="they are deleted",
            panel=OUTPUT,
            autocompletion=complete([PARQUET]),
        ),
        RARE,
    ] = None,
    keep_full: Annotated[
        bool,
        flag(
            "With --bits: keep the full slots in the saved sketches too, for other bands.",
            "--keep-full",
            panel=OUTPUT,
        ),
        RARE,
    ] = False,
    dry_run: Annotated[
        bool,
        flag(
            "Show what would be read, needed and written, and end; a wrong column is an error.",
            "--dry-run",
            panel=OUTPUT,
        ),
    ] = False,
    engine: Engine = "local",
    master: Master = None,
    work: Annotated[
        str | None,
        option(
            "FOLDER",
            "With --engine spark and URLs: an empty folder that all machines see by this path, for "
            "the files between the stages.",
            default="temporary with a local master, else in Spark's checkpoint folder",
            panel=OUTPUT,
        ),
        RARE,
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Remove near-duplicates from files; write the kept rows and every decision.

    OUT holds kept/ (same file names, formats and rows), removed.parquet,
    clusters.parquet, rejected.parquet, report.html and run.json; or it is one file with the kept
    rows, or standard output. The same command resumes a run that was stopped, unless it reads or
    writes a pipe.
    """
    from neardup.errors import UsageError
    from neardup.options import Options
    from neardup.pipeline.backends.engine import check_engine, use_engine

    key = read_key(key_file, quiet)
    stale = stale_bands(context)
    options = Options.of(key=key, **{n: v for n, v in given.items() if n not in stale})
    force, memory = run_options["force"], run_options["memory"]
    check_engine(engine, master, run_options["workers"])
    earlier, addresses = list(against or ()), list[str]()
    if any(map(is_url, earlier)):
        from neardup.index.redis_store.address import hide_password
        from neardup.index.stored_corpus import split_addresses

        earlier, addresses = split_addresses(earlier)
    if dry_run and engine != "local":
        raise UsageError("--dry-run is for --engine local: neardup plan estimates runs on Spark")
    if dry_run and any(map(is_url, [*inputs, *([out] if out else []), *earlier])):
        raise UsageError(
            "--dry-run is for local files, and a URL would be fetched: give a part of the files by "
            "a path and a local -o, or estimate the run with neardup plan --documents N"
        )
    by_url = urls_only([*inputs, *([out] if out else []), *earlier], engine)
    with progress_for(quiet=quiet or as_json) as progress, ExitStack() as stack:
        if stale and not LAYOUT & given.keys() - stale:
            progress.say(describe_new_bands(config or context.meta[SETTINGS].file, options))
        from neardup.pipeline.budget import Budget, check_workers
        from neardup.pipeline.job import Job, make_columns, make_job
        from neardup.pipeline.remote import fetch_urls
        from neardup.pipeline.run import run_job
        from neardup.pipeline.run_summary import check_rejected, format_summary
        from neardup.report.run_page import write_report
        from neardup.source_counts import RemovalLimits

        if by_url and out is not None:
            if addresses:
                raise UsageError(
                    f"--against {hide_password(addresses[0])}: a run on Spark over URLs can't read "
                    "an index: give paths that all machines see, or the files of the index"
                )
            embed = options.vectors is not None and options.vectors.embed is not None
            refuse_with_urls(annotate, decisions, run_options, embed)
            from neardup.pipeline.backends.spark_urls import dedup_urls

            place = hide_secrets(out).rstrip("/")
            job = Job(
                budget=Budget(memory),
                has_files=False,
                inputs=[],
                out=Path(),
                options=options,
                columns=make_columns(
                    options,
                    run_options["text"],
                    run_options["id"],
                    run_options["within"],
                    merge_rows,
                    run_options["source"],
                ),
                workers=check_workers(None),
                kept=not run_options["no_kept"],
                limits=RemovalLimits(
                    run_options["max_removed"],
                    run_options["max_removed_per_source"],
                    run_options["yes"],
                ),
                pairs=pairs,
                strict=run_options["strict"],
                max_rejected=run_options["max_rejected"],
                key=key,
                merge_rows=merge_rows is not None,
                save_sketches=read_bare(save_sketches),
                keep_full=keep_full,
                finish=partial(write_report, title=place.rpartition("/")[2]),
            )
            job = use_engine(job, engine, master, memory, progress)
            finished = dedup_urls(
                inputs,
                out,
                job,
                format=run_options["input_options"].get("format", "auto"),
                against=tuple(earlier),
                force=force,
                work=work,
                progress=progress,
            )
            page: str | None = f"{place}/report.html"
            piped, listed = False, f"{place} is complete, and its rejected.parquet lists them"
        else:
            places = stack.enter_context(fetch_urls(inputs, out, earlier, force, progress))
            stored: tuple[IndexCorpus, ...] = ()
            if places.against or addresses:
                from neardup.index.stored_corpus import open_indexes

                indexes = open_indexes([*places.against, *addresses])
                stored = stack.enter_context(indexes)
                places.add_earlier([hide_password(each) for each in addresses])
            run_options["force"] |= places.upload is not None
            job = make_job(
                places.inputs,
                places.out,
                options,
                against=places.against,
                stored=stored,
                merge_rows=merge_rows,
                decisions=decisions,
                same_ids=same_ids,
                write_report=write_report,
                pairs=pairs,
                annotate=annotate,
                save_sketches=read_bare(save_sketches),
                keep_full=keep_full,
                key=key,
                **run_options,
            )
            job = places.name_files(job)
            if dry_run:
                from neardup.pipeline.dry_run import describe_job

                print(describe_job(job))
                return
            finished = run_job(use_engine(job, engine, master, memory, progress), progress)
            places.deliver(progress)
            page, piped, listed = places.report_page(job), job.is_piped, job.rejected_list
    print_run(finished.record, format_summary(finished, page), quiet, as_json, piped)
    check_rejected(finished.record, listed)


def urls_only(paths: Sequence[str], engine: str) -> bool:
    """Return whether Spark reads and writes the paths by itself: all are URLs; refuse a mixture."""
    from neardup.errors import UsageError

    urls = list(filter(is_url, paths))
    if engine != "spark" or not urls:
        return False
    if len(urls) < len(paths):
        other = next(path for path in paths if not is_url(path))
        raise UsageError(
            f"{hide_secrets(urls[0])} is a URL and {other} is not: write all of them as URLs, "
            "such as file:///data/in, or none"
        )
    return True


def refuse_with_urls(
    annotate: str | None,
    decisions: Path | None,
    run_options: dict[str, Any],
    embed: bool,
) -> None:
    """Refuse options about files, which Spark's own readers don't tell apart, and --embed."""
    from neardup.errors import UsageError

    input_options = run_options["input_options"]
    options = {
        "--prefer": run_options["prefer"],
        "--annotate": annotate,
        "--decisions": decisions,
        "--skip-bad-files": run_options["skip_bad_files"],
        "--include": input_options.get("include"),
        "--exclude": input_options.get("exclude"),
        "--delimiter": input_options.get("delimiter"),
        "--quote": input_options.get("quote", '"') != '"',
        "--no-header": input_options.get("no_header"),
        "--encoding": input_options.get("encoding", "utf-8") != "utf-8",
        "--records": input_options.get("records"),
        "--embed": embed,
    }
    for name, value in options.items():
        if value:
            raise UsageError(f"{name} is not supported with URLs: leave it out, or use paths")


def describe_new_bands(config: Path | None, options: Options) -> str:
    """Say that the bands of a config file are not used, and which are used instead."""
    if options.by_bits:
        return f"the bands of {config} were chosen for another sketch: a simhash has none"
    flat = min(part.rows for part in options.curve.parts) <= FLAT
    cure = "; few slots make flat bands: give --slots, or plan again" if flat else ""
    return f"the bands of {config} were chosen for other options: now {options.curve}{cure}"
