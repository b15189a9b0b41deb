"""The log: one JSON object per line, on standard error, without texts, keys or signatures."""

from __future__ import annotations

import json
import logging
import sys
from asyncio import CancelledError
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import orjson

from neardup.service.error_responses import error_place

CUT: Final = (CancelledError, ConnectionAbortedError)
"""Exceptions that abort a connection; the log line of the request states the reason."""


class Log:
    """Writes events as JSON lines.

    Args:
        out: the stream to write to; standard error by default.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr

    def event(self, name: str, **more: Any) -> None:
        """Write one line: the time, the name of the event, and its details."""
        line = {"time": datetime.now(UTC), "event": name, **more}
        try:
            self._out.write(_as_json(line) + "\n")
            self._out.flush()
        except (OSError, ValueError):
            # A closed log is no reason to stop the service.
            return


def _as_json(line: dict[str, Any]) -> str:
    try:
        return orjson.dumps(line, default=str).decode()
    except orjson.JSONEncodeError:  # A file name may be invalid UTF-8.
        return json.dumps(line, default=str, separators=(",", ":"))


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
