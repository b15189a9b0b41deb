"""A service whose index has vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.redis_index import fresh_address
from support.serving import Served, serving

from neardup.service.limits import ServiceLimits

ALSO: dict[str, Any] = {"also": "v:0.9", "dimension": 3, "threshold": 0.6, "shingle": "word:2"}
EAST, NORTH, WEST = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1, 0, 0]


@pytest.fixture(params=["folder", "Redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where the index of the service is."""
    return fresh_address() if request.param == "Redis" else tmp_path


def post(client: Served, path: str, **body: Any) -> dict[str, Any]:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_documents_with_vectors_are_checked_and_added(place: Path | str) -> None:
    with serving(place, **ALSO) as client:
        first = post(client, "/v1/documents", id="1", text="one two three four", vector=EAST)
        assert (first["status"], first["cosine"], first["by"]) == ("new", None, None)
        near = post(client, "/v1/check", text="five six seven", vector=EAST)
        assert (near["duplicate_of"], near["similarity"], near["cosine"]) == ("1", 0.0, 1.0)
        assert near["by"] == "vector"
        documents = [
            {"id": "2", "text": "one two three four five", "vector": WEST},
            {"id": "3", "text": "eight nine", "vector": [0, 0, 0]},
            {"id": "4", "text": "eight nine"},
            {"id": "5", "text": "eight nine", "vector": NORTH},
        ]
        answers = post(client, "/v1/documents", documents=documents)["answers"]
        assert [(one["status"], one["by"], one["reason"]) for one in answers] == [
            ("duplicate", "text", None),
            ("rejected", None, "vector is all zeros"),
            ("rejected", None, "vector is null"),
            ("new", None, None),
        ]
        many = post(
            client, "/v1/check", texts=["ten", "one two three four"], vectors=[NORTH, NORTH]
        )
        assert [one["by"] for one in many["answers"]] == ["vector", "text"]
        found = client.get("/v1/documents/2").json()
        assert (found["similarity"], found["cosine"], found["by"]) == (0.75, -1.0, "text")
        parameters = client.get("/v1/stats").json()["parameters"]
        assert parameters["vectors"]["role"] == "also"


def test_stream_has_vectors(place: Path | str) -> None:
    lines = [
        {"id": "1", "text": "one two three", "vector": EAST},
        {"id": "2", "text": "four five six", "vector": [1.0, 2.0]},
        {"id": "3", "text": "seven eight nine", "vector": "EAST"},
        {"id": "4", "text": "seven eight nine", "vector": EAST},
    ]
    with serving(place, **ALSO) as client:
        answer = client.post(
            "/v1/documents",
            content="\n".join(map(json.dumps, lines)),
            headers={"content-type": "application/x-ndjson"},
        )
        got = [json.loads(line) for line in answer.text.splitlines()]
    assert got[0]["status"] == "new"
    assert got[1]["reason"] == "vector has 2 numbers, not 3"
    assert got[2]["error"] == "invalid" and "vector" in got[2]["message"]
    assert got[3]["by"] == "vector"


def test_vectors_alone(place: Path | str) -> None:
    with serving(place, vectors="v", cosine=0.9, dimension=3) as client:
        post(client, "/v1/documents", id="1", vector=EAST)
        answer = post(client, "/v1/check", vector=[2.0, 0.0, 0.0])
        assert (answer["duplicate_of"], answer["similarity"], "by" in answer) == ("1", 1.0, False)
        answers = post(client, "/v1/check", vectors=[EAST, None, WEST])["answers"]
        assert [one["status"] for one in answers] == ["duplicate", "rejected", "new"]


def test_explanation_has_both_numbers(place: Path | str) -> None:
    with serving(place, **ALSO) as client:
        post(client, "/v1/documents", id="1", text="one two three", vector=EAST)
        told = post(client, "/v1/explain", text="four five six", vector=EAST)
    assert told["answer"]["by"] == "vector" and told["numbers"] == 3
    (near,) = told["nearest"]
    assert (near["id"], near["similarity"], near["cosine"], near["by"]) == ("1", 0.0, 1.0, "vector")


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("check", {"text": "a"}, 400, "vectors of 3 numbers"),
        ("check", {"text": "a", "vector": [1] * 11}, 413, "vector_length"),
        ("check", {"vectors": [[1] * 11]}, 413, "vector_length"),
        ("check", {"vectors": [EAST] * 4, "texts": ["a"] * 4}, 413, "batch"),
        ("check", {"vectors": [EAST], "texts": ["a", "b"]}, 422, "one vector for each text"),
        ("check", {"text": "a", "vector": [1, "b"]}, 422, "vector"),
        ("check", {"text": "a", "vector": {}}, 422, "vector"),
        ("documents", {"text": "a", "vector": [[1]]}, 422, "vector"),
        ("documents", {"id": "1"}, 422, "either text or signature"),
        ("explain", {"text": "a"}, 400, "vectors of 3 numbers"),
        ("explain", {"text": "a", "vectors": [EAST]}, 422, "vectors"),
    ],
)
def test_requests_that_are_refused(
    tmp_path: Path, path: str, body: dict[str, Any], status: int, message: str
) -> None:
    limits = ServiceLimits(batch=3, vector_length=10)
    with serving(tmp_path, limits, **ALSO) as client:
        answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["message"]


def test_an_index_of_texts_takes_no_vectors_and_answers_as_before(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        for path in ("check", "documents"):
            answer = client.post(f"/v1/{path}", json={"text": "a text", "vector": EAST})
            assert answer.status_code == 400
            assert "compares texts alone" in answer.json()["message"]
        added = post(client, "/v1/documents", id="1", text="a text of some words")
        assert list(added) == [
            *("id", "status", "duplicate_of", "similarity", "exact", "cluster", "reason", "again")
        ]
