"""Arguments and options that several commands share, declared once.

`option`, `flag` and `argument` declare one; `with_options` gives a command the matching options of
`option_table`.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer

from neardup.cli.help import HELP_ALL, MANY, RARE_NAMES, HelpAll
from neardup.corpus.format_table import CHOICES
from neardup.errors import ParameterError
from neardup.option_table import (
    KEPT,
    LAYOUT,
    PRESETS,
    SIMILAR,
    MatchingOptions,
    Option,
    given_options,
    options_at,
    options_of,
)
from neardup.spec import suggest_share

if TYPE_CHECKING:
    from neardup.keys import Key

INPUT: Final = "Input"
MATCH: Final = SIMILAR
KEEP: Final = KEPT
OUTPUT: Final = "Output"

RARE: Final = "rare"
"""In the annotation of an option: help shows it only with --help-all, if the command has many."""


def option(
    metavar: str,
    help: str,
    *names: str,
    default: str | bool = True,
    panel: str | None = None,
    least: float | None = None,
    most: float | None = None,
    **others: Any,
) -> Any:
    """Declare an option that takes a value.

    Args:
        metavar: What stands for its value in help.
        help: What it does, in one or two sentences; help adds the default.
        *names: How it is typed; by default the parameter's name.
        default: The default in words; True for the value in the signature, False for none.
        panel: The heading under which help shows it.
        least: The smallest number that is accepted; help states it.
        most: The largest number that is accepted.
        **others: Passed to `typer.Option`.
    """
    if least is not None:
        limits = f"at least {least:,}" if most is None else f"from {least:,} to {most:,}"
        help = f"{help} {limits.capitalize()}."
        others["callback"] = _check_limits(limits, least, most)
    if most == 1:
        others["parser"] = read_number
    return typer.Option(
        *names, metavar=metavar, help=help, show_default=default, rich_help_panel=panel, **others
    )


def _check_limits(limits: str, least: float, most: float | None) -> Callable[..., Any]:
    """Return a callback that refuses numbers outside the limits."""

    def check(param: typer.CallbackParam, value: Any) -> Any:
        if value is not None and not least <= value <= (value if most is None else most):
            hint = suggest_share(value) if most == 1 else ""
            shown = f"{value:,g}" if isinstance(value, float) else f"{value:,}"
            raise ParameterError(f"{param.opts[0]} must be {limits}, not {shown}{hint}")
        return value

    return check


def read_number(value: Any) -> float:
    """Read a number that an option takes; the message for 80% or 0,8 says what to write."""
    with suppress(TypeError, ValueError):
        if not isinstance(value, bool):
            return float(value)
    raise typer.BadParameter(f"{str(value)!r} is not a number{suggest_share(value)}")


def flag(help: str, *names: str, panel: str | None = None) -> Any:
    """Declare an option without a value, which is off by default."""
    return typer.Option(*names, help=help, rich_help_panel=panel)


def argument(metavar: str, help: str, **others: Any) -> Any:
    """Declare a positional argument; a list takes one or more."""
    return typer.Argument(metavar=metavar, help=help, show_default=False, **others)


def complete(choices: Sequence[Any]) -> Callable[[str], list[str]]:
    """Return a function that completes one of the choices for the shell."""

    def matching(incomplete: str) -> list[str]:
        return [str(choice) for choice in choices if str(choice).startswith(incomplete)]

    return matching


def use_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the options of a config file as defaults of the command line."""
    if path is not None:
        from neardup.formats.config import load_config

        context.default_map = dict(context.default_map or {}) | dict(load_config(path))
    return path


CHOSEN_FOR: Final = frozenset({"threshold", "recall", "slots", "sketch", "preset"})
"""The options that the layout of bands in a config file was chosen for."""


def stale_bands(context: typer.Context) -> set[str]:
    """Return the layout options of the config file if the command line changes what they are for.

    They were chosen for the file's threshold, recall and slots, and are wrong for others.
    """
    sources = {name: context.get_parameter_source(name) for name in LAYOUT | CHOSEN_FOR}
    names = {name: source.name for name, source in sources.items() if source is not None}
    if not {"COMMANDLINE", "ENVIRONMENT"} & set(names.values()):
        return set()
    return {name for name in LAYOUT if names.get(name) == "DEFAULT_MAP"}


