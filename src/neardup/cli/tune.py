"""neardup tune: the cheapest operating point that finds enough, on a sample of documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neardup.cli.matching import TextProfile
from neardup.cli.shared import (
    INPUT,
    MATCH,
    OUTPUT,
    Format,
    Inputs,
    Quiet,
    Text,
    Workers,
    check_workers,
)

if TYPE_CHECKING:
    from neardup.planner.cache import Cache
    from neardup.planner.tuning import Tuning

AXES = "Axes: values with commas between, every combination is tried"
FILES = ("tuning.json", "sweep.csv", "tuned.toml", "tuning.html")
"""What is written; the first says that the others are of a sweep."""


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
            "cheapest for few is not for many.  [default: those in INPUT]",
            show_default=False,
            rich_help_panel=INPUT,
        ),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(help="Pairs at least this similar are to be found.", rich_help_panel=MATCH),
    ] = 0.8,
    recall: Annotated[
        float, typer.Option(help="The share of them that must be found.", rich_help_panel=MATCH)
    ] = 0.99,
    precision: Annotated[
        float,
        typer.Option(
            help="The share of what is found that must be so similar.", rich_help_panel=MATCH
        ),
    ] = 0.99,
    shingle: Annotated[
        str,
        typer.Option(
            metavar="UNIT:SIZE",
            help="What similar means: of which shingles.",
            rich_help_panel=MATCH,
        ),
    ] = "word:5",
    text_profile: TextProfile = "standard",
    seed: Annotated[
        int,
        typer.Option(
            help="Of the hashes; the sample has a seed of its own.", rich_help_panel=MATCH
        ),
    ] = 0,
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
            help="Shingles of the trials.  [default: --shingle]",
            show_default=False,
            rich_help_panel=AXES,
        ),
    ] = None,
    thresholds: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Thresholds of the trials.  [default: --threshold]",
            show_default=False,
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
            help="Bits of a slot, for --verify estimate: 1, 2, 4, 8, 16, 32.  [default: all]",
            show_default=False,
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
            help="Where results of trials are kept, which are not run again.  "
            "[default: the user's cache folder]",
            show_default=False,
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
) -> None:
    """Try operating points on a sample of your documents, and recommend one.

    All pairs of the sample are compared, so that each trial's recall and precision are known. The
    cheapest trial that finds enough is recommended. Trials that were finished earlier are not run
    again.
    """
    from neardup.cli.progress import progress_for
    from neardup.cli.tune_table import show
    from neardup.corpus.inputs import find_inputs
    from neardup.planner.specimen import from_files
    from neardup.planner.tuner import Request, sweep

    request = Request.of(
        threshold=threshold,
        recall=recall,
        precision=precision,
        shingle=shingle,
        text_profile=text_profile,
        seed=seed,
        time_limit=time_limit,
        documents=documents,
        slots=slots,
        bands=bands,
        sketches=sketches,
        shingles=shingles,
        thresholds=thresholds,
        verify=verify,
        bits=bits,
        buckets=buckets,
        vocabulary=vocabulary,
    )
    threads = check_workers(workers)
    if out is not None:
        make_folder(out, force)
    results = None if no_cache else opened(cache)
    with progress_for(quiet=quiet or as_json) as progress:
        files = find_inputs(inputs, format)
        specimen = from_files(files, text, sample, request.options, threads, progress)
        tuning = sweep(specimen, request, threads, progress, results)
    if out is not None:
        write(tuning, out)
    show(tuning, out, as_json, quiet)


def opened(folder: Path | None) -> Cache:
    """Results of earlier trials; a folder that somebody names must take new ones."""
    from neardup.planner.cache import Cache

    found = Cache(folder)
    if folder is not None:
        found.must_be_writable()
    return found


def make_folder(out: Path, force: bool) -> None:
    """Refuse a folder that can't be written, or is taken, before the work is done."""
    import tempfile

    from neardup.errors import OutputError
    from neardup.formats.tables import no_room

    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise no_room(out, error) from None
    there = [name for name in FILES if (out / name).exists()]
    if there and not of_a_sweep(out / FILES[0]):
        raise OutputError(f"{out / there[0]} is there, and not from a sweep: choose another folder")
    if there and not force:
        raise OutputError(f"{out} holds an earlier sweep: choose another folder, or use --force")


def of_a_sweep(path: Path) -> bool:
    """Whether a file is what `write` wrote first."""
    import json

    try:
        return {"trials", "reasons"} <= set(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def write(tuning: Tuning, out: Path) -> None:
    """The files of a sweep."""
    from neardup.formats.config import write_config
    from neardup.formats.tables import write_json, write_text
    from neardup.report.tuning import page

    write_json(out / "tuning.json", tuning.to_json())
    tuning.to_csv(out / "sweep.csv")
    write_config(out / "tuned.toml", tuning.options, tuning.reasons)
    write_text(out / "tuning.html", page(tuning))
