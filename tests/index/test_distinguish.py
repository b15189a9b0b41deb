"""An index that distinguishes numbers gives the answers of a run, through every operation."""

from __future__ import annotations

import base64
import json
import sqlite3
from pathlib import Path

import pytest
from support.command_line import dedup, neardup, refused, table, write_jsonl
from support.definition import POINT, Row
from support.serving import serving

import neardup as library
from neardup.corpus.documents import Documents, make_strings
from neardup.errors import FormatError, ParameterError, UsageError
from neardup.index.exchange import import_index
from neardup.index.index import Index
from neardup.index.rebuild import convert
from neardup.sketcher import Sketcher

WORDS = [f"word{'abcdefghijklmnopqrst'[n]}" for n in range(20)]
ROWS: list[Row] = [
    {
        "id": f"d{place}",
        "text": " ".join([*WORDS[: 8 + place % 5], number, f"end{'xyz'[place % 3]}"]),
        "lang": ("en", "de", None)[place % 7 % 3],
    }
    for place, number in enumerate(["1", "1", "2", "2"] * 9 + ["3", "3"])
]
OPTIONS: Row = POINT | {"threshold": 0.5}
NUMBERS: Row = {"distinguish": "numbers"}
WAYS = [NUMBERS, NUMBERS | {"within": "lang"}]

Decided = dict[str, str | None]


def expected(**options: object) -> Decided:
    """What a run decides."""
    witnesses = {one.id: one.witness for one in library.dedup(ROWS, **OPTIONS | options).removed}
    return {row["id"]: witnesses.get(row["id"]) for row in ROWS}


def decided(index: Index) -> Decided:
    found = {row["id"]: index.get(row["id"]) for row in ROWS}
    return {id: one.duplicate_of for id, one in found.items() if one is not None}


def fill(index: Index, rows: list[Row] = ROWS) -> None:
    groups = [row["lang"] for row in rows] if index.settings.within else None
    index.add_batch([row["id"] for row in rows], [row["text"] for row in rows], within=groups)


@pytest.mark.parametrize("way", WAYS, ids=["numbers", "numbers and groups"])
@pytest.mark.parametrize("bits", [{}, {"bits": 8}], ids=["whole slots", "narrow slots"])
def test_answers_outlast_every_rebuild(tmp_path: Path, way: Row, bits: Row) -> None:
    """Tables are built again from the store, at another point and by another specification."""
    path, want = tmp_path / "ix", expected(**way, **bits)
    assert want != expected(**way | {"distinguish": None}, **bits)
    with Index.open(path, keep_texts=True, **OPTIONS, **way, **bits) as index:
        fill(index)
        assert decided(index) == want
        index.export(tmp_path / "export")
        index.retune(threshold=0.7)
        assert decided(index) == expected(threshold=0.7, **way, **bits)
        index.retune(threshold=0.5)
        index.reindex(shingle="word:1", text_profile="aggressive", threshold=0.5)
        other = {"shingle": "word:1", "text_profile": "aggressive"}
        assert decided(index) == expected(**other, **way, **bits)
        index.reindex(distinguish="")
        assert decided(index) == expected(**other, **way | {"distinguish": None}, **bits)
        index.undo_reindex()
        assert decided(index) == expected(**other, **way, **bits)
        assert index.verify() == []
        index.compact()
    for file in path.glob("g*/snapshot"):
        file.unlink()
    with Index.open(path, **NUMBERS) as again:
        assert decided(again) == expected(**other, **way, **bits)
        assert again.verify() == []
    import_index(tmp_path / "export", tmp_path / "imported")
    if not bits:
        convert(tmp_path / "imported", 8)
    with Index.open(tmp_path / "imported") as imported:
        assert decided(imported) == want and imported.verify() == []


