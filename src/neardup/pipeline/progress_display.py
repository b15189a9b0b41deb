"""How the progress of a long run is shown: a bar, plain lines, a line in a notebook, a call.

Bars and lines go to standard error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from neardup import runtime
from neardup.formatting import format_amount, format_duration
from neardup.pipeline.budget import resident_memory
from neardup.runtime import SILENT, Progress, Silent

EVERY_SECONDS = 10.0
REDRAW_SECONDS = 0.2

ReportStage = Callable[[str, int, int | None, str], object]
"""Called with a stage's name, how much of it is done, the total or None, and the unit of both."""


class PlainProgress(Silent):
    """A plain line when a stage begins, and one every ten seconds, to standard error."""

    def __init__(self) -> None:
        self._name, self._unit, self._done = "", "", 0
        self._total: int | None = 0
        self._begin()

    def _begin(self) -> None:
        self._started = self._last_shown = time.monotonic()
        self._compiled_before = runtime.compiling_seconds

    def say(self, message: str) -> None:
        print(f"neardup: {message}", file=sys.stderr, flush=True)

    def stage(self, name: str, total: int | None, unit: str) -> None:
        self._name, self._unit, self._total, self._done = name, unit, total, 0
        self._begin()
        self.say(_stage_title(name, total, unit))

    def advance(self, done: int) -> None:
        self._done += done
        now = time.monotonic()
        if now - self._last_shown >= EVERY_SECONDS and self._done:
            self._last_shown = now
            self.say(self.describe_stage())

    @property
    def rate(self) -> float:
        """The units done in a second, on average since the stage began, without compiling."""
        compiling = runtime.compiling_seconds - self._compiled_before
        return self._done / max(time.monotonic() - self._started - compiling, 1e-3)

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
        self._begin()
        self._task = self._bar.add_task(_stage_title(name, total, unit), total=None, rate="")

    def advance(self, done: int) -> None:
        self._done += done
        rate = f"{format_amount(self.rate, self._unit)}/s"
        if self._total is not None and self._done:
            rate += f", {format_duration(max(self._total - self._done, 0) / self.rate)} left"
        self._bar.update(self._task, total=self._total, completed=self._done, rate=rate)


class NotebookProgress(PlainProgress):
    """A line of text in the output of a notebook's cell, which is updated and finally removed."""

    def __init__(self) -> None:
        super().__init__()
        from IPython.display import display

        self._handle = display(self._shown(""), display_id=True)

    @staticmethod
    def _shown(line: str) -> Any:
        from IPython.display import Pretty

        return Pretty(line)

    def say(self, message: str) -> None:
        self._handle.update(self._shown(message))

    def advance(self, done: int) -> None:
        self._done += done
        now = time.monotonic()
        if now - self._last_shown >= REDRAW_SECONDS:
            self._last_shown = now
            self.say(self.describe_stage())

    def clear(self) -> None:
        """Remove the line."""
        self.say("")


class ReportedProgress(Silent):
    """Progress that calls a function of the user."""

    def __init__(self, report: ReportStage) -> None:
        self._report = report
        self._name, self._unit, self._done = "", "", 0
        self._total: int | None = None

    def stage(self, name: str, total: int | None, unit: str) -> None:
        self._name, self._unit, self._total, self._done = name, unit, total, 0
        self._report(name, 0, total, unit)

    def advance(self, done: int) -> None:
        self._done += done
        self._report(self._name, self._done, self._total, self._unit)


@contextmanager
def show_progress(how: bool | ReportStage | None) -> Iterator[Progress]:
    """Show progress while the block runs.

    Args:
        how: True to show it in the way that fits: a line in a notebook, a bar on a terminal,
            plain lines elsewhere. None shows it in a notebook only, False nowhere. A function is
            called at every step.
    """
    if how is False or (how is None and not is_notebook()):
        yield SILENT
    elif callable(how):
        yield ReportedProgress(how)
    elif is_notebook():
        line = NotebookProgress()
        try:
            yield line
        finally:
            line.clear()
    elif not sys.stderr.isatty():
        yield PlainProgress()
    else:
        with _bar() as bar:
            yield BarProgress(bar)


def is_notebook() -> bool:
    """Return whether this code runs in a notebook's cell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
