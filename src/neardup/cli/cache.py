"""neardup cache: the results of earlier trials, which tune reuses, and the compiled kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup import runtime
from neardup.cli.arguments import PlainJson, Quiet, argument, flag, option
from neardup.cli.console import make_console, print_json, progress_for
from neardup.cli.help import Command, Group
from neardup.formatting import format_bytes, format_count, format_time

if TYPE_CHECKING:
    from neardup.planner.trial_cache import TrialCache

SHOWN_DIGITS = 10
FIRST = ("sketch", "slots", "bands", "rows", "shingle")
WIDTH = 160
"""The columns of a table that is not shown on a terminal."""
HASH = re.compile(r"[0-9a-f]{32,}")
DAYS = {"h": 1 / 24, "d": 1, "w": 7}

Folders = Annotated[
    list[Path] | None,
    option(
        "FOLDER",
        "The folder of the results; repeat it for several, as neardup tune had them.",
        "--cache",
        default="the user's cache folder",
    ),
]

cache = typer.Typer(
    help="List, show or clear the results of earlier trials, which neardup tune reuses, and the "
    "compiled kernels.",
    cls=Group,
    epilog="Example: neardup cache list",
    no_args_is_help=True,
)


@cache.command("list", cls=Command, epilog="Example: neardup cache list")
def list_results(
    folders: Folders = None,
    as_json: PlainJson = False,
) -> None:
    """List the results: key, time, configuration, seconds, and whether the machine was like this.

    neardup cache show prints one of them in full.
    """
    results = _open_cache(folders)
    entries = sorted(results.entries(), key=lambda entry: entry.at)
    if as_json:
        rows = [entry.to_json() | {"same_machine": entry.same_machine} for entry in entries]
        about = {"folder": results.where, "damaged": results.damaged}
        print_json(
            about | {"entries": rows, "kernels": kernels_in_cache(), "fetched": fetched_in_cache()}
        )
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
            format_time(entry.at, precision="minutes"),
            Text(describe_config(entry.config), no_wrap=True, overflow="ellipsis"),
            f"{entry.seconds:.3g}",
            "this" if entry.same_machine else "other",
        )
    for column in (*table.columns[:2], *table.columns[3:]):
        column.no_wrap = True
    console = make_console(WIDTH)
    if entries:
        console.print(table)
    damaged = f", {results.damaged:,} that can't be used" if results.damaged else ""
    total = format_count(len(entries), "result")
    console.print(f"{total} in {results.where}{damaged}", soft_wrap=True)
    if not folders and (kernels := kernels_in_cache()):
        size = format_bytes(sum(one["bytes"] for one in kernels))
        what = format_count(len(kernels), "folder")
        console.print(
            f"{what} of compiled kernels, {size}, in {runtime.cache_home()}", soft_wrap=True
        )
    if fetched := fetched_in_cache():
        size = format_bytes(sum(one["bytes"] for one in fetched))
        what = format_count(len(fetched), "folder")
        console.print(
            f"{what} of stopped runs with a remote output, {size}, in {runtime.cache_home()}",
            soft_wrap=True,
        )


def kernels_in_cache() -> list[dict[str, Any]]:
    """Return the folders of compiled kernels, with the bytes in each."""
    from neardup.kernels import cache as kernel_cache

    return _with_sizes(kernel_cache.kernel_folders())


def fetched_in_cache() -> list[dict[str, Any]]:
    """Return the folders of stopped runs with a remote output, with the bytes in each."""
    from neardup.pipeline.remote import fetched_folders

    return _with_sizes(fetched_folders())


def _with_sizes(folders: Iterable[Path]) -> list[dict[str, Any]]:
    return [
        {
            "folder": folder.name,
            "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        }
        for folder in folders
    ]


@cache.command("show", cls=Command, epilog="Example: neardup cache show 3f0c9a")
def show_result(
    key: Annotated[str, argument("KEY", "The key of a result; its first digits are enough.")],
    folders: Folders = None,
) -> None:
    """Print one entry as JSON: configuration, results, time, machine and version."""
    print_json(_open_cache(folders).find(key).to_json())


@cache.command("clear", cls=Command, epilog="Example: neardup cache clear --older-than 30d")
def clear_results(
    folders: Folders = None,
    older_than: Annotated[
        str | None,
        option("AGE", "Only what is older, such as 30d (days), 12h or 4w.", default="all"),
    ] = None,
    kernels: Annotated[
        bool,
        flag(
            "Remove compiled kernels instead, of all versions and installations; the next run "
            "compiles what it needs.",
            "--kernels",
        ),
    ] = False,
    fetched: Annotated[
        bool,
        flag(
            "Remove what stopped runs with a remote output have left instead: they start again.",
            "--fetched",
        ),
    ] = False,
    yes: Annotated[bool, flag("Don't ask for confirmation.", "--yes", "-y")] = False,
) -> None:
    """Remove results, also unfinished and damaged ones. Other files in the folder are kept."""
    from datetime import UTC, datetime

    from neardup.errors import UsageError

    age = None if older_than is None else parse_age(older_than)
    if (kernels or fetched) and folders:
        option = "--kernels" if kernels else "--fetched"
        raise UsageError(f"--cache is the folder of results: leave it out with {option}")
    if kernels and fetched:
        raise UsageError("--kernels and --fetched are two commands: give one of them")
    results = None if kernels or fetched else _open_cache(folders)
    place = runtime.cache_home() if results is None else results.where
    what = "compiled kernels" if kernels else "fetched files" if fetched else "results"
    which = f"all {what}" if older_than is None else f"{what} older than {older_than}"
    if not yes and not _confirm(f"Remove {which} in {place}?"):
        print("nothing was removed")
        return
    days = 0 if age is None else age / timedelta(days=1)
    if kernels:
        from neardup.kernels import cache as kernel_cache

        count = kernel_cache.remove_unused_kernels(days)
    elif results is None:
        from neardup.pipeline.remote import remove_fetched

        count = remove_fetched(days)
    else:
        count = results.clear(None if age is None else datetime.now(UTC) - age)
    print(f"{count:,} removed")


def warm_up(quiet: Quiet = False) -> None:
    """Compile all kernels on all cores and keep them, so that no later run has to.

    For images and for tests. Takes a minute or two; kernels that are compiled already take no time.
    """
    import os
    from concurrent.futures import ThreadPoolExecutor

    from neardup import kernels
    from neardup.errors import OutputError
    from neardup.kernels import shared_objects

    if all(map(shared_objects.packaged_folder, kernels.KERNELS)):
        if not quiet:
            print("the kernels for this processor came with the package: nothing is compiled")
        return
    largest_first = sorted(kernels.KERNELS, key=lambda module: -len(kernels.KERNELS[module]))
    with (
        progress_for(quiet) as progress,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        progress.stage("compiling", len(largest_first), "modules")
        for _ in pool.map(kernels.compile_module, largest_first):
            progress.advance(1)
    if not all(map(kernels.is_compiled, kernels.KERNELS)):
        raise OutputError(
            f"{runtime.cache_home()} can't be written: set XDG_CACHE_HOME to a folder that can"
        )
    if not quiet:
        print(f"{len(kernels.KERNELS)} modules of kernels are compiled in {runtime.cache_home()}")


def _confirm(question: str) -> bool:
    from neardup.errors import UsageError

    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        raise UsageError("no answer, nothing was removed: --yes removes without asking") from None


def _open_cache(folders: list[Path] | None) -> TrialCache:
    from neardup.errors import UsageError
    from neardup.planner.trial_cache import TrialCache

    for folder in folders or ():
        if not folder.is_dir():
            raise UsageError(f"--cache {folder}: no such folder: check the path")
    return TrialCache(*(folders or ()))


def describe_config(config: dict[str, Any]) -> str:
    """Describe a configuration in a line: words as they are, numbers with their names.

    The most important options are first, because the end is cut where the line is too long.

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


def parse_age(text: str, name: str = "--older-than") -> timedelta:
    """Parse a number of hours, days or weeks.

    >>> parse_age("30d").days, parse_age("2w").days
    (30, 14)
    """
    from neardup.errors import ParameterError

    match = re.fullmatch(r"(\d{1,5})([hdw])", text)
    if match is None:
        raise ParameterError(f"{name} {text}: give a number and a unit, such as 30d, 12h, 4w")
    return timedelta(days=int(match[1]) * DAYS[match[2]])
