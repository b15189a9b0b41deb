"""The log: one JSON object per line, without texts, keys or signatures.

A thread writes the lines, so that no request waits for a pipe that nobody reads or for a slow disk.
The lines that wait are bounded: further ones are dropped and counted, and the log says how many as
soon as it can be written again.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO

import orjson

from neardup.errors import ParameterError
from neardup.service.error_responses import error_place

CUT: Final = (CancelledError, ConnectionAbortedError)
"""Exceptions that abort a connection; the log line of the request states the reason."""
WAITING_BYTES: Final = 4 << 20
WRITTEN_AT_ONCE: Final = 1 << 16
END_SECONDS: Final = 1.0
"""Seconds that the last lines may take when the service ends."""


class Log:
    """Writes events as JSON lines. Thread-safe; `event` never waits for what it writes to.

    Args:
        out: the stream to write to; standard error by default.
        file: the file to append to instead. It may be moved away: `reopen` makes it again.
        most: bytes of the lines that may wait to be written.
    """

    def __init__(
        self, out: TextIO | None = None, *, file: Path | None = None, most: int = WAITING_BYTES
    ) -> None:
        self.when_dropped: Callable[[int], None] = lambda _: None
        self.file, self.most = file, most
        self._handle = -1 if file is None else _open(file)
        self._write = _writer(out or sys.stderr) if file is None else self._write_to_file
        # Reentrant: a signal may ask to reopen the file while a line is added.
        self._changed = threading.Condition(threading.RLock())
        self._lines: deque[bytes] = deque()
        self._size = self._dropped = 0
        self._writing = self._reopening = self._failed = False
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def event(self, name: str, **more: Any) -> None:
        """Add one line: the time, the name of the event, and its details."""
        line = _as_line(name, more)
        with self._changed:
            fits = self._size + len(line) <= self.most
            if fits:
                self._lines.append(line)
                self._size += len(line)
            else:
                self._dropped += 1
            self._changed.notify_all()
        if not fits:
            self.when_dropped(1)

    def reopen(self) -> None:
        """Make the file again, which was moved away, before the next line is written."""
        with self._changed:
            self._reopening = self.file is not None
            self._changed.notify_all()

    def drain(self, seconds: float = END_SECONDS) -> bool:
        """Wait until all lines are written, but not for longer than this; return whether they are.

        Args:
            seconds: the time that they may take.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not (self._lines or self._writing), seconds)

    def _run(self) -> None:
        while True:
            lines, dropped = self._take()
            if self._reopening:
                self._make_file_again()
            try:
                # After a failure, the beginning of a line may have been written.
                self._write(b"\n" * self._failed + b"".join(lines))
                self._failed, unsaid = False, 0
            except (OSError, ValueError):  # A closed log or a full disk stops no service.
                lost = len(lines) - bool(dropped)
                self.when_dropped(lost)
                self._failed, unsaid = True, lost + dropped
            with self._changed:
                self._dropped += unsaid
                self._writing = False
                self._changed.notify_all()

    def _take(self) -> tuple[list[bytes], int]:
        """Wait for lines, and return some of them and the number that was dropped."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._reopening)
            self._writing = True
            lines: list[bytes] = []
            room = WRITTEN_AT_ONCE
            while self._lines and room > 0:
                lines.append(self._lines.popleft())
                room -= len(lines[-1])
                self._size -= len(lines[-1])
            dropped, self._dropped = self._dropped, 0
        if dropped:
            lines.append(_as_line("log_lines_dropped", {"lines": dropped}))
        return lines, dropped

    def _write_to_file(self, lines: bytes) -> None:
        _write_all(self._handle, lines)

    def _make_file_again(self) -> None:
        self._reopening = False
        if self.file is None:
            return
        try:
            opened = _open(self.file)
        except ParameterError as error:  # The file that was moved gets the lines.
            self.event("log_not_reopened", message=str(error))
            return
        os.close(self._handle)
        self._handle = opened
        self.event("log_reopened")


def _open(file: Path) -> int:
    try:
        return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise ParameterError(
            f"can't write the log to {file} ({error.strerror}): choose another --log-file"
        ) from None


def _writer(out: TextIO) -> Callable[[bytes], None]:
    """Return the function that writes lines to a stream.

    Not through the stream if it has a file handle: its lock would be held while a write waits, and
    the process could not end.
    """
    try:
        return partial(_write_all, out.fileno())
    except (OSError, ValueError):  # One in memory.

        def write(lines: bytes) -> None:
            out.write(lines.decode())
            out.flush()

        return write


def _write_all(handle: int, lines: bytes) -> None:
    left = memoryview(lines)
    while left:
        left = left[os.write(handle, left) :]


def _as_line(name: str, more: dict[str, Any]) -> bytes:
    line = {"time": datetime.now(UTC), "event": name, **more}
    try:
        return orjson.dumps(line, default=str) + b"\n"
    except orjson.JSONEncodeError:  # A file name may be invalid UTF-8.
        return json.dumps(line, default=str, separators=(",", ":")).encode() + b"\n"


class _Forward(logging.Handler):
    """Writes records of libraries to the log; of an exception, its type and place alone."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, CUT):
            return
        more = {} if error is None else {"kind": type(error).__name__, "place": error_place(error)}
        # Lines after the first show values, which could be texts.
        message = record.getMessage().strip().partition("\n")[0]
        self._log.event("server", level=record.levelname.lower(), message=message, **more)


def forward(log: Log, *names: str) -> None:
    """Send the warnings and errors of these loggers to the log."""
    for name in names:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [_Forward(log)], False
        logger.setLevel(logging.WARNING)
