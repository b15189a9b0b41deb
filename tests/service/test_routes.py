"""What the service answers, with a real index behind it."""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from support.serving import Served, serving, text

from neardup.corpus.documents import Documents, text_column
from neardup.service.background import GoldenSet
from neardup.service.limits import ServiceLimits
from neardup.sketcher import Sketcher
from neardup.spec import Spec


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("data")) as served:
        yield served


def test_a_document_is_new_and_its_copy_is_a_duplicate(client: Served) -> None:
    first = client.post("/v1/documents", json={"id": "a", "text": text(1)}).json()
    assert (first["id"], first["status"], first["duplicate_of"]) == ("a", "new", None)
    asked = client.post("/v1/check", json={"text": text(1) + " more"}).json()
    assert (asked["id"], asked["status"], asked["duplicate_of"]) == (None, "duplicate", "a")
    assert 0.9 < asked["similarity"] < 1
    assert asked["cluster"] == first["cluster"]
    copy = client.post("/v1/documents", json={"id": "b", "text": text(1) + " more"}).json()
    assert (copy["status"], copy["duplicate_of"]) == ("duplicate", "a")
    other = client.post("/v1/check", json={"text": text(2)}).json()
    assert (other["status"], other["duplicate_of"], other["cluster"]) == ("new", None, None)


def test_a_parameter_that_a_route_does_not_take_is_refused_by_name(client: Served) -> None:
    number = client.post("/v1/documents", json={"id": "asked", "text": text(77)}).json()["cluster"]
    for method, path, name, cure in (
        ("GET", f"/v1/clusters/{number}?texts=true", "texts", "leave it out"),
        ("GET", "/v1/stats?verbose", "verbose", "leave it out"),
        ("DELETE", "/v1/documents/asked?force=1", "force", "leave it out"),
        ("GET", "/v1/documents/asked?txt=true", "txt", "leave it out"),
        ("POST", "/v1/check?within=en", "within", "put it into the JSON object"),
        ("POST", "/v1/documents?replace=true", "replace", "put it into the JSON object"),
    ):
        json = {"text": text(77)} if method == "POST" else None
        refused = client.request(method, path, json=json)
        assert refused.status_code == 422, path
        message = refused.json()["message"]
        assert message.startswith(f"{name}: ") and cure in message
    assert client.get("/v1/documents/asked").status_code == 200
    for path in ("/metrics?name=x", "/healthz?t=1", "/readyz?t=1", "/?from=search"):
        assert client.get(path).status_code == 200, path


