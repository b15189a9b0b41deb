"""What only a process of its own shows: signals, slow clients, streams both ways, logs."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from command_line import neardup, process
from serving import key, text

LIMITS = ("header_seconds=1", "body_seconds=1", "keep_alive_seconds=1", "header_bytes=5000",
          "connections=40")  # fmt: skip


class Running:
    """A service that was started as a person starts it."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.log = data.parent / "log"
        command = [sys.executable, "-m", "neardup", "serve", "--data", str(data), "--port", "0"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*command, *options], stderr=log)
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
def running(data: Path, *options: str) -> Iterator[Running]:
    service = Running(data, *options)
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.process.kill()
            service.process.wait()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = [word for limit in LIMITS for word in ("--limit", limit)]
    with running(tmp_path_factory.mktemp("served") / "data", *limits) as started:
        started.event("ready")
        yield started


REQUEST = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("parts", [
    [b""], [b"POST /v1"], [REQUEST, b"X-A: 1\r\n", b"X-B: 1\r\n"], [b"\r\n"] * 5,
    [REQUEST + b"Content-Length: 2\r\n\r\n{}"], [REQUEST + b"Content-Length: 2\r\n\r\n{}", b"\r\n"],
    [REQUEST + b"Content-Length: 2\r\nConnection: close\r\n\r\n{", b"}"],
])  # fmt: skip
def test_a_connection_is_not_held_for_ever(service: Running, parts: list[bytes]) -> None:
    begun = time.monotonic()
    service.raw(*parts, pause=0.2)
    assert time.monotonic() - begun < 10


