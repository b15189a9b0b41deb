"""Arguments and options that several commands share, declared once.

`option`, `flag` and `argument` declare one. The matching options are in `option_table`, and come to
a command by `signatures.with_options`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from neardup.cli.option_values import use_config
from neardup.cli.settings import name_origin
from neardup.corpus.format_table import CHOICES
from neardup.errors import ParameterError
from neardup.option_table import KEPT, SIMILAR
from neardup.spec import suggest_share

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

    def check(context: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
        if value is not None and not least <= value <= (value if most is None else most):
            hint = suggest_share(value) if most == 1 else ""
            shown = f"{value:,g}" if isinstance(value, float) else f"{value:,}"
            origin = name_origin(context, param.name or "")
            raise ParameterError(f"{origin}{param.opts[0]} must be {limits}, not {shown}{hint}")
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
        "Also write the table of removed documents to a file of its own: .parquet, .jsonl or .csv.",
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
        "matches; ** matches any folders. All members of an archive are read. Can be given several "
        "times.",
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
        "matches. Not for members of archives. Can be given several times.",
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
Records = Annotated[
    str | None,
    option(
        "FIELD",
        "The field, such as data, that has the records of JSON files in a list, if a file is one "
        "object; answer.items for a field inside of another.",
        default="the file has them itself",
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
    "records": (Records, None),
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
SourceColumn = Annotated[
    str | None,
    option(
        "COLUMN",
        "Count what is removed by the values of this column; folder:1 for the first folder below "
        "INPUT.",
        "--source",
        default="by input file",
        panel=KEEP,
    ),
    RARE,
]
MaxRemoved = Annotated[
    float | None,
    option(
        "SHARE",
        "Stop with exit code 3, before anything is written, if more than this share of the "
        "documents would be removed; the same command with --yes goes on from there.",
        default="no limit",
        panel=KEEP,
        least=0,
        most=1,
    ),
]
MaxRemovedPerSource = Annotated[
    float | None,
    option(
        "SHARE",
        "The same, if more than this share of the documents of one source would be removed: an "
        "input file (of text files a folder), or a value of --source. Sources of fewer than 100 "
        "documents are not judged alone.",
        default="no limit",
        panel=KEEP,
        least=0,
        most=1,
    ),
]
Yes = Annotated[
    bool,
    flag(
        "Remove more than --max-removed and --max-removed-per-source allow.",
        "--yes",
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
GoldenPairs = Annotated[
    str | None,
    option(
        "NAMES",
        "The golden set holds pairs, in these columns; without a third one all are duplicates.",
        default="id1,id2,label",
        panel=INPUT,
    ),
    RARE,
]
GoldenClusters = Annotated[
    str | None,
    option(
        "NAMES",
        "The golden set holds clusters, in these columns.",
        default="id,cluster",
        panel=INPUT,
    ),
    RARE,
]
KEY_HELP: Final = "The key of --hash siphash: 16 bytes, or 32 hexadecimal digits."
KeyFile = Annotated[Path | None, option("FILE", KEY_HELP, default="none", panel=MATCH), RARE]
RUN_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    "text": (Text, "text"),
    "id": (Id, None),
    **INPUT_OPTIONS,
    "strict": (Strict, False),
    "skip_bad_files": (SkipBadFiles, False),
    "max_rejected": (MaxRejected, 0.5),
    "within": (Within, None),
    "prefer": (Prefer, None),
    "source": (SourceColumn, None),
    "max_removed": (MaxRemoved, None),
    "max_removed_per_source": (MaxRemovedPerSource, None),
    "yes": (Yes, False),
    "removed": (Removed, None),
    "report": (ReportFile, None),
    "no_kept": (NoKept, False),
    "force": (Force, False),
    "memory": (Memory, None),
    "workers": (Workers, None),
}
"""The options of all runs over files, which commands take by `with_run_options`."""

Engine = Annotated[
    str, option("ENGINE", "local, this machine; or spark, a cluster.", panel=OUTPUT), RARE
]
Master = Annotated[
    str | None,
    option(
        "URL",
        "With --engine spark: the cluster's master, such as spark://host:7077, yarn or local[4].",
        default="that of spark-submit or of Spark's settings",
        panel=OUTPUT,
    ),
    RARE,
]
