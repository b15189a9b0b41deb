"""An index with groups: only documents of the same group are compared, through every operation."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path

import pytest
from support import batch_engine
from support.command_line import DOCUMENTS, dedup, neardup, refused, table, write_jsonl
from support.definition import POINT, Row
from support.serving import serving

import neardup as library
from neardup.errors import NeardupError, ParameterError
from neardup.index.exchange import import_index
from neardup.index.index import Index
from neardup.index.rebuild import convert
from neardup.index.stored_corpus import open_indexes
from neardup.pipeline.run import run_job

ROWS = [
    row | {"lang": (None, "en", "de")[place % 3]}
    for place, row in enumerate(batch_engine.rows(5, 60, words=6))
]
OPTIONS: Row = POINT | {"threshold": 0.5}


def expected(rows: list[Row] = ROWS, **options: object) -> dict[str, str | None]:
    result = library.dedup(rows, within="lang", **OPTIONS | options)
    witnesses = {one.id: one.witness for one in result.removed}
    return {row["id"]: witnesses.get(row["id"]) for row in rows if row["text"].strip()}


def fill(index: Index, rows: list[Row] = ROWS) -> None:
    index.add_batch(
        [row["id"] for row in rows],
        [row["text"] for row in rows],
        within=[row["lang"] for row in rows],
    )


def decided(index: Index) -> dict[str, str | None]:
    found = {row["id"]: index.get(row["id"]) for row in ROWS}
    return {id: one.duplicate_of for id, one in found.items() if one is not None}


@pytest.fixture
def index(tmp_path: Path):
    with Index.open(tmp_path / "ix", within="lang", keep_texts=True, **OPTIONS) as opened:
        fill(opened)
        assert decided(opened) == expected() != unlike()
        yield opened


def unlike() -> dict[str, str | None]:
    """What would be decided without groups."""
    result = library.dedup(ROWS, **OPTIONS)
    witnesses = {one.id: one.witness for one in result.removed}
    return {row["id"]: witnesses.get(row["id"]) for row in ROWS if row["text"].strip()}


def test_groups_outlast_every_rebuild(index: Index, tmp_path: Path) -> None:
    """Tables are built again from the store, at another point and by another specification."""
    path = index.path
    index.export(tmp_path / "export")
    index.retune(threshold=0.7)
    assert decided(index) == expected(threshold=0.7)
    index.retune(threshold=0.5, bands=6, rows=2)
    index.reindex(shingle="word:1", threshold=0.5)
    assert decided(index) == expected(shingle="word:1")
    index.undo_reindex()
    assert index.verify() == []
    index.compact()
    index.close()
    for file in path.glob("g*/snapshot"):
        file.unlink()
    with Index.open(path) as again:
        assert decided(again) == expected() and again.settings.within == "lang"
        assert again.verify() == []
    import_index(tmp_path / "export", tmp_path / "imported")
    convert(tmp_path / "imported", 8)
    with Index.open(tmp_path / "imported") as imported:
        assert imported.verify() == [] and imported.settings.within == "lang"
        assert decided(imported) == expected()
        copy = next(row for row in ROWS if row["lang"] == "en" and row["text"].strip())
        assert imported.query(copy["text"], within="en").status == "duplicate"
        assert imported.add("new", copy["text"] + "!", within="fr").status == "new"


def test_questions_about_a_group(tmp_path: Path) -> None:
    text = "one two three four five six seven eight"
    with Index.open(tmp_path / "ix", within="lang", threshold=0.5, shingle="word:1") as index:
        index.add("en", text, within="en")
        index.add("de", text + " nine", within="de")
        index.add("none", text + " ten")
        assert [index.query(text, within=one).duplicate_of for one in ("en", "de", None, "fr")] == [
            *("en", "de", "none", None)
        ]
        assert index.query(text + " x y", within="fr", probes=20).status == "new"
        assert index.query(text + " x y", within="de", probes=20).duplicate_of == "de"
        assert [one.id for one in index.similar(text, within="de")] == ["de"]
        assert index.explain(text + " x", within="de").answer.duplicate_of == "de"
        assert index.explain(text + " x", within="fr").candidates == 0
        assert index.explain_pair("en", "de").verdict == "other group"
        copy = index.add("de2", text, within="de")
        assert (copy.duplicate_of, copy.status) == ("de", "duplicate")
        index.remove("de")
        assert index.get("de2").status == "new", "the one in English is no witness"
        answers = index.query_sketches(index.sketcher(sketchable(text)), within=["de"])
        assert answers[0].duplicate_of == "de2"


def sketchable(text: str):
    from neardup.corpus.documents import Documents, make_strings

    return Documents(make_strings([text]), [], None, None, {})


def test_wrong_groups_are_refused(tmp_path: Path) -> None:
    with Index.open(tmp_path / "plain", shingle="word:1") as plain:
        for wrong in (
            lambda: plain.add("1", "one two", within="en"),
            lambda: plain.query("one two", within="en"),
        ):
            with pytest.raises(ParameterError, match="has no groups"):
                wrong()
    with pytest.raises(ParameterError, match="made with no groups, and within 'lang'"):
        Index.open(tmp_path / "plain", within="lang")
    with Index.open(tmp_path / "ix", within="lang", shingle="word:1") as index:
        with pytest.raises(ParameterError, match=r"1 groups .* for 2 texts"):
            index.query_batch(["a", "b"], within=["en"])
        with pytest.raises(ParameterError, match="is a text or None"):
            index.add("1", "one two", within=7)  # type: ignore[arg-type]
        with pytest.raises(NeardupError, match="surrogate"):
            index.add("1", "one two", within="\ud800")
    with pytest.raises(ParameterError, match="with groups by 'lang', and within 'site'"):
        Index.open(tmp_path / "ix", within="site")


def test_an_index_with_groups_has_a_format_version_of_its_own(tmp_path: Path) -> None:
    """An older neardup must not read its signatures; one without groups is as before."""
    for within, version in ((None, 1), ("lang", 2)):
        folder = tmp_path / str(within)
        Index.open(folder, within=within).close()
        connection = sqlite3.connect(folder / "g1" / "index.sqlite")
        assert connection.execute("PRAGMA user_version").fetchone() == (version,)
        connection.close()


GIVEN = [row | {"lang": "en" if n % 2 else None} for n, row in enumerate(DOCUMENTS)]


def test_files_are_read_with_the_column_of_the_index(tmp_path: Path) -> None:
    """The first part is built, the second added without naming the column again."""
    first = write_jsonl(tmp_path / "first.jsonl", GIVEN[:9])
    second = write_jsonl(tmp_path / "second.jsonl", GIVEN[9:])
    whole = dedup(first, second, "-o", tmp_path / "whole", "--within", "lang")
    folder = tmp_path / "ix"
    assert neardup("index", "build", folder, first, "--within", "lang", "-q").code == 0
    dedup(second, "-o", tmp_path / "against", "--against", folder, "--within", "lang")
    ran = neardup("index", "add", folder, second, "-o", tmp_path / "out", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["parameters"]["within"] == "lang"
    removed = {
        (row["id"], row["witness"], row["similarity"])
        for row in table(tmp_path / "whole", "removed")
        if row["file"] == str(second)
    }
    assert whole["counts"]["removed"] > len(removed) > 0
    for out in ("out", "against"):
        found = table(tmp_path / out, "removed")
        assert {(row["id"], row["witness"], row["similarity"]) for row in found} == removed
    ran = neardup("index", "stats", folder)
    assert "within        documents of the same lang" in ran.out
    ran = neardup("query", folder, GIVEN[1]["text"], "--within", "en")
    assert ran.out.startswith("duplicate of doc-1, ")
    assert neardup("query", folder, GIVEN[1]["text"], "--within", "fr").out == "new\n"
    none = write_jsonl(tmp_path / "none.jsonl", [{"id": "x", "text": "a text without a group"}])
    refused(neardup("index", "add", folder, none, "-q"), 2, "lang")
    refused(
        neardup("dedup", none, "-o", tmp_path / "no", "--against", folder, "-q"),
        *(2, "made with --within lang", "give --within"),
    )


def test_lines_of_queries_have_the_group_in_the_column(tmp_path: Path, monkeypatch, capfd) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", GIVEN)
    neardup("index", "build", tmp_path / "ix", given, "--within", "lang", "-q")
    lines = [GIVEN[1] | {"lang": "en"}, GIVEN[1] | {"lang": "fr"}]
    asked = write_jsonl(tmp_path / "asked.jsonl", lines)
    monkeypatch.setattr(sys, "stdin", asked.open())
    ran = neardup("query", tmp_path / "ix")
    assert [json.loads(line)["status"] for line in ran.out.splitlines()] == ["duplicate", "new"]


def test_a_column_is_refused_by_an_index_without_groups(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", GIVEN)
    neardup("index", "build", tmp_path / "ix", given, "-q")
    ran = neardup("index", "add", tmp_path / "ix", given, "--within", "lang", "-q")
    refused(ran, 2, "made without --within")


def test_a_run_with_groups_becomes_an_index_with_groups(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", GIVEN)
    for bits in ((), ("--bits", 8)):
        run, folder = tmp_path / f"run{len(bits)}", tmp_path / f"ix{len(bits)}"
        dedup(given, "-o", run, "--within", "lang", "--save-sketches", *bits)
        assert neardup("index", "build", folder, "--from", run, "-q").code == 0
        with Index.open(folder) as index:
            assert index.settings.within == "lang" and index.verify() == []
            assert index.query(GIVEN[1]["text"], within="en").duplicate_of == "doc-1"
            assert index.query(GIVEN[1]["text"], within="fr").status == "new"


def test_narrow_slots_with_groups_against_which_files_are_compared(tmp_path: Path) -> None:
    options = OPTIONS | {"bits": 8}
    with Index.open(tmp_path / "ix", within="lang", **options) as index:
        fill(index, ROWS[:30])
        kept = [row for row in ROWS[:30] if (one := index.get(row["id"])) and not one.duplicate_of]
    batch_engine.write(tmp_path / "kept", kept, files=1)
    paths = batch_engine.write(tmp_path / "in", ROWS[30:])
    named = dict.fromkeys(batch_engine.SMALL) | options | {"within": "lang"}
    with open_indexes([tmp_path / "ix"]) as stored:
        others = {"against": (tmp_path / "ix",), "stored": stored}
        job = batch_engine.job(paths, tmp_path / "a", others=others, **named)
        run_job(job, batch_engine.Silent())
    others = {"against": (tmp_path / "kept" / "0.jsonl",)}
    job = batch_engine.job(paths, tmp_path / "b", others=others, **named)
    run_job(job, batch_engine.Silent())
    one, other = batch_engine.outcome(tmp_path / "a"), batch_engine.outcome(tmp_path / "b")
    assert one.kept == other.kept and one.counts == other.counts


def test_requests_state_the_group(tmp_path: Path) -> None:
    text = "one two three four five six seven eight"
    with serving(tmp_path / "ix", within="lang", shingle="word:1") as client:
        for id, group in (("en", "en"), ("7", 7), ("none", None)):
            got = client.post("/v1/documents", json={"id": id, "text": text, "within": group})
            assert got.json()["status"] == "new", got.text

        def check(body: Row) -> object:
            got = client.post("/v1/check", json=body)
            assert got.status_code == 200, got.text
            answers = got.json().get("answers", [got.json()])
            return [one["duplicate_of"] for one in answers]

        assert check({"text": text, "within": "en"}) == ["en"]
        assert check({"text": text}) == ["none"]
        assert check({"texts": [text] * 3, "within": ["7", "fr", None]}) == ["7", None, "none"]
        got = client.post("/v1/explain", json={"text": text + " x", "within": "en"})
        assert got.json()["answer"]["duplicate_of"] == "en"
        line = json.dumps({"id": "x", "text": text, "within": "en"})
        stream = {"content-type": "application/x-ndjson"}
        got = client.post("/v1/documents", content=line, headers=stream)
        assert got.json()["duplicate_of"] == "en"
        got = client.post("/v1/check", json={"texts": [text], "within": ["a", "b"]})
        assert got.status_code == 422 or got.status_code == 400, got.text
    with serving(tmp_path / "plain", shingle="word:1") as client:
        got = client.post("/v1/check", json={"text": text, "within": "en"})
        assert got.status_code == 400 and "has no groups" in got.json()["message"], got.text