def test_a_body_that_does_not_come(service: Running) -> None:
    answer = service.raw(REQUEST + b"Content-Length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"error":"too_slow"' in answer


def test_headers_that_are_too_large(service: Running) -> None:
    assert service.raw(REQUEST, b"X: " + b"a" * 9_000).startswith(b"HTTP/1.1 431 ")
    many = [b"X-%d: a\r\n" % n for n in range(2_000)]
    assert not service.raw(REQUEST, *many).startswith(b"HTTP/1.1 2")


@pytest.mark.parametrize("sent", [
    b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
    REQUEST + b"Content-Length: -1\r\n\r\n", REQUEST + b"Content-Length: 1e3\r\n\r\n",
    REQUEST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    REQUEST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
])  # fmt: skip
def test_what_is_not_http(service: Running, sent: bytes) -> None:
    status = service.raw(sent)[:12]
    assert status in (b"", b"HTTP/1.1 400", b"HTTP/1.1 405", b"HTTP/1.1 505"), status


def test_a_refused_body_is_not_read_and_the_service_goes_on(service: Running) -> None:
    answer = service.raw(REQUEST + b"Content-Length: 99999999999\r\n\r\n" + b"x" * 100)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer
    assert httpx.get(f"{service.url}/readyz").status_code == 200


def test_more_connections_than_allowed_are_closed(service: Running) -> None:
    held = [socket.create_connection(service.address, timeout=10) for _ in range(40)]
    try:
        time.sleep(0.2)
        with socket.create_connection(service.address, timeout=10) as late:
            try:
                late.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert late.recv(100) == b""
            except ConnectionError:
                pass
    finally:
        for each in held:
            each.close()
    time.sleep(0.2)
    assert httpx.get(f"{service.url}/healthz").status_code == 200


def test_answers_stream_back_while_lines_are_sent(service: Running) -> None:
    head = (
        b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Type: application/x-ndjson\r\n\r\n"
    )
    with socket.create_connection(service.address, timeout=30) as connection:
        connection.sendall(head)
        answers = connection.makefile("rb")
        for n in range(3):
            line = json.dumps({"id": f"stream-{n}", "text": text(n)}).encode() + b"\n"
            connection.sendall(b"%x\r\n%s\r\n" % (len(line), line))
            found = next(part for part in answers if part.startswith(b"{"))
            assert json.loads(found)["line"] == n + 1
        connection.sendall(b"0\r\n\r\n")
        assert any(part == b"0\r\n" for part in answers)


def test_equal_documents_at_the_same_time(service: Running) -> None:
    """Of many that arrive at once, exactly one is new."""
    with httpx.Client(base_url=service.url) as client, ThreadPoolExecutor(8) as pool:
        bodies = [{"id": f"race-{n}", "text": text(12_345)} for n in range(24)]
        found = list(pool.map(lambda body: client.post("/v1/documents", json=body).json(), bodies))
    assert sorted(one["status"] for one in found) == ["duplicate"] * 23 + ["new"]
    first = next(one["id"] for one in found if one["status"] == "new")
    assert {one["duplicate_of"] for one in found} == {None, first}


def test_checks_at_the_same_time_get_their_own_answers(service: Running) -> None:
    with httpx.Client(base_url=service.url) as client, ThreadPoolExecutor(8) as pool:
        documents = [{"id": f"own-{n}", "text": text(500 + n)} for n in range(40)]
        client.post("/v1/documents", json={"documents": documents})
        asked = [{"text": text(500 + n % 50)} for n in range(200)]
        found = list(pool.map(lambda body: client.post("/v1/check", json=body).json(), asked))
    expected = [f"own-{n % 50}" if n % 50 < 40 else None for n in range(200)]
    assert [one["duplicate_of"] for one in found] == expected


def test_a_running_service_is_evaluated(service: Running, tmp_path: Path) -> None:
    documents = [{"id": f"e{n}", "text": text(9_000 + n // 2)} for n in range(8)]
    httpx.post(f"{service.url}/v1/documents", json={"documents": documents})
    rows = [f"e{n}\te{n + 1}\t{1 - n % 2}" for n in range(7)]
    (tmp_path / "labels.tsv").write_text("id1\tid2\tlabel\n" + "\n".join(rows) + "\n")
    ran = neardup("evaluate", tmp_path / "labels.tsv", "--service", service.url, "--min-f1", "1")
    assert ran.code == 0, ran.err


def test_a_second_service_on_the_same_data_is_refused(service: Running) -> None:
    ran = process("serve", "--data", service.data, "--port", 0)
    assert ran.returncode == 1
    assert "is written to by process" in ran.stderr.splitlines()[-1]


def test_a_port_that_is_taken(service: Running) -> None:
    other = service.data.parent / "other"
    ran = process("serve", "--data", other, "--port", service.address[1])
    assert ran.returncode == 2
    assert "--port" in ran.stderr.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_finishes_what_is_under_way(tmp_path: Path, number: int) -> None:
    data = tmp_path / "data"
    header = key(data, "read", "write")
    with running(data, "--proxy", "127.0.0.1") as service:
        service.event("ready")
        documents = [{"id": f"d{n}", "text": text(n, 400)} for n in range(1_000)]
        body = json.dumps({"documents": documents}).encode()
        head = (
            b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"X-Forwarded-For: 192.0.2.7\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n"
        ) % (header["Authorization"].encode(), len(body))
        with socket.create_connection(service.address, timeout=60) as connection:
            connection.sendall(head + body[:-1])
            time.sleep(0.3)
            service.process.send_signal(number)
            time.sleep(0.3)
            connection.sendall(body[-1:])
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert service.process.wait(60) == 0
        assert service.logged()[-1]["event"] == "closed"
        assert "192.0.2.7" in {line.get("source") for line in service.logged()}
        assert header["Authorization"].split()[1] not in service.log.read_text()
    with running(data) as service:
        assert service.event("ready")["documents"] == 1_000


def test_an_index_that_can_not_be_loaded_ends_it_with_the_reason(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "index.json").write_text("{")
    ran = process("serve", "--data", data, "--port", 0)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("neardup: ")
    assert "Traceback" not in ran.stderr
