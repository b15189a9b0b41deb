"""The options that several commands share, in the same words in each."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from neardup.errors import ParameterError

if TYPE_CHECKING:
    from rich.console import Console

    from neardup.keys import Key


INPUT = "Input"
MATCH = "What counts as similar"
KEEP = "What is kept"
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

        context.default_map = {**(context.default_map or {}), **load_config(path)}
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
        help="The column that names them.  [default: id if there is one, else file:row]",
        show_default=False,
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
Keep = Annotated[
    str,
    typer.Option(
        metavar="POLICY",
        help="Which copy stays: first, longest, max:COLUMN or min:COLUMN.",
        rich_help_panel=KEEP,
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
        help="The most memory to use, such as 2GB.  [default: half of the free]",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        help="Threads.  [default: one a core]", show_default=False, rich_help_panel=OUTPUT
    ),
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


HELP: Final = {
    "threshold": "Documents at least this similar are duplicates: above 0, at most 1.",
    "recall": "The share of pairs exactly at the threshold to find at least; bands and rows are "
    "chosen for it.",
    "bands": "Use this many bands...",
    "rows": "...of this many rows, instead of choosing.",
    "tables": "More recall: the bands so many times (2), or bands of several sizes (20x5,10x8), "
    "each over slots of its own.",
    "limit": "Kept documents that are compared with in a bucket.",
    "slots": "Slots of a signature; of a simhash its bits, 64 or 128.",
    "sketch": "What is made of a document: minhash; oneperm, for many slots; weighted, where "
    "repeats and weights count; or simhash, whose bits are compared.",
    "family": "How slots are made: affine32, affine-m61, rounds, darts.",
    "bits": "Store this many bits of a slot: 1, 2, 4, 8 or 16; bands are made before.",
    "shingle": "What is compared: word:5, char:24, line:1, or token:5 for a column of token ids.",
    "text_profile": "conservative (case counts), standard, or aggressive (accents, digits and "
    "compatibility forms folded).",
    "preset": "A published operating point: fineweb (word:5, 14 x 8) or nemo (char:24, 20 x 13).",
    "seed": "Seed of all hashes.",
    "hash": "What words are hashed with: xxh64, murmur3, fnv1a; or siphash, with --key-file.",
    "hamming": "With --sketch simhash: fingerprints that differ in at most so many bits are "
    "similar.",
    "blocks": "With --sketch simhash: cut fingerprints into so many blocks, more than --hamming; "
    "more of them make rarer keys and more tables.",
    "verify": "exact similarity of the shingles, estimate from the signatures, or none.",
    "measure": "jaccard; or containment: how much of a document is inside a kept one.",
    "html": "Ignore markup: html.",
}
METAVAR: Final = {"tables": "WHAT", "shingle": "UNIT:SIZE", "html": "html"}


def matching_option(name: str, default: str = "") -> Any:
    """The option of this name; what happens without it is told if the command chooses that."""
    told = f"{HELP[name]}  [default: {default}]" if default else HELP[name]
    return typer.Option(
        metavar=METAVAR.get(name), help=told, show_default=False, rich_help_panel=MATCH
    )


TextProfile = Annotated[str, matching_option("text_profile", "standard")]


MOST = 64  # bytes; a key in digits has 34 at most

Hash = Annotated[str, matching_option("hash", "xxh64")]
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
