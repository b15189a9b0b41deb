"""What only a process of its own shows: signals, streams both ways, many at once, logs."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.command_line import neardup, process
from support.posts import spam_posts
from support.running import Running, running
from support.serving import key, text

from neardup import runtime
from neardup.index.index import Index
from neardup.service.api_keys import ApiKeys

STREAM = (
    b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Type: application/x-ndjson\r\n\r\n"
)


def wait_for_metrics(client: httpx.Client, *lines: str) -> None:
    """Wait until the service counts this: a busy machine takes its time to accept what was sent."""
    end = time.monotonic() + 30
    while not all(line in client.get("/metrics").text for line in lines):
        assert time.monotonic() < end, lines
        time.sleep(0.05)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served") / "data") as started:
        started.event("ready")
        yield started


def test_answers_stream_back_while_lines_are_sent(service: Running) -> None:
    with socket.create_connection(service.address, timeout=30) as connection:
        connection.sendall(STREAM)
        answers = connection.makefile("rb")
        for n in range(3):
            line = json.dumps({"id": f"stream-{n}", "text": text(n)}).encode() + b"\n"
            connection.sendall(b"%x\r\n%s\r\n" % (len(line), line))
            found = next(part for part in answers if part.startswith(b"{"))
            assert json.loads(found)["line"] == n + 1
        connection.sendall(b"0\r\n\r\n")
        assert any(part == b"0\r\n" for part in answers)


def test_exactly_one_of_concurrent_equal_documents_is_new(service: Running) -> None:
    """Of many that arrive at once, exactly one is new."""
    with httpx.Client(base_url=service.url) as client, ThreadPoolExecutor(8) as pool:
        bodies = [{"id": f"race-{n}", "text": text(12_345)} for n in range(24)]
        found = list(pool.map(lambda body: client.post("/v1/documents", json=body).json(), bodies))
    assert sorted(one["status"] for one in found) == ["duplicate"] * 23 + ["new"]
    first = next(one["id"] for one in found if one["status"] == "new")
    assert {one["duplicate_of"] for one in found} == {None, first}


def test_concurrent_checks_get_their_own_answers(service: Running) -> None:
    with httpx.Client(base_url=service.url) as client, ThreadPoolExecutor(8) as pool:
        documents = [{"id": f"own-{n}", "text": text(500 + n)} for n in range(40)]
        client.post("/v1/documents", json={"documents": documents})
        asked = [{"text": text(500 + n % 50)} for n in range(200)]
        found = list(pool.map(lambda body: client.post("/v1/check", json=body).json(), asked))
    expected = [f"own-{n % 50}" if n % 50 < 40 else None for n in range(200)]
    assert [one["duplicate_of"] for one in found] == expected


def test_evaluate_scores_a_running_service(service: Running, tmp_path: Path) -> None:
    documents = [{"id": f"e{n}", "text": text(9_000 + n // 2)} for n in range(8)]
    httpx.post(f"{service.url}/v1/documents", json={"documents": documents})
    rows = [f"e{n}\te{n + 1}\t{1 - n % 2}" for n in range(7)]
    (tmp_path / "labels.tsv").write_text("id1\tid2\tlabel\n" + "\n".join(rows) + "\n")
    ran = neardup("evaluate", tmp_path / "labels.tsv", "--service", service.url, "--min-f1", "1")
    assert ran.code == 0, ran.err


Refused = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Start a service that must not come to listen, in this process: its exit code and its log."""
    monkeypatch.setattr(runtime, "say", runtime.say)
    monkeypatch.setattr("neardup.service.server.tune_process", lambda: None)

    def serve(data: Path, *options: object) -> tuple[int, list[dict[str, Any]]]:
        ran = neardup("serve", "--data", data, *options)
        logged = [json.loads(line) for line in ran.err.splitlines()]
        assert logged[-1]["event"] == "failed"
        assert "listening" not in {line["event"] for line in logged}
        return ran.code, logged

    return serve