def chosen_options(context: typer.Context, given: dict[str, Any]) -> dict[str, Any]:
    """Return the matching options of the command line and of config files.

    Without stale bands, and with options of the file given by --config that the command does not
    have: whether their values are possible is checked where they are used.
    """
    stored = context.default_map or {}
    missing = options_of(MatchingOptions).keys() - context.params.keys()
    others = {name: stored.get(name) for name in missing}
    stale = stale_bands(context)
    chosen = given_options(others) | given
    return {name: value for name, value in chosen.items() if name not in stale}


CONFIG_HELP: Final = (
    "An operating point that neardup plan or neardup tune wrote; options on the command line "
    "override it."
)

INPUT_HELP: Final = (
    "Files, folders or quoted globs: JSONL, JSON, CSV/TSV (also .gz, .zst, .xz, .bz2), "
    "Parquet, Arrow/Feather, WARC/WET, tar and zip of texts, or a folder of text files, one "
    "document a file."
)
Inputs = Annotated[list[str], argument("INPUT", INPUT_HELP)]
Out = Annotated[
    Path, option("OUT", "The folder to write.", "--out", "-o", default=False, readable=False)
]
RunInputs = Annotated[
    list[str],
    argument("INPUT", INPUT_HELP + " -: standard input."),
]
RunOut = Annotated[
    str | None,
    option(
        "OUT",
        "The folder to write. A name with an ending, such as clean.jsonl or clean.parquet: one "
        "file with the kept rows. -: standard output.",
        "--out",
        "-o",
        default="standard output if INPUT is -",
    ),
]
Removed = Annotated[
    str | None,
    option(
        "FILE",
        "If OUT is a file or standard output: also write the table of removed documents, .parquet "
        "or .jsonl.",
        default="none",
        panel=OUTPUT,
    ),
]
ReportFile = Annotated[
    str | None,
    option(
        "FILE",
        "If OUT is a file or standard output: also write the report, an HTML page.",
        "--report",
        default="none",
        panel=OUTPUT,
    ),
    RARE,
]
Config = Annotated[
    Path | None,
    option("FILE", CONFIG_HELP, default="none", panel=MATCH, callback=use_config, is_eager=True),
]
Text = Annotated[
    str,
    option(
        "COLUMN",
        "The column with the texts of the documents; doc.text for a field inside of one, "
        "title,body for several.",
        panel=INPUT,
    ),
]
Id = Annotated[
    str | None,
    option(
        "COLUMN",
        "The column with the ids of the documents.",
        default="id if it exists, else file:row",
        panel=INPUT,
    ),
]
Format = Annotated[
    str,
    option(
        "NAME",
        "The format of all inputs: jsonl, json (an array, or objects one after another), lines "
        "(one document a line), parquet, csv, tsv, arrow, warc, tar, zip or text (every file is "
        "one document); auto goes by the names of the files, and by their contents where these "
        "don't tell.",
        panel=INPUT,
        autocompletion=complete(CHOICES),
    ),
    RARE,
]
Include = Annotated[
    list[str] | None,
    option(
        "GLOB",
        "Of folders and quoted globs, read only files whose name, or path below the folder, "
        "matches; ** matches any folders. Can be given several times.",
        default="all",
        panel=INPUT,
    ),
    RARE,
]
Exclude = Annotated[
    list[str] | None,
    option(
        "GLOB",
        "Of folders and quoted globs, don't read files whose name, or path below the folder, "
        "matches. Can be given several times.",
        default="none",
        panel=INPUT,
    ),
    RARE,
]
Delimiter = Annotated[
    str | None,
    option(
        "CHARACTER",
        "The character between the fields of CSV files, such as ';'; also tab, space or ^A.",
        default="a comma; a tab for .tsv",
        panel=INPUT,
    ),
    RARE,
]
Quote = Annotated[
    str,
    option(
        "CHARACTER",
        "The character around fields of CSV files, doubled inside of them; none if quotes are "
        "part of the text.",
        panel=INPUT,
    ),
    RARE,
]
NoHeader = Annotated[
    bool,
    flag(
        "The first line of CSV files is a row: their columns are named 1, 2, 3.",
        "--no-header",
        panel=INPUT,
    ),
    RARE,
]
Encoding = Annotated[
    str,
    option(
        "NAME",
        "The text encoding of the inputs, such as utf-16, cp1252 or shift_jis; auto goes by byte "
        "order marks, and by what an HTML or XML document declares.",
        panel=INPUT,
    ),
    RARE,
]
INPUT_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    "format": (Format, "auto"),
    "include": (Include, None),
    "exclude": (Exclude, None),
    "delimiter": (Delimiter, None),
    "quote": (Quote, '"'),
    "no_header": (NoHeader, False),
    "encoding": (Encoding, "utf-8"),
}
"""The options of `InputOptions` that commands take by `with_input_options`: type and default."""
Strict = Annotated[
    bool,
    flag(
        "Stop at the first bad row, instead of collecting bad rows in rejected.parquet.",
        "--strict",
        panel=INPUT,
    ),
    RARE,
]
SkipBadFiles = Annotated[
    bool,
    flag(
        "Skip files that can't be read and list them in run.json, instead of stopping.",
        "--skip-bad-files",
        panel=INPUT,
    ),
    RARE,
]
MaxRejected = Annotated[
    float,
    option(
        "SHARE",
        "Fail, with exit code 1, if more than this share of the documents is rejected; what was "
        "written stays.",
        panel=INPUT,
        least=0,
        most=1,
    ),
    RARE,
]
Within = Annotated[
    str | None,
    option(
        "COLUMN",
        "Compare only documents with the same value in this column; folder:1 for the first folder "
        "below INPUT.",
        default="compare all",
        panel=MATCH,
    ),
    RARE,
]
Prefer = Annotated[
    str | None,
    option(
        "GLOB",
        "Keep copies in these inputs rather than copies in the others.",
        default="no preference",
        panel=KEEP,
    ),
    RARE,
]
NoKept = Annotated[
    bool, flag("Write the decisions only, not the kept rows.", "--no-kept", panel=OUTPUT), RARE
]
Force = Annotated[
    bool,
    flag("Replace a finished run in OUT; other files there are kept.", "--force", panel=OUTPUT),
]
Memory = Annotated[
    str | None,
    option(
        "SIZE",
        "The most memory to use, such as 2GB.",
        default="half of the free memory",
        panel=OUTPUT,
    ),
]
Workers = Annotated[
    int | None, option("N", "Threads to use.", default="one per core", panel=OUTPUT)
]
Quiet = Annotated[bool, flag("Print nothing but errors.", "--quiet", "-q", panel=OUTPUT)]
AsJson = Annotated[
    bool, flag("Print the content of run.json instead of the summary.", "--json", panel=OUTPUT)
]
PlainJson = Annotated[bool, flag("Print JSON instead of text.", "--json", panel=OUTPUT)]
KEY_HELP: Final = "The key of --hash siphash: 16 bytes, or 32 hexadecimal digits."
KeyFile = Annotated[Path | None, option("FILE", KEY_HELP, default="none", panel=MATCH), RARE]


