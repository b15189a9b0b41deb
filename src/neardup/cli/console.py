"""What commands print: progress while they run, tables, and the last lines of a run.

Progress goes to standard error: a bar on a terminal, plain lines in a pipe, nothing with --quiet.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neardup import runtime
from neardup.formatting import format_amount
from neardup.pipeline.budget import resident_memory
from neardup.runtime import SILENT, Progress, Silent

if TYPE_CHECKING:
    from rich.console import Console

EVERY_SECONDS = 10.0
SHOWN_REASONS = 3


class PlainProgress(Silent):
    """A plain line when a stage begins, and one every ten seconds, to standard error."""

    def __init__(self) -> None:
        self._name, self._unit, self._done = "", "", 0
        self._total: int | None = 0
        self._started = self._last_shown = time.monotonic()

    def say(self, message: str) -> None:
        print(f"neardup: {message}", file=sys.stderr, flush=True)

    def stage(self, name: str, total: int | None, unit: str) -> None:
        self._name, self._unit, self._total, self._done = name, unit, total, 0
        self._started = self._last_shown = time.monotonic()
        self.say(_stage_title(name, total, unit))

    def advance(self, done: int) -> None:
        self._done += done
        now = time.monotonic()
        if now - self._last_shown >= EVERY_SECONDS and self._done:
            self._last_shown = now
            self.say(self.describe_stage())

    @property
    def rate(self) -> float:
        """The units done in a second, on average since the stage began."""
        return self._done / max(time.monotonic() - self._started, 1e-3)

    def describe_stage(self) -> str:
        """Describe how far the stage is: amount done, rate, time left, memory in use."""
        of_total = remaining = ""
        if self._total is not None:
            of_total = f" of {format_amount(self._total, self._unit)}"
            remaining = f"{max(self._total - self._done, 0) / self.rate:.0f} s left, "
        return (
            f"{self._name} {format_amount(self._done, self._unit)}{of_total}, "
            f"{format_amount(self.rate, self._unit)}/s, "
            f"{remaining}{format_amount(resident_memory(), 'bytes')} of memory"
        )


def _stage_title(name: str, total: int | None, unit: str) -> str:
    return name if total is None else f"{name} {format_amount(total, unit)}"


class BarProgress(PlainProgress):
    """A bar with a rate and the time left; without them in a stage that does not advance."""

    def __init__(self, bar: Any) -> None:
        super().__init__()
        self._bar = bar
        self._task: Any = None

    def say(self, message: str) -> None:
        self._bar.console.print(message, style="dim")

    def stage(self, name: str, total: int | None, unit: str) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._unit, self._total, self._done = unit, total, 0
        self._started = time.monotonic()
        self._task = self._bar.add_task(_stage_title(name, total, unit), total=None, rate="")

    def advance(self, done: int) -> None:
        self._done += done
        rate = f"{format_amount(self.rate, self._unit)}/s"
        self._bar.update(self._task, total=self._total, completed=self._done, rate=rate)


@contextmanager
def progress_for(quiet: bool) -> Iterator[Progress]:
    """Show progress in the way that fits standard error: a bar, lines, or nothing if quiet."""
    runtime.quiet = quiet
    if quiet:
        yield SILENT
    elif not sys.stderr.isatty():
        yield PlainProgress()
    else:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            yield BarProgress(bar)


def make_console(width: int) -> Console:
    """Return a console on standard output.

    Args:
        width: Its columns if standard output is not a terminal and COLUMNS is not set.
    """
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        console.width = max(console.width, width)
    return console


def print_json(record: Any) -> None:
    """Print a value as indented JSON, in ASCII: the reader of a pipe may expect any encoding."""
    print(json.dumps(record, indent=2))


def rejected_line(record: dict[str, Any]) -> Iterator[str]:
    """Yield a line with the most common reasons for rejection, if documents were rejected."""
    if record["reasons"]:
        shown = dict(islice(record["reasons"].items(), SHOWN_REASONS))
        reasons = [f"{count:,} {reason}" for reason, count in shown.items()]
        if more := record["counts"]["rejected"] - sum(shown.values()):
            reasons.append(f"{more:,} for other reasons")
        yield "rejected            " + "   ".join(reasons)


def last_lines(record: dict[str, Any], out: Path | str) -> Iterator[str]:
    """Yield the end of a run's summary: skipped files, time and memory, where the report is."""
    if record["skipped_files"]:
        skipped = len(record["skipped_files"])
        files = "file" if skipped == 1 else "files"
        yield f"skipped             {skipped:,} bad {files}; run.json lists them"
    seconds, memory = record["seconds"]["total"], record["peak_memory_bytes"] / 10**6
    yield f"{seconds:.1f} s, {memory:,.0f} MB at most; {out}/report.html shows it"


def print_run(record: dict[str, Any], summary: str, quiet: bool, as_json: bool) -> None:
    """Print the record of a run as JSON, its summary, or nothing if quiet."""
    if as_json:
        print_json(record)
    elif not quiet:
        sys.stdout.write(summary)
