"""Streams of documents: an answer for each line, in order, and bad lines don't end it."""

from __future__ import annotations

import gzip
import json
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.running import running
from support.serving import Served, key, serving, text

from neardup.service.limits import ServiceLimits

LINES = {"Content-Type": "application/x-ndjson"}


def sent(client: Served, content: bytes, query: str = "", **headers: str) -> list[dict[str, Any]]:
    answer = client.post(f"/v1/documents{query}", content=content, headers={**LINES, **headers})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == LINES["Content-Type"]
    return [json.loads(line) for line in answer.text.splitlines()]


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def test_answers_come_in_order_and_are_those_of_single_requests(tmp_path: Path) -> None:
    documents = [{"id": f"d{n}", "text": text(n % 40)} for n in range(200)]
    with serving(tmp_path / "one", ServiceLimits(batch=7)) as client:
        answers = sent(client, lines(*documents))
        assert [one.pop("line") for one in answers] == list(range(1, 201))
    with serving(tmp_path / "two") as client:
        single = [client.post("/v1/documents", json=one).json() for one in documents]
    assert answers == single


def test_bad_lines_are_answered_and_the_others_added(tmp_path: Path) -> None:
    with serving(tmp_path, ServiceLimits(body_bytes=1_000)) as client:
        content = b"\n".join(
            [
                lines({"id": "a", "text": text(1)}).strip(),
                b"not json",
                b"",
                b'{"id": "b"}',
                b"\xff",
                b'{"text": "' + b"x" * 2_000 + b'"}',
                b"[]",
                b"  ",
                lines({"id": "a", "text": text(2)}).strip(),
                lines({"id": "c", "text": text(3)}),
            ]
        )
        answers = sent(client, content)
        found = [(one["line"], one.get("error") or one["status"]) for one in answers]
        assert found == [
            (1, "new"),
            (2, "bad_request"),
            (4, "invalid"),
            (5, "bad_request"),
            (6, "too_large"),
            (7, "invalid"),
            (9, "rejected"),
            (10, "new"),
        ]
        assert client.get("/v1/stats").json()["documents"] == 2


def test_last_line_needs_no_newline_and_empty_stream_has_no_answers(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        assert sent(client, b'{"id": "a", "text": "b"}')[0]["id"] == "a"
        assert sent(client, b"") == []
        assert sent(client, b"\n\n") == []


def test_stream_can_be_gzip_and_can_replace_documents(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        packed = gzip.compress(lines({"id": "a", "text": text(1)}))
        assert sent(client, packed, **{"Content-Encoding": "gzip"})[0]["status"] == "new"
        again = lines({"id": "a", "text": text(2)})
        assert sent(client, again)[0]["status"] == "rejected"
        assert sent(client, again, "?replace=true")[0]["status"] == "new"
        for query in ("?replace=yes", "?other=1"):
            answer = client.post(f"/v1/documents{query}", content=again, headers=LINES)
            assert answer.status_code == 422
        broken = client.post(
            "/v1/documents", content=packed[:9], headers={**LINES, "Content-Encoding": "gzip"}
        )
        assert (broken.status_code, broken.json()["error"]) == (400, "bad_request")


def test_signatures_and_texts_in_one_stream(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        bad = {"id": "b", "signature": {"fingerprint": "0", "slots": ""}}
        found = sent(client, lines({"id": "a", "text": text(1)}, bad, {"id": "c", "text": text(2)}))
        assert [one.get("error", "") for one in found] == ["", "spec_mismatch", ""]


def test_rate_limit_slows_a_stream_and_does_not_refuse_it(tmp_path: Path) -> None:
    header = key(tmp_path, "write")
    with serving(tmp_path, ServiceLimits(key_rate=100, burst_seconds=1, batch=20)) as client:
        documents = lines(*({"text": text(n)} for n in range(120)))
        assert len(sent(client, documents, **header)) == 120
        waited = [line["seconds"] for line in client.logged if line.get("documents") == 120]
        assert waited[0] >= 0.1


def test_gzip_of_newlines_is_charged_and_costs_hardly_any_time(tmp_path: Path) -> None:
    packed = gzip.compress(b"\n" * (64 << 20))
    assert len(packed) < 70_000
    head = (
        b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
        b"Content-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n" % len(packed)
    )

    with running(tmp_path / "data") as service, httpx.Client(base_url=service.url) as client:
        service.event("ready")

        def processor_seconds() -> float:
            lines = client.get("/metrics").text.splitlines()
            return float(dict(line.rsplit(" ", 1) for line in lines)["process_cpu_seconds_total"])

        with socket.create_connection(service.address, timeout=30) as connection:
            begun = processor_seconds()
            connection.sendall(head + packed)
            time.sleep(3)
            assert processor_seconds() - begun < 1.5, "the lines are charged, the stream is slow"
        assert client.get("/healthz").status_code == 200


def test_empty_lines_are_charged_like_documents(tmp_path: Path) -> None:
    with serving(tmp_path, ServiceLimits(source_rate=100, burst_seconds=1)) as client:
        packed = gzip.compress(b"\n" * 300)
        assert sent(client, packed, **{"Content-Encoding": "gzip"}) == []
        (ended,) = (line for line in client.logged if line.get("bytes") == 300)
        assert ended["seconds"] >= 1.5
        assert ended["documents"] == 0


def test_stream_without_line_ends_is_slowed_down_by_its_bytes(tmp_path: Path) -> None:
    settings = ServiceLimits(source_byte_rate=1_000_000, burst_seconds=1, body_bytes=1_000)
    with serving(tmp_path, settings) as client:
        packed = gzip.compress(b"x" * 1_500_000)
        (answer,) = sent(client, packed, **{"Content-Encoding": "gzip"})
        assert answer["error"] == "too_large"
        (ended,) = (line for line in client.logged if line.get("bytes") == 1_500_000)
        assert ended["seconds"] > 0.3


@pytest.mark.parametrize("kind", ["application/x-ndjson; charset=utf-8", "Application/X-NDJSON"])
def test_content_type_parameters_and_case_are_ignored(tmp_path: Path, kind: str) -> None:
    with serving(tmp_path) as client:
        answer = client.post(
            "/v1/documents", content=b'{"text": "a"}', headers={"Content-Type": kind}
        )
        assert answer.json()["line"] == 1