def test_an_index_that_kept_texts_can_begin_to_distinguish(tmp_path: Path) -> None:
    with Index.open(tmp_path / "ix", keep_texts=True, within="lang", **OPTIONS) as index:
        fill(index)
        assert decided(index) == expected(within="lang")
        index.reindex(**NUMBERS)
        assert decided(index) == expected(within="lang", **NUMBERS)
        fill(index, [row | {"id": f"again-{row['id']}"} for row in ROWS])
        assert index.verify() == []


def test_documents_are_replaced_and_removed(tmp_path: Path) -> None:
    text = " ".join(WORDS)
    with Index.open(tmp_path / "ix", shingle="word:1", **NUMBERS) as index:
        assert index.add("one", f"{text} 1").status == "new"
        assert index.add("two", f"{text} 2").status == "new"
        assert index.add("copy", f"{text} and 1").duplicate_of == "one"
        assert index.query(f"{text} 3", probes=20).status == "new"
        assert index.query(f"{text} or 2", probes=20).duplicate_of == "two"
        assert [one.id for one in index.similar(f"{text} 2")] == ["two"]
        assert index.explain(f"{text} 3").candidates == 0
        index.add("one", f"{text} 2", replace=True)
        assert index.get("one").duplicate_of == "two"
        assert index.get("copy").status == "new"
        index.remove("two")
        assert index.get("one").status == "new", "the copy has another number"
        sketch = index.sketcher(Documents(make_strings([f"{text} x 1"]), [], None, None, {}))
        assert index.query_sketches(sketch)[0].duplicate_of == "copy"
        assert index.add_sketches(["sketch"], sketch)[0].duplicate_of == "copy"


def test_sketches_must_be_made_as_those_of_the_index(tmp_path: Path) -> None:
    documents = Documents(make_strings(["one 1"]), [], None, None, {})
    with Index.open(tmp_path / "numbers", **NUMBERS) as index:
        plain = Sketcher(index.spec)(documents)
        with pytest.raises(ParameterError, match=r"without what distinguishes .*Index\.sketcher"):
            index.add_sketches(["1"], plain)
        numbered = index.sketcher(documents)
        with pytest.raises(ParameterError, match="has no groups"):
            index.query_sketches(numbered, within=["en"])
    with (
        Index.open(tmp_path / "plain") as index,
        pytest.raises(ParameterError, match="with what distinguishes"),
    ):
        index.query_sketches(numbered)


def test_explanation_of_a_pair_says_what_keeps_it_apart(tmp_path: Path) -> None:
    text = " ".join(WORDS)
    with Index.open(tmp_path / "ix", shingle="word:1", within="lang", **NUMBERS) as index:
        for id, number, group in (("a", 1, "en"), ("b", 2, "en"), ("c", 1, "de"), ("d", 2, "de")):
            index.add(id, f"{text} {number}", within=group)
        found = index.explain_pair("a", "b")
        assert found.verdict == "vetoed" and found.buckets > 0
        assert "kept apart by --distinguish numbers; 0.90" in str(found)
        assert "kept apart by --within; 1.0" in str(index.explain_pair("a", "c"))
        assert "--within and --distinguish numbers" in str(index.explain_pair("a", "d"))
    ran = neardup("why", tmp_path / "ix", "a", "b")
    assert "kept apart by --distinguish numbers" in ran.out


def test_another_distinguish_is_refused_with_a_cure(tmp_path: Path) -> None:
    Index.open(tmp_path / "plain").close()
    Index.open(tmp_path / "numbers", **NUMBERS).close()
    Index.open(tmp_path / "numbers").close()
    with pytest.raises(ParameterError, match=r"made without distinguish numbers: .* reindex"):
        Index.open(tmp_path / "plain", **NUMBERS)
    for folder in ("plain", "numbers", "new"):
        with pytest.raises(ParameterError, match=r"not columns such as 'lang': .*--within lang"):
            Index.open(tmp_path / folder, distinguish="lang")
    assert not (tmp_path / "new").exists()
    with (
        Index.open(tmp_path / "numbers") as index,
        pytest.raises(ParameterError, match="neardup index reindex"),
    ):
        index.retune(**NUMBERS)
    with pytest.raises(ParameterError, match="tokens have no numbers"):
        Index.open(tmp_path / "tokens", shingle="token:5", **NUMBERS)


