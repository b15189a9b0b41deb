"""The JavaScript client: its own tests, the same answers as the reference for any text."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from struct import pack

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.javascript import CLIENT, JavaScript, find_node, run_node
from support.strategies import texts

import neardup
from neardup import BBitMinHash, MinHash
from neardup.corpus.documents import Documents, text_column
from neardup.keys import Key
from neardup.reference import sketches as reference
from neardup.reference.text import units
from neardup.sketcher import Sketcher
from neardup.spec import PROFILES, Spec

TESTS = sorted((CLIENT / "test").glob("*.test.js"))
SCRIPT = Path(__file__).parents[2] / "scripts/make_client_tables.py"


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_tests_of_the_client_pass(path: Path) -> None:
    run = run_node("--test", path)
    assert run.returncode == 0, run.stdout + run.stderr


def test_character_tables_are_those_of_the_package() -> None:
    loaded = importlib.util.spec_from_file_location("make_client_tables", SCRIPT)
    script = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(script)
    made = script.make_module()
    assert script.TARGET.read_text() == made, "run scripts/make_client_tables.py"


def test_missing_node_is_a_failure_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(pytest.fail.Exception, match="make setup"):
        find_node()


def test_version_is_that_of_the_package() -> None:
    stated = json.loads((CLIENT / "package.json").read_text())
    assert stated["version"] == neardup.__version__
    assert "dependencies" not in stated and not (CLIENT / "package-lock.json").exists()


@pytest.fixture(scope="module")
def javascript() -> Iterator[JavaScript]:
    with JavaScript() as client:
        yield client


SECRET = bytes(range(16))
HASHES = ({"hash": "xxh64"}, {"hash": "siphash", "key": Key(SECRET).id})
specs = st.builds(
    lambda shingle, profile, slots, seed, bits, hashed: Spec.of(
        shingle, profile=profile, slots=slots, seed=seed, bits=bits, **hashed
    ),
    st.sampled_from(["word:1", "word:2", "word:5", "char:1", "char:4", "line:1", "line:2"]),
    st.sampled_from(PROFILES),
    st.sampled_from([3, 4, 7, 128]),
    st.sampled_from([0, 1, 2**32, 2**53 + 1, 2**64 - 1]),
    st.sampled_from([1, 2, 4, 8, 16, 32]),
    st.sampled_from(HASHES),
)


@given(texts, specs)
def test_signatures_are_those_of_the_reference(
    javascript: JavaScript, text: str, spec: Spec
) -> None:
    key = SECRET if spec.key else b""
    asked = {"secret": key.hex()} if key else {}
    tables = [(1, 2), (1, 1)]
    found = javascript.ask("sketch", spec=spec.canonical, text=text, tables=tables, **asked)
    hashes = reference.unit_hashes(units(text, spec), spec, key)
    if not hashes:
        assert found["error"] == "EmptyText"
        return
    shingles = reference.shingles(hashes, spec.size)
    slots = reference.signature(shingles, spec, key)
    keys = reference.table_keys(slots, tables)
    assert found == {
        "fingerprint": spec.fingerprint,
        "slots": slots,
        "content": pack("<2Q", *reference.content_hash(hashes)).hex(),
        "shingles": sorted(f"{shingle:016x}" for shingle in shingles),
        "keys": [f"{key:016x}" for key in keys],
        "bytes": found["bytes"],
    }
    whole = MinHash(spec=replace(spec, bits=32), key=key or None)
    whole.update_hashes(np.array(sorted(shingles), np.uint64))
    sketch = whole if spec.bits == 32 else whole.b_bit(spec.bits)
    kind = MinHash if spec.bits == 32 else BBitMinHash
    assert kind.from_bytes(bytes.fromhex(found["bytes"])) == sketch
    assert bytes.fromhex(found["bytes"]) == sketch.to_bytes()


@pytest.mark.parametrize("profile", PROFILES)
def test_every_character_is_folded_and_classified_alike(
    javascript: JavaScript, profile: str
) -> None:
    """Each between letters, and after a mark that may combine with it; planes 4 to 13 are empty."""
    spec = Spec.of("word:3", profile=profile, slots=1)
    codes = [*range(0xD800), *range(0xE000, 0x33000), *range(0xE0000, 0xE0400), 0x10FFFF]
    parts = [codes[at : at + 0x2000] for at in range(0, len(codes), 0x2000)]
    several = ["".join(f"x{chr(code)}e\u0301{chr(code)} " for code in part) for part in parts]
    column, rejected = text_column(several, False)
    expected = Sketcher(spec)(Documents(column, [], None, None, rejected)).content
    for part, text, content in zip(parts, several, expected, strict=True):
        found = javascript.ask("sketch", spec=spec.canonical, text=text, tables=[])
        assert found["content"] == content.astype("<u8").tobytes().hex(), hex(part[0])
