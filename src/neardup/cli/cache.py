"""neardup cache: the results of earlier trials, which a sweep does not run again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.arguments import make_console
from neardup.cli.help import Command, Group

if TYPE_CHECKING:
    from datetime import timedelta

    from neardup.planner.trial_cache import TrialCache

SHOWN_DIGITS = 12
FIRST = ("sketch", "slots", "bands", "rows", "shingle")
WIDTH = 160
"""Of a table that is not shown on a terminal."""
HASH = re.compile(r"[0-9a-f]{32,}")
DAYS = {"h": 1 / 24, "d": 1, "w": 7}

Folder = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="FOLDER",
        help="Where the results are.",
        show_default="the user's cache folder",
    ),
]

cache = typer.Typer(
    help="Results of earlier trials, which neardup tune does not run again.",
    cls=Group,
    epilog="Example: neardup cache list",
    no_args_is_help=True,
)


@cache.command("list", cls=Command, epilog="Example: neardup cache list")
def list_results(
    folder: Folder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List what is known: key, when, what, seconds, and whether it was on a machine like this."""
    import json

    kept = _open_cache(folder)
    entries = sorted(kept.entries(), key=lambda entry: entry.at)
    if as_json:
        rows = [entry.to_json() | {"same_machine": entry.same_machine} for entry in entries]
        about = {"folder": str(kept.folder), "damaged": kept.damaged}
        print(json.dumps(about | {"entries": rows}, indent=2))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(
        "key",
        "when",
        "what",
        "seconds",
        "machine",
        box=None,
        header_style="bold",
        padding=(0, 1, 0, 0),
    )
    table.columns[3].justify = "right"
    for entry in entries:
        table.add_row(
            entry.key[:SHOWN_DIGITS],
            f"{entry.at.astimezone():%Y-%m-%d %H:%M}",
            Text(describe_config(entry.config), no_wrap=True, overflow="ellipsis"),
            f"{entry.seconds:.3g}",
            "this" if entry.same_machine else "other",
        )
    for column in (*table.columns[:2], *table.columns[3:]):
        column.no_wrap = True
    console = make_console(WIDTH)
    if entries:
        console.print(table)
    damaged = f", {kept.damaged:,} that can't be used" if kept.damaged else ""
    results = "result" if len(entries) == 1 else "results"
    console.print(f"{len(entries):,} {results} in {kept.folder}{damaged}", soft_wrap=True)


@cache.command("show", cls=Command, epilog="Example: neardup cache show 3f0c9a")
def show_result(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="The first digits are enough.", show_default=False)
    ],
    folder: Folder = None,
) -> None:
    """Print one entry as JSON: configuration, results, time, machine and version."""
    import json

    print(json.dumps(_open_cache(folder).find(key).to_json(), indent=2))


@cache.command("clear", cls=Command, epilog="Example: neardup cache clear --older-than 30d")
def clear_results(
    folder: Folder = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Only what is older, such as 30d (days), 12h or 4w.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
) -> None:
    """Remove results, unfinished and damaged ones too. Other files in the folder stay."""
    from datetime import UTC, datetime

    age = None if older_than is None else parse_age(older_than)
    kept = _open_cache(folder)
    what = "all results" if older_than is None else f"results older than {older_than}"
    if not yes and not _confirm(f"Remove {what} in {kept.folder}?"):
        print("nothing was removed")
        return
    count = kept.clear(None if age is None else datetime.now(UTC) - age)
    print(f"{count:,} removed")


def _confirm(question: str) -> bool:
    from neardup.errors import UsageError

    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        raise UsageError("no answer, nothing was removed: --yes removes without asking") from None


def _open_cache(folder: Path | None) -> TrialCache:
    from neardup.errors import UsageError
    from neardup.planner.trial_cache import TrialCache

    if folder is not None and not folder.is_dir():
        raise UsageError(f"--cache {folder}: there is no such folder")
    return TrialCache(folder)


def describe_config(config: dict[str, Any]) -> str:
    """What is set, in a line: words as they are, numbers with their names. `show` shows all of it.

    What tells most is first, because the end is cut where there is no room.

    >>> config = {"sketch": "minhash", "slots": 128, "bits": None, "seed": 0, "more": {"a": 1}}
    >>> describe_config({**config, "corpus": "0123456789abcdef" * 2})
    'minhash, slots 128, corpus 01234567'
    >>> describe_config({"bands": 21, "bits": 32, "rows": 6, "sketch": "minhash", "slots": 128})
    'minhash, slots 128, 21x6, bits 32'
    """
    first = {name: config[name] for name in FIRST if name in config}
    if config.get("bands") and config.get("rows"):
        first |= {"bands": f"{config['bands']}x{config['rows']}", "rows": None}
    shown = []
    for name, value in {**first, **{n: v for n, v in config.items() if n not in first}}.items():
        if isinstance(value, str) and HASH.fullmatch(value):
            shown.append(f"{name} {value[:8]}")
        elif value and isinstance(value, str | int | float):
            shown.append(value if isinstance(value, str) else f"{name} {value:g}")
    return ", ".join(shown)


def parse_age(text: str) -> timedelta:
    """
    >>> parse_age("30d").days, parse_age("2w").days
    (30, 14)
    """
    from datetime import timedelta

    from neardup.errors import ParameterError

    found = re.fullmatch(r"(\d{1,5})([hdw])", text)
    if found is None:
        raise ParameterError(f"--older-than {text}: give a number and a unit, such as 30d, 12h, 4w")
    return timedelta(days=int(found[1]) * DAYS[found[2]])
