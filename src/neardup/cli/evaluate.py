"""neardup evaluate: recall and precision by what people say, and what has drifted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.arguments import (
    CHOSEN_FOR,
    INPUT,
    LAYOUT,
    MATCH,
    OUTPUT,
    Format,
    Id,
    Quiet,
    Text,
    Workers,
    check_workers,
    with_options,
)

if TYPE_CHECKING:
    from neardup.evaluation.results import Evaluation, QualityGate

ASKED = "What is asked for"
JSON, HTML = "evaluation.json", "evaluation.html"

Least = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        min=0.0,
        max=1.0,
        help="Exit code 1 if it is less, or undefined.",
        show_default=False,
        rich_help_panel=ASKED,
    ),
]


@with_options("neardup evaluate")
def evaluate(
    golden: Annotated[
        Path,
        typer.Argument(
            metavar="GOLDEN",
            help="Labelled pairs (id1, id2, label) or clusters (id, cluster): TSV, "
            "CSV, Parquet or Arrow.",
            show_default=False,
            readable=False,
        ),
    ],
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT",
            help="Where the documents are: a file, a folder or a quoted glob. Can be "
            "given several times.",
            show_default=False,
            rich_help_panel=INPUT,
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT",
            help="Judge a finished run: documents of one cluster are duplicates.",
            show_default=False,
            readable=False,
            rich_help_panel=INPUT,
        ),
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Judge a running service by the documents that it holds.",
            show_default=False,
            rich_help_panel=INPUT,
        ),
    ] = None,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Holds the API key for the service, which needs the scope read.",
            show_default=False,
            readable=False,
            rich_help_panel=INPUT,
        ),
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="GOLDEN holds pairs, in these columns; without a third one all are duplicates.",
            show_default="id1,id2,label",
            rich_help_panel=INPUT,
        ),
    ] = None,
    clusters: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="GOLDEN holds clusters, in these columns.",
            show_default="id,cluster",
            rich_help_panel=INPUT,
        ),
    ] = None,
    text: Text = "text",
    id: Id = None,
    format: Format = "auto",
    sample: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=2,
            max=50_000,
            help="Documents to look at for the profile of the corpus.",
            rich_help_panel=INPUT,
        ),
    ] = 10_000,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An operating point that neardup plan or neardup tune wrote; options "
            "that are given go before it.",
            show_default=False,
            rich_help_panel=MATCH,
        ),
    ] = None,
    min_recall: Least = None,
    min_precision: Least = None,
    min_f1: Least = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="Whose figures those are: labels, or similarity, of the pairs that "
            "reach the threshold; needs --corpus.",
            rich_help_panel=ASKED,
        ),
    ] = "labels",
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An earlier evaluation.json: say what has moved since.",
            show_default=False,
            readable=False,
            rich_help_panel=ASKED,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="Write evaluation.json and evaluation.html there.",
            show_default=False,
            readable=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace an earlier evaluation in FOLDER; other files there are left alone.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print the content of evaluation.json instead of the summary.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    **given: Any,
) -> None:
    """Measure recall and precision by a golden set: of an operating point, a run or a service.

    Says how much is lost because labelled duplicates are not similar, and how much because similar
    ones did not meet; which threshold would be best; and shows the worst cases.
    """
    from neardup.cli.progress import progress_for

    check_by(by, corpus)
    point = operating_point(config, given)
    threads = check_workers(workers)
    with progress_for(quiet=quiet or as_json) as progress, folder(out, force):
        from neardup.evaluation.evaluation import evaluate as evaluated
        from neardup.evaluation.results import check_gates

        found = evaluated(
            golden,
            corpus=[Path(one) for one in corpus] if corpus else None,
            run=run,
            service=service,
            api_key=api_key(api_key_file),
            text=text,
            id=id,
            format=format,
            pairs=pairs,
            clusters=clusters,
            baseline=baseline,
            sample=sample,
            workers=threads,
            progress=progress,
            **point,
        )
        least = {"recall": min_recall, "precision": min_precision, "f1": min_f1}
        asked_for = check_gates(found, by, least)
        if out is not None:
            write(found, out, golden, run, asked_for)
    show(found, out, quiet, as_json)
    missed = [gate for gate in asked_for if not gate.met]
    for gate in missed:
        print(f"neardup: {gate}", file=sys.stderr)
    if missed:
        raise typer.Exit(1)


def check_by(by: str, corpus: list[str] | None) -> None:
    from neardup.errors import UsageError

    if by not in ("labels", "similarity"):
        raise UsageError(f"unknown --by {by}: choose labels or similarity")
    if by == "similarity" and not corpus:
        raise UsageError("--by similarity looks at texts: say where they are with --corpus")


def api_key(file: Path | None) -> str | None:
    """The API key in a file; what is in it never appears in a message."""
    if file is None:
        return None
    from neardup.errors import InputError

    try:
        key = file.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"API key file {file} can't be read: {why}", str(file)) from None
    if not key or not key.isprintable():
        raise InputError(f"API key file {file} holds no key: one line is a key", str(file))
    return key


def operating_point(config: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """What is given, before what a file says; bands that it has for another threshold are not
    taken."""
    if config is None:
        return given
    from neardup.formats.config import load_config

    stored: dict[str, Any] = dict(load_config(config))
    if (LAYOUT | CHOSEN_FOR) & set(given):
        stored = {name: value for name, value in stored.items() if name not in LAYOUT}
    return stored | given


@contextmanager
def folder(out: Path | None, force: bool) -> Iterator[None]:
    """What can't be written is said before the work; a new folder goes if the work fails."""
    if out is None:
        yield
        return
    from neardup.pipeline.output import create_folder

    check_free(out, force)
    with create_folder(out.resolve(), out):
        yield


