"""Documents with the same words and other numbers, or another value in a column, are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import batch_engine
from support.command_line import WRITERS, dedup, neardup, refused, write_jsonl

import neardup as library

WORDS = " ".join(f"clause{'abcdefghij'[i % 10] * (i // 10 + 1)}" for i in range(60))


def bill(number: object, lang: str = "en") -> dict[str, Any]:
    return {"id": f"hr{number}-{lang}", "text": f"H.R. {number}. {WORDS}", "lang": lang}


BILLS = [bill(2864), bill(873), bill("2864 "), bill(2864, "de"), bill(873, "fr")]


def vetoed(out: Path) -> list[tuple[str, str]]:
    return [(row["id"], row["witness"]) for row in batch_engine.table(out, "vetoed")]


def removed(out: Path) -> list[tuple[str, str]]:
    return [(row["id"], row["witness"]) for row in batch_engine.table(out, "removed")]


def test_bills_that_differ_in_their_number_are_kept_and_listed(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "bills.jsonl", BILLS)
    assert dedup(source, "-o", tmp_path / "all")["counts"]["removed"] == 4
    ran = neardup("dedup", source, "-o", tmp_path / "out", "--distinguish", "numbers")
    assert "1 document is kept because of --distinguish numbers; vetoed.parquet lists them" in (
        ran.out
    )
    assert vetoed(tmp_path / "out") == [("hr873-en", "hr2864-en")]
    assert [id for id, _ in removed(tmp_path / "out")] == ["hr2864 -en", "hr2864-de", "hr873-fr"]
    counts = json.loads((tmp_path / "out" / "run.json").read_bytes())["counts"]
    assert (counts["kept"], counts["removed"], counts["vetoed"]) == (2, 3, 1)
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "1 document is kept that would be removed without --distinguish numbers" in page
    assert "<del>2864</del>" in page and "<ins>873</ins>" in page


def test_identical_texts_with_other_values_of_a_column_are_kept(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "bills.jsonl", BILLS)
    dedup(source, "-o", tmp_path / "out", "--distinguish", "lang")
    assert removed(tmp_path / "out") == [("hr873-en", "hr2864-en"), ("hr2864 -en", "hr2864-en")]
    assert vetoed(tmp_path / "out") == [("hr2864-de", "hr2864-en"), ("hr873-fr", "hr2864-en")]


@pytest.mark.parametrize(
    "given",
    [
        ["--distinguish", "numbers,lang"],
        ["--distinguish", "lang", "--distinguish", "numbers"],
        ["--distinguish", "column:lang, numbers"],
    ],
)
def test_several_are_given_with_commas_or_one_by_one(tmp_path: Path, given: list[str]) -> None:
    source = write_jsonl(tmp_path / "bills.jsonl", BILLS)
    record = dedup(source, "-o", tmp_path / "out", *given)
    assert record["parameters"]["distinguish"] == "numbers,lang"
    assert removed(tmp_path / "out") == [("hr2864 -en", "hr2864-en")]


def test_a_column_called_numbers_has_a_prefix(tmp_path: Path) -> None:
    rows = [row | {"numbers": place % 2} for place, row in enumerate([bill(1), bill(2), bill(3)])]
    source = write_jsonl(tmp_path / "bills.jsonl", rows)
    dedup(source, "-o", tmp_path / "out", "--distinguish", "column:numbers")
    assert removed(tmp_path / "out") == [("hr3-en", "hr1-en")]


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_has_the_column(tmp_path: Path, kind: str) -> None:
    source = tmp_path / f"bills.{kind}"
    WRITERS[kind](source, BILLS)
    dedup(source, "-o", tmp_path / "out", "--distinguish", "lang,numbers")
    assert removed(tmp_path / "out") == [("hr2864 -en", "hr2864-en")]


def test_text_files_have_numbers_but_no_columns(tmp_path: Path) -> None:
    for row in BILLS[:3]:
        (tmp_path / f"{row['id']}.txt").write_text(row["text"])
    source = tmp_path / "*.txt"
    paths = sorted(source.parent.glob("*.txt"))
    dedup(*paths, "-o", tmp_path / "out", "--distinguish", "numbers")
    assert len(vetoed(tmp_path / "out")) == 1
    ran = neardup("dedup", *paths, "-o", tmp_path / "b", "-q", "--distinguish", "lang")
    refused(ran, 2, "has no columns", "leave out --distinguish")


def test_the_library_lists_the_same(tmp_path: Path) -> None:
    result = library.dedup(BILLS, distinguish=["numbers", "lang"])
    assert [one.id for one in result.removed] == ["hr2864 -en"]
    assert [one.id for one in result.vetoed] == ["hr873-en", "hr2864-de", "hr873-fr"]
    assert "3 documents are kept because of --distinguish numbers,lang" in result.summary()
    assert library.dedup(BILLS).vetoed == []


@pytest.mark.parametrize("made", ["numbers", "numbers,lang", None])
@pytest.mark.parametrize("given", ["numbers", "lang", None])
def test_saved_sketches_must_be_distinguished_in_the_same_way(
    tmp_path: Path, made: str | None, given: str | None
) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", BILLS)
    first = [] if made is None else ["--distinguish", made]
    second = [] if given is None else ["--distinguish", given]
    dedup(source, "-o", tmp_path / "old", "--save-sketches", *first)
    arguments = [source, "-o", tmp_path / "new", "--against", tmp_path / "old", *second]
    if made == given:
        assert dedup(*arguments)["counts"]["kept"] == 0
        return
    ran = neardup("dedup", *arguments, "-q")
    refused(ran, 2, f"made {'with' if made else 'without'} --distinguish")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--distinguish", ""], "empty name"),
        (["--distinguish", "numbers,"], "empty name"),
        (["--distinguish", "language"], "--distinguish"),
        (["--distinguish", "numbers", "--shingle", "token:5"], "tokens have no numbers"),
        (["--distinguish", "numbers", "--merge-rows", "id"], "--merge-rows"),
    ],
)
def test_what_can_not_be_distinguished_is_refused(
    tmp_path: Path, given: list[str], message: str
) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", BILLS)
    refused(neardup("dedup", source, "-o", tmp_path / "out", "-q", *given), 2, message)


def test_without_the_option_files_are_what_they_were(tmp_path: Path) -> None:
    """Keys of sketch files, the list of saved sketches and the folder have no trace of it."""
    source = write_jsonl(tmp_path / "a.jsonl", BILLS)
    dedup(source, "-o", tmp_path / "out", "--save-sketches")
    listed = json.loads((tmp_path / "out" / "sketches" / "set.json").read_bytes())
    assert set(listed["reading"]["columns"]) == {
        *("text", "id", "keep", "within", "tokens", "id_option")
    }
    assert not list((tmp_path / "out").glob("vetoed*"))
