"""What commands print: progress while they run, tables and records.

Progress goes to standard error: a bar on a terminal, plain lines in a pipe, nothing with --quiet.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TextIO

from neardup import runtime
from neardup.pipeline.progress_display import show_progress
from neardup.runtime import Progress

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def progress_for(quiet: bool) -> Iterator[Progress]:
    """Show progress in the way that fits standard error: a bar, lines, or nothing if quiet."""
    runtime.quiet = quiet
    with show_progress(not quiet) as progress:
        yield progress


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


def open_closed_streams() -> None:
    """Open the standard streams that the caller has closed, before other files get their numbers.

    Standard output becomes a pipe whose reader is gone, so that the command ends as it does then.
    """
    if sys.stdin is None:
        sys.stdin = _open_as(0, os.open(os.devnull, os.O_RDONLY), "r")
    if sys.stdout is None:
        reader, writer = os.pipe()
        os.close(reader)
        sys.stdout = _open_as(1, writer, "w")
    if sys.stderr is None:
        sys.stderr = _open_as(2, os.open(os.devnull, os.O_WRONLY), "w")


class LossyFile(io.FileIO):
    """A file that is written as far as possible: what can't be written is dropped."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def drop_unwritable_errors() -> None:
    """Have standard error never fail: a full disk there, or a reader that is gone, ends no run."""
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(LossyFile(sys.stderr.fileno(), "w", closefd=False)),
            encoding=sys.stderr.encoding,
            errors=sys.stderr.errors,
            line_buffering=True,
        )


def _open_as(number: int, handle: int, mode: Literal["r", "w"]) -> TextIO:
    """Return an open file under the number of a standard stream, also in processes to start."""
    if handle != number:
        os.dup2(handle, number)
        os.close(handle)
    os.set_inheritable(number, True)
    # The process ends with it open, as with the stream that it stands for.
    return os.fdopen(number, mode, encoding="utf-8", closefd=False)


def print_json(record: Any, file: TextIO | None = None) -> None:
    """Print a value as indented JSON, in ASCII: the reader of a pipe may expect any encoding."""
    print(json.dumps(record, indent=2), file=file)


def print_run(
    record: dict[str, Any], summary: str, quiet: bool, as_json: bool, piped: bool = False
) -> None:
    """Print the record of a run as JSON, its summary, or nothing if quiet.

    It goes to standard error if the kept rows were written to standard output (`piped`).
    """
    stream = sys.stderr if piped else sys.stdout
    if as_json:
        print_json(record, stream)
    elif not quiet:
        stream.write(summary)
