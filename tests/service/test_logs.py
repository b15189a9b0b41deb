"""The log: one JSON object per line, which quotes no exception and never stops the service."""

from __future__ import annotations

import fcntl
import io
import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import time
from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.disks import full_disk

from neardup.errors import ParameterError
from neardup.service.logs import Log, forward


def written(log: Log, out: io.StringIO) -> str:
    assert log.drain(10)
    return out.getvalue()


def test_event_is_one_json_line() -> None:
    out = io.StringIO()
    log = Log(out)
    log.event("request", message="two\nlines", status=200)
    (line,) = written(log, out).splitlines()
    logged = json.loads(line)
    assert logged.keys() == {"time", "event", "message", "status"}
    assert (logged["event"], logged["message"]) == ("request", "two\nlines")


def test_file_name_of_invalid_utf8_is_logged() -> None:
    out = io.StringIO()
    log = Log(out)
    log.event("failed", message=os.fsdecode(b"\xff"))
    assert json.loads(written(log, out))["message"] == "\udcff"


def test_closed_log_does_not_raise() -> None:
    out = io.StringIO()
    out.close()
    log = Log(out)
    log.event("request")
    assert log.drain(10)


def test_library_errors_are_logged_without_their_messages() -> None:
    out = io.StringIO()
    log = Log(out)
    forward(log, "neardup.test_logs")
    logger = logging.getLogger("neardup.test_logs")
    for error in (KeyError("secret"), CancelledError()):
        try:
            raise error
        except (KeyError, CancelledError):
            logger.exception("it failed\nwith a secret")
    logger.info("not a warning")
    (logged,) = map(json.loads, written(log, out).splitlines())
    assert (logged["event"], logged["message"], logged["kind"]) == (
        "server",
        "it failed",
        "KeyError",
    )
    assert "secret" not in out.getvalue()


def test_lines_that_can_t_be_written_are_dropped_and_the_log_says_how_many() -> None:
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4_096)
    dropped: list[int] = []
    numbers = itertools.count()
    with open(read, "rb") as reader, open(write, "w") as out:
        log = Log(out, most=10_000)
        log.when_dropped = dropped.append
        while log.drain(0.2):  # until the pipe is full
            log.event("request", number=next(numbers))
        begun = time.monotonic()
        for _ in range(1_000):
            log.event("request", number=next(numbers))
        assert time.monotonic() - begun < 5, "nobody waits for the pipe"
        assert sum(dropped) > 500
        lines: list[dict[str, Any]] = []
        while not lines or lines[-1]["event"] != "log_lines_dropped":
            lines.append(json.loads(reader.readline()))
        assert lines[-1]["lines"] == sum(dropped)
        log.event("request", number=next(numbers))
        assert json.loads(reader.readline())["number"] == next(numbers) - 1
        kept = [line["number"] for line in lines[:-1]]
        assert kept == list(range(len(kept))), "the oldest lines are written"


def test_lines_that_a_full_disk_refuses_are_counted(tmp_path: Path) -> None:
    log = Log(file=tmp_path / "log", most=10_000)
    dropped: list[int] = []
    log.when_dropped = dropped.append
    with full_disk(1_000):
        for _ in range(40):
            log.event("request", text="x" * 100)
            assert log.drain(10)
    log.event("after")
    assert log.drain(10)
    *_, after, said = (tmp_path / "log").read_text().splitlines()
    assert json.loads(after)["event"] == "after"
    assert json.loads(said)["lines"] == sum(dropped) > 10


def test_log_file_that_was_moved_is_made_again(tmp_path: Path) -> None:
    file, moved = tmp_path / "log", tmp_path / "log.1"
    log = Log(file=file)
    log.event("before")
    assert log.drain(10)
    file.rename(moved)
    log.event("meanwhile")
    assert log.drain(10)
    log.reopen()
    end = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    log.event("after")
    assert log.drain(10)
    names = [[json.loads(line)["event"] for line in each.open()] for each in (moved, file)]
    assert names == [["before", "meanwhile"], ["log_reopened", "after"]]


def test_log_file_that_can_t_be_made_again_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    log = Log(file=folder / "log")
    folder.rename(tmp_path / "moved")
    log.reopen()
    moved = tmp_path / "moved" / "log"
    end = time.monotonic() + 30
    while "log_not_reopened" not in moved.read_text():
        assert time.monotonic() < end
        time.sleep(0.01)
    with pytest.raises(ParameterError, match="choose another --log-file"):
        Log(file=folder / "log")


@contextmanager
def unread(data: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A service whose log is a pipe of which only the first lines are read, and its address."""
    command = [sys.executable, "-m", "neardup", "serve", "--data", str(data), "--port", "0"]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        url = ""
        for line in process.stderr:
            logged = json.loads(line)
            url = logged.get("url", url)
            if logged["event"] == "ready":
                break
        yield process, url
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_standard_error_that_nobody_reads_blocks_nothing(tmp_path: Path) -> None:
    limits = ("--limit", "log_bytes=20000")
    with unread(tmp_path / "data", *limits) as (process, url), httpx.Client(base_url=url) as client:
        for _ in range(700):
            assert client.get("/v1/stats", timeout=30).status_code == 200
        assert client.get("/healthz", timeout=30).status_code == 200
        metrics = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines())
        dropped = float(metrics["neardup_log_lines_dropped_total"])
        assert dropped > 10
        assert process.stderr is not None
        for line in process.stderr:
            logged = json.loads(line)
            if logged["event"] == "log_lines_dropped":
                break
        assert dropped <= logged["lines"] <= dropped + 10
        assert client.get("/healthz").status_code == 200


def test_service_whose_log_nobody_reads_ends_by_sigterm(tmp_path: Path) -> None:
    with unread(tmp_path / "data") as (process, url):
        with httpx.Client(base_url=url) as client:
            for _ in range(500):
                assert client.get("/healthz", timeout=30).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_sighup_makes_the_log_file_of_a_service_again(tmp_path: Path) -> None:
    file, moved = tmp_path / "service.log", tmp_path / "service.log.1"
    with running_with_log(tmp_path / "data", file) as (process, url):
        file.rename(moved)
        process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 30
        while not (file.exists() and "log_reopened" in file.read_text()):
            assert time.monotonic() < end
            time.sleep(0.02)
        httpx.get(f"{url}/healthz").raise_for_status()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    events = [json.loads(line)["event"] for line in file.open()]
    events.remove("reloaded")  # of the same signal, by another thread
    assert events == ["log_reopened", "request", "closed"]
    assert "ready" in moved.read_text()


@contextmanager
def running_with_log(data: Path, file: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A service that logs to a file, when it is ready, and its address."""
    command = [sys.executable, "-m", "neardup", "serve", "--data", str(data), "--port", "0"]
    process = subprocess.Popen([*command, "--log-file", str(file)], stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    try:
        while not (file.exists() and '"ready"' in file.read_text()):
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.05)
        lines = [json.loads(line) for line in file.open()]
        yield process, next(line["url"] for line in lines if "url" in line)
    finally:
        process.kill()
        process.wait()