def test_batch_answers_are_in_order(client: Served) -> None:
    documents = [{"id": f"m{n}", "text": text(100 + n // 2)} for n in range(6)]
    answers = client.post("/v1/documents", json={"documents": documents}).json()["answers"]
    assert [one["id"] for one in answers] == [f"m{n}" for n in range(6)]
    assert [one["status"] for one in answers] == ["new", "duplicate"] * 3
    texts = [text(101), text(999), ""]
    asked = client.post("/v1/check", json={"texts": texts}).json()["answers"]
    assert [one["status"] for one in asked] == ["duplicate", "new", "rejected"]
    assert asked[0]["duplicate_of"] == "m2"
    assert asked[2]["reason"] == "empty"


def test_same_content_is_not_added_twice_and_other_content_conflicts(client: Served) -> None:
    body = {"id": "same", "text": text(3)}
    first = client.post("/v1/documents", json=body).json()
    count = client.get("/v1/stats").json()["documents"]
    again = client.post("/v1/documents", json=body).json()
    assert again == {**first, "again": True}
    changed = client.post("/v1/documents", json={"id": "same", "text": text(4)})
    assert (changed.status_code, changed.json()["error"]) == (409, "conflict")
    assert client.get("/v1/stats").json()["documents"] == count
    taken = client.post("/v1/documents", json={"id": "same", "text": text(4), "replace": True})
    assert taken.json()["status"] == "new"
    assert client.post("/v1/check", json={"text": text(4)}).json()["duplicate_of"] == "same"


def test_integer_id_stands_for_its_digits(client: Served) -> None:
    many = {"documents": [{"id": 6586, "text": text(61)}, {"id": -1, "text": text(62)}]}
    answers = client.post("/v1/documents", json=many).json()["answers"]
    assert [one["id"] for one in answers] == ["6586", "-1"]
    assert client.post("/v1/documents", json={"id": "6586", "text": text(61)}).json()["again"]
    for id in (1.0, True, 2**64, [1]):
        refused = client.post("/v1/documents", json={"id": id, "text": text(61)})
        assert refused.status_code == 422, id


def test_explain_agrees_with_check(client: Served) -> None:
    client.post("/v1/documents", json={"id": "explained", "text": text(63)})
    given = {"text": text(63) + " more"}
    found = client.post("/v1/explain", json=given).json()
    assert found["answer"] == client.post("/v1/check", json=given).json()
    assert (found["candidates"], found["nearest"][0]["id"]) == (1, "explained")
    assert "w1" not in json.dumps(found)
    assert client.post("/v1/explain", json={"text": ""}).json()["answer"]["reason"] == "empty"
    assert client.post("/v1/explain", json={"texts": ["a"]}).status_code == 422


def test_a_document_without_an_id_gets_one(client: Served) -> None:
    made = client.post("/v1/documents", json={"text": text(5)}).json()["id"]
    assert len(made) == 32
    assert client.get(f"/v1/documents/{made}").json()["id"] == made


@pytest.mark.parametrize(
    "id",
    [
        "a/b",
        "/",
        "//x//",
        "täst",
        "日本/語",
        "a b",
        "100%",
        "a?b#c",
        "%2F",
        "\n",
        "a\nb",
        "\r\n\u2028",
        "\x7f",
        "🙂" * 200,
        "x" * 1024,
    ],
)
def test_any_valid_id_works_in_the_path(client: Served, id: str) -> None:
    added = client.post(
        "/v1/documents", json={"id": id, "text": text(zlib.crc32(id.encode()))}
    ).json()
    assert added["id"] == id
    path = f"/v1/documents/{quote(id, safe='')}"
    assert client.get(path).json()["id"] == id
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404
    assert client.delete(path).status_code == 404


def test_removing_a_representative_makes_a_copy_the_next_one(client: Served) -> None:
    for id in ("first", "second", "third"):
        client.post("/v1/documents", json={"id": id, "text": text(7), "metadata": {"from": id}})
    number = client.get("/v1/documents/second").json()["cluster"]
    found = client.get(f"/v1/clusters/{number}").json()
    assert (found["number"], found["size"]) == (number, 3)
    assert found["representative"]["id"] == "first"
    assert [one["metadata"] for one in found["members"]] == [{"from": "second"}, {"from": "third"}]
    client.delete("/v1/documents/first")
    assert client.get(f"/v1/clusters/{number}").status_code == 404
    assert client.get("/v1/documents/third").json()["duplicate_of"] == "second"


def test_members_of_a_cluster_are_limited(tmp_path: Path) -> None:
    with serving(tmp_path, ServiceLimits(members=2)) as client:
        documents = [{"text": text(1)} for _ in range(5)]
        answers = client.post("/v1/documents", json={"documents": documents}).json()["answers"]
        found = client.get(f"/v1/clusters/{answers[0]['cluster']}").json()
        assert (found["size"], len(found["members"])) == (5, 2)


def signature_of(given: str, spec: Spec) -> dict[str, str]:
    column, rejected = text_column([given], False)
    sketch = Sketcher(spec)(Documents(column, [], None, None, rejected))
    slots = base64.b64encode(sketch.signatures.astype("<u4").tobytes()).decode()
    content = sketch.content.astype("<u8").tobytes().hex()
    return {"fingerprint": spec.fingerprint, "slots": slots, "content": content}


def test_signatures_are_checked_and_added(client: Served) -> None:
    spec = Spec()
    assert client.get("/v1/stats").json()["fingerprint"] == spec.fingerprint
    signed = {"id": "signed", "signature": signature_of(text(20), spec)}
    assert client.post("/v1/documents", json=signed).json()["status"] == "new"
    exactly = client.post("/v1/check", json={"text": text(20)}).json()
    assert (exactly["duplicate_of"], exactly["similarity"]) == ("signed", 1.0)
    near = {"signature": signature_of(text(20) + " x", spec)}
    asked = client.post("/v1/check", json=near).json()
    assert (asked["duplicate_of"], asked["exact"]) == ("signed", False)
    many = {"documents": [{"signature": signature_of(text(n), spec)} for n in (20, 21)]}
    answers = client.post("/v1/documents", json=many).json()["answers"]
    assert [one["status"] for one in answers] == ["duplicate", "new"]


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"fingerprint": "0" * 32}, 409),
        ({"slots": "AAAA"}, 422),
        ({"slots": "*"}, 422),
        ({"content": "zz"}, 422),
        ({"slots": ""}, 422),
        ({"slots": "\u00e9"}, 422),
    ],
)
def test_invalid_signatures_are_refused(
    client: Served, changed: dict[str, str], status: int
) -> None:
    signature = {**signature_of(text(1), Spec()), **changed}
    for path in ("/v1/check", "/v1/documents"):
        assert client.post(path, json={"signature": signature}).status_code == status