def test_taken_port_is_refused(service: Running, refused: Refused) -> None:
    other = service.data.parent / "other"
    code, logged = refused(other, "--port", service.address[1])
    assert code == 2
    assert "--port" in logged[-1]["message"]


def test_service_with_preset_short_finds_spam_and_its_index_refuses_other_options(
    tmp_path: Path, refused: Refused
) -> None:
    data, (first, _, _, again) = tmp_path / "data", spam_posts(4)
    with running(data, "--preset", "short", "--slots", "64") as service:
        service.event("ready")
        post = partial(httpx.post, f"{service.url}/v1/documents")
        assert post(json={"id": "first", "text": first}).json()["status"] == "new"
        assert post(json={"id": "again", "text": again}).json()["duplicate_of"] == "first"
    code, logged = refused(data, "--port", 0, "--shingle", "word:5")
    assert code != 0
    assert "unit 'char' against 'word'" in logged[-1]["message"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_finishes_requests_under_way(tmp_path: Path, number: int) -> None:
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
            with httpx.Client(base_url=service.url, headers=header) as client:
                wait_for_metrics(client, 'neardup_under_way{kind="requests"} 1.0')
            service.process.send_signal(number)
            time.sleep(0.3)
            connection.sendall(body[-1:])
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert service.process.wait(60) == 0
        assert service.logged()[-1]["event"] == "closed"
        assert "192.0.2.7" in {line.get("source") for line in service.logged()}
        assert header["Authorization"].split()[1] not in service.log.read_text()
    with Index.open(data, read_only=True) as index:
        assert len(index) == 1_000


def test_sigterm_ends_a_stream_with_a_busy_line(tmp_path: Path) -> None:
    line = json.dumps({"text": text(1)}).encode() + b"\n"
    with running(tmp_path / "data") as service:
        service.event("ready")
        with socket.create_connection(service.address, timeout=60) as connection:
            connection.sendall(STREAM)
            answers = connection.makefile("rb")
            told: dict[str, Any] = {}
            while "error" not in told:
                connection.sendall(b"%x\r\n%s\r\n" % (len(line), line))
                told = json.loads(next(part for part in answers if part.startswith(b"{")))
                if told["line"] == 1:
                    service.process.send_signal(signal.SIGTERM)
            assert told["error"] == "busy"
        assert service.process.wait(20) == 0
    with Index.open(tmp_path / "data", read_only=True) as index:
        assert len(index) == told["line"] - 1


def test_sigterm_ends_a_silent_stream_after_shutdown_seconds(tmp_path: Path) -> None:
    line = json.dumps({"text": text(1)}).encode() + b"\n"
    with running(tmp_path / "data", "--limit", "shutdown_seconds=1") as service:
        service.event("ready")
        with (
            socket.create_connection(service.address, timeout=60) as connection,
            socket.create_connection(service.address, timeout=60) as another,
        ):
            another.sendall(
                b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
                b"Content-Type: application/json\r\n\r\n"
            )
            connection.sendall(STREAM + b"%x\r\n%s\r\n" % (len(line), line))
            answers = connection.makefile("rb")
            next(part for part in answers if part.startswith(b"{"))
            service.process.send_signal(signal.SIGTERM)
            told = json.loads(next(part for part in answers if part.startswith(b"{")))
            assert (told["line"], told["error"]) == (2, "busy")
            assert any(part == b"0\r\n" for part in answers)
            assert another.recv(1_000).startswith(b"HTTP/1.1 503 ")
        assert service.process.wait(20) == 0
        ended = {line["route"]: line for line in service.logged() if line["event"] == "request"}
        assert ended["/v1/documents"]["error"] == ended["/v1/check"]["error"] == "busy"
        assert not [line for line in service.logged() if "Exception" in line.get("message", "")]
        assert service.logged()[-1]["event"] == "closed"


def test_a_stream_ends_when_its_key_is_revoked(tmp_path: Path) -> None:
    data = tmp_path / "data"
    header = key(data, "write")
    line = json.dumps({"text": text(1)}).encode() + b"\n"
    with running(data) as service:
        service.event("ready")
        with socket.create_connection(service.address, timeout=60) as connection:
            secret = f"Authorization: {header['Authorization']}\r\n\r\n".encode()
            connection.sendall(STREAM.removesuffix(b"\r\n") + secret)
            answers = connection.makefile("rb")
            told = []
            for _ in range(2):
                connection.sendall(b"%x\r\n%s\r\n" % (len(line), line))
                told.append(json.loads(next(part for part in answers if part.startswith(b"{"))))
                if len(told) == 1:
                    ApiKeys(data).revoke("write")
            assert told[0]["status"] == "new"
            assert (told[1]["line"], told[1]["error"]) == (2, "unauthorized")
            assert any(part == b"0\r\n" for part in answers), "it is over"
        assert service.stop() == 0
        (ended,) = (line for line in service.logged() if line["event"] == "request")
        assert (ended["key"], ended["error"], ended["documents"]) == ("write", "unauthorized", 1)


def test_failed_load_ends_the_process_with_the_reason(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "index.json").write_text("{")
    ran = process("serve", "--data", data, "--port", 0)
    assert ran.returncode == 1
    logged = [json.loads(line) for line in ran.stderr.splitlines()]
    assert logged[-1]["event"] == "failed"
    assert str(data) in logged[-1]["message"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--limit", "nothing=1"), 2),
        (("--host", "0.0.0.0"), 2),
        (("--prot", "80"), 2),
        (("--golden", "nowhere.tsv"), 2),
        (("--threshold", "80"), 2),
    ],
)
def test_startup_failure_is_a_json_log_line(
    tmp_path: Path, refused: Refused, options: tuple[str, str], code: int
) -> None:
    ended, logged = refused(tmp_path / "data", *options)
    assert ended == code, logged
    assert set(logged[-1]) == {"time", "event", "message"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--threshold", "0.5"), "has threshold 0.8, not 0.5: leave it out, or change it with"),
        (("--shingle", "char:5"), "unit 'word' against 'char', size 3 against 5: leave it out"),
        (("--memory", "much"), "'much' is not a size"),
    ],
)
def test_options_that_the_index_does_not_have_fail_before_the_service_listens(
    tmp_path: Path, refused: Refused, options: tuple[str, ...], said: str
) -> None:
    """A supervisor that waits for "listening" would take it for started."""
    Index.open(tmp_path / "data", shingle="word:3").close()
    code, logged = refused(tmp_path / "data", "--port", 0, *options)
    assert said in logged[-1]["message"]
    assert (code, len(logged)) == (2, 1)


