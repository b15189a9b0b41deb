"""neardup index reindex and convert, as they are typed."""

from __future__ import annotations

import json

import pytest
from command_line import neardup

from neardup.index.index import Index
from neardup.spec import Spec

TEXTS = {f"d{at}": f"word{at % 7} and some {at % 3} more words here that are {at}" * 2
         for at in range(40)}  # fmt: skip


def run(*words: object) -> str:
    ran = neardup("index", *words)
    assert ran.code == 0, ran.err
    return ran.out


def refused(why: str, *words: object) -> str:
    """Whatever was listed before the error."""
    ran = neardup("index", *words)
    assert ran.code != 0
    assert why in ran.err, ran.err
    return ran.out


@pytest.fixture
def folder(tmp_path):
    with Index.open(tmp_path / "index", threshold=0.5, shingle="word:2") as index:
        index.add_batch(list(TEXTS), list(TEXTS.values()))
    return tmp_path / "index"


def written(path, ids):
    lines = [json.dumps({"id": id, "text": TEXTS[id]}) for id in ids]
    path.write_text("\n".join(lines))
    return path


def test_from_files_and_back(folder, tmp_path):
    first = written(tmp_path / "a.jsonl", list(TEXTS)[20:])
    words = ["reindex", folder, "--shingle", "word:1", "--corpus", first]
    listed = refused("20 documents can't", *words).splitlines()
    assert listed == [f"d{at}\tno text" for at in range(20)]
    second = written(tmp_path / "b.jsonl", list(TEXTS)[:20])
    out = run("reindex", folder, "--shingle", "word:1", "--corpus", first, "--corpus", second)
    assert out.startswith("40 documents indexed anew\n")
    with Index.open(folder, read_only=True) as index:
        assert (index.spec.shingle, len(index)) == ("word:1", 40)
        assert index.spec.fingerprint in out
    assert "0 documents" in run("reindex", folder, "--undo")
    with Index.open(folder, read_only=True) as index:
        assert index.spec.shingle == "word:2"


def test_left_out(folder, tmp_path):
    some = written(tmp_path / "a.jsonl", list(TEXTS)[1:])
    words = ["reindex", folder, "--slots", 64, "--corpus", some, "--drop-missing", "--json"]
    found = json.loads(run(*words))
    assert (found["carried"], found["missing"]) == (39, {"d0": "no text"})


def test_a_specification_in_a_file(folder, tmp_path):
    texts = written(tmp_path / "a.jsonl", TEXTS)
    spec = tmp_path / "spec.json"
    refused("can't be read", "reindex", folder, "--corpus", texts, "--spec", spec)
    spec.write_text("{}")
    refused("not a specification", "reindex", folder, "--corpus", texts, "--spec", spec)
    spec.write_text(Spec(size=3, seed=7).canonical)
    run("reindex", folder, "--corpus", texts, "--spec", spec, "--quiet", "--keep-texts")
    with Index.open(folder, read_only=True) as index:
        assert index.spec == Spec(size=3, seed=7)
        assert index.settings.keep_texts
    run("reindex", folder, "--shingle", "word:2")


def test_another_key(folder, tmp_path):
    texts, key = written(tmp_path / "a.jsonl", TEXTS), tmp_path / "key"
    key.write_bytes(b"0123456789abcdef")
    key.chmod(0o600)
    run("reindex", folder, "--corpus", texts, "--hash", "siphash", "--key-file", key)
    with Index.open(folder, read_only=True, key=key.read_bytes()) as index:
        assert index.query(TEXTS["d3"]).status == "duplicate"


def test_what_is_contradictory(folder):
    refused("nothing is to change", "reindex", folder)
    refused("goes back to what was", "reindex", folder, "--undo", "--slots", 64)
    refused("leave out the other", "reindex", folder, "--forget", "--undo")


def test_forget(folder):
    run("convert", folder, "--bits", 8)
    assert run("reindex", folder, "--forget") == "what was before is deleted\n"
    assert run("reindex", folder, "--forget") == "there was nothing before\n"
    refused("nothing can be undone", "reindex", folder, "--undo")


def test_convert(folder):
    out = run("convert", folder, "--bits", 8)
    with Index.open(folder, read_only=True) as index:
        assert index.spec.bits == 8
        assert f"narrowed from {index.settings.parent}" in out
    run("reindex", folder, "--undo")
    assert json.loads(run("convert", folder, "--bits", 4, "--json"))["documents"] == 40