def test_answers_carry_fingerprint_and_sequence(client: Served) -> None:
    answers = [client.get("/v1/stats"), client.get("/v1/documents/none"), client.get("/nothing")]
    for answer in answers:
        assert answer.headers["x-neardup-fingerprint"] == Spec().fingerprint
        assert int(answer.headers["x-neardup-sequence"]) >= 0
        assert len(answer.headers["x-request-id"]) == 32
    before = int(answers[0].headers["x-neardup-sequence"])
    after = client.post("/v1/documents", json={"text": text(30)}).headers["x-neardup-sequence"]
    assert int(after) > before


def test_statistics_and_health_are_consistent(client: Served) -> None:
    stats = client.get("/v1/stats").json()
    assert stats["documents"] == stats["kept"] + stats["copies"]
    assert stats["spec"] == json.loads(json.dumps(Spec().stated))
    assert stats["parameters"]["threshold"] == 0.8
    assert client.get("/healthz").json()["status"] == "ok"
    assert client.get("/readyz").json()["status"] == "ready"


def test_golden_set_is_checked_while_serving(tmp_path: Path) -> None:
    (tmp_path / "labels.tsv").write_text("id1\tid2\tlabel\na\tb\t1\na\tc\t0\n")
    with serving(tmp_path / "first") as client:
        for id, seed in (("a", 1), ("b", 1), ("c", 2)):
            client.post("/v1/documents", json={"id": id, "text": text(seed)})
    golden = GoldenSet.read(tmp_path / "labels.tsv")
    with serving(tmp_path / "first", golden=golden) as client:
        ends = time.monotonic() + 30
        while not any(line["event"] == "golden" for line in client.logged):
            assert time.monotonic() < ends
            time.sleep(0.01)
        assert 'recall_on_labeled_set{by="index"} 1.0' in client.get("/metrics").text


def test_streams_are_counted_and_not_timed(client: Served) -> None:
    labels = 'method="POST",route="/v1/documents"'

    def seen() -> list[str]:
        lines = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines())
        return [
            lines[f'neardup_requests_total{{{labels},status="200"}}'],
            lines[f"neardup_request_seconds_count{{{labels}}}"],
        ]

    client.post("/v1/documents", json={"text": text(1)})
    requests, timed = seen()
    lines = {"Content-Type": "application/x-ndjson"}
    client.post("/v1/documents", content=b'{"text": "a"}', headers=lines)
    assert seen() == [str(float(requests) + 1), timed]


