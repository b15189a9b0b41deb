"""The Java client and a real service: the answers for signatures are those for texts."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from support.java import java, java_blocks, run_snippet
from support.running import Running, running
from support.serving import key, text

from neardup.index.index import Index
from neardup.spec import Spec

SECRET = "000102030405060708090a0b0c0d0e0f"
DECIDED = ("id", "status", "duplicate_of", "reason")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service") / "index") as service:
        wait_ready(service)
        yield service


def wait_ready(service: Running) -> None:
    ends = time.monotonic() + 120  # kernels may have to be compiled
    while httpx.get(f"{service.url}/readyz").status_code != 200:
        assert time.monotonic() < ends
        time.sleep(0.05)


def ask(
    classes: Path, address: str, *requests: object, key: str = "", secret: str | None = None
) -> list[Any]:
    given = "".join(json.dumps(request) + "\n" for request in requests)
    arguments = (address, key) if secret is None else (address, key, secret)
    printed = java(classes, "neardup.ServiceCheck", *arguments, given=given)
    return [json.loads(line) for line in printed.splitlines()]


def documents() -> list[dict[str, str]]:
    """Texts in pairs, some of whose words differ: far from the threshold on both sides."""
    rng, found = random.Random(5), []
    for number in range(60):
        words = text(number, 120).split()
        found.append({"id": f"{number}", "text": " ".join(words)})
        for place in rng.sample(range(120), rng.choice((0, 1, 1, 40))):
            words[place] = "Größe"
        found.append({"id": f"{number} copy", "text": " \u00a0".join(words).upper()})
    return [*found, {"id": "nothing", "text": "\u200d \n"}, {"id": "short", "text": "東京 tower"}]


def decided(answers: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(answer[name] for name in DECIDED) for answer in answers]


def test_same_duplicates_as_for_texts(classes: Path, service: Running, tmp_path: Path) -> None:
    added, checks = documents(), [text(number, 120) for number in range(3)]
    with Index.open(tmp_path / "texts") as index:
        wanted = index.add_batch([row["id"] for row in added], [row["text"] for row in added])
    got, *checked = ask(classes, service.url, {"add": added}, *({"check": one} for one in checks))
    assert decided(got) == [tuple(getattr(one, name) for name in DECIDED) for one in wanted]
    assert {answer["status"] for answer in got} == {"new", "duplicate", "rejected"}
    assert [one["duplicate_of"] for one in checked] == ["0", "1", "2"]
    assert all(one["similarity"] == 1.0 for one in checked)
    assert "w1 " not in service.log.read_text()


def test_same_signatures(classes: Path, service: Running) -> None:
    """What was added as a text is found by its signature, and the other way round."""
    one, other = text(900, 80), text(901, 80)
    by_text = httpx.post(f"{service.url}/v1/documents", json={"id": "text", "text": one}).json()
    answers = ask(
        *(classes, service.url, {"check": one}),
        {"add": [{"id": "signature", "text": other, "metadata": {"a": [1, None, "ü"]}}]},
    )
    assert by_text["status"] == "new" and answers[0]["duplicate_of"] == "text"
    assert answers[1][0]["status"] == "new"
    found = httpx.post(f"{service.url}/v1/check", json={"text": other.upper()}).json()
    assert found["duplicate_of"] == "signature" and found["exact"]
    stored = httpx.get(f"{service.url}/v1/documents/signature").json()
    assert stored["metadata"] == {"a": [1, None, "ü"]}


def test_ids_and_refusals(classes: Path, service: Running) -> None:
    id = "a/b c+ä?"
    answers = ask(
        *(classes, service.url, {"add": [{"id": id, "text": text(800)}]}),
        *({"remove": id}, {"remove": id}, {"check": "a \ud800 b"}),
        *({"check": text(800), "within": "de"}, {"check": " "}),
    )
    assert answers[0][0]["id"] == id and answers[1:3] == [True, False]
    assert "surrogate" in answers[3]["message"]
    assert (answers[4]["status"], answers[4]["error"]) == (400, "parameter_error")
    assert (answers[5]["status"], answers[5]["reason"]) == ("rejected", "empty")


def test_keys(classes: Path, tmp_path: Path) -> None:
    """An API key with the scope read, and a secret key of the index."""
    bearer = key(tmp_path / "index", "read")["Authorization"].removeprefix("Bearer ")
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    options = ("--shingle", "char:9", "--seed", "7", "--hash", "siphash", "--key-file")
    with running(tmp_path / "index", *options, str(tmp_path / "secret")) as made:
        wait_ready(made)
        assert ask(classes, made.url)[0]["error"] == "unauthorized"
        assert "key with the id" in ask(classes, made.url, key=bearer)[0]["message"]
        wrong = ask(classes, made.url, key=bearer, secret="0" * 32)[0]["message"]
        adding = {"add": [{"id": "a", "text": text(1)}]}
        answers = ask(classes, made.url, {"check": text(1)}, adding, key=bearer, secret=SECRET)
    assert "key with the id" in wrong and "00000000" not in wrong
    assert answers[0]["status"] == "new" and answers[1]["error"] == "forbidden"


@pytest.mark.parametrize("page", ["clients/java/README.md", "docs/clients.md"])
def test_code_of_pages(page: str, classes: Path, service: Running, tmp_path: Path) -> None:
    code = java_blocks(page)[1].replace("http://127.0.0.1:8080", service.url)
    printed, promised = run_snippet(code, classes, tmp_path)
    assert printed == promised and promised


@contextmanager
def answering(body: str, status: int = 200) -> Iterator[str]:
    """Something that answers every request so; yield its address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Retry-After", "7")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<html>", "is neardup serve at"),
        (
            json.dumps({"spec": Spec.of(sketch="oneperm").stated}),
            "sketch is oneperm: this library makes minhash",
        ),
        (json.dumps({"spec": Spec(strip="html").stated}), "[strip]: this library makes sketches"),
        (
            json.dumps({"fingerprint": "0" * 32, "spec": Spec().stated}),
            f"has the specification {'0' * 32}, not {Spec().fingerprint}",
        ),
    ],
)
def test_other_services(classes: Path, body: str, said: str) -> None:
    with answering(body) as address:
        (refused,) = ask(classes, address)
    assert said in refused["message"]


def test_when_to_ask_again(classes: Path) -> None:
    error = {"error": "too_many_requests", "message": "wait", "request_id": "1"}
    with answering(json.dumps(error), 429) as address:
        (refused,) = ask(classes, address)
    assert refused == {
        **{"status": 429, "error": "too_many_requests"},
        **{"seconds": 7, "message": "wait"},
    }
