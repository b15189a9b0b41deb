"""Columns as people have them, on the command line: nested, several, in folders, with dates."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import dedup, edited, neardup, refused, table

TEXT, OTHER = edited(1), edited(2)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def removed(out: Path) -> list[tuple[str, str]]:
    return [(row["id"], row["witness"]) for row in table(out, "removed")]


def test_nested_fields_of_different_formats_in_one_run(tmp_path: Path) -> None:
    def row(id: str, text: str, score: int) -> dict[str, Any]:
        return {"doc": {"text": text, "meta": {"url": id, "score": score, "lang": "de"}}}

    write(tmp_path / "in/a.jsonl", [row("a", TEXT, 1), row("b", OTHER, 5)])
    write(tmp_path / "in/b.parquet", [row("c", TEXT, 3), row("d", OTHER, 2)])
    dedup(
        *(tmp_path / "in", "-o", tmp_path / "out", "--text", "doc.text", "--id", "doc.meta.url"),
        *("--keep", "max:doc.meta.score", "--within", "doc.meta.lang"),
    )
    assert removed(tmp_path / "out") == [("a", "c"), ("d", "b")]
    run = json.loads((tmp_path / "out/run.json").read_bytes())
    assert run["parameters"]["text"] == "doc.text"


def test_several_columns_stay_as_they_are_in_the_kept_files(tmp_path: Path) -> None:
    rows = [{"title": "The same", "body": TEXT}, {"body": f"The same\n{TEXT}"}, {"title": "x"}]
    path = write(tmp_path / "a.jsonl", rows)
    dedup(path, "-o", tmp_path / "out", "--text", "title,body")
    assert len(removed(tmp_path / "out")) == 1
    lines = path.read_text().splitlines(keepends=True)
    assert (tmp_path / "out/kept/a.jsonl").read_text() == lines[0] + lines[2]


def mixed_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.txt").write_text(TEXT)
    (folder / "b.html").write_text(OTHER)
    (folder / "table.csv").write_text(f'nr,body\n1,"{TEXT}"\n2,something else\n')
    with tarfile.open(folder / "arch.tar.gz", "w:gz") as archive:
        archive.add(folder / "b.html", "pages/x.html")
    return folder


KINDS = [f"--include=*.{ending}" for ending in ("txt", "html", "csv", "tar.gz")]


@pytest.mark.parametrize("text", ["body", "text,body", "title,body"])
def test_a_csv_with_its_text_in_body_beside_an_archive_and_texts(tmp_path: Path, text: str) -> None:
    folder = mixed_folder(tmp_path / "in")
    if text == "title,body":
        (folder / "more.csv").write_text("title\nonly a title\n")
    out = tmp_path / "out"
    dedup(folder, "-o", out, *KINDS, "--text", text)
    assert removed(out) == [("b.html", "pages/x.html"), (f"{folder}/table.csv:0", "a.txt")]


@pytest.mark.parametrize(
    ("text", "missing"), [("text", "text"), ("body,titel", "titel"), ("text,bodi", "text")]
)
def test_a_missing_column_of_a_mixed_folder_is_found_before_anything_is_read(
    tmp_path: Path, text: str, missing: str
) -> None:
    folder = mixed_folder(tmp_path / "in")
    error = f"table.csv has no column {missing!r}; it has: nr, body."
    for command in (("dedup",), ("dedup", "--dry-run"), ("exact",)):
        ran = neardup(*command, folder, "-o", tmp_path / "out", *KINDS, "--text", text)
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert error in ran.err
    ran = neardup("index", "build", tmp_path / "index", folder, *KINDS, "--text", text)
    assert ran.code == 2 and error in ran.err


def test_hive_folders_and_saved_sketches(tmp_path: Path) -> None:
    for lang in ("de", "en"):
        for day in ("2024-01-02", "2024-01-10"):
            path = tmp_path / f"in/lang={lang}/day={day}/a.parquet"
            write(path, [{"text": TEXT, "id": lang + day}])
    asked = ("--within", "lang", "--keep", "newest:day")
    dedup(tmp_path / "in", "-o", tmp_path / "out", *asked, "--save-sketches")
    newest = [("de2024-01-02", "de2024-01-10"), ("en2024-01-02", "en2024-01-10")]
    assert removed(tmp_path / "out") == newest
    write(tmp_path / "more/lang=fr/a.parquet", [{"text": TEXT, "id": "new"}])
    write(tmp_path / "more/lang=en/a.parquet", [{"text": TEXT, "id": "copy"}])
    dedup(
        *(tmp_path / "more", "-o", tmp_path / "next", "--within", "lang"),
        *("--against", tmp_path / "out"),
    )
    assert removed(tmp_path / "next") == [("copy", "en2024-01-10")]


def test_a_folder_of_texts_within_its_first_folder(tmp_path: Path) -> None:
    for name in ("de/a.md", "de/b.md", "en/a.md", "top.md"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(TEXT)
    dedup(tmp_path / "in", "-o", tmp_path / "out", "--within", "folder:1")
    assert removed(tmp_path / "out") == [("de/b.md", "de/a.md")]


def test_the_original_stays_not_the_copy_that_comes_first_by_name(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    for name, text, changed in (
        ("note 0.txt", TEXT, 1_700_000_000),
        ("note 0 copy.txt", TEXT, 1_700_000_000.000002),
        ("old/note 0.txt", TEXT, 1_800_000_000),
        ("other.txt", OTHER, 1_700_000_000),
    ):
        path = notes / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, ns=(0, round(changed * 1_000_000) * 1000))

    def kept(keep: str) -> str:
        record = dedup(notes, "-o", tmp_path / "out", "--force", "--keep", keep)
        assert (record["counts"]["kept"], record["counts"].get("undated", 0)) == (2, 0)
        (name,) = {witness for _, witness in removed(tmp_path / "out")}
        return name

    assert kept("first") == "note 0 copy.txt"
    assert kept("oldest:mtime") == kept("min:mtime") == "note 0.txt"
    assert kept("newest:mtime") == kept("max:mtime") == kept("max:path") == "old/note 0.txt"
    ran = neardup("dedup", notes, "-o", tmp_path / "new", "--keep", "oldest:date")
    refused(ran, 2, "no columns but mtime, path and those of its folders: leave out --keep")
    hive = notes / "mtime=2001-01-01"
    hive.mkdir()
    (hive / "a.txt").write_text(TEXT)
    assert kept("oldest:mtime") == "mtime=2001-01-01/a.txt"
    (tmp_path / "lines.txt").write_text(TEXT)
    asked = ("dedup", tmp_path / "lines.txt", "-o", tmp_path / "new", "--format", "lines")
    refused(neardup(*asked, "--keep", "oldest:mtime"), 2, "no columns but those of its folders")


@pytest.mark.parametrize("option", ["--within", "--distinguish"])
def test_a_number_that_its_folder_writes_otherwise_is_one_value(
    tmp_path: Path, option: str
) -> None:
    folder = tmp_path / "in/month=01"
    write(folder / "a.jsonl", [{"id": "a", "text": TEXT}])
    write(folder / "b.jsonl", [{"id": "b", "text": TEXT, "month": 1}, {"id": "c", "text": TEXT}])
    write(folder / "d.parquet", [{"id": "d", "text": TEXT, "month": 1}])
    write(folder / "e.parquet", [{"id": "e", "text": TEXT}])
    dedup(tmp_path / "in", "-o", tmp_path / "out", option, "month")
    assert removed(tmp_path / "out") == [(id, "a") for id in "bcde"]


def test_a_wrong_hive_folder_is_an_error_or_skipped(tmp_path: Path) -> None:
    good = write(tmp_path / "in/lang=de/a.jsonl", [{"text": TEXT, "lang": "de"}])
    bad = write(tmp_path / "in/lang=en/b.jsonl", [{"text": TEXT, "lang": "fr"}])
    ran = neardup("dedup", tmp_path / "in", "-o", tmp_path / "out", "--within", "lang")
    assert ran.code == 1
    assert f"{bad}: a row has another value in its column 'lang' than the folder lang=en" in ran.err
    dedup(tmp_path / "in", "-o", tmp_path / "out", "--within", "lang", "--skip-bad-files")
    run = json.loads((tmp_path / "out/run.json").read_bytes())
    assert [one["file"] for one in run["skipped_files"]] == [str(bad)]
    assert (tmp_path / "out/kept/lang=de/a.jsonl").read_bytes() == good.read_bytes()


def test_a_missing_column_is_all_that_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"doc": {"text": TEXT}}])
    ran = neardup("dedup", path, "-o", tmp_path / "out")
    assert ran.code == 2
    (line,) = ran.err.splitlines()
    assert line.endswith("it has: doc, doc.text. Did you mean 'doc.text'? Choose one with --text")


NESTED = [
    {"doc": {"body": {"en": TEXT}}, "tags": ["x"], "pages": [{"text": TEXT}], "n": 5},
    {"doc": {"body": {"en": OTHER}}, "tags": ["y"], "pages": [{"text": OTHER}], "n": 6},
]


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
@pytest.mark.parametrize("more", [["--dry-run"], ["-q"]])
def test_a_field_that_can_not_be_a_text_is_an_error_of_the_column(tmp_path, name, more) -> None:
    """It is said at the first look, before anything is written; lists are not offered."""
    path = write(tmp_path / name, NESTED)

    def run(*options: str):
        return neardup("dedup", path, "-o", tmp_path / "out", *options, *more)

    ran = run()
    refused(ran, 2, "has no column 'text'", "doc.body.en")
    assert "[]" not in ran.err
    for field in ("pages[].text", "pages.text"):
        refused(run("--text", field), 2, "is inside of a list (pages[].text)", "each item")
    refused(run("--text", "doc.body.en", "--id", "pages[].text"), 2, "is inside of a list")
    for field in ("doc.body", "pages", "tags", "n"):
        refused(run("--text", field), 2, f"column '{field}' is ", "not text", "--text")
    assert not (tmp_path / "out").exists()
    assert run("--text", "doc.body.en").code == 0


def test_a_misspelt_folder_column_is_answered_with_the_folders(tmp_path: Path) -> None:
    for name in ("a.parquet", "a.jsonl"):
        write(tmp_path / f"in-{name}/lang=de/day=1/{name}", [{"id": 1, "content": TEXT}])
        given = ("dedup", tmp_path / f"in-{name}", "-o", tmp_path / "out", "--text")
        ran = neardup(*given, "content", "--within", "lan")
        refused(ran, 2, "id, content, lang, day", "Did you mean 'lang'?")
        refused(neardup(*given, "conten"), 2, "it has: id, content. Did you mean 'content'?")


def test_one_file_without_the_folder_columns_says_so(tmp_path: Path) -> None:
    write(tmp_path / "in/lang=de/a.parquet", [{"text": TEXT}])
    ran = neardup("dedup", tmp_path / "in", "-o", tmp_path / "one.parquet")
    assert ran.code == 0 and "the values of the folders lang are not in the output" in ran.err
    ran = neardup("dedup", tmp_path / "in", "-o", tmp_path / "out")
    assert ran.code == 0 and "the values of" not in ran.err


def test_paragraphs_are_not_cut_from_several_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"title": "t", "body": TEXT}, {"title": "t", "body": TEXT}])
    asked = (path, "-o", tmp_path / "out", "--text", "title,body")
    ran = neardup("exact", *asked, "--unit", "paragraph")
    assert ran.code == 2 and "can't be shortened" in ran.err
    ran = neardup("exact", *asked)
    assert ran.code == 0, ran.err
    assert len(removed(tmp_path / "out")) == 1


def test_keep_newest_says_how_many_have_no_date(tmp_path: Path) -> None:
    days = ["2024-01-15", "Tue, 16 Jan 2024 00:00:00 GMT", 1705190400, "soon", None]
    rows = [{"id": str(n), "text": TEXT, "day": day} for n, day in enumerate(days)]
    path = write(tmp_path / "a.jsonl", rows)
    ran = neardup("dedup", path, "-o", tmp_path / "out", "--keep", "newest:day")
    assert {witness for _, witness in removed(tmp_path / "out")} == {"1"}
    assert "without a date      2 documents have none in 'day' that can be read" in ran.out
    run = json.loads((tmp_path / "out/run.json").read_bytes())
    assert run["counts"]["undated"] == 2


def test_merged_rows_have_their_newest_date(tmp_path: Path) -> None:
    rows = [
        {"url": "a", "text": TEXT, "day": "2024-01-01"},
        {"url": "b", "text": TEXT, "day": "2024-01-02"},
        {"url": "a", "text": TEXT, "day": "Wed, 3 Jan 2024 00:00:00 GMT"},
    ]
    path = write(tmp_path / "a.jsonl", rows)
    dedup(path, "-o", tmp_path / "out", "--keep", "newest:day", "--merge-rows", "url")
    assert removed(tmp_path / "out") == [("b", "a")]


def test_the_newest_document_is_not_kept_instead_of_an_earlier_one_and_the_run_says_so(tmp_path):
    """An output of an earlier run can't be changed: --keep does not reach into --against."""
    old = write(tmp_path / "old.jsonl", [{"id": "old", "text": edited(1), "day": "2026-01-01"}])
    rows = [
        {"id": "newer", "text": edited(1, 79), "day": "2026-02-01"},
        {"id": "a", "text": edited(2), "day": "2026-02-01"},
        {"id": "b", "text": edited(2), "day": "2026-02-02"},
    ]
    new = write(tmp_path / "new.jsonl", rows)
    said = "--keep newest:day ranks the new documents only: those of --against stay"
    for keep, line in (("newest:day", True), ("first", False)):
        out = tmp_path / keep[:3]
        ran = neardup("dedup", new, "-o", out, "--against", old, "--keep", keep)
        assert ran.code == 0 and (said in ran.out) == line, ran
        removed = {row["id"]: row["witness"] for row in table(out, "removed")}
        assert removed["newer"] == "old"
    assert "b" not in {row["id"] for row in table(tmp_path / "new", "removed")}
    ran = neardup("dedup", new, "-o", tmp_path / "alone", "--keep", "newest:day")
    assert "earlier corpus" not in ran.out
