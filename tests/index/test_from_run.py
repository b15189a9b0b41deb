"""The sketches of a run become an index, with the run's decisions and without its texts."""

from __future__ import annotations

import json

import pytest
from support.command_line import edited, table, write_jsonl
from support.command_line import neardup as command
from support.redis_index import fresh_address

import neardup
from neardup.errors import MissingInput, ParameterError, UsageError
from neardup.index import from_run
from neardup.index.from_run import load_sketches

TEXTS = [edited(n) for n in range(30)]
TEXTS += [edited(n, 79) for n in range(0, 30, 3)] + [edited(1).upper(), "", edited(2, 10, 40, 70)]
ROWS = [{"id": f"doc-{n}", "text": text, "lang": "en"} for n, text in enumerate(TEXTS)]


def run(tmp_path, *options, rows=ROWS, name="run"):
    given = write_jsonl(tmp_path / f"{name}.jsonl", rows)
    out = tmp_path / name
    ran = command("dedup", given, "-o", out, "--save-sketches", "-q", *options)
    assert ran.code == 0, ran.err
    return out


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--keep", "longest"),
        ("--bits", "8"),
        ("--sketch", "oneperm"),
        ("--tables", "20x5,4x7"),
        ("--sketch", "simhash", "--shingle", "word:1"),
        ("--strip", "lines:50%"),
        ("--sketch", "weighted", "--weights", "tf-idf"),
    ],
)
def test_decisions_of_the_run(tmp_path, options):
    out = run(tmp_path, *options)
    loaded = load_sketches(out, tmp_path / "index", {})
    record = json.loads((out / "run.json").read_text())
    assert loaded.documents == record["counts"]["kept"] + record["counts"]["removed"]
    assert (loaded.kept, loaded.left_out) == (record["counts"]["kept"], 1)
    removed = {row["id"]: row for row in table(out, "removed")}
    assert removed
    with neardup.Index.open(tmp_path / "index") as index:
        assert index.spec.fingerprint == record["fingerprint"]
        assert index.verify() == []
        for row in ROWS:
            if row["text"] == "":
                assert index.get(row["id"]) is None
                continue
            document = index.get(row["id"])
            gone = removed.get(row["id"])
            witness = row["id"] if gone is None else gone["witness"]
            assert (document.status == "new") == (gone is None)
            if gone is not None:
                assert document.duplicate_of == gone["witness"]
                assert (document.similarity, document.exact) == (gone["similarity"], gone["exact"])
            assert index.query(row["text"]).duplicate_of == witness


def test_new_documents_are_compared_with_loaded_ones_by_signatures(tmp_path):
    load_sketches(run(tmp_path), tmp_path / "index", {})
    with neardup.Index.open(tmp_path / "index") as index:
        near = index.add("near", edited(5, 40))
        assert (near.status, near.duplicate_of, near.exact) == ("duplicate", "doc-5", False)
        assert index.add("new", edited(500)).status == "new"
        assert index.add("newer", edited(500, 3)).exact


def test_another_operating_point(tmp_path):
    out = run(tmp_path)
    loaded = load_sketches(out, tmp_path / "index", {"threshold": 0.95})
    assert loaded.settings.options.threshold == 0.95
    same = load_sketches(out, tmp_path / "same", {}).settings.options
    assert loaded.settings.options.curve.parts != same.curve.parts
    with pytest.raises(ParameterError):
        load_sketches(out, tmp_path / "other", {"threshold": 2.0})
    assert not (tmp_path / "other").exists()


def test_narrow_slots_refuse_other_bands(tmp_path):
    out = run(tmp_path, "--bits", "8")
    with pytest.raises(UsageError, match="other bands"):
        load_sketches(out, tmp_path / "index", {"threshold": 0.5})
    merged = tmp_path / "merged"
    assert command("merge", out, "-o", merged).code == 0
    assert load_sketches(merged, tmp_path / "index", {}).documents == 31


def test_sketches_without_a_run_have_kept_documents_only(tmp_path):
    out = run(tmp_path)
    loaded = load_sketches(out / "sketches", tmp_path / "index", {})
    assert (loaded.documents, loaded.copies) == (loaded.kept, 0)
    assert loaded.kept + loaded.left_out == len(ROWS)


def test_copies_of_an_earlier_corpus_are_left_out(tmp_path):
    first = run(tmp_path, name="first")
    later = run(
        tmp_path,
        "--against",
        first,
        rows=[
            {"id": "copy", "text": edited(4, 50)},
            {"id": "fresh", "text": edited(900)},
        ],
        name="later",
    )
    loaded = load_sketches(later, tmp_path / "index", {})
    assert (loaded.documents, loaded.left_out) == (1, 1)


def test_repeated_ids_of_a_run_are_renamed(tmp_path):
    rows = [{"id": "same", "text": edited(n)} for n in range(3)] + [{"id": "", "text": edited(9)}]
    loaded = load_sketches(run(tmp_path, rows=rows), tmp_path / "index", {})
    assert (loaded.documents, loaded.renamed) == (4, 3)
    with neardup.Index.open(tmp_path / "index") as index:
        assert index.query(edited(0)).duplicate_of == "same"
        assert index.query(edited(2)).duplicate_of == f"{tmp_path}/run.jsonl:2"
        assert index.query(edited(9)).duplicate_of == f"{tmp_path}/run.jsonl:3"


def test_runs_with_unsupported_options_are_refused(tmp_path):
    for option, column in (("--distinguish", "lang"), ("--merge-rows", "lang")):
        out = run(tmp_path, option, column, name=option.strip("-"))
        with pytest.raises(UsageError, match=option):
            load_sketches(out, tmp_path / "index", {})
    with pytest.raises(MissingInput, match="--save-sketches"):
        load_sketches(tmp_path, tmp_path / "index", {})


@pytest.mark.parametrize("options", [(), ("--keep", "last"), ("--bits", "8")])
def test_a_run_is_loaded_into_redis_as_into_a_folder(tmp_path, monkeypatch, options):
    monkeypatch.setattr(from_run, "AT_ONCE", 7)  # witnesses are stored after some of their copies
    out, place = run(tmp_path, *options), fresh_address()
    ran = command("index", "build", place, "--from", out, "--json")
    assert ran.code == 0, ran.err
    folder = load_sketches(out, tmp_path / "index", {})
    with neardup.Index.open(place) as shared, neardup.Index.open(tmp_path / "index") as index:
        assert shared.verify() == []
        assert (len(shared), shared.stats().kept) == (folder.documents, folder.kept)
        for row in ROWS:
            one, other = shared.get(row["id"]), index.get(row["id"])
            assert (one is None) == (other is None)
            if one is not None:
                assert (one.number, one.duplicate_of) == (other.number, other.duplicate_of)
                assert (one.similarity, one.exact) == (other.similarity, other.exact)
        texts = [row["text"] for row in ROWS]
        asked = [
            [(one.status, one.duplicate_of) for one in each.query_batch(texts)]
            for each in (shared, index)
        ]
        assert asked[0] == asked[1]
        assert shared.add("next", "a text that is new here").cluster == folder.documents + 1
    assert "holds an index" in command("index", "build", place, "--from", out).err