def test_second_service_on_the_same_data_fails_before_it_listens(
    service: Running, refused: Refused
) -> None:
    code, logged = refused(service.data, "--port", 0)
    assert code == 1
    assert f"is written to by process {service.process.pid}" in logged[-1]["message"]


def test_secret_key_is_rotated_while_the_service_runs(tmp_path: Path) -> None:
    for number, name in enumerate(("old", "new")):
        (tmp_path / name).write_bytes(bytes([number]) * 16)
        (tmp_path / name).chmod(0o600)
    old, new, data = tmp_path / "old", tmp_path / "new", tmp_path / "data"
    options = ["--hash", "siphash", "--key-file", old, "--next-key-file", new, "--keep-texts"]
    with running(data, *map(str, options)) as service:
        service.event("ready")
        with httpx.Client(base_url=service.url) as client:
            client.post("/v1/documents", json={"id": "a", "text": text(1)}).raise_for_status()
            before = client.get("/v1/stats").json()["spec"]["key"]
            ran = neardup("index", "reindex", data, "--key-file", new, "--quiet")
            assert ran.code == 0, ran.err
            assert service.event("generation_switched")
            assert client.get("/v1/stats").json()["spec"]["key"] != before
            assert client.post("/v1/check", json={"text": text(1)}).json()["duplicate_of"] == "a"
            assert neardup("index", "reindex", data, "--forget").code == 0
            assert client.post("/v1/check", json={"text": text(1)}).json()["duplicate_of"] == "a"
        assert service.stop() == 0
    with running(data, "--key-file", str(new)) as again:
        assert again.event("ready")["documents"] == 1


