"""The options that several commands share, in the same words in each."""

from __future__ import annotations

import functools
import inspect
import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from neardup.cli.help import HELP_ALL, MANY, HelpAll
from neardup.errors import ParameterError
from neardup.option_table import KEPT, SIMILAR, Option, given_options, options_at

if TYPE_CHECKING:
    from rich.console import Console

    from neardup.keys import Key


INPUT = "Input"
MATCH = SIMILAR
KEEP = KEPT
OUTPUT = "Output"

Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT",
        help="Files, folders or quoted globs: JSONL (.gz, .zst), Parquet, CSV/TSV, Arrow/Feather, "
        "or a folder of text files, one document a file.",
        show_default=False,
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="OUT",
        help="The folder to write.",
        show_default=False,
        readable=False,
    ),
]


def use_config(context: typer.Context, path: Path | None) -> Path | None:
    """What the file says holds where nothing is given on the command line."""
    if path is not None:
        from neardup.formats.config import load_config

        context.default_map = dict(context.default_map or {}) | dict(load_config(path))
    return path


LAYOUT = {"bands", "rows", "tables"}
CHOSEN_FOR = {"threshold", "recall", "slots", "sketch", "preset"}


def stale_bands(context: typer.Context) -> set[str]:
    """What the config file says of bands that were chosen for something else than is given."""
    sources = {name: context.get_parameter_source(name) for name in LAYOUT | CHOSEN_FOR}
    came = {name: source.name for name, source in sources.items() if source is not None}
    if "COMMANDLINE" not in came.values():
        return set()
    return {name for name in LAYOUT if came.get(name) == "DEFAULT_MAP"}


Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="An operating point that neardup plan or neardup tune wrote; options that "
        "are given go before it.",
        callback=use_config,
        is_eager=True,
        show_default=False,
        rich_help_panel=MATCH,
    ),
]
Text = Annotated[
    str,
    typer.Option(
        metavar="COLUMN", help="The column that holds the documents.", rich_help_panel=INPUT
    ),
]
Id = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The column that names them.",
        show_default="id if there is one, else file:row",
        rich_help_panel=INPUT,
    ),
]
Format = Annotated[
    str,
    typer.Option(
        help="auto, or the format of all inputs: jsonl, parquet, csv, tsv, arrow, text (every "
        "file is one document).",
        rich_help_panel=INPUT,
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Stop at the first document that can't be used, instead of setting it "
        "aside in rejected.parquet.",
        rich_help_panel=INPUT,
    ),
]
SkipBadFiles = Annotated[
    bool,
    typer.Option(
        "--skip-bad-files",
        help="Leave out files that can't be read, and list them in run.json, instead of stopping.",
        rich_help_panel=INPUT,
    ),
]
Within = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Compare only documents with the same value in this column.",
        show_default=False,
        rich_help_panel=MATCH,
    ),
]
Prefer = Annotated[
    str | None,
    typer.Option(
        metavar="GLOB",
        help="Copies in these inputs go before copies in the others.",
        show_default=False,
        rich_help_panel=KEEP,
    ),
]
NoKept = Annotated[
    bool, typer.Option("--no-kept", help="Decide only, copy nothing.", rich_help_panel=OUTPUT)
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace a finished run in OUT; other files there are left alone.",
        rich_help_panel=OUTPUT,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="The most memory to use, such as 2GB.",
        show_default="half of the free",
        rich_help_panel=OUTPUT,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Threads.", show_default="one a core", rich_help_panel=OUTPUT),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel=OUTPUT)
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the content of run.json instead of the summary.",
        rich_help_panel=OUTPUT,
    ),
]


def check_workers(workers: int | None) -> int:
    """As many threads as asked for, or one a core."""
    if workers is not None and workers < 1:
        raise ParameterError(f"--workers must be at least 1, not {workers}")
    return workers or usable_cores()


def make_console(width: int) -> Console:
    """Standard output; where it is no terminal as wide as COLUMNS says, or else as this."""
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        console.width = max(console.width, width)
    return console


def usable_cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def with_options(
    place: str, *, panel: str = "", without: str = "", changed: Mapping[str, str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the matching options that `option_table.PLACES` names for it.

    The command takes them as `**given`: only those with a value from the command line or a config
    file.

    Args:
        place: The command's name in `PLACES`.
        panel: The heading under which help shows all of them, instead of the table's.
        without: What happens if one is not given, instead of the table's default.
        changed: Name -> help, where the command means it a little differently.
    """
    rows = options_at(place)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        fixed = [
            parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY)
            for name, parameter in inspect.signature(command).parameters.items()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        named = [_parameter(row, panel, without, changed or {}) for row in rows.values()]
        # Panels are shown in the order of their first option: what is kept and written is last.
        place_of = next((n for n, one in enumerate(fixed) if _panel(one) in (KEEP, OUTPUT)), None)
        parameters = fixed[:place_of] + named + ([] if place_of is None else fixed[place_of:])
        if len(parameters) > MANY:
            keyword = inspect.Parameter.KEYWORD_ONLY
            more = inspect.Parameter(HELP_ALL, keyword, default=False, annotation=HelpAll)
            parameters.append(more)

        @functools.wraps(command)
        def wrapped(**values: Any) -> None:
            matching = {name: values.pop(name) for name in rows}
            values.pop(HELP_ALL, None)
            command(**values, **given_options(matching))

        signature = inspect.Signature(parameters)
        wrapped.__signature__ = signature  # type: ignore[attr-defined]
        wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
        return wrapped

    return decorate


def _parameter(
    row: Option, panel: str, without: str, changed: Mapping[str, str]
) -> inspect.Parameter:
    kind: Any = list[str] if row.repeated else row.type if isinstance(row.type, type) else str
    option = typer.Option(
        row.flag,
        metavar=row.metavar,
        help=changed.get(row.name, row.explained),
        show_default=without or row.without,
        autocompletion=_completion(row.choices) if row.choices else None,
        rich_help_panel=panel or row.panel,
    )
    return inspect.Parameter(
        row.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


def _panel(parameter: inspect.Parameter) -> str | None:
    info = getattr(parameter.annotation, "__metadata__", (None,))[0]
    return getattr(info, "rich_help_panel", None)


def _completion(choices: Sequence[Any]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [str(choice) for choice in choices if str(choice).startswith(incomplete)]

    return complete


MOST = 64  # bytes; a key in digits has 34 at most

KeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The key of --hash siphash: 16 bytes, or 32 hexadecimal digits.",
        show_default=False,
        rich_help_panel=MATCH,
    ),
]


def warn(message: str) -> None:
    print(f"neardup: {message}", file=sys.stderr)


def read_key(
    file: Path | None, quiet: bool = False, say: Callable[[str], None] = warn
) -> Key | None:
    """The key in a file; what is in it never appears in a message."""
    if file is None:
        return None
    from neardup.errors import InputError, ParameterError
    from neardup.keys import Key

    try:
        with open(file, "rb") as source:
            content, mode = source.read(MOST), os.fstat(source.fileno()).st_mode
    except OSError as error:
        raise InputError(f"key file {file} can't be read: {error.strerror}", str(file)) from None
    try:
        key = Key(content)
    except ParameterError as error:
        raise ParameterError(f"key file {file} holds no key: {error}") from None
    if not quiet and stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        say(f"others can read the key file: chmod 600 {file}")
    return key