def with_input_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options about its input files.

    The command takes them as one parameter, `input_options`, and gives them to `find_inputs`.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters = []
    keyword = inspect.Parameter.KEYWORD_ONLY
    for name, parameter in inspect.signature(command).parameters.items():
        if name == "input_options":
            parameters += [
                inspect.Parameter(option, keyword, default=default, annotation=hint)
                for option, (hint, default) in INPUT_OPTIONS.items()
            ]
        elif parameter.kind is parameter.VAR_KEYWORD:
            parameters.append(parameter.replace(annotation=hints[name]))
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=keyword))

    @functools.wraps(command)
    def wrapped(**values: Any) -> None:
        given = {name: values.pop(name) for name in INPUT_OPTIONS}
        options = {name: value for name, value in given.items() if value is not None}
        command(input_options=options, **values)

    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapped


CONTEXT: Final = "context"
"""The parameter of a command that gets the context of its call."""


def with_options(
    place: str, *, panel: str | Mapping[str, str] = "", unset: str | Mapping[str, str] = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the matching options that `option_table.PLACES` names for it.

    The command takes them as `**given`: only those with a value from the command line or a config
    file. In help, rare options come last in each panel; a command with many options gets
    `--help-all`.

    Args:
        place: The command's name in `PLACES`.
        panel: The heading under which help shows them, instead of the table's: of all, or by name.
        unset: The default in words, instead of the table's: of all, or by name.
    """
    rows = options_at(place)
    later = {KEEP, OUTPUT, *({} if isinstance(panel, str) else panel.values())}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY)
            for name, parameter in inspect.signature(command).parameters.items()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        matching = [_parameter(row, rows, panel, unset) for row in rows.values()]
        asks = any(parameter.annotation is typer.Context for parameter in own)
        # Help shows panels in the order of their first option: what is kept and written is last.
        places = [n for n, one in enumerate(own) if one.name == "config" or _panel(one) in later]
        first = min(places, default=len(own))
        parameters = own[:first] + matching + own[first:]
        parameters.sort(key=_is_rare)
        if len(parameters) > MANY:
            keyword = inspect.Parameter.KEYWORD_ONLY
            more = inspect.Parameter(HELP_ALL, keyword, default=False, annotation=HelpAll)
            parameters.append(more)
        if not asks:
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(CONTEXT, keyword, annotation=typer.Context))

        @functools.wraps(command)
        def wrapped(**values: Any) -> None:
            given = given_options({name: values.pop(name) for name in rows})
            given = _without_replaced(given, values[CONTEXT])
            values.pop(HELP_ALL, None)
            if not asks:
                del values[CONTEXT]
            command(**values, **given)

        rare = frozenset(parameter.name for parameter in parameters if _is_rare(parameter))
        setattr(wrapped, RARE_NAMES, rare)
        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
        return wrapped

    return decorate


PRECEDENCE: Final = ("DEFAULT_MAP", "ENVIRONMENT", "COMMANDLINE")
"""Where a value may come from (a file, a variable, the command line), the strongest last."""


def _without_replaced(given: dict[str, Any], context: typer.Context) -> dict[str, Any]:
    """Drop values that a preset from a stronger source replaces; others override the preset."""

    def rank(name: str) -> int:
        source = context.get_parameter_source(name)
        return PRECEDENCE.index(source.name) if source and source.name in PRECEDENCE else -1

    replaced = PRESETS.get(given.get("preset", ""), {})
    weaker = {name for name in replaced if rank(name) < rank("preset")}
    return {name: value for name, value in given.items() if name not in weaker}


def _parameter(
    row: Option,
    rows: Mapping[str, Option],
    panel: str | Mapping[str, str],
    unset: str | Mapping[str, str],
) -> inspect.Parameter:
    """Return the parameter of a command for a row of the table, one of `rows`."""
    kind: Any = list[str] if row.repeated else row.type if isinstance(row.type, type) else str
    declared = option(
        row.metavar,
        row.explained,
        row.flag,
        default=_of_row(unset, row) or _default(row, rows),
        panel=_of_row(panel, row) or row.panel,
        autocompletion=complete(row.choices) if row.choices else None,
        parser=read_number if row.type is float else None,
    )
    return inspect.Parameter(
        row.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, declared, "" if row.common else RARE],
    )


def _default(row: Option, rows: Mapping[str, Option]) -> str:
    """Return the default in words; without a case that depends on an option not in `rows`."""
    possible = {other.flag for other in rows.values()}
    depends_on = set(re.findall("--[a-z-]+", row.otherwise))
    return row.without if row.default is None or depends_on <= possible else str(row.default)


def _of_row(value: str | Mapping[str, str], row: Option) -> str:
    return value if isinstance(value, str) else value.get(row.name, "")


def _metadata(parameter: inspect.Parameter) -> tuple[Any, ...]:
    return getattr(parameter.annotation, "__metadata__", ())


def _is_rare(parameter: inspect.Parameter) -> bool:
    return RARE in _metadata(parameter)[1:]


def _panel(parameter: inspect.Parameter) -> str | None:
    return getattr((*_metadata(parameter), None)[0], "rich_help_panel", None)


KEY_BYTES: Final = 64
"""The most bytes that are read from a key file; a key in digits has at most 34."""


def warn(message: str) -> None:
    """Print a warning to standard error."""
    print(f"neardup: {message}", file=sys.stderr)


def read_key(
    file: Path | None, quiet: bool = False, say: Callable[[str], None] = warn
) -> Key | None:
    """Return the key in a file; its content never appears in a message.

    Args:
        file: None for no key.
        quiet: Don't warn that others can read the file.
        say: Where the warning goes.
    """
    if file is None:
        return None
    from neardup.errors import InputError
    from neardup.keys import Key

    try:
        with open(file, "rb") as source:
            content, mode = source.read(KEY_BYTES), os.fstat(source.fileno()).st_mode
    except OSError as error:
        raise InputError(f"key file {file} can't be read: {error.strerror}", str(file)) from None
    try:
        key = Key(content)
    except ParameterError as error:
        raise ParameterError(f"key file {file} holds no key: {error}") from None
    if not quiet and stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        say(f"others can read the key file: chmod 600 {file}")
    return key


def read_api_key(file: Path | None) -> str | None:
    """Return the API key in a file; its content never appears in a message."""
    if file is None:
        return None
    from neardup.errors import InputError

    try:
        key = file.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not a text file"
        raise InputError(f"API key file {file} can't be read: {why}", str(file)) from None
    if not key or not key.isprintable():
        raise InputError(f"API key file {file} holds no key: one line is a key", str(file))
    return key
