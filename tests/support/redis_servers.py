"""A redis-server of the tests' own, on a free port of this machine."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class RedisServer:
    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, with the data that it has stored before."""
        command = ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "yes", "--dir", self.folder, "--enable-debug-command", "yes"]
        self.process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL)
        ends = time.monotonic() + 60
        while not self._answers():
            assert time.monotonic() < ends and self.process.poll() is None
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(5) == b"+PONG"
        except OSError:
            return False

    def kill(self) -> None:
        """Kill it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def redis_server() -> Iterator[RedisServer]:
    """Run a server that keeps an append-only file."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: apt-get install redis-server")
    pytest.importorskip("redis")
    with socket.socket() as probe, tempfile.TemporaryDirectory() as folder:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        server = RedisServer(port, Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()
