"""neardup index reindex and convert, as they are typed."""

from __future__ import annotations

import json

import pytest
from support.command_line import neardup

from neardup.errors import UsageError
from neardup.index.index import Index
from neardup.spec import Spec

TEXTS = {
    f"d{at}": f"word{at % 7} and some {at % 3} more words here that are {at}" * 2
    for at in range(40)
}


def run(*words: object) -> str:
    ran = neardup("index", *words)
    assert ran.code == 0, ran.err
    return ran.out


def refused(why: str, *words: object) -> list[str]:
    """The lines of the error."""
    ran = neardup("index", *words)
    assert ran.code != 0 and ran.out == ""
    assert why in ran.err, ran.err
    return ran.err.splitlines()


@pytest.fixture
def folder(tmp_path):
    with Index.open(tmp_path / "index", threshold=0.5, shingle="word:2") as index:
        index.add_batch(list(TEXTS), list(TEXTS.values()))
    return tmp_path / "index"


def written(path, ids):
    lines = [json.dumps({"id": id, "text": TEXTS[id]}) for id in ids]
    path.write_text("\n".join(lines))
    return path


def test_reindex_from_files_and_undo(folder, tmp_path):
    first = written(tmp_path / "a.jsonl", list(TEXTS)[20:])
    words = ["reindex", folder, "--shingle", "word:1", "--corpus", first]
    listed = refused("20 documents can't", *words, "-q")
    assert listed[:-1] == [f"d{at}\tno text" for at in range(20)]
    fewer = written(tmp_path / "a.jsonl", list(TEXTS)[22:])
    assert refused("22 documents can't", *words[:-1], fewer, "-q")[20] == "and 2 more"
    written(first, list(TEXTS)[20:])
    second = written(tmp_path / "b.jsonl", list(TEXTS)[:20])
    out = run("reindex", folder, "--shingle", "word:1", "--corpus", first, "--corpus", second)
    assert out.startswith("40 documents indexed again\n")
    with Index.open(folder, read_only=True) as index:
        assert (index.spec.shingle, len(index)) == ("word:1", 40)
        assert index.spec.fingerprint in out
    run("retune", folder, "--threshold", 0.9, "-q")
    ran = neardup("index", "reindex", folder, "--undo")
    assert ran.out.startswith("back to generation g1 and its operating point; 0 documents ")
    assert "are carried over\nexact Jaccard >= 0.50 of word:2" in ran.out
    assert "earlier generation g2: " in ran.out and "0 documents" not in ran.err
    with Index.open(folder, read_only=True) as index:
        assert index.spec.shingle == "word:2"


def test_drop_missing_leaves_out_documents_without_a_text(folder, tmp_path):
    some = written(tmp_path / "a.jsonl", list(TEXTS)[1:])
    words = ["reindex", folder, "--slots", 64, "--corpus", some, "--drop-missing", "--json"]
    found = json.loads(run(*words))
    assert (found["carried"], found["missing"]) == (39, {"d0": "no text"})


def test_reindex_uses_the_specification_of_a_file(folder, tmp_path):
    texts = written(tmp_path / "a.jsonl", TEXTS)
    spec = tmp_path / "spec.json"
    refused("spec.json: no such file", "reindex", folder, "--corpus", texts, "--spec", spec)
    spec.write_text("{}")
    told = refused("spec.json has no", "reindex", folder, "--corpus", texts, "--spec", spec)
    assert "a specification as JSON" in told[0] and "a config file" in told[0]
    spec.write_text(Spec(size=3, seed=7).canonical)
    run("reindex", folder, "--corpus", texts, "--spec", spec, "--quiet", "--keep-texts")
    with Index.open(folder, read_only=True) as index:
        assert index.spec == Spec(size=3, seed=7)
        assert index.settings.keep_texts
    run("reindex", folder, "--shingle", "word:2")


