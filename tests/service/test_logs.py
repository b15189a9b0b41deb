"""The log: one JSON object per line, which quotes no exception and never stops the service."""

from __future__ import annotations

import io
import json
import logging
import os
from asyncio import CancelledError

from neardup.service.logs import Log, forward


def test_event_is_one_json_line() -> None:
    out = io.StringIO()
    Log(out).event("request", message="two\nlines", status=200)
    (line,) = out.getvalue().splitlines()
    logged = json.loads(line)
    assert logged.keys() == {"time", "event", "message", "status"}
    assert (logged["event"], logged["message"]) == ("request", "two\nlines")


def test_file_name_of_invalid_utf8_is_logged() -> None:
    out = io.StringIO()
    Log(out).event("failed", message=os.fsdecode(b"\xff"))
    assert json.loads(out.getvalue())["message"] == "\udcff"


def test_closed_log_does_not_raise() -> None:
    out = io.StringIO()
    out.close()
    Log(out).event("request")


def test_library_errors_are_logged_without_their_messages() -> None:
    out = io.StringIO()
    forward(Log(out), "neardup.test_logs")
    logger = logging.getLogger("neardup.test_logs")
    for error in (KeyError("secret"), CancelledError()):
        try:
            raise error
        except (KeyError, CancelledError):
            logger.exception("it failed\nwith a secret")
    logger.info("not a warning")
    (logged,) = map(json.loads, out.getvalue().splitlines())
    assert (logged["event"], logged["message"], logged["kind"]) == (
        "server",
        "it failed",
        "KeyError",
    )
    assert "secret" not in out.getvalue()
