"""A running service, judged by the golden documents that it holds; and services that are none."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest
from support.command_line import neardup, refused
from support.golden_set import planted

from neardup.errors import Busy, FormatError, InputError, UsageError
from neardup.evaluation.evaluation import evaluate
from neardup.evaluation.systems import PARAMETERS, ServiceClient
from neardup.index.index import Index

SET = planted(count=20)
GOLDEN = [*SET.golden, ("a0", "nowhere", 1)]
POINT = {
    "spec": {"unit": "word"},
    "fingerprint": "f" * 32,
    "parameters": {"threshold": 0.8, "tables": "21x6", "limit": 256},
}
DOCUMENTS = "/v1/documents/"


class Peer:
    """A server that answers what a function of the path and the headers says."""

    def __init__(self, answer):
        self.asked = []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16

            def do_GET(self):
                peer.asked.append(self.path)
                status, body, headers = answer(self.path, self.headers)
                body = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = "Close" in headers

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def peer():
    started = []

    def start(answer):
        started.append(Peer(answer))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    with Index.open(tmp_path_factory.mktemp("service") / "index") as opened:
        opened.add_batch([row["id"] for row in SET.rows], [row["text"] for row in SET.rows])
        yield opened


def of(index, **headers):
    """What a service says of an index."""

    def answer(path, _):
        if path == "/v1/stats":
            return 200, POINT, headers
        found = index.get(unquote(path.removeprefix(DOCUMENTS)))
        if found is None:
            return 404, {"error": "not_found"}, headers
        return 200, {"id": found.id, "cluster": found.cluster}, headers

    return answer


def test_documents_of_one_cluster_are_duplicates(index, peer):
    found = evaluate(GOLDEN, service=peer(of(index)).url)
    same = [index.get(a).cluster == index.get(b).cluster for a, b, _ in SET.golden]
    right = sum(one for one, (_, _, label) in zip(same, SET.golden, strict=True) if label)
    assert 3 < right < 20
    assert (found.labels.tp, found.labels.fn, found.labels.fp, found.labels.tn) == (
        right,
        20 - right,
        0,
        20,
    )
    assert found.golden.flaws["unknown ids"].listed == [["nowhere"]]
    point = found.operating_point
    assert point["spec"] == POINT["spec"] and point["fingerprint"] == POINT["fingerprint"]
    assert point["parameters"] == dict.fromkeys(PARAMETERS) | {"threshold": 0.8, "tables": "21x6"}
    assert found.similarity is None
    assert any("not all similar pairs" in note for note in found.notes)
    assert found.rand.value < 1.0


def test_service_evaluation_is_compared_with_a_baseline(index, peer, tmp_path):
    url = peer(of(index)).url
    before = tmp_path / "before.json"
    before.write_text(json.dumps(evaluate(GOLDEN, service=url).record))
    assert evaluate(GOLDEN, service=url, baseline=before).drift is not None


def test_command_evaluates_a_service(index, peer, tmp_path):
    (tmp_path / "golden.tsv").write_text(SET.tsv)
    (tmp_path / "key").write_text("neardup_secret\n")
    seen = []

    def answer(path, headers):
        seen.append(headers["Authorization"])
        return of(index)(path, headers)

    url = peer(answer).url
    done = neardup(
        "evaluate",
        tmp_path / "golden.tsv",
        "--service",
        url,
        "--api-key-file",
        tmp_path / "key",
        "--json",
    )
    assert done.code == 0, done.err
    assert json.loads(done.out) == evaluate(SET.golden, service=url).record
    assert seen[0] == "Bearer neardup_secret" and seen[-1] is None
    missed = neardup(
        "evaluate", tmp_path / "golden.tsv", "--service", url, "-q", "--min-recall", 0.99
    )
    assert missed.code == 1 and "misses --min-recall" in missed.err


def test_ids_are_quoted_in_the_url(peer):
    ids = ["a/b c?d=e#f", "ü/漢字", "%2F", "..", "a+b"]

    def answer(path, _):
        if path == "/base/v1/stats":
            return 200, POINT, {}
        id = unquote(path.removeprefix("/base" + DOCUMENTS))
        return 200, {"cluster": ids.index(id)}, {}

    held = ServiceClient(peer(answer).url + "/base/").look_up(ids)
    assert held.cluster.tolist() == [0, 1, 2, 3, 4]


def test_closed_connection_is_reopened(index, peer):
    service = peer(of(index, Close="yes"))
    assert evaluate(GOLDEN, service=service.url).labels.tn == 20


def test_busy_service_is_asked_again_after_retry_after(index, peer):
    waits, refusals = [], iter([(429, "3"), (503, None), (429, "86400"), (429, "soon")])

    def answer(path, headers):
        status, later = next(refusals, (200, None))
        if status == 200:
            return of(index)(path, headers)
        return status, {}, {} if later is None else {"Retry-After": later}

    held = ServiceClient(peer(answer).url, wait=waits.append).look_up(["a0"])
    assert held.cluster.tolist() == [index.get("a0").cluster]
    assert waits == [3.0, 1.0, 30.0, 1.0]


@pytest.mark.parametrize(
    ("status", "body", "error", "told"),
    [
        (503, {}, Busy, "no room 20 times: try again later"),
        (401, {}, UsageError, "asks for an API key: .* --api-key-file"),
        (403, {}, UsageError, "asks for an API key"),
        (500, {}, FormatError, "answers 500: give the address"),
        (302, {}, FormatError, "answers 302"),
        (404, {}, FormatError, "says nothing of its operating point"),
        (200, b"<html>", FormatError, "something else than an object"),
        (200, [], FormatError, "something else than an object"),
        (200, b"[" * 100_000, FormatError, "something else than an object"),
        (
            200,
            b'{"spec":"' + b"x" * (2 << 20) + b'"}',
            FormatError,
            "something else than an object",
        ),
        (200, {**POINT, "spec": 1}, FormatError, "says nothing of its operating point"),
        (200, {**POINT, "cluster": "c"}, FormatError, "names no cluster"),
    ],
)
def test_answers_of_other_servers_are_refused(peer, status, body, error, told):
    url = peer(lambda *_: (status, body, {})).url
    with pytest.raises(error, match=told):
        ServiceClient(url, wait=lambda _: None).look_up(["a"])


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://a..b", "http://127.0.0.1:1/\u00e9"])
def test_unreachable_service_is_an_error(url):
    with pytest.raises(InputError, match=r"can't be reached .*: is neardup serve running there\?"):
        ServiceClient(url).look_up(["a"])


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8080", "ftp://x", "http://", "http://x:port", "http://[::1", "http://x y/"],
)
def test_invalid_address_is_refused(url):
    with pytest.raises(UsageError, match="is not the address of a service: write it as http://"):
        ServiceClient(url)


def test_golden_set_of_other_documents_is_refused(index, peer):
    with pytest.raises(InputError, match=r"does not hold both .* ids as x and y: add them"):
        evaluate([("x", "y", 1)], service=peer(of(index)).url)


def test_service_excludes_corpus_run_and_options(tmp_path):
    for others in ({"corpus": ["a"]}, {"run": tmp_path}):
        with pytest.raises(UsageError, match="leave out the corpus and the run"):
            evaluate([("a", "b", 1)], service="http://127.0.0.1:1", **others)
    with pytest.raises(UsageError, match="a service has its operating point"):
        evaluate([("a", "b", 1)], service="http://127.0.0.1:1", threshold=0.7)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "can't be read: No such file"),
        (b"", "holds no key"),
        (b"a\nb\n", "holds no key"),
        (b"\xff\xfe", "can't be read: it is not a text file"),
    ],
)
def test_invalid_api_key_files_are_refused(tmp_path, content, told):
    (tmp_path / "golden.tsv").write_text(SET.tsv)
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    done = neardup(
        "evaluate",
        tmp_path / "golden.tsv",
        "--service",
        "http://127.0.0.1:1",
        "--api-key-file",
        tmp_path / "key",
    )
    refused(done, 1, f"API key file {tmp_path}/key {told}")