def check_free(out: Path, force: bool) -> None:
    """Refuse a folder that holds something else, or an earlier evaluation without --force."""
    import json

    from neardup.errors import OutputError
    from neardup.evaluation.drift import KIND

    if not out.exists():
        return
    if not out.is_dir():
        raise OutputError(f"{out} is a file: choose a folder for the output")
    if (out / JSON).exists():
        try:
            ours = json.loads((out / JSON).read_bytes())["kind"] == KIND
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            ours = False
        if not ours:
            raise OutputError(
                f"{out / JSON} is not of neardup, and would be replaced: choose another output"
            )
        if not force:
            raise OutputError(
                f"{out} holds an evaluation: choose another output, or use --force, which replaces "
                "it"
            )
    elif (out / HTML).exists() and not is_page(out / HTML):
        raise OutputError(
            f"{out / HTML} is not of neardup, and would be replaced: choose another output"
        )
    elif not force and (there := sorted(path.name for path in out.iterdir())):
        raise OutputError(
            f"{out} is not empty ({', '.join(there[:3])}): choose another output, or use --force, "
            "which leaves other files alone"
        )


def is_page(path: Path) -> bool:
    """Whether it is a page of ours; one without a record is of an evaluation that was stopped."""
    from neardup.report.evaluation_page import TITLE

    try:
        with path.open("rb") as file:
            return f"<title>{TITLE}".encode() in file.read(1 << 12)
    except OSError:
        return False


def write(
    found: Evaluation, out: Path, golden: Path, run: Path | None, gates: list[QualityGate]
) -> None:
    """Both files, or none: an earlier evaluation stays until both are written."""
    from neardup.formats.tables import write_json, write_text
    from neardup.report.evaluation_page import evaluation_page

    judged = None if run is None else run.resolve().name
    new = {name: out / f".new-{name}" for name in (HTML, JSON)}
    try:
        write_text(new[HTML], evaluation_page(found, golden.name, judged, gates))
        write_json(new[JSON], found.record)
        for name, path in new.items():
            path.replace(out / name)
    finally:
        for path in new.values():
            path.unlink(missing_ok=True)


def show(found: Evaluation, out: Path | None, quiet: bool, as_json: bool) -> None:
    """Print the record, the summary, or nothing."""
    if as_json:
        import json

        print(json.dumps(found.record, indent=2))
    elif not quiet:
        from neardup.evaluation.results import format_summary

        print(format_summary(found, width()), end="")
        if out is not None:
            print(f"{out / HTML} shows it")


def width() -> int:
    """The columns of the terminal, or as many as a file is read with."""
    import shutil

    from neardup.evaluation.results import WIDTH

    return shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH
