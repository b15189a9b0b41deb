"""neardup plan: choose an operating point for requirements, with its reasons and its cost."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.arguments import OUTPUT, RARE, PlainJson, Quiet, Text, flag, option, read_number
from neardup.cli.console import print_json, progress_for
from neardup.cli.next_command import print_next
from neardup.cli.signatures import with_input_options, with_options
from neardup.corpus.inputs import InputOptions
from neardup.option_table import BandOptions, SignatureOptions, ThresholdOptions, options_of
from neardup.pipeline.budget import usable_cores

if TYPE_CHECKING:
    from neardup.planner.planner import Plan
    from neardup.planner.spark_cluster import ClusterSize

CORPUS, REQUIRED, LIMITS = "Documents", "Requirements", "Machine"
CHOSEN = options_of(SignatureOptions) | options_of(BandOptions)
"""The matching options that a plan chooses; the others have their usual defaults."""


@with_options(
    "neardup plan",
    panel=dict.fromkeys(options_of(ThresholdOptions), REQUIRED),
    unset=dict.fromkeys(CHOSEN, "chosen by the plan"),
)
@with_input_options
def plan(
    documents: Annotated[
        str | None,
        option(
            "N",
            "The number of documents: 300M, 5,000, 1e9.",
            default="those of --sample",
            panel=CORPUS,
        ),
    ] = None,
    sample: Annotated[
        list[str] | None,
        option(
            "PATH",
            "A file or folder of these documents, or of similar ones, in which lengths and "
            "duplicates are measured. Can be given several times.",
            default="none, typical figures are assumed",
            panel=CORPUS,
        ),
    ] = None,
    text: Text = "text",
    *,
    input_options: InputOptions,
    shingles: Annotated[
        str | None,
        option(
            "N",
            "The distinct shingles of a document, on average.",
            default="those of --sample, else 300",
            panel=CORPUS,
        ),
        RARE,
    ] = None,
    bytes: Annotated[
        str | None,
        option(
            "SIZE",
            "The bytes of a document's text, on average: 5KB.",
            default="those of --sample, else 6 a shingle",
            panel=CORPUS,
        ),
    ] = None,
    sample_size: Annotated[
        int, option("N", "Compare this many documents of --sample.", panel=CORPUS), RARE
    ] = 10_000,
    seed: Annotated[int, option("N", "The seed by which they are chosen.", panel=CORPUS), RARE] = 1,
    precision: Annotated[
        float | None,
        option(
            "X",
            "The share of the removed documents that must be true duplicates.",
            default="no minimum",
            panel=REQUIRED,
            parser=read_number,
        ),
    ] = None,
    rate: Annotated[
        str | None,
        option(
            "N",
            "Documents that arrive in a second; the plan is then for an index. On Spark, "
            "documents that a run must process in a second.",
            default="no minimum",
            panel=REQUIRED,
        ),
    ] = None,
    hours: Annotated[
        str | None,
        option(
            "N",
            "Hours in which a run over all documents must end: --rate for files.",
            default="no limit",
            panel=REQUIRED,
        ),
    ] = None,
    purpose: Annotated[
        str | None,
        option(
            "WHAT",
            "files, a run over files; or index, with signatures and tables in memory.",
            "--for",
            default="files; with --rate, index",
            panel=REQUIRED,
        ),
    ] = None,
    engine: Annotated[
        str,
        option(
            "ENGINE",
            "local, one machine; spark, a cluster: --memory and --cores are then those of one "
            "executor, --disk that of the shared folder, and the plan has the number of executors; "
            "or redis, an index on servers: --memory and --disk are those of a machine with one.",
            panel=LIMITS,
        ),
    ] = "local",
    memory: Annotated[
        str | None,
        option(
            "SIZE",
            "The most memory that one machine may use: 100GB.",
            default="no limit; on Spark, what is needed",
            panel=LIMITS,
        ),
    ] = None,
    disk: Annotated[
        str | None,
        option(
            "SIZE",
            "The most disk space that one machine may use: 2TB.",
            default="no limit",
            panel=LIMITS,
        ),
    ] = None,
    cores: Annotated[
        int | None,
        option(
            "N",
            "The cores of one machine.",
            default="those of this machine; on Spark 4",
            panel=LIMITS,
        ),
    ] = None,
    no_calibrate: Annotated[
        bool,
        flag(
            "Use stored figures instead of measuring this machine for a few seconds.",
            "--no-calibrate",
            panel=LIMITS,
        ),
        RARE,
    ] = False,
    out: Annotated[
        Path | None,
        option(
            "FILE.toml",
            "Write the operating point to this file, for neardup dedup --config.",
            "--out",
            "-o",
            default="print it only",
            panel=OUTPUT,
        ),
    ] = None,
    force: Annotated[
        bool, flag("Replace an earlier config file at --out.", "--force", panel=OUTPUT)
    ] = False,
    quiet: Quiet = False,
    as_json: PlainJson = False,
    **given: Any,
) -> None:
    """Choose an operating point for your requirements: slots, bands, memory, disk, time, and why.

    Exit code 1 if the requirements can't be met; the plan is then the nearest that is possible.
    """
    from neardup.planner.planner import plan as make_plan

    if out is not None:
        check_free(out, force)
    with progress_for(quiet=quiet or as_json) as progress:
        made = make_plan(
            documents,
            sample=sample or (),
            text=text,
            **input_options,
            shingles=shingles,
            bytes=bytes,
            precision=precision,
            memory=memory,
            disk=disk,
            rate=rate,
            hours=hours,
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
        print_json(made.to_json())
    elif not quiet:
        show(made)
        if sample or out is not None or made.spark is not None:
            what, point = sample or ["INPUT"], out or made.options
            print()
            if made.sla.purpose == "index":
                place = "INDEX" if made.redis is None else "redis://HOST:PORT"
                command = ["neardup", "index", "build", place, *what]
                print_next(command, text, None, input_options, point)
            else:
                limits = [] if memory is None else ["--memory", memory]
                command = ["neardup", "dedup", *what, "-o", "OUT"]
                if made.spark is not None:
                    task = f"{made.spark.needs.limit // 10**6}MB"
                    limits = ["--engine", "spark", "--master", "MASTER", "--memory", task]
                    command = [*spark_settings(made.spark), *command]
                print_next(command, text, None, input_options, point, *limits)
    if not made.met:
        if quiet and not as_json:
            print(f"neardup: not met: {'; '.join(map(str, made.problems))}", file=sys.stderr)
        raise typer.Exit(1)


def spark_settings(cluster: ClusterSize) -> list[str]:
    """Return the words before a command that give the Spark it starts the settings of a cluster."""
    from neardup.planner.description import format_submit_options

    return ["env", f"PYSPARK_SUBMIT_ARGS={format_submit_options(cluster)} pyspark-shell"]


def cores_of(engine: str) -> int | None:
    """Return the cores that this process may use; None on Spark, where the plan has a default."""
    return None if engine == "spark" else usable_cores()


def check_free(out: Path, force: bool) -> None:
    """Refuse a file that can't be written, or exists; with --force, only one that is no config."""
    from neardup.errors import NeardupError, OutputTaken, ParameterError
    from neardup.formats.config import load_config

    if not out.absolute().parent.is_dir():
        raise ParameterError(f"--out {out}: give a name in a folder that exists")
    if not os.path.lexists(out):
        return
    try:
        load_config(out)
    except NeardupError:
        raise OutputTaken(
            f"{out} exists and is not a config file of neardup: choose another name"
        ) from None
    if not force:
        raise OutputTaken(f"{out} exists: choose another name, or replace it with --force")


def show(made: Plan) -> None:
    """Print the plan: requirements, prediction, stages, and the reasons of each choice."""
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
