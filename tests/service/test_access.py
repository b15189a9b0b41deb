"""Keys, scopes, rates and room: who is let in, and how many at once."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import time
from dataclasses import fields
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.serving import Served, key, serving, text

from neardup.errors import Busy
from neardup.formatting import format_time
from neardup.index.answer import Document
from neardup.index.index import Index
from neardup.service.access import AccessGate, RateBuckets
from neardup.service.api_keys import ApiKey, ApiKeys
from neardup.service.index_service import IndexService
from neardup.service.limits import ServiceLimits
from neardup.service.logs import Log
from neardup.service.middleware import RequestMiddleware, RequestRecord

CALLS = [
    ("read", "POST", "/v1/check"),
    ("read", "POST", "/v1/explain"),
    ("write", "POST", "/v1/documents"),
    ("read", "GET", "/v1/documents/a"),
    ("write", "DELETE", "/v1/documents/a"),
    ("write", "POST", "/v1/documents/delete"),
    ("read", "GET", "/v1/clusters"),
    ("read", "GET", "/v1/clusters/1"),
    ("read", "GET", "/v1/stats"),
    ("read", "GET", "/metrics"),
    ("admin", "POST", "/v1/shadow/start"),
    ("admin", "GET", "/v1/shadow/report"),
    ("admin", "POST", "/v1/shadow/promote"),
    ("admin", "POST", "/v1/shadow/drop"),
]


def test_each_route_needs_its_scope(tmp_path: Path) -> None:
    keys = {scope: key(tmp_path, scope) for scope in ("read", "write", "admin")}
    with serving(tmp_path) as client:
        for needed, method, path in CALLS:
            assert client.request(method, path).status_code == 401, path
            for scope, header in keys.items():
                status = client.request(method, path, headers=header).status_code
                assert (status == 403) == (scope != needed), (path, scope, status)
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 200
        assert client.get("/openapi.json").status_code == 200
        assert client.get("/nothing").status_code == 401
        covered = set(client.get("/openapi.json").json()["paths"])
    tried = {path for _, _, path in CALLS} | {"/", "/healthz", "/readyz"}
    names = {path.replace("/a", "/{id}").replace("/1", "/{number}") for path in tried}
    assert covered == names


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Basic eDp5",
        "bearer \x80\xff",
        "Bearer " + "x" * 10_000,
    ],
)
def test_wrong_keys_are_refused(tmp_path: Path, header: str) -> None:
    key(tmp_path, "read")
    with serving(tmp_path) as client:
        headers = {"Authorization": header.encode("latin-1")}
        answer = client.get("/v1/stats", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"


def test_unauthenticated_answers_reveal_nothing_of_the_index(tmp_path: Path) -> None:
    header = key(tmp_path, "read")
    with serving(tmp_path) as client:
        for path in ("/v1/stats", "/nothing", "/healthz", "/readyz", "/openapi.json"):
            told = [name for name in client.get(path).headers if "neardup" in name]
            assert not told, path
        told = list(client.get("/v1/stats", headers=header).headers)
        assert {"x-neardup-fingerprint", "x-neardup-sequence"} < set(told)


def test_a_key_is_revoked_and_added_while_the_service_runs(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        assert client.get("/v1/stats").status_code == 200
        header = key(tmp_path, "read")
        assert client.get("/v1/stats").status_code == 401
        assert client.get("/v1/stats", headers=header).status_code == 200
        ApiKeys(tmp_path).revoke("read")
        assert client.get("/v1/stats", headers=header).status_code == 401
        assert client.get("/v1/stats").status_code == 401, "not open again"


def test_neither_key_nor_text_is_logged(tmp_path: Path) -> None:
    header = key(tmp_path, "write")
    with serving(tmp_path) as client:
        client.post("/v1/documents", json={"text": "some secret words"}, headers=header)
        client.get("/v1/stats", headers={"Authorization": "Bearer guessed-secret"})
        log = json.dumps(client.logged)
    assert "secret" not in log
    assert header["Authorization"].split()[1] not in log
    assert '"key": "write"' in log


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"X-Forwarded-For": "192.0.2.7"},
        {"X-Real-IP": "192.0.2.7"},
        {"Forwarded": "for=192.0.2.7"},
        {"Via": "1.1 proxy"},
        {"X-Forwarded-Host": "dedup.example.org"},
        {"X-Forwarded-Proto": "https"},
        {"X-Client-IP": "192.0.2.7"},
        {"CF-Connecting-IP": "192.0.2.7"},
        {"True-Client-IP": "192.0.2.7"},
    ],
)
def test_without_keys_requests_of_browser_pages_are_refused(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    with serving(tmp_path) as client:
        assert client.post("/v1/shadow/drop", headers=headers).status_code == 403
        for host in ("localhost", "localhost:80", "[::1]", "[::1]:8080", "127.0.0.1:1"):
            assert client.get("/v1/stats", headers={"Host": host}).status_code == 200


def test_documents_count_against_the_rate_of_a_key(tmp_path: Path) -> None:
    first, second = key(tmp_path, "write"), key(tmp_path, "read", "write")
    settings = ServiceLimits(key_rate=1, source_rate=1, burst_seconds=50)
    with serving(tmp_path, settings) as client:
        many = {"documents": [{"text": text(n)} for n in range(60)]}
        assert client.post("/v1/documents", json=many, headers=first).status_code == 200
        refused = client.post("/v1/documents", json={"text": text(1)}, headers=first)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 12
        for _ in range(3):
            other = client.post("/v1/check", json={"text": "a"}, headers=second)
            assert other.status_code == 200, "another key at the same address has its own rate"


def test_bytes_of_unpacked_bodies_count_against_the_rate_of_a_key(tmp_path: Path) -> None:
    first, second = key(tmp_path, "read"), key(tmp_path, "read", "write")
    settings = ServiceLimits(key_byte_rate=1_000, burst_seconds=1)
    packed = gzip.compress(json.dumps({"text": "a" * 60_000}).encode())
    kind = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert len(packed) < 1_000
    with serving(tmp_path, settings) as client:
        assert client.post("/v1/check", content=packed, headers=first | kind).status_code == 200
        refused = client.post("/v1/check", json={"text": "a"}, headers=first)
        assert (refused.status_code, refused.json()["error"]) == (429, "too_many_requests")
        assert 40 <= int(refused.headers["retry-after"]) <= 60
        assert "bytes" in refused.json()["message"]
        assert client.post("/v1/check", json={"text": "a"}, headers=second).status_code == 200
        assert any(line.get("bytes") == 60_012 for line in client.logged), "the log has the bytes"


def test_key_may_have_a_rate_of_its_own(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path)
    made = {name: keys.add(name, ("read",), "now", rate=rate) for name, rate in RATES.items()}
    with serving(tmp_path, ServiceLimits(key_rate=2, burst_seconds=1)) as client:
        answered = {}
        for name, token in made.items():
            header = {"Authorization": f"Bearer {token}"}
            found = [client.get("/v1/stats", headers=header).status_code for _ in range(30)]
            answered[name] = found.count(200)
    assert 1 <= answered["slow"] <= answered["usual"] < 30, answered
    assert answered["fast"] == answered["unlimited"] == 30


RATES = {"slow": 1, "usual": None, "fast": 1_000, "unlimited": 0}


def test_expired_key_is_refused_by_a_running_service(tmp_path: Path) -> None:
    soon = format_time(time.time() + 5)
    token = ApiKeys(tmp_path).add("visitor", ("read",), "now", expires=soon)
    header = {"Authorization": f"Bearer {token}"}
    with serving(tmp_path) as client:
        assert client.get("/v1/stats", headers=header).status_code == 200
        end = time.monotonic() + 30
        while (refused := client.get("/v1/stats", headers=header)).status_code == 200:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert refused.status_code == 401
        assert f"has expired on {soon}" in refused.json()["message"]


def test_requests_count_against_the_rate_of_an_address(tmp_path: Path) -> None:
    header = key(tmp_path, "read")
    with serving(tmp_path, ServiceLimits(source_rate=1, burst_seconds=5)) as client:
        begun, found = time.monotonic(), [401]
        while found[-1] == 401 and len(found) < 60:
            found.append(client.get("/v1/stats").status_code)
        guesses, refilled = len(found) - 2, time.monotonic() - begun
        assert found[-1] == 429, "guessing keys is slowed down too"
        assert 5 <= guesses <= 5 + refilled
        assert client.get("/healthz").status_code == 200
        assert client.get("/v1/stats", headers=header).status_code == 200, "guesses lock nobody out"
        for _ in range(8):
            assert client.get("/metrics", headers=header).status_code == 200
        assert 429 in [client.get("/metrics").status_code for _ in range(60)]


def test_requests_beyond_the_limit_get_503(tmp_path: Path) -> None:
    with serving(tmp_path, ServiceLimits(requests=1, bytes_under_way=1_000)) as client:
        gate = client.service.gate
        gate.requests.taken += 1
        busy = client.get("/v1/stats")
        assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
        gate.requests.taken -= 1
        assert client.post("/v1/check", json={"text": "a" * 2_000}).status_code == 503
        assert client.post("/v1/check", json={"text": "a" * 500}).status_code == 200
        assert (gate.requests.taken, gate.bytes) == (0, 0)


def test_bodies_of_one_key_fill_at_most_half_of_the_memory(tmp_path: Path) -> None:
    keys = ApiKeys(tmp_path)
    gate = AccessGate(ServiceLimits(bytes_under_way=100), keys, print, guarded=True)
    names = ("one", "one", "two", "two", "two")
    records = [RequestRecord(str(n), "POST", {}, "here", 0.0) for n in range(len(names))]
    for record, name in zip(records, names, strict=True):
        record.key = ApiKey(name, "", (), "")
    gate.hold(records[0], 30)
    gate.hold(records[1], 20)
    with pytest.raises(Busy, match="this key"):
        gate.hold(records[0], 31)
    gate.hold(records[2], 50)
    with pytest.raises(Busy, match="all requests"):
        gate.hold(records[3], 1)
    for record in records:
        gate.leave(record)
    gate.hold(records[4], 50)
    assert gate.bytes == 50


def test_metrics_are_answered_however_many_requests_are_under_way(tmp_path: Path) -> None:
    with serving(tmp_path, ServiceLimits(requests=1)) as client:
        client.service.gate.requests.taken += 1
        assert client.get("/v1/stats").status_code == 503
        told = client.get("/metrics")
        assert told.status_code == 200
        assert 'neardup_under_way{kind="requests"} 1.0' in told.text


def test_key_over_its_request_limit_gets_429_and_others_pass(tmp_path: Path) -> None:
    first, second = key(tmp_path, "read"), key(tmp_path, "read", "write")
    answers = []
    with serving(tmp_path, ServiceLimits(key_requests=1)) as client:

        async def app(*_: object) -> None:
            """Something that takes long; meanwhile others ask."""
            answers.extend(client.get("/v1/stats", headers=header) for header in (first, second))

        scope = {
            "type": "http",
            "path": "/v1/check",
            "method": "POST",
            "headers": [(b"authorization", first["Authorization"].encode())],
        }
        asyncio.run(RequestMiddleware(app, client.service)(scope, None, None))
        assert [answer.status_code for answer in answers] == [429, 200]
        assert answers[0].headers["retry-after"] == "1"
        assert client.get("/v1/stats", headers=first).status_code == 200


def test_open_paths_do_not_count_as_requests_under_way(tmp_path: Path) -> None:
    under_way = []
    with serving(tmp_path) as client:

        async def app(*_: object) -> None:
            under_way.append(client.service.gate.requests.taken)

        for path in ("/openapi.json", "/v1/stats"):
            scope = {"type": "http", "path": path, "method": "GET", "headers": []}
            asyncio.run(RequestMiddleware(app, client.service)(scope, None, None))
        assert under_way == [0, 1]
        assert client.service.gate.requests.taken == 0


def test_broken_key_file_gives_503(tmp_path: Path) -> None:
    header = key(tmp_path, "read")
    with serving(tmp_path) as client:
        (tmp_path / "api-keys.json").write_text("{")
        assert client.get("/v1/stats", headers=header).status_code == 503
        assert client.get("/v1/stats").status_code == 503


def test_readyz_503_is_not_counted_as_rejected(tmp_path: Path) -> None:
    log = Log(io.StringIO())
    not_started = IndexService(
        lambda _: Index.open(tmp_path), ServiceLimits(), tmp_path, log=log, guarded=False
    )
    client = Served(not_started, io.StringIO())
    for path, count in (("/readyz", 0), ("/v1/stats", 1)):
        assert client.get(path).status_code == 503
        told = not_started.metrics.render().decode()
        assert f'neardup_rejected_total{{reason="busy"}} {count}.0' in told, path


def names(client: Served) -> list[str]:
    return [line["event"] for line in client.logged]


def test_index_is_closed_at_shutdown_and_opened_again(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        client.post("/v1/documents", json={"id": "a", "text": text(1)})
    assert names(client)[-1] == "closed"
    with serving(tmp_path) as again:
        assert again.get("/v1/documents/a").json()["status"] == "new"
        assert "ready" in names(again)


@pytest.mark.parametrize("audited", [True, False])
def test_audit_says_which_key_added_and_removed_which_ids(tmp_path: Path, audited: bool) -> None:
    first, second = key(tmp_path, "write"), key(tmp_path, "read", "write")
    lines = {"Content-Type": "application/x-ndjson"}
    with serving(tmp_path, audited=audited) as client:
        batch = {"documents": [{"id": f"d{n}", "text": text(n // 2)} for n in range(3)]}
        named = first | {"X-Request-Id": "one"}
        assert client.post("/v1/documents", json=batch, headers=named).status_code == 200
        client.post("/v1/documents", json=batch, headers=second)  # again: nothing is added
        taken = {"id": "d0", "text": text(9)}
        assert client.post("/v1/documents", json=taken, headers=second).status_code == 409
        stream = json.dumps({"id": "line", "text": text(5)})
        client.post("/v1/documents", content=stream, headers=second | lines)
        assert client.delete("/v1/documents/d1", headers=second).status_code == 204
        assert client.delete("/v1/documents/none", headers=second).status_code == 404
        told = [line for line in client.logged if "ids" in line]
        assert text(0)[:20] not in json.dumps(client.logged)
    assert [(line["event"], line["by"], line["ids"]) for line in told] == audited * [
        ("added", "write", ["d0", "d1", "d2"]),
        ("added", "read-write", ["line"]),
        ("removed", "read-write", ["d1"]),
    ]
    assert [line["request_id"] for line in told[:1]] == audited * ["one"]


def test_several_authorization_headers_are_refused(tmp_path: Path) -> None:
    header = key(tmp_path, "read")["Authorization"]
    with serving(tmp_path) as client:
        several = [("Authorization", header), ("Authorization", "Bearer other")]
        for headers in (several, several[::-1], several[:1] * 2):
            answer = client.get("/v1/stats", headers=headers)
            assert (answer.status_code, answer.json()["error"]) == (401, "unauthorized")
            assert "several" in answer.json()["message"]


def test_scope_is_checked_before_the_body_is_read(tmp_path: Path) -> None:
    header = key(tmp_path, "read")
    with serving(tmp_path) as client:
        for kind in ("application/json", "application/x-ndjson", "text/plain"):
            answer = client.post(
                "/v1/documents", content=b"not json", headers={**header, "Content-Type": kind}
            )
            assert answer.status_code == 403, kind
            assert answer.headers["connection"] == "close", "the body is left unread"


BATCH = 50
STEPS = st.lists(st.tuples(st.floats(0, 3), st.integers(1, BATCH)), max_size=60)


@given(st.integers(1, 100), st.integers(1, 5), st.booleans(), STEPS)
def test_accepted_requests_keep_to_the_rate(
    rate: int, seconds: int, own: bool, steps: list[tuple[float, int]]
) -> None:
    buckets, now, taken = RateBuckets(1_000 if own else rate, seconds, 10), 0.0, 0
    buckets.set_own("a", rate if own else None)
    for pause, cost in steps:
        now += pause
        if not buckets.take("a", cost, now):
            taken += cost
    assert taken <= seconds * rate + now * rate + BATCH + 1e-6


@given(st.integers(1, 100), STEPS)
def test_request_is_accepted_after_the_stated_wait(
    rate: int, steps: list[tuple[float, int]]
) -> None:
    buckets, now = RateBuckets(rate, 1, 10), 0.0
    for pause, cost in steps:
        now += pause
        if wait := buckets.take("a", cost, now):
            now += wait * (1 + 1e-9)
            assert buckets.take("a", cost, now) == 0.0


def test_rate_of_one_name_does_not_limit_others_and_zero_is_unlimited() -> None:
    buckets = RateBuckets(1, 2, 10)
    buckets.owe("a", 100, 0.0)
    assert buckets.wait("a", 0.0) == 99.0
    assert buckets.take("b", 1, 0.0) == 0.0
    free = RateBuckets(0, 0, 10)
    assert [free.take("a", 1_000, 0.0) for _ in range(3)] == [0.0, 0.0, 0.0]


def test_backwards_clock_adds_no_tokens() -> None:
    buckets = RateBuckets(10, 1, 10)
    buckets.owe("a", 20, 100.0)
    assert buckets.wait("a", 50.0) == buckets.wait("a", 100.0)


def test_number_of_rate_buckets_is_bounded() -> None:
    buckets = RateBuckets(1, 1, 100)
    for n in range(1_000):
        buckets.owe(str(n), 5, float(n))
    assert len(buckets) == 100
    assert buckets.wait("999", 999.0) > 0


PLAIN = {field.name for field in fields(Document)}


def test_stored_texts_are_given_back_to_keys_with_their_scope_alone(tmp_path: Path) -> None:
    reader, reviewer = key(tmp_path, "read", "write"), key(tmp_path, "read", "texts")
    with serving(tmp_path, keep_texts=True) as client:
        client.post("/v1/documents", json={"id": "a/b", "text": text(1)}, headers=reader)
        assert client.get("/v1/documents/a/b", headers=reader).json().keys() == PLAIN
        refused = client.get("/v1/documents/a/b?text=true", headers=reader)
        assert (refused.status_code, refused.json()["error"]) == (403, "forbidden")
        assert "scope texts" in refused.json()["message"] and text(1) not in refused.text
        assert client.get("/v1/documents/a/b?text=true").status_code == 401
        given = client.get("/v1/documents/a/b?text=true", headers=reviewer).json()
        assert (given["id"], given["text"]) == ("a/b", text(1))
        assert client.get("/v1/documents/a/b?text=false", headers=reviewer).json().keys() == PLAIN
        assert client.get("/v1/documents/no?text=true", headers=reviewer).status_code == 404
        for query in ("text=yes", "texts=true", "text=true&text=maybe"):
            answer = client.get(f"/v1/documents/a/b?{query}", headers=reviewer)
            assert answer.status_code == 422, query


def test_texts_of_a_cluster_are_given_to_keys_with_their_scope_alone(tmp_path: Path) -> None:
    reader, reviewer = key(tmp_path, "read", "write"), key(tmp_path, "read", "texts")
    texts = [text(1), *(f"{text(1)} {n}" for n in range(5))]
    with serving(tmp_path, keep_texts=True) as client:
        documents = [{"id": f"d{n}", "text": one} for n, one in enumerate(texts)]
        added = client.post("/v1/documents", json={"documents": documents}, headers=reader).json()
        path = f"/v1/clusters/{added['answers'][0]['cluster']}"
        refused = client.get(f"{path}?text=true", headers=reader)
        assert (refused.status_code, refused.json()["error"]) == (403, "forbidden")
        assert text(1) not in refused.text
        given = client.get(f"{path}?text=true", headers=reviewer).json()
        assert [given["representative"]["text"], *(m["text"] for m in given["members"])] == texts
        assert (given["size"], given["next"]) == (6, None)
        plain = client.get(path, headers=reviewer).json()
        assert plain.keys() == {"number", "size", "representative", "members"}
        assert all("text" not in one for one in (plain["representative"], *plain["members"]))
        third = plain["members"][2]["number"]
        rest = client.get(f"{path}?after={third}", headers=reader).json()
        assert (rest["members"], rest["size"]) == (plain["members"][3:], 6)
        assert client.get("/v1/clusters/999?text=true", headers=reviewer).status_code == 404
        for query in ("text=yes", "after=-1", "after=x", "text=true&limit=5"):
            assert client.get(f"{path}?{query}", headers=reviewer).status_code == 422, query


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ({"members": 2}, [2, 2, 1]),
        ({"cluster_text_bytes": 1}, [1] * 5),
        ({"cluster_text_bytes": 3 * len(text(1)) + 12}, [3, 2]),
    ],
)
def test_texts_of_a_large_cluster_come_in_pages_that_miss_none(
    tmp_path: Path, limits: dict[str, int], sizes: list[int]
) -> None:
    with serving(tmp_path, ServiceLimits(**limits), keep_texts=True) as client:
        documents = [{"id": str(n), "text": f"{text(1)} {n}"} for n in range(6)]
        client.post("/v1/documents", json={"documents": documents})
        pages, after = [], 0
        while after is not None:
            page = client.get(f"/v1/clusters/1?text=true&after={after}").json()
            assert (page["size"], page["representative"]["text"]) == (6, f"{text(1)} 0")
            pages.append([one["text"] for one in page["members"]])
            after = page["next"]
        assert [len(page) for page in pages] == sizes
        assert list(chain.from_iterable(pages)) == [f"{text(1)} {n}" for n in range(1, 6)]


def test_an_index_without_texts_gives_none_back(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        client.post("/v1/documents", json={"id": "a", "text": text(1)})
        given = client.get("/v1/documents/a?text=true")
        assert (given.status_code, given.json()["text"]) == (200, None)
        cluster = client.get("/v1/clusters/1?text=true").json()
        assert (cluster["representative"]["text"], cluster["members"]) == (None, [])