def test_reindex_uses_the_operating_point_of_a_config_file(folder, tmp_path):
    texts, config = written(tmp_path / "a.jsonl", TEXTS), tmp_path / "plan.toml"
    config.write_text("version = 1\n[dedup]\nshingle = 'word:3'\nthreshold = 0.7\nslots = 64\n")
    run("reindex", folder, "--corpus", texts, "--spec", config, "--keep-texts", "-q")
    with Index.open(folder, read_only=True) as index:
        assert (index.spec.shingle, index.spec.slots, index.options.threshold) == (
            "word:3",
            64,
            0.7,
        )
    run("reindex", folder, "--spec", config, "--threshold", 0.6, "-q")
    with Index.open(folder, read_only=True) as index:
        assert index.options.threshold == 0.6
    config.write_text("anything else")
    refused("plan.toml: not a config file", "reindex", folder, "--spec", config, "-q")


def test_reindex_without_texts_is_refused(folder):
    for more in ([], ["--drop-missing"]):
        told = refused("keeps no texts", "reindex", folder, "--shingle", "word:1", *more)
        assert len(told) == 1 and "--corpus FILES" in told[0] and "--keep-texts" in told[0]
    with Index.open(folder) as index, pytest.raises(UsageError, match="keeps no texts"):
        index.reindex(shingle="word:1")
    with Index.open(folder):  # that somebody writes is not what has to be mended
        refused("keeps no texts", "reindex", folder, "--shingle", "word:1")


def test_reindex_of_an_empty_index_needs_no_texts(tmp_path):
    Index.open(tmp_path / "index").close()
    assert run("reindex", tmp_path / "index", "--shingle", "word:3").startswith("0 documents")


def test_reindex_refuses_unsupported_options(folder, tmp_path):
    key = tmp_path / "key"
    key.write_bytes(b"0123456789abcdef")
    key.chmod(0o600)
    texts = ["--corpus", written(tmp_path / "a.jsonl", TEXTS), "-q"]
    refused("give --hash siphash too", "reindex", folder, "--key-file", key, *texts)
    refused("html or html:main takes out markup", "reindex", folder, "--strip", "lines:3", *texts)


def test_commands_print_the_size_of_the_previous_generation(folder):
    assert "earlier generation" not in run("stats", folder)
    run("convert", folder, "--bits", 8, "-q")
    line = "earlier generation g1: "
    assert line in run("stats", folder) and line in run("compact", folder)
    assert f"reindex {folder} --undo goes back to it, --forget deletes it" in run("stats", folder)
    found = json.loads(run("stats", folder, "--json"))["earlier_bytes"]
    assert found["g1"] > (folder / "g1" / "index.sqlite").stat().st_size - 1
    out = run("remove", folder, "d1", "d2")
    assert out.startswith("2 removed\nthe earlier generation g1 still has 2 of them: ")
    run("reindex", folder, "--forget")
    assert run("remove", folder, "d3") == "1 removed\n"
    assert json.loads(run("stats", folder, "--json"))["earlier_bytes"] == {}


def test_reindex_with_another_key(folder, tmp_path):
    texts, key = written(tmp_path / "a.jsonl", TEXTS), tmp_path / "key"
    key.write_bytes(b"0123456789abcdef")
    key.chmod(0o600)
    run("reindex", folder, "--corpus", texts, "--hash", "siphash", "--key-file", key)
    with Index.open(folder, read_only=True, key=key.read_bytes()) as index:
        assert index.query(TEXTS["d3"]).status == "duplicate"


def test_contradicting_options_are_refused(folder):
    refused("no change requested", "reindex", folder)
    refused("restores the previous", "reindex", folder, "--undo", "--slots", 64)
    refused("leave out the other", "reindex", folder, "--forget", "--undo")


def test_forget_deletes_the_previous_generation(folder):
    run("convert", folder, "--bits", 8)
    assert run("reindex", folder, "--forget") == "previous generation deleted\n"
    assert run("reindex", folder, "--forget") == "no previous generation\n"
    refused("nothing can be undone", "reindex", folder, "--undo")


def test_convert_cuts_slots_and_can_be_undone(folder):
    out = run("convert", folder, "--bits", 8)
    with Index.open(folder, read_only=True) as index:
        assert index.spec.bits == 8
        assert f"narrowed from {index.settings.parent}" in out
    told = refused("can't be cut again", "convert", folder, "--bits", 4)
    assert len(told) == 1 and "--undo first" in told[0]
    told = refused("7 is not known", "convert", folder, "--bits", 7)
    assert len(told) == 1 and "reindex" not in told[0]
    run("reindex", folder, "--undo")
    assert json.loads(run("convert", folder, "--bits", 4, "--json"))["documents"] == 40
