"""neardup tune: the cheapest operating point that finds enough, on a sample of documents.

What it prints is a table of the trials that fits the terminal, and the advice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.arguments import (
    INPUT,
    MATCH,
    OUTPUT,
    Format,
    Inputs,
    Quiet,
    Text,
    Workers,
    check_workers,
    make_console,
    with_options,
)

if TYPE_CHECKING:
    from neardup.planner.trial_cache import TrialCache
    from neardup.planner.tuning import TrialPoint, Tuning


AXES = "Axes: values with commas between, every combination is tried"
FILES = ("tuning.json", "sweep.csv", "tuned.toml", "tuning.html")
"""What is written; the first says that the others are of a sweep."""


@with_options("neardup tune")
def tune(
    inputs: Inputs,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="OUT",
            help="A folder for sweep.csv, tuning.json, tuning.html and "
            "tuned.toml, which neardup dedup --config reads.",
            show_default=False,
            readable=False,
        ),
    ] = None,
    text: Text = "text",
    format: Format = "auto",
    sample: Annotated[
        int,
        typer.Option(
            metavar="N", help="Try operating points on so many documents.", rich_help_panel=INPUT
        ),
    ] = 5_000,
    documents: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="How many there will be, if INPUT is only some of them: 300M. What is "
            "cheapest for few is not for many.",
            show_default="those in INPUT",
            rich_help_panel=INPUT,
        ),
    ] = None,
    precision: Annotated[
        float,
        typer.Option(
            help="The share of what is found that must be so similar.", rich_help_panel=MATCH
        ),
    ] = 0.99,
    slots: Annotated[
        str, typer.Option(metavar="LIST", help="Slots of a signature.", rich_help_panel=AXES)
    ] = "16,32,64,128,256",
    bands: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Bands and rows, such as 14x8,20x5; auto: those that reach the recall "
            "at the threshold with so many slots, and their neighbours.",
            rich_help_panel=AXES,
        ),
    ] = "auto",
    sketches: Annotated[
        str,
        typer.Option(
            metavar="LIST", help="minhash, oneperm, weighted, simhash.", rich_help_panel=AXES
        ),
    ] = "minhash,oneperm",
    shingles: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Shingles of the trials.",
            show_default="--shingle",
            rich_help_panel=AXES,
        ),
    ] = None,
    thresholds: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Thresholds of the trials.",
            show_default="--threshold",
            rich_help_panel=AXES,
        ),
    ] = None,
    verify: Annotated[
        str, typer.Option(metavar="LIST", help="exact, estimate, none.", rich_help_panel=AXES)
    ] = "exact",
    bits: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Bits of a slot, for --verify estimate: 1, 2, 4, 8, 16, 32.",
            show_default="all",
            rich_help_panel=AXES,
        ),
    ] = None,
    buckets: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Only so many buckets a band; to see what that does, a run has no such option.",
            show_default=False,
            rich_help_panel=AXES,
        ),
    ] = None,
    vocabulary: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Only so many different shingles; to see what that does.",
            show_default=False,
            rich_help_panel=AXES,
        ),
    ] = None,
    time_limit: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="A trial that takes longer is ended, and is a row without figures.",
            rich_help_panel=OUTPUT,
        ),
    ] = 60.0,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where results of trials are kept, which are not run again.",
            show_default="the user's cache folder",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", help="Run every trial, keep nothing.", rich_help_panel=OUTPUT),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace an earlier sweep in OUT; other files there are left alone.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print the content of tuning.json instead of the table.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    **given: Any,
) -> None:
    """Try operating points on a sample of your documents, and recommend one.

    All pairs of the sample are compared, so that each trial's recall and precision are known. The
    cheapest trial that finds enough is recommended. Trials that were finished earlier are not run
    again.
    """
    from neardup.cli.progress import progress_for
    from neardup.corpus.inputs import find_inputs
    from neardup.planner.sweep import SweepRequest
    from neardup.planner.tuner import run_sweep, sample_files

    axes = {
        "slots": slots,
        "bands": bands,
        "sketches": sketches,
        "shingles": shingles,
        "thresholds": thresholds,
        "verify": verify,
        "bits": bits,
        "buckets": buckets,
        "vocabulary": vocabulary,
    }
    request = SweepRequest.of(
        precision=precision, time_limit=time_limit, documents=documents, axes=axes, **given
    )
    threads = check_workers(workers)
    if out is not None:
        make_folder(out, force)
    results = None if no_cache else open_cache(cache)
    with progress_for(quiet=quiet or as_json) as progress:
        files = find_inputs(inputs, format)
        specimen = sample_files(files, text, sample, request.options, threads, progress)
        tuning = run_sweep(specimen, request, threads, progress, results)
    if out is not None:
        write_sweep(tuning, out)
    print_tuning(tuning, out, as_json, quiet)


def open_cache(folder: Path | None) -> TrialCache:
    """Results of earlier trials; a folder that somebody names must take new ones."""
    from neardup.planner.trial_cache import TrialCache

    found = TrialCache(folder)
    if folder is not None:
        found.must_be_writable()
    return found


def make_folder(out: Path, force: bool) -> None:
    """Refuse a folder that can't be written, or is taken, before the work is done."""
    import tempfile

    from neardup.errors import OutputError
    from neardup.formats.tables import write_error

    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise write_error(out, error) from None
    there = [name for name in FILES if (out / name).exists()]
    if there and not is_sweep(out / FILES[0]):
        raise OutputError(f"{out / there[0]} is there, and not from a sweep: choose another folder")
    if there and not force:
        raise OutputError(f"{out} holds an earlier sweep: choose another folder, or use --force")


