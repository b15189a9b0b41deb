"""neardup plan: from what is asked for to an operating point, with its reasons and its price."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.arguments import Format, Quiet, Text, usable_cores, with_options

if TYPE_CHECKING:
    from neardup.planner.planner import Plan

CORPUS, WANTED, LIMITS, DECIDED = "Documents", "What is wanted", "What there is", "Decided already"


@with_options("neardup plan", panel=DECIDED, without="chosen by the plan")
def plan(
    documents: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="How many there will be: 300M, 5,000, 1e9.",
            show_default="those of --sample",
            rich_help_panel=CORPUS,
        ),
    ] = None,
    sample: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="A file or folder of them, or of some like them: lengths and "
            "duplicates are measured there. Can be given several times.",
            show_default=False,
            rich_help_panel=CORPUS,
        ),
    ] = None,
    text: Text = "text",
    format: Format = "auto",
    shingles: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Distinct shingles of a document, on average.",
            show_default="300",
            rich_help_panel=CORPUS,
        ),
    ] = None,
    bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Of a document's text, on average.",
            show_default="6 a shingle",
            rich_help_panel=CORPUS,
        ),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            help="The share of what is called a duplicate that must be one.",
            show_default=False,
            rich_help_panel=WANTED,
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Documents that arrive in a second; the plan is then for an index. On "
            "Spark, those that a run gets through.",
            show_default=False,
            rich_help_panel=WANTED,
        ),
    ] = None,
    purpose: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="WHAT",
            help="files: a run over files. index: signatures and tables are held in memory.",
            show_default="files; with --rate, index",
            rich_help_panel=WANTED,
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="ENGINE",
            help="local, one machine; or spark: how many executors, and what is "
            "shuffled. --memory, --disk and --cores are then those of one executor.",
            rich_help_panel=LIMITS,
        ),
    ] = "local",
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="What one machine may use: 100GB.",
            show_default="no limit; on Spark 16GB",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    disk: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="What one machine may use on disk: 2TB.",
            show_default=False,
            rich_help_panel=LIMITS,
        ),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(
            help="Of one machine.",
            show_default="those of this one; on Spark: 4",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    sample_size: Annotated[
        int,
        typer.Option(
            metavar="N", help="Compare so many documents of --sample.", rich_help_panel=CORPUS
        ),
    ] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the sample.", rich_help_panel=CORPUS)] = 1,
    no_calibrate: Annotated[
        bool,
        typer.Option(
            "--no-calibrate",
            help="Use stored figures instead of a few seconds of measuring on this machine.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE.toml",
            help="Write the operating point, for neardup dedup --config.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an earlier config file at --out.")
    ] = False,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a text.")] = False,
    **given: Any,
) -> None:
    """From what you need to an operating point: slots, bands, memory, disk, time, and why.

    Ends with 1 if what is asked for can't be had; the plan is then the nearest that can.
    """
    import json

    from neardup.cli.progress import progress_for
    from neardup.planner.planner import plan as make

    if out is not None:
        check_free(out, force)
    with progress_for(quiet=quiet or as_json) as progress:
        made = make(
            documents,
            sample=sample or (),
            text=text,
            format=format,
            shingles=shingles,
            bytes=bytes,
            precision=precision,
            memory=memory,
            disk=disk,
            rate=rate,
            cores=cores_of(engine) if cores is None else cores,
            purpose=purpose,
            sample_size=sample_size,
            seed=seed,
            calibrate=not no_calibrate,
            engine=engine,
            progress=progress,
            **given,
        )
    if out is not None:
        made.write(out)
    if as_json:
        print(json.dumps(made.to_json(), indent=2))
    elif not quiet:
        show(made)
        if out is not None:
            limit = () if memory is None or made.sla.purpose == "index" else ("--memory", memory)
            if made.spark is not None:
                limit = ("--engine", "spark")
            run = ("neardup", "dedup", "INPUT", "-o", "OUT", "--config", str(out), *limit)
            print(f"\n{shlex.join(run)}")
    if not made.met:
        raise typer.Exit(1)


def cores_of(engine: str) -> int | None:
    """Those that this process may use; of an executor, what is usual."""
    return None if engine == "spark" else usable_cores()


def check_free(out: Path, force: bool) -> None:
    """Refuse what can't be written, and to replace anything but a config file, with --force."""
    from neardup.errors import NeardupError, OutputError, ParameterError
    from neardup.formats.config import load_config

    if not out.absolute().parent.is_dir():
        raise ParameterError(f"--out {out}: give a name in a folder that exists")
    if not os.path.lexists(out):
        return
    try:
        load_config(out)
    except NeardupError:
        raise OutputError(
            f"{out} is there and is not a config file of neardup: choose another name"
        ) from None
    if not force:
        raise OutputError(f"{out} is there: choose another name, or use --force, which replaces it")


def show(made: Plan) -> None:
    """The plan, as a person reads it."""
    from rich.console import Console
    from rich.padding import Padding

    from neardup.planner.description import (
        describe_prediction,
        describe_requirements,
        format_figures,
        format_stages,
    )

    console = Console(highlight=False, soft_wrap=False)
    console.print(describe_requirements(made), markup=False)
    for problem in made.problems:
        console.print(f"not met: {problem}", markup=False, style="bold")
    for note in made.notes:
        console.print(f"note: {note}", markup=False)
    console.print()
    for line in [*describe_prediction(made), *format_stages(made)]:
        console.print(line, markup=False)
    for choice in made.choices:
        console.print()
        console.print(f"[bold]{choice.name}: {choice.value}[/bold]")
        console.print(Padding(choice.reason, (0, 0, 0, 2), expand=False), markup=False)
        for other in choice.rejected:
            line = f"not {other.value}: {format_figures(other)}; {other.why}"
            console.print(Padding(line, (0, 0, 0, 4), expand=False), markup=False, style="dim")
