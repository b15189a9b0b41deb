"""Whatever is sent, the answer says what is wrong and how to put it right; never a 500."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.serving import Served, serving, text

from neardup.errors import ParameterError
from neardup.service.limits import ServiceLimits

JSON = {"Content-Type": "application/json"}
SECRET = "xyzzy-never-repeat-this"
SMALL = ServiceLimits(
    batch=3, text_length=1_000, body_bytes=20_000, metadata_bytes=200, metadata_depth=4
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("data"), SMALL) as served:
        yield served


def refused(answer: Any, status: int, *parts: str) -> None:
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert set(told) == {"error", "message", "request_id"}
    assert told["request_id"] == answer.headers["x-request-id"]
    for part in parts:
        assert part in told["message"], told
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"text": "' + SECRET.encode(),
        b"\xff\xfe",
        b'{"text": "\xff"}',
        b'{"text": "\\ud800"}',
        b'{"text": NaN}',
        b"[" * 5_000,
        b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
        b'{"text": "a"} {"text": "b"}',
        b'{"text": "a\x00b"}',
        b"\xef\xbb\xbf{}",
    ],
)
@pytest.mark.parametrize("path", ["/v1/check", "/v1/documents", "/v1/shadow/start"])
def test_invalid_json_gives_400(client: Served, path: str, body: bytes) -> None:
    refused(client.post(path, content=body, headers=JSON), 400, "not valid JSON")


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "text",
        1,
        {},
        {"text": None},
        {"text": 1},
        {"text": ["a"]},
        {"texts": "a"},
        {"texts": []},
        {"texts": [1]},
        {"texts": ["a"], "text": "b"},
        {"text": "a", SECRET[:3]: 1},
        {"id": 1.5, "text": "a"},
        {"id": "", "text": "a"},
        {"id": "a\x00b", "text": "a"},
        {"id": "x" * 1025, "text": "a"},
        {"id": "x" * 10_240, "text": "a"},
        {"id": "\u00e9" * 600, "text": "a"},
        {"documents": []},
        {"documents": {}},
        {"documents": [{"text": "a"}, {"id": "b"}]},
        {"documents": [{"text": "a", "replace": True}]},
        {"text": "a", "metadata": []},
        {"text": "a", "metadata": {"a": "x" * 300}},
        {"text": "a", "metadata": {"a": {"b": {"c": {"d": {"e": 1}}}}}},
        {"text": "a", "replace": 1},
        {"text": "a", "metadata": {"a": [[[[1]]]]}},
        {"text": "a", "signature": {}},
        {"signature": 1},
        {"documents": [{"text": "a"}, {"signature": {"fingerprint": "", "slots": ""}}]},
    ],
)
def test_invalid_document_gives_422(client: Served, value: Any) -> None:
    answer = client.post("/v1/documents", content=json.dumps(value), headers=JSON)
    refused(answer, 422)


@pytest.mark.parametrize("value", [{"text": "a", "id": "b"}, {"texts": [None]}, {"signature": []}])
def test_invalid_check_gives_422(client: Served, value: Any) -> None:
    refused(client.post("/v1/check", json=value), 422)


def test_replace_in_the_query_of_a_json_body_gives_422(client: Served) -> None:
    answer = client.post("/v1/documents?replace=true", json={"text": "a"})
    refused(answer, 422, "put it into the JSON object")


def test_unknown_and_invalid_fields_are_named(client: Served) -> None:
    refused(client.post("/v1/check", json={"text": "a", "treshold": 1}), 422, "treshold")
    value = {"documents": [{"text": "a"}, {"text": 5}]}
    refused(client.post("/v1/documents", json=value), 422, "documents.1.text")
    both = client.post("/v1/documents", json={"id": "a"}).json()
    assert both["message"] == "give either text or signature"
    long_name = {"text": "a", "x" * 5_000: 1}
    assert len(client.post("/v1/check", json=long_name).json()["message"]) < 200


def test_misspelt_fields_are_answered_with_the_nearest(client: Served) -> None:
    misspelt = client.post("/v1/documents", json={"txt": "a"})
    refused(misspelt, 422, "txt: unknown field: did you mean text?")
    many = {"documents": [{"text": "a", "metdata": {}}]}
    answer = client.post("/v1/documents", json=many)
    refused(answer, 422, "documents.0.metdata: unknown field: did you mean metadata?")
    elsewhere = client.post("/v1/check", json={"text": "a", "metadata": {}})
    refused(elsewhere, 422, "metadata: unknown field: leave it out")


def test_oversized_values_give_413(client: Served) -> None:
    refused(client.post("/v1/check", json={"text": "a" * 1_001}), 413, "text_length")
    refused(client.post("/v1/check", json={"texts": ["a"] * 4}), 413, "batch")
    refused(client.post("/v1/documents", json={"documents": [{"text": "a"}] * 4}), 413, "batch")
    refused(client.post("/v1/documents", json={"text": "a" * 20_000}), 413, "body_bytes")
    assert client.post("/v1/check", json={"text": "a" * 1_000}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/check", "/v1/documents"])
def test_too_many_fields_or_items_are_refused_before_validation(client: Served, path: str) -> None:
    """Validation would make an error for each of them: a gigabyte of errors for a large body."""
    names = {f"{n}": 1 for n in range(1_000)}
    for body in (names, {"documents": [names]}, {"signature": names}):
        refused(client.post(path, json=body), 422, "16 fields")
    for body in ({"texts": [[]] * 2_000}, {"documents": [{"text": [[]] * 2_000}]}):
        refused(client.post(path, json=body), 413, "batch")


def test_gzip_bodies_are_accepted_and_bounded(client: Served) -> None:
    packed = gzip.compress(json.dumps({"text": text(1)}).encode())
    headers = {**JSON, "Content-Encoding": "gzip"}
    assert client.post("/v1/check", content=packed, headers=headers).json()["status"] == "new"
    refused(client.post("/v1/check", content=packed[:-5], headers=headers), 400, "too early")
    bomb = gzip.compress(bytes(10_000_000))
    refused(client.post("/v1/check", content=bomb, headers=headers), 413, "body_bytes")
    other = {**JSON, "Content-Encoding": "br"}
    refused(client.post("/v1/check", content=packed, headers=other), 415, "gzip")


@pytest.mark.parametrize("kind", [None, "text/plain", "multipart/form-data", "application/jsonx"])
def test_unsupported_content_type_gives_415(client: Served, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    for path in ("/v1/check", "/v1/documents", "/v1/shadow/start"):
        answer = client.post(path, content=b'{"text": "a"}', headers=headers)
        refused(answer, 415, "application/json")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/check", 405),
        ("PUT", "/v1/documents", 405),
        ("PATCH", "/v1/documents/a", 405),
        ("GET", "/v1/documents", 405),
        ("DELETE", "/v1/clusters/1", 405),
        ("POST", "/metrics", 405),
        ("POST", "/", 405),
        ("GET", "/v1", 404),
        ("GET", "/docs", 404),
        ("GET", "/redoc", 404),
        ("GET", "/v1/documents/", 422),
        ("GET", "/v1/documents/%00", 422),
        ("GET", "/v1/check/", 404),
        ("GET", "/v1/documents/%ff", 422),
        ("GET", "/v1/documents/" + "x" * 1025, 422),
        ("GET", "/v1/clusters/a", 422),
        ("GET", "/v1/clusters/-1", 422),
        ("GET", "/v1/clusters/1", 404),
        ("GET", "/v1/clusters/99999999999999999999999", 422),
        ("GET", "/v1/clusters/\u0661", 422),
        ("GET", f"/v1/clusters/{'0' * 20}{'9' * 5_000}", 422),
        ("GET", f"/v1/clusters/{'0' * 20}{'9' * 30}", 422),
        ("GET", "/v1/clusters/1%0A", 422),
        ("GET", "/v1/clusters/9223372036854775807", 404),
        ("DELETE", "/v1/documents/none", 404),
    ],
)
def test_unknown_path_or_method_is_refused_with_its_status(
    client: Served, method: str, path: str, status: int
) -> None:
    answer = client.request(method, path)
    refused(answer, status)
    assert ("allow" in answer.headers) == (status == 405)


def test_request_ids_are_echoed_if_they_are_harmless(client: Served) -> None:
    for given in ("abc-1.2_X", "a" * 64):
        answer = client.get("/healthz", headers={"X-Request-Id": given})
        assert answer.headers["x-request-id"] == given
    for given in ("a b", "a" * 65, "<script>", '{"x":1}', ""):
        answer = client.get("/healthz", headers={"X-Request-Id": given})
        assert len(answer.headers["x-request-id"]) == 32


def test_the_log_has_a_line_a_request_and_nothing_of_what_was_sent(client: Served) -> None:
    before = len(client.logged)
    client.post("/v1/check", json={"text": SECRET}, headers={"X-Request-Id": "one"})
    client.post("/v1/check", json={"text": 1, SECRET: 1}, headers={"X-Request-Id": "two"})
    client.get(f"/v1/documents/{SECRET}", headers={"X-Request-Id": "three"})
    lines = client.logged[before:]
    assert [line["request_id"] for line in lines] == ["one", "two", "three"]
    assert [line["status"] for line in lines] == [200, 422, 404]
    assert lines[2]["route"] == "/v1/documents/{id:any}"
    assert SECRET not in json.dumps(lines)


def test_allow_lists_all_methods_of_a_path(client: Served) -> None:
    assert client.patch("/v1/documents/a").headers["allow"] == "DELETE, GET"
    assert client.get("/v1/documents").headers["allow"] == "POST"
    assert client.post("/healthz").headers["allow"] == "GET, HEAD"


def test_an_invalid_id_has_one_message_everywhere(client: Served) -> None:
    bad = "x" * 1_025
    body = client.post("/v1/documents", json={"id": bad, "text": "a"}).json()["message"]
    many = {"documents": [{"id": bad, "text": "a"}]}
    batch = client.post("/v1/documents", json=many).json()["message"]
    path = client.get(f"/v1/documents/{bad}").json()["message"]
    lines = {"Content-Type": "application/x-ndjson"}
    line = json.dumps({"id": bad, "text": "a"}).encode()
    stream = client.post("/v1/documents", content=line, headers=lines).json()["message"]
    with pytest.raises(ParameterError) as library:
        client.service.index.add(bad, "a")
    assert body == path == stream == f"id: {library.value}"
    assert batch == f"documents.0.id: {library.value}"


def test_names_of_unknown_fields_are_kept_as_they_were_sent(client: Served) -> None:
    for name in ("body", "Text", "path"):
        answer = client.post("/v1/check", json={"text": "a", name: 1})
        assert answer.json()["message"].startswith(f"{name}: "), answer.text


def test_internal_errors_are_logged_by_place_and_quote_nothing(
    client: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError(SECRET)

    monkeypatch.setattr(client.service, "check", fail)
    answer = client.post("/v1/check", json={"text": "a"})
    assert (answer.status_code, answer.json()["error"]) == (500, "internal_error")
    assert SECRET not in answer.text
    logged = next(line for line in client.logged if line["event"] == "internal_error")
    assert logged["kind"] == "KeyError"
    assert SECRET not in json.dumps(logged)
