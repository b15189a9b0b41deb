"""SIGHUP: a running service takes over the limits and the supplied key that are in files now."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.running import Running, running
from support.serving import text

OWED = 600
"""Texts of one request, for which a key with one a second has to wait ten minutes."""
KEYS = ["first-key-of-32-characters-0000x", "other-key-of-32-characters-0000x"]


@pytest.fixture
def write_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes the neardup.toml that a service in the working folder finds."""
    monkeypatch.chdir(tmp_path)

    def write(*limits: str) -> None:
        listed = ", ".join(f'"{limit}"' for limit in limits)
        (tmp_path / "neardup.toml").write_text(f"[serve]\nlimit = [{listed}]\n")

    return write


def after_hangup(service: Running, name: str) -> dict[str, Any]:
    """Send SIGHUP, and return the event that it leads to."""

    def events() -> list[dict[str, Any]]:
        return [line for line in service.logged() if line["event"] == name]

    before, ends = len(events()), time.monotonic() + 30
    os.kill(service.process.pid, signal.SIGHUP)
    while len(events()) == before:
        assert time.monotonic() < ends and service.process.poll() is None, service.logged()
        time.sleep(0.02)
    return events()[-1]


def check(service: Running, texts: int, key: str = KEYS[0]) -> int:
    """Ask about some texts; return the status."""
    body, header = {"texts": [text(1)] * texts}, {"Authorization": f"Bearer {key}"}
    return httpx.post(f"{service.url}/v1/check", json=body, headers=header).status_code


def test_limits_and_the_supplied_key_change_while_it_runs(
    tmp_path: Path, write_settings: Callable[..., None]
) -> None:
    write_settings("batch=2")
    file = tmp_path / "api-key"
    file.write_text(KEYS[0])
    file.chmod(0o600)
    with running(tmp_path / "data", "--api-key-file", str(file)) as service:
        service.event("ready")
        assert (check(service, 2), check(service, 3)) == (200, 413)
        assert after_hangup(service, "reloaded")["changed_limits"] == {}

        write_settings("batch=3", "source_connections=1")
        file.write_text(KEYS[1])
        changed = after_hangup(service, "reloaded")["changed_limits"]
        assert changed == {"batch": 3, "source_connections": 1}
        assert (check(service, 3), check(service, 3, KEYS[1])) == (401, 200)
        described = httpx.get(f"{service.url}/openapi.json").json()["components"]["schemas"]
        assert described["CheckTexts"]["properties"]["texts"]["maxItems"] == 3
        with socket.create_connection(service.address) as first:
            first.sendall(b"GET /v1/stats HTTP/1.1\r\n")
            time.sleep(0.2)
            assert service.raw(b"GET /v1/stats HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == b""

        write_settings("key_rate=1", "burst_seconds=1")
        after_hangup(service, "reloaded")
        # What a batch takes beyond the burst is owed: for minutes, however slow this machine is.
        assert [check(service, n, KEYS[1]) for n in (OWED, 1, 1)] == [200, 429, 429]

        for wrong, said in (("batch=soon", "takes a whole number"), ("batches=1", "unknown limit")):
            write_settings(wrong)
            assert said in after_hangup(service, "not_reloaded")["message"]
        write_settings()
        file.write_text("short")
        assert "could be guessed" in after_hangup(service, "not_reloaded")["message"]
        assert check(service, 1, KEYS[1]) == 429, "all is as it was"
        assert service.stop() == 0


def test_limits_of_the_command_line_stay(
    tmp_path: Path, write_settings: Callable[..., None]
) -> None:
    write_settings("batch=1")
    with running(tmp_path / "data", "--limit", "batch=2") as service:
        service.event("ready")
        write_settings("batch=3")
        assert after_hangup(service, "reloaded")["changed_limits"] == {}
        assert (check(service, 2), check(service, 3)) == (200, 413)