def test_metrics_route_serves_the_prometheus_format(client: Served) -> None:
    client.post("/v1/check", json={"text": text(1)})
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'neardup_requests_total{method="POST",route="/v1/check",status="200"}' in answer.text


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_answered_to_head_requests(client: Served, path: str) -> None:
    answer = client.head(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")


def in_step(client: Served) -> dict[str, object]:
    ends = time.monotonic() + 30
    while (found := client.get("/v1/shadow/report").json())["state"] == "building":
        assert time.monotonic() < ends
        time.sleep(0.01)
    return found


def test_a_shadow_is_started_reported_promoted_and_dropped(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        for path in ("report", "promote", "drop"):
            ask = client.get if path == "report" else client.post
            refused = ask(f"/v1/shadow/{path}")
            assert (refused.status_code, refused.json()["error"]) == (400, "usage_error")
        first, changed = text(1), text(1).rsplit(" ", 12)[0] + " " + text(2, 12)
        for id, one in (("a", first), ("b", changed)):
            client.post("/v1/documents", json={"id": id, "text": one})
        assert client.get("/v1/documents/b").json()["status"] == "new"
        labelled = [{"a": "a", "b": "b", "duplicate": True}]
        begun = client.post("/v1/shadow/start", json={"threshold": 0.5, "golden": labelled})
        assert begun.status_code == 200
        assert in_step(client)["agreement"]["only_shadow"] == 1
        assert client.post("/v1/shadow/promote").json() == {"moved": 1}
        assert client.get("/v1/documents/b").json()["duplicate_of"] == "a"
        assert client.get("/v1/stats").json()["parameters"]["threshold"] == 0.5
        assert client.post("/v1/shadow/start", json={"threshold": 0.9}).status_code == 200
        assert client.post("/v1/shadow/start", json={"threshold": 0.9}).status_code == 400
        assert client.post("/v1/shadow/drop").status_code == 204


def test_shadow_with_an_invalid_operating_point_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        for body in (
            {"threshold": 7},
            {"bands": 3},
            {"bands": 10**9, "rows": 10**9},
            {"verify": "no"},
            {"limit": -1},
            {"tables": "x"},
        ):
            assert client.post("/v1/shadow/start", json=body).status_code == 400, body


def test_clusters_are_listed_largest_first_in_pages(tmp_path: Path) -> None:
    with serving(tmp_path, ServiceLimits(clusters=2)) as client:
        topics = [1, 2, 2, 3, 3, 3, 4, 4]
        documents = [{"id": f"{n}", "text": text(topic)} for n, topic in enumerate(topics)]
        client.post("/v1/documents", json={"documents": documents})
        first = client.get("/v1/clusters").json()
        assert first["clusters"] == [
            {"number": 4, "size": 3, "id": "3"},
            {"number": 2, "size": 2, "id": "1"},
        ]
        client.post("/v1/documents", json={"id": "late", "text": text(4)})
        second = client.get("/v1/clusters", params={"limit": 2, "after": first["next"]}).json()
        assert second == {"clusters": [{"number": 7, "size": 2, "id": "6"}], "next": None}
        assert client.get(f"/v1/clusters/{first['clusters'][0]['number']}").json()["size"] == 3
        for query in ("limit=3", "limit=0", "limit=-1", "limit=1_0", "limit=", "after=x", "top=1"):
            answer = client.get(f"/v1/clusters?{query}")
            assert (answer.status_code, answer.json()["error"]) == (422, "invalid"), query
        listing = client.get("/openapi.json").json()["paths"]["/v1/clusters"]["get"]
        (limit,) = (each["schema"] for each in listing["parameters"] if each["name"] == "limit")
        assert (limit["anyOf"][0]["minimum"], limit["anyOf"][0]["maximum"]) == (1, 2)


def test_many_documents_are_removed_in_one_request(client: Served) -> None:
    rows = [{"id": f"many-{n}", "text": text(7_000 + n // 3)} for n in range(9)]
    client.post("/v1/documents", json={"documents": rows})
    asked = {"ids": ["many-0", "many-3", "none", "many-4", "many-0"]}
    answer = client.post("/v1/documents/delete", json=asked)
    assert answer.json() == {"removed": 3, "missing": ["none", "many-0"]}
    assert client.get("/v1/documents/many-0").status_code == 404
    assert client.get("/v1/documents/many-1").json()["status"] == "new"
    assert client.get("/v1/documents/many-2").json()["duplicate_of"] == "many-1"
    assert client.get("/v1/documents/many-5").json()["status"] == "new"
    assert client.get("/v1/documents/delete").status_code == 404, "an id like any other"
    for body, message in (
        ({"ids": []}, "ids: "),
        ({"ids": [""]}, "an id has 1 to"),
        ({"ids": ["a"] * 1_001}, "the batch"),
        ({"id": "a"}, "id"),
    ):
        refused = client.post("/v1/documents/delete", json=body)
        assert refused.status_code in (413, 422) and message in refused.json()["message"]


def test_replace_stores_the_metadata_that_was_sent(client: Served) -> None:
    sent = {"id": "meta", "text": text(7_100), "metadata": {"n": 1}}
    number = client.post("/v1/documents", json=sent).json()["cluster"]
    sent |= {"text": text(7_100).upper(), "metadata": {"n": 2}}
    assert client.post("/v1/documents", json=sent).json()["again"]
    assert client.get("/v1/documents/meta").json()["metadata"] == {"n": 1}
    again = client.post("/v1/documents", json=sent | {"replace": True}).json()
    assert (again["again"], again["cluster"]) == (True, number)
    assert client.get("/v1/documents/meta").json()["metadata"] == {"n": 2}
