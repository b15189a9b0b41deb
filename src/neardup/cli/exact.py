"""neardup exact: remove exact duplicates from files: documents, paragraphs or lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

from neardup.cli.arguments import (
    MATCH,
    AsJson,
    Engine,
    Master,
    Quiet,
    RunInputs,
    RunOut,
    option,
    read_number,
)
from neardup.cli.console import print_run, progress_for
from neardup.cli.signatures import with_options, with_run_options
from neardup.formatting import format_count, make_printable

if TYPE_CHECKING:
    from neardup.options import Options
    from neardup.pipeline.record import FinishedRun


@with_options("neardup exact")
@with_run_options
def exact(
    inputs: RunInputs,
    out: RunOut = None,
    by: Annotated[
        str,
        option(
            "WHAT",
            "text: byte for byte the same. words: the same words in the same order; case, "
            "punctuation and white space don't count.",
            panel=MATCH,
        ),
    ] = "text",
    unit: Annotated[
        str,
        option(
            "UNIT",
            "document: remove copies of documents. paragraph or line: cut every repeated one out "
            "of the texts, in whichever document it was first.",
            panel=MATCH,
        ),
    ] = "document",
    min_length: Annotated[
        int | None,
        option(
            "N",
            "Never cut a paragraph or line with fewer characters, not counting white space.",
            default="20",
            panel=MATCH,
        ),
    ] = None,
    filter_kind: Annotated[
        str | None,
        option(
            "KIND",
            "Find copies in one pass, in the memory of a filter: set (exact), bloom or cuckoo (10 "
            "to 13 bits a document; a few documents that are not copies are removed too).",
            "--filter",
            default="none, compare all",
            panel=MATCH,
        ),
    ] = None,
    fpr: Annotated[
        float | None,
        option(
            "RATE",
            "The false-positive rate of --filter bloom when it contains all documents.",
            default="0.01",
            panel=MATCH,
            parser=read_number,
        ),
    ] = None,
    expected: Annotated[
        int | None,
        option(
            "N",
            "The number of documents that the filter is sized for.",
            default="the number in INPUT",
            panel=MATCH,
        ),
    ] = None,
    *,
    run_options: dict[str, Any],
    engine: Engine = "local",
    master: Master = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Remove exact duplicates from files: documents, or repeated paragraphs or lines in them.

    OUT holds the same as after neardup dedup, and cut.parquet if paragraphs or lines were cut.
    The same command resumes a run that was stopped, unless it reads or writes a pipe.
    """
    from neardup.options import Options
    from neardup.pipeline.backends.engine import check_engine, use_engine

    options = Options.of(**given)
    check_engine(engine, master, run_options["workers"])
    with progress_for(quiet=quiet or as_json) as progress, ExitStack() as stack:
        from neardup.pipeline.exact import ExactDuplicates
        from neardup.pipeline.exact_filter import ExactFilter
        from neardup.pipeline.exact_hashes import ExactSpec
        from neardup.pipeline.job import make_job
        from neardup.pipeline.remote import fetch_urls
        from neardup.pipeline.run import run_job
        from neardup.pipeline.run_summary import check_rejected
        from neardup.report.run_page import write_report

        places = stack.enter_context(fetch_urls(inputs, out, (), run_options["force"], progress))
        run_options["force"] |= places.upload is not None
        job = make_job(places.inputs, places.out, options, write_report=write_report, **run_options)
        sameness = ExactSpec.of(by, unit, min_length, options.spec.profile)
        filtering = ExactFilter.of(filter_kind, fpr, expected, sameness, options.keep)
        job = places.name_files(job)
        job = use_engine(job, engine, master, run_options["memory"], progress)
        finished = run_job(job, progress, ExactDuplicates(sameness, filtering))
        places.deliver(progress)
    shown = "\n".join(summary(finished, options, places.report_page(job))) + "\n"
    print_run(finished.record, shown, quiet, as_json, job.is_piped)
    check_rejected(finished.record, job.rejected_list)


def summary(finished: FinishedRun, options: Options, page: str | None) -> Iterator[str]:
    """Yield the lines of the summary that is printed at the end of a run."""
    from neardup.pipeline.run_summary import last_lines
    from neardup.wording import (
        add_cures,
        format_largest_clusters,
        format_rejected,
        format_sources,
        format_undated,
    )

    record = finished.record
    counts, spec, cut = record["counts"], record["spec"], record.get("cut")
    shorter = f" ({cut['shorter']:,} of them shorter)" if cut else ""
    yield (
        f"{format_count(counts['documents'], 'document')}   {counts['kept']:,} kept{shorter}   "
        f"{counts['removed']:,} removed   {counts['rejected']:,} rejected"
    )
    how = "byte for byte the same" if spec["by"] == "text" else "the same words in the same order"
    if cut:
        yield cut_line(cut, spec, how)
    used_filter = record.get("filter")
    if not cut:
        yield f"duplicates are {how}" + (", or seem to be" if _is_approximate(used_filter) else "")
    if used_filter:
        yield filter_line(used_filter)
    yield from format_sources(record["sources"])
    if finished.largest:
        yield format_largest_clusters(finished.largest)
    for name, witness, *_ in finished.examples:
        why = "nothing new in it: it begins as in" if cut else "the same as"
        yield make_printable(f"an example          {name} removed, {why} {witness}")
    if undated := counts.get("undated"):
        yield format_undated(undated, options)
    yield from format_rejected(add_cures(record["reasons"]), counts["rejected"])
    yield from last_lines(record, page)


def _is_approximate(used_filter: dict[str, Any] | None) -> bool:
    """Return whether a filter was used that has false positives."""
    return used_filter is not None and not used_filter["witnesses"]


def filter_line(used: dict[str, Any]) -> str:
    """Describe the filter of a run, as its record states it."""
    from neardup.formatting import format_bytes

    size = format_bytes(used["bytes"])
    if used["kind"] == "set":
        return f"found by a set of hashes, {size}"
    return (
        f"found by a {used['kind']} filter, {size}, estimated false-positive rate "
        f"{used['estimated_fpr']:.5f}: about {used['expected_lost']:,.0f} of the removed are no "
        "copies, and no witness is known"
    )


def cut_line(cut: dict[str, int], spec: dict[str, Any], how: str) -> str:
    """Describe what was cut: how many paragraphs or lines, and their bytes."""
    from neardup.formatting import format_bytes

    return (
        f"{cut['cut']:,} of {cut['found']:,} {spec['unit']}s cut, "
        f"{format_bytes(cut['bytes'])}: {how} as "
        f"an earlier one, {spec['min_length']:,} characters or more"
    )
