"""A real service finds the same duplicates by signatures that JavaScript made as by texts."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.javascript import CLIENT, JavaScript, run_node
from support.running import Running, running

from neardup.spec import Spec

WORDS = {
    "Latin": [f"wörd{n}" for n in range(400)],
    "Han": [chr(0x4E00 + n) for n in range(400)],
    "Cyrillic": [f"Слово{chr(0x430 + n % 32)}{n}" for n in range(400)],
    "Devanagari": [f"कि{chr(0x915 + n % 30)}ा{n}" for n in range(400)],
}
ORIGINALS = 5


def documents() -> list[dict[str, Any]]:
    """Originals of several scripts, each with an identical copy, one that is nearly so, and one
    that shares a fifth of its words."""
    found = []
    for script, words in WORDS.items():
        for n in range(ORIGINALS):
            rng = random.Random(f"{script} {n}")
            text = rng.choices(words, k=300)
            near = [*text[:150], rng.choice(words), *text[151:]]
            far = text[:60] + rng.choices(words, k=240)
            written = {
                "original": " ".join(text),
                "identical": unicodedata.normalize("NFD", " \u00ad\n\u3000".join(text).upper()),
                "near": " ".join(near),
                "far": " ".join(far),
            }
            found += [
                {"id": f"{script} {n} {kind}", "text": given, "metadata": {"kind": kind}}
                for kind, given in written.items()
            ]
    return found


SECRET = "00112233445566778899aabbccddeeff"


@pytest.fixture(scope="module")
def default_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served") / "data") as started:
        started.event("ready")
        yield started


@pytest.fixture(scope="module")
def keyed_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """An index with a secret key, and with few bits of a slot."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "key").write_text(SECRET)
    (folder / "key").chmod(0o600)
    options = ("--shingle", "char:5", "--bits", "8", "--hash", "siphash", "--key-file")
    with running(folder / "data", *options, str(folder / "key")) as started:
        started.event("ready")
        yield started


@pytest.fixture(params=["default", "keyed"])
def service(request: pytest.FixtureRequest) -> Running:
    return request.getfixturevalue(f"{request.param}_service")


def open_service(javascript: JavaScript, service: Running) -> Spec:
    options = {"secret": SECRET} if service.data.with_name("key").exists() else {}
    return Spec.from_json(javascript.ask("open", address=service.url, **options))


def decided(answers: list[dict[str, Any]]) -> list[tuple[str, str, str | None]]:
    return [(one["id"], one["status"], one["duplicate_of"]) for one in answers]


def test_signatures_find_what_texts_find(service: Running) -> None:
    given = documents()
    given.append({"id": "nothing", "text": "\u200d "})
    with JavaScript() as javascript, httpx.Client(base_url=service.url, timeout=60) as client:
        assert (
            open_service(javascript, service).fingerprint
            == client.get("/v1/stats").json()["fingerprint"]
        )
        by_signature = javascript.ask("addAll", documents=given)
        assert javascript.ask("document", id=given[0]["id"])["metadata"] == {"kind": "original"}
        checked = [client.post("/v1/check", json={"text": one["text"]}).json() for one in given]
        for one in given[:-1]:
            javascript.ask("remove", id=one["id"])
        by_text = client.post("/v1/documents", json={"documents": given}).json()["answers"]
        asked = [javascript.ask("check", text=one["text"]) for one in given]
        again = javascript.ask("addAll", documents=given[:3])
    assert decided(by_signature) == decided(by_text)
    assert by_signature[-1] == by_text[-1]
    kinds = {kind: {"new"} for kind in ("original", "far")} | {"near": {"duplicate"}}
    for kind, statuses in (kinds | {"identical": {"duplicate"}}).items():
        assert {one["status"] for one in by_text if one["id"].endswith(kind)} == statuses
    same = [one for one in by_signature if one["id"].endswith("identical")]
    assert {one["similarity"] for one in same} == {1.0}
    # A text is compared with the signatures of texts that were never there, and the other way.
    for answers in (checked, asked):
        found = [one["duplicate_of"] for one in answers]
        kept = [one["duplicate_of"] or one["id"] for one in by_text[:-1]]
        assert found[:-1] == kept
    assert asked[-1] == checked[-1]
    assert [one["again"] for one in again] == [True, True, True]


def test_errors_of_the_service_name_the_cause(default_service: Running) -> None:
    with JavaScript() as javascript:
        open_service(javascript, default_service)
        refused = javascript.ask("document", id="nobody")
        assert (refused["error"], refused["code"]) == ("ServiceError", "not_found")
        grouped = javascript.ask("check", text="one two", options={"within": "en"})
        assert (grouped["error"], grouped["code"]) == ("ServiceError", "parameter_error")


def test_keyed_index_needs_the_key(keyed_service: Running) -> None:
    with JavaScript() as javascript:
        for secret in ({}, {"secret": "0" * 32}):
            refused = javascript.ask("open", address=keyed_service.url, **secret)
            assert refused["error"] == "ParameterError" and "needs the key" in refused["message"]


ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```js\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^console\.log\(.*\); // (.*)$", re.MULTILINE)


@pytest.mark.parametrize("page", ["docs/clients.md", "clients/js/README.md"])
def test_examples_print_what_they_say(default_service: Running, tmp_path: Path, page: str) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/neardup").symlink_to(CLIENT)
    blocks = BLOCK.findall((ROOT / page).read_text("utf-8"))
    assert any("Service.open" in block for block in blocks)
    for block in blocks:
        script = tmp_path / "example.mjs"
        script.write_text(block.replace("http://127.0.0.1:8080", default_service.url))
        run = run_node(script)
        assert run.stdout.splitlines() == PRINTED.findall(block), run.stderr
