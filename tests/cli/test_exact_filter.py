"""neardup exact --filter: one pass with a filter, and what is said about what it loses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.command_line import DOCUMENTS, Row, neardup, read_rows, refused, table, write_jsonl

COUNT = 3_000


def documents() -> list[Row]:
    """Each third is a copy of one before it."""
    return [
        {"id": f"doc-{n}", "text": f"text {n if n % 3 else n // 2}", "lang": "el" if n % 7 else ""}
        for n in range(COUNT)
    ]


def exact(*arguments: object) -> Row:
    ran = neardup("exact", *arguments, "--json")
    assert (ran.code, ran.err) == (0, ""), ran.err
    record: Row = json.loads(ran.out)
    counts = record["counts"]
    assert counts["documents"] == counts["kept"] + counts["removed"] + counts["rejected"]
    return record


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--by", "words"],
        ["--within", "lang"],
        ["--prefer", "b*"],
    ],
    ids=" ".join,
)
def test_set_filter_gives_the_same_answer_as_no_filter(tmp_path: Path, more: list[str]) -> None:
    rows = documents()
    sources = [
        write_jsonl(tmp_path / "a.jsonl", [*rows[:1000], {"text": None}]),
        write_jsonl(tmp_path / "b.jsonl", rows[1000:]),
    ]
    plain = exact(*sources, "-o", tmp_path / "plain", *more)
    record = exact(*sources, "-o", tmp_path / "set", "--filter", "set", *more)
    assert record["counts"] == plain["counts"] and record["counts"]["removed"] > 100
    for name in ("removed", "clusters", "rejected", "samples"):
        assert table(tmp_path / "set", name) == table(tmp_path / "plain", name)
    for source in sources:
        kept = tmp_path / "set" / "kept" / source.name
        assert kept.read_bytes() == (tmp_path / "plain" / "kept" / source.name).read_bytes()
    assert record["filter"]["witnesses"] and record["filter"]["expected_lost"] == 0


@pytest.mark.parametrize(
    "kind, more",
    [
        ("bloom", []),
        ("bloom", ["--fpr", "0.2"]),
        ("cuckoo", []),
        ("bloom", ["--expected", "9000"]),
        ("cuckoo", ["--expected", "4000"]),
    ],
)
def test_a_filter_removes_all_copies_and_few_others(
    tmp_path: Path, kind: str, more: list[str]
) -> None:
    rows = documents()
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    exact(source, "-o", tmp_path / "plain")
    record = exact(source, "-o", tmp_path / "out", "--filter", kind, *more)
    copies = {row["row"] for row in table(tmp_path / "plain", "removed")}
    found = table(tmp_path / "out", "removed")
    removed = [row["row"] for row in found]
    assert removed == sorted(removed) and copies <= set(removed), "what was there is known"
    lost, about = len(removed) - len(copies), record["filter"]["expected_lost"]
    assert abs(lost - about) <= 4 * about**0.5 + 1
    for row in found:
        assert [
            row["witness"],
            row["witness_file"],
            row["witness_row"],
            row["similarity"],
            row["cluster"],
            row["exact"],
        ] == [None] * 5 + [False]
        assert row["id"] == f"doc-{row['row']}"
    assert table(tmp_path / "out", "clusters") == table(tmp_path / "out", "samples") == []
    kept = [row for n, row in enumerate(rows) if n not in set(removed)]
    assert read_rows(tmp_path / "out" / "kept" / "a.jsonl") == kept
    assert record["counts"]["identical"] == 0 and not record["filter"]["witnesses"]
    assert record["filter"]["kind"] == record["parameters"]["filter"] == kind


def test_expected_losses_are_stated_before_and_after(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", documents())
    ran = neardup("exact", source, "-o", tmp_path / "out", "--filter", "bloom", "--fpr", "0.2")
    assert ran.code == 0
    first = ran.err.splitlines()[0]
    said = re.search(
        r"bloom filter for ([\d,]+) documents, .*: about ([\d,]+) documents that are no", first
    )
    assert said, first
    documents_, lost = (int(number.replace(",", "")) for number in said.groups())
    assert documents_ == COUNT and 100 < lost < 0.2 * COUNT
    assert re.search(r"estimated false-positive rate 0\.1\d+: about [\d,]+ of the removed", ran.out)
    assert "no witness is known" in ran.out
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "looked up in a bloom filter" in page


def test_expected_decides_the_stated_losses(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    ran = neardup(
        "exact", source, "-o", tmp_path / "out", "--filter", "cuckoo", "--expected", 1_000_000
    )
    assert ran.code == 0
    assert "cuckoo filter for 1,000,000 documents, 1.6 MB: about 918 documents that" in ran.err


def test_full_cuckoo_filter_is_an_error_and_full_bloom_states_its_rate(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", documents())
    out = tmp_path / "out"
    full = neardup("exact", source, "-o", out, "--filter", "cuckoo", "--expected", 100, "-q")
    refused(full, 2, "the filter is full with 1", "larger --expected")
    record = exact(source, "-o", out, "--filter", "bloom", "--expected", 100)
    assert record["filter"]["estimated_fpr"] > 0.9, "it works, and says what it is worth"


def test_filter_for_too_few_documents_states_the_losses(tmp_path: Path) -> None:
    rows: list[Row] = [{"text": f"text {n}"} for n in range(COUNT)]
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    ran = neardup("exact", source, "-o", tmp_path / "out", "--filter", "bloom", "--expected", 100)
    said = re.search(
        r"filter for 100 documents \(the input has about 3,000\), .*: about ([\d,]+) documents",
        ran.err,
    )
    assert said, ran.err
    lost = len(table(tmp_path / "out", "removed"))
    assert lost > 2_000 and abs(int(said[1].replace(",", "")) - lost) < 0.03 * lost
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["filter"]["expected_lost"] == lost, "all may have been different"


def test_filter_larger_than_memory_is_refused_before_hashing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from neardup.pipeline import exact as batch

    monkeypatch.setattr(batch, "sketch_inputs", None)
    source = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    ran = neardup(
        "exact",
        source,
        "-o",
        tmp_path / "out",
        "--filter",
        "bloom",
        "--fpr",
        "1e-9",
        "--expected",
        10**13,
    )
    refused(ran, 2, "does not fit into memory")


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (["--filter", "ribbon"], ["filter 'ribbon' is not known", "set, bloom, cuckoo"]),
        (["--fpr", "0.1"], ["need a filter", "--filter bloom"]),
        (["--expected", "10"], ["need a filter"]),
        (["--filter", "bloom", "--fpr", "0"], ["above 0 and below 1, not 0.0"]),
        (["--filter", "bloom", "--fpr", "1.5"], ["above 0 and below 1"]),
        (["--filter", "bloom", "--fpr", "nan"], ["above 0 and below 1"]),
        (["--filter", "bloom", "--expected", "0"], ["number of keys", "1 to"]),
        (["--filter", "set", "--fpr", "0.1"], ["--fpr is not supported with --filter set"]),
        (["--filter", "cuckoo", "--fpr", "0.001"], ["0.0019 or less", "--filter bloom"]),
        (["--filter", "set", "--keep", "longest"], ["input order", "--keep first"]),
        (["--filter", "bloom", "--unit", "line"], ["--unit document only"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_incompatible_filter_options_are_refused(
    tmp_path: Path, arguments: list[str], parts: list[str]
) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    refused(neardup("exact", source, "-o", tmp_path / "out", *arguments), 2, *parts)


def test_filter_run_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", documents())
    whole = exact(source, "-o", tmp_path / "whole", "--filter", "bloom")
    from neardup.pipeline import exact as batch

    with monkeypatch.context() as patched:
        patched.setattr(batch, "write_tables", None)
        assert neardup("exact", source, "-o", tmp_path / "out", "--filter", "bloom").code == 1
    ran = neardup("exact", source, "-o", tmp_path / "out", "--filter", "bloom")
    assert ran.code == 0 and "resuming" in ran.err
    assert table(tmp_path / "out", "removed") == table(tmp_path / "whole", "removed")
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["counts"] == whole["counts"]
