"""A service in a process of its own, started as a person starts it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Running:
    """A service, its address and its log."""

    def __init__(self, data: Path | str, *options: str, log: Path | None = None) -> None:
        self.data = Path(data)
        self.log = log or self.data.parent / "log"
        command = [sys.executable, "-m", "neardup", "serve", "--data", str(data), "--port", "0"]
        with self.log.open("w") as written:
            self.process = subprocess.Popen([*command, *options], stderr=written)
        self.url = self.event("listening")["url"]
        self.address = ("127.0.0.1", int(self.url.rpartition(":")[2]))

    def event(self, name: str) -> dict[str, Any]:
        """Wait for a line of the log."""
        ends = time.monotonic() + 120
        while time.monotonic() < ends:
            for line in self.logged():
                if line["event"] == name:
                    return line
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def logged(self) -> list[dict[str, Any]]:
        whole = [
            line for line in self.log.read_text().splitlines(keepends=True) if line[-1] == "\n"
        ]
        return [json.loads(line) for line in whole]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)

    def raw(self, *parts: bytes, pause: float = 0.0) -> bytes:
        """Send bytes, and read until the other side closes."""
        with socket.create_connection(self.address, timeout=30) as connection:
            try:
                for part in parts:
                    connection.sendall(part)
                    time.sleep(pause)
                return b"".join(iter(lambda: connection.recv(65_536), b""))
            except ConnectionError:
                return b""


@contextmanager
def running(data: Path | str, *options: str, log: Path | None = None) -> Iterator[Running]:
    service = Running(data, *options, log=log)
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.process.kill()
            service.process.wait()
