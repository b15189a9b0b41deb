"""neardup index reindex and convert, as they are typed."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

import neardup
from neardup.cli.index_convert import convert
from neardup.cli.index_reindex import reindex
from neardup.errors import FormatError, InputError, NeardupError, UsageError
from neardup.spec import Spec

APP = typer.Typer()
APP.command()(reindex)
APP.command()(convert)
TEXTS = {f"d{at}": f"word{at % 7} and some {at % 3} more words here that are {at}" * 2
         for at in range(40)}  # fmt: skip


def run(*words: object) -> str:
    done = CliRunner().invoke(APP, list(map(str, words)))
    if done.exception is not None:
        error = done.exception
        if isinstance(error, NeardupError):
            error.shown = done.stdout
        raise error
    return done.stdout


@pytest.fixture
def folder(tmp_path):
    with neardup.Index.open(tmp_path / "index", threshold=0.5, shingle="word:2") as index:
        index.add_batch(list(TEXTS), list(TEXTS.values()))
    return tmp_path / "index"


def written(path, ids):
    lines = [json.dumps({"id": id, "text": TEXTS[id]}) for id in ids]
    path.write_text("\n".join(lines))
    return path


def test_from_files_and_back(folder, tmp_path):
    first = written(tmp_path / "a.jsonl", list(TEXTS)[20:])
    with pytest.raises(UsageError, match="20 documents can't") as caught:
        run("reindex", folder, "--shingle", "word:1", "--corpus", first)
    assert caught.value.shown.splitlines()[0] == "d0\tno text"
    assert len(caught.value.shown.splitlines()) == 20
    second = written(tmp_path / "b.jsonl", list(TEXTS)[:20])
    out = run("reindex", folder, "--shingle", "word:1", "--corpus", first, "--corpus", second)
    assert out.startswith("40 documents indexed anew\n")
    with neardup.Index.open(folder, read_only=True) as index:
        assert (index.spec.shingle, len(index)) == ("word:1", 40)
        assert index.spec.fingerprint in out
    assert "0 documents" in run("reindex", folder, "--undo")
    with neardup.Index.open(folder, read_only=True) as index:
        assert index.spec.shingle == "word:2"


def test_left_out(folder, tmp_path):
    some = written(tmp_path / "a.jsonl", list(TEXTS)[1:])
    words = ["reindex", folder, "--slots", 64, "--corpus", some, "--drop-missing", "--json"]
    found = json.loads(run(*words))
    assert (found["carried"], found["missing"]) == (39, {"d0": "no text"})


def test_a_specification_in_a_file(folder, tmp_path):
    texts = written(tmp_path / "a.jsonl", TEXTS)
    spec = tmp_path / "spec.json"
    with pytest.raises(InputError, match="can't be read"):
        run("reindex", folder, "--corpus", texts, "--spec", spec)
    spec.write_text("{}")
    with pytest.raises(FormatError, match="not a specification"):
        run("reindex", folder, "--corpus", texts, "--spec", spec)
    spec.write_text(Spec(size=3, seed=7).canonical)
    run("reindex", folder, "--corpus", texts, "--spec", spec, "--quiet", "--keep-texts")
    with neardup.Index.open(folder, read_only=True) as index:
        assert index.spec == Spec(size=3, seed=7)
        assert index.settings.keep_texts
    run("reindex", folder, "--shingle", "word:2")


def test_another_key(folder, tmp_path):
    texts, key = written(tmp_path / "a.jsonl", TEXTS), tmp_path / "key"
    key.write_bytes(b"0123456789abcdef")
    key.chmod(0o600)
    run("reindex", folder, "--corpus", texts, "--hash", "siphash", "--key-file", key)
    with neardup.Index.open(folder, read_only=True, key=key.read_bytes()) as index:
        assert index.query(TEXTS["d3"]).status == "duplicate"


def test_what_is_contradictory(folder):
    with pytest.raises(UsageError, match="nothing is to change"):
        run("reindex", folder)
    with pytest.raises(UsageError, match="goes back to what was"):
        run("reindex", folder, "--undo", "--slots", 64)
    with pytest.raises(UsageError, match="leave out the other"):
        run("reindex", folder, "--forget", "--undo")


def test_forget(folder):
    run("convert", folder, "--bits", 8)
    assert run("reindex", folder, "--forget") == "what was before is deleted\n"
    assert run("reindex", folder, "--forget") == "there was nothing before\n"
    with pytest.raises(UsageError, match="nothing can be undone"):
        run("reindex", folder, "--undo")


def test_convert(folder):
    out = run("convert", folder, "--bits", 8)
    with neardup.Index.open(folder, read_only=True) as index:
        assert index.spec.bits == 8
        assert f"narrowed from {index.settings.parent}" in out
    run("reindex", folder, "--undo")
    assert json.loads(run("convert", folder, "--bits", 4, "--json"))["documents"] == 40
