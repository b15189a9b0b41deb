"""neardup evaluate: measure recall and precision by labelled pairs or clusters, and drift."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.arguments import (
    INPUT,
    OUTPUT,
    RARE,
    Config,
    GoldenClusters,
    GoldenPairs,
    Id,
    Quiet,
    Text,
    Workers,
    argument,
    flag,
    option,
)
from neardup.cli.console import print_json, progress_for
from neardup.cli.key_files import read_api_key
from neardup.cli.next_command import print_next
from neardup.cli.option_values import chosen_options
from neardup.cli.settings import settings_in_effect
from neardup.cli.signatures import with_input_options, with_options
from neardup.corpus.inputs import InputOptions
from neardup.option_table import LAYOUT
from neardup.pipeline.budget import check_workers

if TYPE_CHECKING:
    from neardup.evaluation.results import Evaluation, QualityGate

GATES = "Quality gates"
JSON, HTML = "evaluation.json", "evaluation.html"


def minimum(figure: str) -> Any:
    """Declare the option for the smallest acceptable value of a figure."""
    explained = f"Exit code 1 if the {figure} is less than this, or undefined."
    return option("X", explained, default="no minimum", panel=GATES, least=0, most=1)


@with_options("neardup evaluate")
@with_input_options
def evaluate(
    context: typer.Context,
    golden: Annotated[
        Path,
        argument(
            "GOLDEN",
            "Labelled pairs (id1, id2, label) or clusters (id, cluster): TSV, CSV, Parquet or "
            "Arrow.",
            readable=False,
        ),
    ],
    corpus: Annotated[
        list[str] | None,
        option(
            "INPUT",
            "The documents: a file, a folder or a quoted glob. Can be given several times.",
            default="none",
            panel=INPUT,
        ),
    ] = None,
    run: Annotated[
        Path | None,
        option(
            "OUT",
            "Judge a finished run: documents of one cluster are duplicates.",
            default="judge the operating point",
            panel=INPUT,
            readable=False,
        ),
    ] = None,
    service: Annotated[
        str | None,
        option(
            "URL",
            "Judge a running service by the documents of its index.",
            default="judge the operating point",
            panel=INPUT,
        ),
    ] = None,
    api_key_file: Annotated[
        Path | None,
        option(
            "FILE",
            "A file with an API key of the service that has the scope read.",
            default="none",
            panel=INPUT,
            readable=False,
        ),
        RARE,
    ] = None,
    pairs: GoldenPairs = None,
    clusters: GoldenClusters = None,
    text: Text = "text",
    id: Id = None,
    *,
    input_options: InputOptions,
    sample: Annotated[
        int,
        option(
            "N",
            "The number of documents that the profile of the corpus is measured on.",
            panel=INPUT,
            least=2,
            most=50_000,
        ),
    ] = 10_000,
    config: Config = None,  # noqa: ARG001 -- its callback reads it
    min_recall: Annotated[float | None, minimum("recall")] = None,
    min_precision: Annotated[float | None, minimum("precision")] = None,
    min_f1: Annotated[float | None, minimum("F1")] = None,
    by: Annotated[
        str,
        option(
            "WHAT",
            "What the minimums apply to: labels, the figures by the labels; or similarity, those "
            "of the labelled pairs that reach the threshold, which needs --corpus.",
            panel=GATES,
        ),
    ] = "labels",
    baseline: Annotated[
        Path | None,
        option(
            "FILE",
            "An earlier evaluation.json, to list what has changed since.",
            default="none",
            panel=GATES,
            readable=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "FOLDER",
            "Write evaluation.json and evaluation.html to this folder.",
            "--out",
            "-o",
            default="print the summary only",
            panel=OUTPUT,
            readable=False,
        ),
    ] = None,
    force: Annotated[
        bool,
        flag(
            "Replace an earlier evaluation in FOLDER; other files there are kept.",
            "--force",
            panel=OUTPUT,
        ),
    ] = False,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Annotated[
        bool,
        flag(
            "Print the content of evaluation.json instead of the summary.", "--json", panel=OUTPUT
        ),
    ] = False,
    **given: Any,
) -> None:
    """Measure recall and precision by a golden set: of an operating point, a run or a service.

    Shows how much is lost because labelled duplicates are not similar, and how much because similar
    documents did not become candidates; which threshold would be best; and the worst cases.
    """
    check_by(by, corpus)
    if run is not None or service is not None:
        # What they were made with counts; options of a file that was found are for the others.
        given = {n: v for n, v in given.items() if n not in settings_in_effect(context)}
    point = chosen_options(context, given)
    threads = check_workers(workers)
    with progress_for(quiet=quiet or as_json) as progress, output_folder(out, force):
        from neardup.evaluation.evaluation import evaluate as run_evaluation
        from neardup.evaluation.results import check_gates

        evaluation = run_evaluation(
            golden,
            corpus=[Path(one) for one in corpus] if corpus else None,
            run=run,
            service=service,
            api_key=read_api_key(api_key_file),
            text=text,
            id=id,
            **input_options,
            pairs=pairs,
            clusters=clusters,
            baseline=baseline,
            sample=sample,
            workers=threads,
            progress=progress,
            **point,
        )
        minimums = {"recall": min_recall, "precision": min_precision, "f1": min_f1}
        gates = check_gates(evaluation, by, minimums)
        if out is not None:
            write_evaluation(evaluation, out, golden, run, gates)
    print_evaluation(evaluation, out, quiet, as_json)
    better = None if run or service else best_options(evaluation, point)
    if corpus and better is not None and not (quiet or as_json):
        print_next(["neardup", "dedup", *corpus, "-o", "OUT"], text, id, input_options, better)
    missed = [gate for gate in gates if not gate.met]
    for gate in missed:
        print(f"neardup: {gate}", file=sys.stderr)
    if missed:
        raise typer.Exit(1)


def check_by(by: str, corpus: list[str] | None) -> None:
    """Refuse an unknown --by, and similarity without the texts that it needs."""
    from neardup.errors import UsageError

    if by not in ("labels", "similarity"):
        raise UsageError(f"unknown --by {by}: choose labels or similarity")
    if by == "similarity" and not corpus:
        raise UsageError("--by similarity compares texts: give them with --corpus")


@contextmanager
def output_folder(out: Path | None, force: bool) -> Iterator[None]:
    """Check before the work that the folder can be written; remove a new one if the work fails."""
    if out is None:
        yield
        return
    from neardup.pipeline.output import create_folder

    check_free(out, force)
    with create_folder(out.resolve(), out):
        yield


def check_free(out: Path, force: bool) -> None:
    """Refuse a folder with other files, or with an earlier evaluation unless --force is given."""
    import json

    from neardup.errors import OutputTaken
    from neardup.evaluation.drift import KIND

    if not out.exists():
        return
    if not out.is_dir():
        raise OutputTaken(f"{out} is a file: choose a folder for the output")
    if (out / JSON).exists():
        try:
            ours = json.loads((out / JSON).read_bytes())["kind"] == KIND
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            ours = False
        if not ours:
            raise OutputTaken(
                f"{out / JSON} is not an evaluation, and would be replaced: choose another output"
            )
        if not force:
            raise OutputTaken(
                f"{out} holds an evaluation: choose another output, or replace it with --force"
            )
    elif (out / HTML).exists() and not is_page(out / HTML):
        raise OutputTaken(
            f"{out / HTML} is not an evaluation, and would be replaced: choose another output"
        )
    elif not force and (names := sorted(path.name for path in out.iterdir())):
        raise OutputTaken(
            f"{out} is not empty ({', '.join(names[:3])}): choose another output, or use --force, "
            "which keeps other files"
        )


def is_page(path: Path) -> bool:
    """Return whether a file is the page of an evaluation, which may have been stopped."""
    from neardup.report.evaluation_page import TITLE

    try:
        with path.open("rb") as file:
            return f"<title>{TITLE}".encode() in file.read(1 << 12)
    except OSError:
        return False


def write_evaluation(
    evaluation: Evaluation, out: Path, golden: Path, run: Path | None, gates: list[QualityGate]
) -> None:
    """Write both files or neither: an earlier evaluation is replaced when both are written."""
    from neardup.formats.tables import write_json, write_text
    from neardup.report.evaluation_page import evaluation_page

    judged = None if run is None else run.resolve().name
    new = {name: out / f".new-{name}" for name in (HTML, JSON)}
    try:
        write_text(new[HTML], evaluation_page(evaluation, golden.name, judged, gates))
        write_json(new[JSON], evaluation.record)
        for name, path in new.items():
            path.replace(out / name)
    finally:
        for path in new.values():
            path.unlink(missing_ok=True)


def print_evaluation(evaluation: Evaluation, out: Path | None, quiet: bool, as_json: bool) -> None:
    """Print the record as JSON, the summary, or nothing if quiet."""
    if as_json:
        print_json(evaluation.record)
    elif not quiet:
        from neardup.evaluation.results import format_summary

        print(format_summary(evaluation, width()), end="")
        if out is not None:
            print(f"{out / HTML} shows it")


def best_options(evaluation: Evaluation, point: dict[str, Any]) -> dict[str, Any] | None:
    """Return the options with the advised threshold, and the bands for it; None if none is known.

    The threshold stays if the labels don't show another to be better.
    """
    from neardup.option_table import default_of

    sweep = evaluation.sweep
    if sweep is None or sweep.advised is None or sweep.advised_as_good is None:
        return None
    name = "cosine" if evaluation.of_vectors else "threshold"
    now = point[name] if evaluation.of_vectors else point.get(name, default_of(name))
    low, high = sweep.advised_as_good
    best = now if low <= now <= high else sweep.advised
    return {one: value for one, value in point.items() if one not in LAYOUT} | {name: best}


def width() -> int:
    """Return the columns of the terminal; a fixed number if the output goes elsewhere."""
    import shutil

    from neardup.evaluation.results import WIDTH

    return shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH
