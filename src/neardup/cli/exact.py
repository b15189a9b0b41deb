"""neardup exact: files in, the files without what is exactly the same out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.arguments import (
    MATCH,
    AsJson,
    Force,
    Format,
    Id,
    Inputs,
    Memory,
    NoKept,
    Out,
    Prefer,
    Quiet,
    SkipBadFiles,
    Strict,
    Text,
    Within,
    Workers,
    check_workers,
    with_options,
)

if TYPE_CHECKING:
    from neardup.pipeline.record import FinishedRun


@with_options("neardup exact")
def exact(
    inputs: Inputs,
    out: Out,
    text: Text = "text",
    id: Id = None,
    format: Format = "auto",
    strict: Strict = False,
    skip_bad_files: SkipBadFiles = False,
    by: Annotated[
        str,
        typer.Option(
            help="text: byte for byte the same. words: the same words in the same order; case, "
            "punctuation and white space don't count.",
            rich_help_panel=MATCH,
        ),
    ] = "text",
    unit: Annotated[
        str,
        typer.Option(
            help="document: copies are removed. paragraph, line: what was there before, in any "
            "document, is cut out of the texts.",
            rich_help_panel=MATCH,
        ),
    ] = "document",
    min_length: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Never cut a paragraph or line with fewer characters, white space not counted.",
            show_default="20",
            rich_help_panel=MATCH,
        ),
    ] = None,
    filter_kind: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="KIND",
            help="One pass with a filter, in its memory: set (exact), "
            "bloom or cuckoo (10 to 13 bits a document; some that are no copies are lost).",
            show_default=False,
            rich_help_panel=MATCH,
        ),
    ] = None,
    fpr: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="False positives of --filter bloom when all documents are in.",
            show_default="0.01",
            rich_help_panel=MATCH,
        ),
    ] = None,
    expected: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How many documents the filter is made for.",
            show_default="as many as there are",
            rich_help_panel=MATCH,
        ),
    ] = None,
    within: Within = None,
    prefer: Prefer = None,
    no_kept: NoKept = False,
    force: Force = False,
    memory: Memory = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Remove exact duplicates from files: documents, or repeated paragraphs or lines in them.

    OUT holds what it holds after neardup dedup, and cut.parquet if paragraphs or lines were cut.
    A run that was stopped goes on with the same command.
    """
    from neardup.cli.progress import progress_for
    from neardup.cli.summary import print_run
    from neardup.corpus.inputs import find_inputs
    from neardup.options import Options

    options = Options.of(**given)
    threads = check_workers(workers)
    found = find_inputs(inputs, format)
    with progress_for(quiet=quiet or as_json) as progress:
        from neardup.corpus.documents import Columns
        from neardup.formatting import parse_bytes
        from neardup.pipeline.budget import Budget
        from neardup.pipeline.exact import ExactDuplicates
        from neardup.pipeline.exact_filter import ExactFilter
        from neardup.pipeline.exact_hashes import ExactSpec
        from neardup.pipeline.job import Job
        from neardup.pipeline.run import run_job
        from neardup.report.run_page import write_report

        job = Job(
            inputs=found,
            out=out,
            options=options,
            workers=threads,
            kept=not no_kept,
            columns=Columns(text=text, id=id, keep=options.keep_policy[1], within=within),
            folders=tuple(filter(os.path.isdir, inputs)),
            force=force,
            strict=strict,
            prefer=prefer,
            skip_bad_files=skip_bad_files,
            finish=partial(write_report, title=out.resolve().name),
            budget=Budget(None if memory is None else parse_bytes(memory)),
        )
        sameness = ExactSpec.of(by, unit, min_length, options.spec.profile)
        filtering = ExactFilter.of(filter_kind, fpr, expected, sameness, options.keep)
        finished = run_job(job, progress, ExactDuplicates(sameness, filtering))
    print_run(finished.record, "\n".join(summary(finished, out)) + "\n", quiet, as_json)


def summary(finished: FinishedRun, out: Path) -> Iterator[str]:
    """The end of a run, as a person sees it."""
    from neardup.cli.summary import last_lines, rejected_line
    from neardup.result import format_largest_clusters

    record = finished.record
    counts, spec, cut = record["counts"], record["spec"], record.get("cut")
    shorter = f" ({cut['shorter']:,} of them shorter)" if cut else ""
    yield (
        f"{counts['documents']:,} documents   {counts['kept']:,} kept{shorter}   "
        f"{counts['removed']:,} removed   {counts['rejected']:,} rejected"
    )
    how = "byte for byte the same" if spec["by"] == "text" else "the same words in the same order"
    if cut:
        yield cut_line(cut, spec, how)
    found = record.get("filter")
    if not cut:
        yield f"duplicates are {how}" + (", or seem to be" if _is_likely(found) else "")
    if found:
        yield filter_line(found)
    if finished.largest:
        yield format_largest_clusters(finished.largest)
    for name, witness, _ in finished.examples:
        yield f"an example          {name} removed, " + (
            f"nothing new in it: it begins as in {witness}" if cut else f"the same as {witness}"
        )
    yield from rejected_line(record)
    yield from last_lines(record, out)


def _is_likely(found: dict[str, Any] | None) -> bool:
    """Whether a filter was asked that is sometimes wrong."""
    return found is not None and not found["witnesses"]


def filter_line(found: dict[str, Any]) -> str:
    from neardup.formatting import format_bytes

    size = format_bytes(found["bytes"])
    if found["kind"] == "set":
        return f"found by a set of hashes, {size}"
    return (
        f"found by a {found['kind']} filter, {size}, estimated false-positive rate "
        f"{found['estimated_fpr']:.5f}: about {found['expected_lost']:,.0f} of the removed are no "
        "copies, and no witness is known"
    )


def cut_line(cut: dict[str, int], spec: dict[str, Any], how: str) -> str:
    from neardup.formatting import format_bytes

    return (
        f"{cut['cut']:,} of {cut['found']:,} {spec['unit']}s cut, "
        f"{format_bytes(cut['bytes'])}: {how} as "
        f"an earlier one, {spec['min_length']:,} characters or more"
    )