def test_an_index_with_numbers_has_a_format_version_of_its_own(tmp_path: Path) -> None:
    """An older neardup must not take its documents for those of an index without."""
    for place, way in enumerate(WAYS):
        with Index.open(tmp_path / str(place), **way) as index:
            index.export(tmp_path / f"{place}.export")
        connection = sqlite3.connect(tmp_path / str(place) / "g1" / "index.sqlite")
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
        connection.close()
        assert b'"version":3' in (tmp_path / f"{place}.export").read_bytes().replace(b" ", b"")


def outcome(out: Path, file: Path | None = None) -> set[tuple[str, str, float]]:
    return {
        (row["id"], row["witness"], row["similarity"])
        for row in table(out, "removed")
        if file in (None, Path(row["file"]))
    }


@pytest.mark.parametrize("within", [(), ("--within", "lang")], ids=["numbers", "with groups"])
@pytest.mark.parametrize("verify", ["exact", "estimate"])
def test_files_are_decided_as_by_a_run(
    tmp_path: Path, verify: str, within: tuple[str, ...]
) -> None:
    """The first part is built from files, or from sketches; the second is compared, and added."""
    first = write_jsonl(tmp_path / "first.jsonl", ROWS[:25])
    second = write_jsonl(tmp_path / "second.jsonl", ROWS[25:])
    options = ("--distinguish", "numbers", "--shingle", "word:2", "--threshold", 0.6, *within)
    options = (*options, "--verify", verify)
    dedup(first, second, "-o", tmp_path / "whole", *options)
    want = outcome(tmp_path / "whole", second)
    without = dedup(first, second, "-o", tmp_path / "without", *options[2:])
    assert want and without["counts"]["removed"] > len(table(tmp_path / "whole", "removed"))
    folder, source = tmp_path / "ix", (first, *options)
    if verify == "estimate":
        dedup(first, "-o", tmp_path / "run", "--save-sketches", *options)
        source = ("--from", tmp_path / "run")
    ran = neardup("index", "build", folder, *source, "-q")
    assert ran.code == 0, ran.err
    assert "distinguish   numbers" in neardup("index", "stats", folder).out
    against = ("--against", folder)
    record = dedup(second, "-o", tmp_path / "against", *against, *options)
    assert outcome(tmp_path / "against") == want and record["counts"]["vetoed"] > 0
    ran = neardup("dedup", second, "-o", tmp_path / "no", *against, *options[2:], "-q")
    refused(ran, 2, "made with --distinguish numbers", "give the same --distinguish")
    ran = neardup("index", "add", folder, second, "-o", tmp_path / "out")
    assert ran.code == 0 and "vetoed" not in ran.out, ran.err
    assert outcome(tmp_path / "out") == want
    assert "Vetoed" not in (tmp_path / "out" / "report.html").read_text("utf-8")
    witnesses = {row["id"]: row["witness"] for row in table(tmp_path / "whole", "removed")}
    with Index.open(folder) as index:
        assert index.verify() == [] and index.settings.within == ("lang" if within else "")
        assert decided(index) == {row["id"]: witnesses.get(row["id"]) for row in ROWS}


