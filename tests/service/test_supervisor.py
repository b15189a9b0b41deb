"""A supervisor is told when the service is ready, and when it stops."""

from __future__ import annotations

import re
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.running import running

from neardup.service import supervisor

UNIT = (Path(__file__).parents[2] / "docs/service.md").read_text("utf-8")


@pytest.fixture(params=["file", "abstract"])
def listening(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """The socket of a supervisor, named in the environment."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound,
    ):
        file = f"{folder}/notify"
        bound.bind(file if request.param == "file" else "\0" + file)
        bound.settimeout(120)
        monkeypatch.setenv("NOTIFY_SOCKET", file if request.param == "file" else "@" + file)
        yield bound


def test_systemd_is_told_when_the_index_is_loaded_and_when_the_service_stops(
    tmp_path: Path, listening: socket.socket
) -> None:
    with running(tmp_path / "data") as service:
        assert listening.recv(100) == b"READY=1"
        assert httpx.get(f"{service.url}/readyz").status_code == 200
        assert service.stop() == 0
        assert listening.recv(100) == b"STOPPING=1"
    assert re.search(r"^Type=notify$", UNIT, re.MULTILINE)


def test_supervisor_that_is_gone_or_does_not_read_stops_nothing(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(10_000):
        supervisor.notify(supervisor.READY)
    listening.close()
    supervisor.notify(supervisor.READY)
    monkeypatch.delenv("NOTIFY_SOCKET")
    supervisor.notify(supervisor.READY)