def is_sweep(path: Path) -> bool:
    """Whether a file is what `write` wrote first."""
    import json

    try:
        return {"trials", "reasons"} <= set(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def write_sweep(tuning: Tuning, out: Path) -> None:
    """The files of a sweep."""
    from neardup.formats.config import write_config
    from neardup.formats.tables import write_json, write_text
    from neardup.report.tuning_page import tuning_page

    write_json(out / "tuning.json", tuning.to_json())
    tuning.to_csv(out / "sweep.csv")
    write_config(out / "tuned.toml", tuning.options, tuning.reasons)
    write_text(out / "tuning.html", tuning_page(tuning))


TABLE_WIDTH = 100
"""Of a table that is not shown on a terminal."""
WIDEST = 1_000
"""Wider than any table."""
LEFT_OUT = ("bucket", "pairs", "t_sig s", "t_rest s", "candidates", "MB")
"""What is not shown where there is no room, the first of them first; sweep.csv has all of it."""
VARYING: dict[str, Callable[[TrialPoint], str]] = {
    "bits": lambda point: str(point.bits),
    "shingle": lambda point: point.shingle,
    "threshold": lambda point: f"{point.threshold:g}",
    "verify": lambda point: point.verify,
    "buckets": lambda point: "" if point.buckets is None else str(point.buckets),
    "vocabulary": lambda point: "" if point.vocabulary is None else str(point.vocabulary),
}
"""What is shown of points if they differ in it."""


def print_tuning(tuning: Tuning, out: Path | None, as_json: bool, quiet: bool) -> None:
    """The table and what follows from it, on standard output."""
    if as_json:
        import json

        print(json.dumps(tuning.to_json(), indent=2))
    elif not quiet:
        console = make_console(TABLE_WIDTH)
        console.print(describe_sample(tuning))
        found, width = fit_table(tuning, console)
        room, console.width = console.width, max(console.width, width)
        console.print(found)
        console.width = room
        console.print(legend(tuning))
        for line in tuning.reasons:
            console.print(line)
        if out is not None:
            console.print(f"{out / 'tuned.toml'} is for neardup dedup --config", soft_wrap=True)


def describe_sample(tuning: Tuning) -> str:
    """What was tried, on what."""
    reference = tuning.reference
    found = f"{tuning.true_pairs:,} pairs are" if tuning.true_pairs else "no pair is"
    copies = f"; {tuning.copies:,} identical ones are left out" if tuning.copies else ""
    lines = [
        f"{tuning.about}{copies}.",
        f"Of the {tuning.sampled:,} that are left, {found} at least {reference.threshold:g} "
        f"similar ({reference.shingle} shingles, every pair compared).",
        *(f"Not tried: {many:,} x {why}." for why, many in tuning.pruned.items()),
    ]
    return "\n".join(lines)


def legend(tuning: Tuning) -> str:
    """What the marks and the columns mean."""
    return (
        f"> recommended, d the default for a recall of {tuning.recall:g}; t_sig and t_rest of the "
        "sample, all s of all documents, on one core"
    )


def fit_table(tuning: Tuning, console: Any) -> tuple[Any, int]:
    """The table with as many columns as there is room for, and its width.

    It is wider than the room only if nothing more can be left out: nothing is cut.
    """
    for count in range(len(LEFT_OUT) + 1):
        found = trial_table(tuning, LEFT_OUT[:count])
        width = console.measure(found, options=console.options.update(max_width=WIDEST)).maximum
        if width <= console.width:
            break
    return found, width


def trial_table(tuning: Tuning, left_out: Collection[str]) -> Any:
    """A row for each trial."""
    from rich.table import Table

    from neardup.report.tuning_page import FIGURES

    points = [row.point for row in tuning.rows]
    varying = [name for name, cell in VARYING.items() if len(set(map(cell, points))) > 1]
    shown = [name for name in FIGURES if name not in left_out]
    heads = ["", "sketch", "slots", "bands", *varying, *shown]
    found = Table(*heads, box=None, header_style="bold", padding=(0, 1, 0, 0))
    for column in found.columns:
        column.no_wrap = True
    for column in found.columns[2:]:
        column.justify = "right"
    for row in tuning.ordered:
        point, best = row.point, row is tuning.best
        mark = ">" if best else "d" if row is tuning.default else ""
        bands = "" if point.bands is None else f"{point.bands}x{point.rows}"
        cells = [mark, point.sketch, str(point.slots), bands]
        cells += [VARYING[name](point) for name in varying]
        cells += [FIGURES[name](row) for name in shown] if row.done else [row.status]
        found.add_row(*cells, style="bold" if best else None)
    return found