def test_compiling_kernels_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with running(tmp_path / "data") as service:
        assert "compiling" in service.event("message")["message"]


def test_readable_key_file_is_logged(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(bytes(16))
    (tmp_path / "key").chmod(0o644)
    options = ("--hash", "siphash", "--key-file", str(tmp_path / "key"))
    with running(tmp_path / "data", *options) as service:
        assert "chmod 600" in service.event("message")["message"]


def test_silent_streams_leave_room_for_requests_and_for_metrics(tmp_path: Path) -> None:
    held = []
    with running(tmp_path / "data", "--limit", "streams=100") as service:
        service.event("ready")
        try:
            for _ in range(300):
                held.append(socket.create_connection(service.address, timeout=10))
                held[-1].sendall(STREAM + b"1\r\n \r\n")
            with httpx.Client(base_url=service.url, timeout=20) as client:
                wait_for_metrics(
                    client,
                    'neardup_under_way{kind="streams"} 100.0',
                    'neardup_rejected_total{reason="busy"} 200.0',
                )
                assert client.post("/v1/check", json={"text": text(1)}).status_code == 200
                assert client.get("/healthz").status_code == 200
                assert 'kind="streams"} 100.0' in client.get("/metrics").text
        finally:
            for each in held:
                each.close()
        assert held[-1].fileno() == -1
        with httpx.Client(base_url=service.url, timeout=20) as client:
            wait_for_metrics(client, 'neardup_under_way{kind="streams"} 0.0')


def test_streams_of_a_key_are_bounded(tmp_path: Path) -> None:
    data = tmp_path / "data"
    secret = f"Authorization: {key(data, 'write')['Authorization']}\r\n\r\n".encode()
    reader = key(data, "read", "write")
    with running(data, "--limit", "key_streams=1") as service:
        service.event("ready")
        head = STREAM.removesuffix(b"\r\n") + secret
        with socket.create_connection(service.address, timeout=60) as first:
            first.sendall(head + b"1\r\n \r\n")
            with httpx.Client(base_url=service.url, headers=reader) as client:
                wait_for_metrics(client, 'neardup_under_way{kind="streams"} 1.0')
            assert service.raw(head + b"0\r\n\r\n").startswith(b"HTTP/1.1 429 ")
            lines = {"Content-Type": "application/x-ndjson"}
            other = httpx.post(f"{service.url}/v1/documents", content=b"", headers=reader | lines)
            assert other.status_code == 200


def test_documents_are_forgotten_while_the_service_runs(tmp_path: Path) -> None:
    options = ("--forget-older-than", "2s", "--forget-by", "seen")
    with running(tmp_path / "data", *options) as service:
        service.event("ready")
        documents = [
            {"id": "old", "text": text(1), "metadata": {"seen": "2020-01-01"}},
            {"id": "copy", "text": text(1), "metadata": {"seen": "2120-01-01"}},
            {"id": "undated", "text": text(2)},
        ]
        httpx.post(f"{service.url}/v1/documents", json={"documents": documents})
        said = service.event("forgot")
        assert (said["documents"], said["by"], said["undated"]) == (1, "seen", 1)
        assert httpx.get(f"{service.url}/v1/documents/old").status_code == 404
        assert httpx.get(f"{service.url}/v1/documents/copy").json()["status"] == "new"
        lines = httpx.get(f"{service.url}/metrics").text.splitlines()
        assert {"neardup_forgotten_total 1.0", "neardup_forget_undated 1.0"} <= set(lines)
        assert service.stop() == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--forget-by", "seen"), "--forget-by goes with --forget-older-than"),
        (("--forget-older-than", "30"), "did you mean 30d"),
        (("--forget-older-than=-1d",), "must be more than 0"),
        (("--forget-older-than", "soon"), "write it like 30d"),
    ],
)
def test_bad_ages_are_refused_at_the_start(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    ran = neardup("serve", "--data", tmp_path / "data", *options)
    assert ran.code == 2 and said in ran.err
    assert not (tmp_path / "data").exists()
