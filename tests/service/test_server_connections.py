"""Connections: slow clients, those that never read, and what is not HTTP at all."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from support.running import Running, running
from support.serving import key

LIMITS = (
    "header_seconds=1",
    "body_seconds=1",
    "keep_alive_seconds=1",
    "header_bytes=5000",
    "idle_seconds=1",
    "source_rate=0",
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = [word for limit in LIMITS for word in ("--limit", limit)]
    with running(tmp_path_factory.mktemp("served") / "data", *limits) as started:
        started.event("ready")
        yield started


ASK = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLOSING = ASK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
REQUEST = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_idle_and_slow_connections_are_closed(service: Running) -> None:
    whole = REQUEST + b"Content-Length: 2\r\n\r\n{}"
    closing = REQUEST + b"Content-Length: 2\r\nConnection: close\r\n\r\n{"
    sent = [
        [b""],
        [b"POST /v1"],
        [REQUEST, b"X-A: 1\r\n", b"X-B: 1\r\n"],
        [b"\r\n"] * 5,
        [whole],
        [whole, b"\r\n"],
        [closing, b"}"],
    ]
    begun = time.monotonic()
    with ThreadPoolExecutor(len(sent)) as pool:
        list(pool.map(lambda parts: service.raw(*parts, pause=0.2), sent))
    assert time.monotonic() - begun < 10


def test_incomplete_body_gives_408(service: Running) -> None:
    answer = service.raw(REQUEST + b"Content-Length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"error":"too_slow"' in answer


def test_oversized_headers_give_431(service: Running) -> None:
    assert service.raw(REQUEST, b"X: " + b"a" * 9_000).startswith(b"HTTP/1.1 431 ")
    many = [b"X-%d: a\r\n" % n for n in range(2_000)]
    assert not service.raw(REQUEST, *many).startswith(b"HTTP/1.1 2")
    at_once = ASK.replace(b"\r\n\r\n", b"\r\nX: " + b"a" * 9_000 + b"\r\n\r\n")
    assert service.raw(at_once).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        REQUEST + b"Content-Length: -1\r\n\r\n",
        REQUEST + b"Content-Length: 1e3\r\n\r\n",
        REQUEST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        REQUEST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_malformed_http_is_refused(service: Running, sent: bytes) -> None:
    status = service.raw(sent)[:12]
    assert status in (b"", b"HTTP/1.1 400", b"HTTP/1.1 405", b"HTTP/1.1 505"), status


def test_a_refused_body_is_not_read_and_the_service_goes_on(service: Running) -> None:
    answer = service.raw(REQUEST + b"Content-Length: 99999999999\r\n\r\n" + b"x" * 100)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer
    assert httpx.get(f"{service.url}/readyz").status_code == 200


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "data", "--limit", "connections=40") as started:
        started.event("ready")
        yield started


def test_connections_beyond_the_limit_are_closed_but_for_those_of_monitors(small: Running) -> None:
    service = small

    def metric(name: str) -> float:
        lines = httpx.get(f"{service.url}/metrics").text.splitlines()
        return float(dict(line.rsplit(" ", 1) for line in lines)[name])

    def wait_until_alone() -> None:
        end = time.monotonic() + 30
        while metric("neardup_open_connections") != 1:
            assert time.monotonic() < end, "closed connections still count as open"
            time.sleep(0.05)

    wait_until_alone()
    before = metric("neardup_connections_refused_total")
    held = [socket.create_connection(service.address, timeout=10) for _ in range(40)]
    try:
        time.sleep(0.2)
        assert service.raw(ASK) == b"", "closed without an answer"
        for path in (b"/healthz", b"/readyz", b"/metrics"):
            told = service.raw(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
            assert told.startswith(b"HTTP/1.1 200 "), "a monitor is let in"
            assert b"connection: close" in told
        more = [socket.create_connection(service.address, timeout=10) for _ in range(8)]
        held += more
        time.sleep(0.2)
        assert service.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
    finally:
        for each in held:
            each.close()
    wait_until_alone()
    assert metric("neardup_connections_refused_total") == before + 2


def test_one_address_can_t_hold_all_connections(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--limit", "source_connections=20") as service:
        service.event("ready")
        held = [socket.create_connection(service.address, timeout=10) for _ in range(20)]
        try:
            time.sleep(0.2)
            assert service.raw(ASK) == b""
            with socket.create_connection(
                service.address, timeout=10, source_address=("127.0.0.2", 0)
            ) as other:
                other.sendall(ASK)
                assert other.recv(1_000).startswith(b"HTTP/1.1 200 ")
        finally:
            for each in held:
                each.close()
        end = time.monotonic() + 30
        while not service.raw(CLOSING).startswith(b"HTTP/1.1 200 "):
            assert time.monotonic() < end, "they count no longer"
            time.sleep(0.05)


def test_proxy_may_hold_all_connections(tmp_path: Path) -> None:
    key(tmp_path / "data", "read")
    options = ("--limit", "source_connections=5", "--proxy", "127.0.0.1")
    with running(tmp_path / "data", *options) as service:
        service.event("ready")
        held = [socket.create_connection(service.address, timeout=10) for _ in range(20)]
        try:
            assert service.raw(CLOSING).startswith(b"HTTP/1.1 200 ")
        finally:
            for each in held:
                each.close()


def test_client_that_closed_its_side_gets_its_answers(service: Running) -> None:
    body = b'{"id": "half-closed", "text": "a client that sends and closes its side"}'
    size = b"Content-Length: %d\r\n\r\n" % len(body)
    add = REQUEST.replace(b"/v1/check", b"/v1/documents") + size
    for sent, count in ((add + body, 1), (ASK, 1), (ASK * 5 + add + body, 6)):
        with socket.create_connection(service.address, timeout=10) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            answers = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert answers.count(b"HTTP/1.1 200 ") == count, answers
    with socket.create_connection(service.address, timeout=10) as connection:
        connection.sendall(add + body[:-1])
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1_000) == b"", "half a body gets no answer"


def test_client_that_sends_ahead_and_goes_away_is_no_error_of_the_service(tmp_path: Path) -> None:
    with running(tmp_path / "data") as service:
        service.event("ready")
        check = b'{"text": "%s"}' % b" ".join(b"word%d" % n for n in range(2_000))
        ahead = (REQUEST + b"Content-Length: %d\r\n\r\n" % len(check) + check) * 8
        for _ in range(20):
            with socket.create_connection(service.address, timeout=10) as connection:
                connection.sendall(ahead)
        assert service.stop() == 0
        logged = service.logged()
    assert {line["status"] for line in logged if line["event"] == "request"} <= {200, 499}
    assert not [line for line in logged if line["event"] in ("internal_error", "server")]


def test_stream_whose_answers_are_not_read_is_closed(service: Running) -> None:
    head = REQUEST.replace(b"/v1/check", b"/v1/documents").replace(b"/json", b"/x-ndjson")
    with socket.create_connection(service.address, timeout=30) as connection:
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        lines = b"x\n" * 2_000
        with pytest.raises(ConnectionError):
            while True:
                connection.sendall(b"%x\r\n%s\r\n" % (len(lines), lines))


def test_number_of_pipelined_requests_is_bounded(service: Running) -> None:
    few, many = ASK * 10, ASK * 3_000
    assert service.raw(few + CLOSING).count(b"HTTP/1.1 200") == 11
    assert service.raw(many + CLOSING).count(b"HTTP/1.1 200") < 3_000


def test_upgrade_request_is_refused_and_not_read_as_an_empty_body(service: Running) -> None:
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    answer = service.raw(REQUEST + upgrade + b'Content-Length: 14\r\n\r\n{"text":"a b"}')
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"without Upgrade" in answer
    taken = []
    for _ in range(5):  # one of them is not disturbed by others on this machine
        begun = time.monotonic()
        plain = service.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n")
        taken.append(time.monotonic() - begun)
        assert plain.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in plain
    assert min(taken) < 0.9  # sooner than keep_alive_seconds


def test_trailers_are_bounded(service: Running) -> None:
    head = REQUEST + b"Transfer-Encoding: chunked\r\n\r\n" + b"2\r\n{}\r\n0\r\n"
    few = service.raw(head + b"X-T: v\r\n\r\n")
    assert few.startswith(b"HTTP/1.1 422 "), "trailers are allowed, and ignored"
    for piece in (b"X-T: " + b"v" * 90 + b"\r\n", b"v" * 100):
        with socket.create_connection(service.address, timeout=10) as connection:
            connection.sendall(head + b"X-T: ")
            sent = 0
            with pytest.raises(ConnectionError):
                while sent < 50_000_000:
                    connection.sendall(piece * 100)
                    sent += len(piece) * 100
            assert sent < 50_000_000


def test_plain_proxy_in_front_of_a_service_without_keys_is_refused(service: Running) -> None:
    stats = b"GET /v1/stats HTTP/%s\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    assert service.raw(stats % b"1.1").startswith(b"HTTP/1.1 200 ")
    as_nginx_asks = service.raw(stats % b"1.0")
    assert as_nginx_asks.startswith(b"HTTP/1.1 403 ")
    assert b"through a proxy" in as_nginx_asks