def test_columns_of_files_are_refused_with_a_cure(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", ROWS)
    ran = neardup("index", "build", tmp_path / "ix", given, "--distinguish", "lang", "-q")
    refused(ran, 2, "not columns such as 'lang'", "--within lang")
    ran = neardup("index", "build", tmp_path / "ix", "--from", tmp_path, "--distinguish", "numbers")
    refused(ran, 2, "decide --distinguish: leave it out")
    with (
        library.add_files(tmp_path / "ix", given, tmp_path / "out", **NUMBERS) as added,
        pytest.raises(UsageError, match="lists no vetoed documents"),
    ):
        _ = added.vetoed


def test_reindex_takes_what_distinguishes_from_the_command_line(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", ROWS)
    folder = tmp_path / "ix"
    assert neardup("index", "build", folder, given, "--keep-texts", "-q").code == 0
    config = tmp_path / "point.toml"
    config.write_text('version = 1\n[dedup]\ndistinguish = "numbers"\n')
    for given, want in (
        (["--distinguish", "numbers"], "numbers"),
        (["--distinguish", ""], None),
        (["--spec", config], "numbers"),
        (["--shingle", "word:3"], "numbers"),
    ):
        ran = neardup("index", "reindex", folder, *given, "--json")
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)["point"].get("distinguish") == want


def test_a_service_distinguishes_numbers(tmp_path: Path) -> None:
    text = " ".join(WORDS)
    with serving(tmp_path / "ix", shingle="word:1", **NUMBERS) as client:
        for number in (1, 2):
            got = client.post("/v1/documents", json={"id": f"{number}", "text": f"{text} {number}"})
            assert got.json()["status"] == "new", got.text
        texts = [f"{text} and {number}" for number in (1, 2, 3)]
        got = client.post("/v1/check", json={"texts": texts})
        assert [one["duplicate_of"] for one in got.json()["answers"]] == ["1", "2", None]
        stats = client.get("/v1/stats").json()
        assert stats["parameters"]["distinguish"] == "numbers"
        slots = base64.b64encode(bytes(4 * stats["spec"]["slots"])).decode()
        signature = {"fingerprint": stats["fingerprint"], "slots": slots}
        got = client.post("/v1/check", json={"signature": signature})
        assert got.status_code == 400 and "what distinguishes documents" in got.text, got.text


def rewrite_point(path: Path, change: dict[str, object], version: int | None = None) -> None:
    """Store another operating point, as nobody but a stranger would."""
    with sqlite3.connect(path / "g1" / "index.sqlite") as store:
        (point,) = store.execute("SELECT value FROM meta WHERE name='point'").fetchone()
        changed = json.dumps(json.loads(point) | change, separators=(",", ":"))
        store.execute("UPDATE meta SET value=? WHERE name='point'", (changed,))
        if version is not None:
            store.execute(f"PRAGMA user_version={version}")
    store.close()


def test_an_operating_point_that_is_laid_out_differently_is_read(tmp_path: Path) -> None:
    """It was read again and again."""
    with Index.open(tmp_path / "index", distinguish="numbers") as index:
        index.add("1", "a bill of 12 words")
    rewrite_point(tmp_path / "index", {"distinguish": ["numbers"]})
    with Index.open(tmp_path / "index") as index:
        assert index.query("a bill of 12 words").duplicate_of == "1"
        assert not index.query("a bill of 13 words").is_copy


@pytest.mark.parametrize(("change", "version"), [({"distinguish": ""}, None), ({}, 1)])
def test_settings_and_version_of_a_store_must_belong_together(
    tmp_path: Path, change: dict[str, object], version: int | None
) -> None:
    with Index.open(tmp_path / "index", distinguish="numbers") as index:
        index.add("1", "a bill of 12 words")
    rewrite_point(tmp_path / "index", change, version)
    with pytest.raises(FormatError, match="its settings need"):
        Index.open(tmp_path / "index")


def test_what_distinguishes_is_a_text_or_a_list(tmp_path: Path) -> None:
    with Index.open(tmp_path / "index") as index:
        for wrong in (5, True):
            with pytest.raises(ParameterError, match="use numbers"):
                index.reindex(distinguish=wrong)
            with pytest.raises(ParameterError, match="use numbers"):
                library.dedup(["a"], distinguish=wrong)
