"""Runs that obey decisions of people: what they write, and what they refuse."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.batch_engine import table
from support.command_line import dedup, edited, neardup, refused, write_jsonl

import neardup as library
from neardup.decisions import Action, Decision, fingerprint_run
from neardup.errors import UsageError
from neardup.formats.decisions import write_decisions

WHEN = "2026-03-01T12:00:00Z"
DOCUMENTS = [
    {"id": f"{letter}{n}", "text": edited(seed, *([n * 9] if n else []), count=160)}
    for seed, letter in enumerate("abcd")
    for n in range(3)
] + [{"id": "a0 again", "text": edited(0, count=160)}, {"id": "empty", "text": " "}]
"""Four documents with two near-duplicates each; one is there twice."""


def decide(action: Action, a: str, b: str | None = None, **more: Any) -> Decision:
    return Decision(action, a, b, **{"who": "ann", "when": WHEN} | more)


SAID = [
    decide("drop", "a0"),
    decide("different", "b0", "b1"),
    decide("same", "c0", "a1"),
    decide("keep", "c1"),
    decide("prefer", "d2", who="bob"),
    decide("keep", "empty"),
    decide("same", "gone", "b2"),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("in") / "docs.jsonl", DOCUMENTS)


@pytest.fixture
def said(tmp_path: Path) -> Path:
    write_decisions(tmp_path / "said.jsonl", SAID)
    return tmp_path / "said.jsonl"


def test_a_run_obeys_and_names_the_decisions(source: Path, said: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = neardup("dedup", source, "-o", out, "--decisions", said)
    assert ran.code == 0
    assert "decided             7 decisions of people about 9 documents; 1 more document" in ran.out
    assert "--decisions: 1 document of the decisions not among the inputs, such as gone" in ran.err
    removed = {row["id"]: (row["witness"], row["decision"]) for row in table(out, "removed")}
    assert removed == {
        "a0": (None, f"drop a0 (ann, {WHEN})"),
        "a2": ("a1", None),
        "b2": ("b0", None),
        "c0": ("a1", f"c0 = a1 (ann, {WHEN})"),
        "c2": ("c1", None),
        "d0": ("d2", None),
        "d1": ("d2", None),
        "a0 again": ("a1", None),
    }
    decided = {row["id"]: (row["outcome"], row["decisions"]) for row in table(out, "decided")}
    assert decided["a0"] == ("removed", f"drop a0 (ann, {WHEN})")
    assert decided["c1"] == ("kept", f"keep c1 (ann, {WHEN})")
    assert decided["empty"][0] == "rejected"
    record = json.loads((out / "run.json").read_bytes())
    assert record["decisions"] == {"given": 7, "in_force": 7, "documents": 9, "missing": 1}
    assert record["counts"]["dropped"] == 1
    page = (out / "report.html").read_text("utf-8")
    assert "7 decisions of people about 9 documents; 1 more document is not there" in page
    assert "prefer d2 (bob" in page
    assert f"'a0' was removed: drop a0 (ann, {WHEN})" in neardup("why", out, "a0").out
    assert "decided about it: keep c1" in neardup("why", out, "c1").out
    pair = neardup("why", out, "b0", "b1").out
    assert f"both were kept; decided about them: b0 ≠ b1 (ann, {WHEN})" in pair


def test_the_library_gives_the_same_answer_and_saves_it(
    source: Path, said: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    dedup(source, "-o", out, "--decisions", said)
    for given in (said, SAID):
        result = library.dedup(DOCUMENTS, decisions=given)
        assert [(one.id, one.witness, one.decision) for one in result.removed] == [
            (row["id"], row["witness"], row["decision"]) for row in table(out, "removed")
        ]
        assert result.why("a0").sentence == f"'a0' was removed: drop a0 (ann, {WHEN})"
        assert result.why("b0", "b1").verdict == "decided"
        listed = {row["id"]: row for row in result.to_arrow().to_pylist()}
        assert listed["a0"]["decision"] == "removed" and listed["a0"]["witness"] is None
        assert listed["a0"]["reason"] == f"drop a0 (ann, {WHEN})"
        assert "7 decisions of people" in result.summary()
        result.save(tmp_path / "saved", DOCUMENTS, force=True)
        for name in ("removed", "decided", "clusters"):
            mine, its = table(tmp_path / "saved", name), table(out, name)
            assert [strip(row) for row in mine] == [strip(row) for row in its]
        assert "prefer d2 (bob" in (tmp_path / "saved/report.html").read_text("utf-8")


def strip(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if "file" not in name}


def test_a_document_is_named_by_its_place_where_ids_repeat(tmp_path: Path) -> None:
    rows = [{"id": "x", "text": row["text"]} for row in DOCUMENTS[:3]]
    source = write_jsonl(tmp_path / "x.jsonl", rows)
    write_decisions(tmp_path / "id.jsonl", [decide("drop", "x")])
    given = ("dedup", source, "-o", tmp_path / "out", "--quiet", "--decisions")
    refused(neardup(*given, tmp_path / "id.jsonl"), 2, "several documents have the id 'x'")
    said = [decide("drop", f"{source}:0"), decide("keep", "9:9")]
    write_decisions(tmp_path / "place.jsonl", said)
    assert neardup(*given, tmp_path / "place.jsonl").code == 0
    assert table(tmp_path / "out", "removed")[0]["decision"].startswith("drop ")
    with pytest.raises(UsageError, match="several documents have the id 'x'"):
        library.dedup(rows, decisions=[decide("drop", "x")])


def test_two_names_of_one_document_are_refused(source: Path, tmp_path: Path) -> None:
    write_decisions(tmp_path / "d.jsonl", [decide("drop", "a0"), decide("keep", f"{source}:0")])
    given = ("dedup", source, "-o", tmp_path / "out", "--quiet")
    ran = neardup(*given, "--decisions", tmp_path / "d.jsonl")
    refused(ran, 2, "docs.jsonl:0 are one document")


def test_decisions_about_other_files_are_refused(source: Path, tmp_path: Path) -> None:
    record = dedup(source, "-o", tmp_path / "first")
    own = fingerprint_run(record)
    write_decisions(tmp_path / "own.parquet", [decide("drop", "b0", fingerprint=own)])
    given = ("dedup", source, "-o", tmp_path / "out", "--quiet", "--decisions")
    assert neardup(*given, tmp_path / "own.parquet", "--threshold", 0.7).code == 0
    write_decisions(tmp_path / "other.parquet", [decide("drop", "b0", fingerprint="0" * 32)])
    ran = neardup(*given, tmp_path / "other.parquet", "--force")
    refused(ran, 2, "about other documents", "--same-ids")
    assert neardup(*given, tmp_path / "other.parquet", "--force", "--same-ids").code == 0
    assert [row["id"] for row in table(tmp_path / "out", "removed")][2:4] == ["b0", "b2"]
    with pytest.raises(UsageError, match=r"give same_ids=True"):
        library.dedup_files(source, decisions=tmp_path / "other.parquet")
    with pytest.raises(UsageError, match=r"same_ids"):
        library.dedup(DOCUMENTS, decisions=tmp_path / "own.parquet")
    assert library.dedup(DOCUMENTS, decisions=tmp_path / "own.parquet", same_ids=True).overrides


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["nonsense"], [], "bad.jsonl, line 1: not a line of JSON"),
        ([{"action": "eat", "a": "x"}], [], "line 1: action 'eat' is not known"),
        (
            [{"action": "keep", "a": "a0"}, {"action": "drop", "a": "a0", "who": "bob"}],
            [],
            "decisions contradict one another: two people disagree: keep a0",
        ),
        ([{"action": "keep", "a": "a0"}], ["--cluster", "components"], "--cluster stars"),
    ],
)
def test_what_can_t_be_obeyed_is_refused(
    source: Path, tmp_path: Path, lines: list[Any], options: list[str], message: str
) -> None:
    whole = [
        json.dumps({"who": "ann", "when": WHEN} | one) if isinstance(one, dict) else one
        for one in lines
    ]
    (tmp_path / "bad.jsonl").write_text("\n".join(whole))
    given = ("dedup", source, "-o", tmp_path / "out", "--decisions", tmp_path / "bad.jsonl")
    ran = neardup(*given, *options)
    assert ran.code != 0 and message in ran.err
    assert not (tmp_path / "out").exists()


def test_what_is_no_decision_is_refused() -> None:
    for wrong in (["drop a0"], 7):
        with pytest.raises(UsageError, match="pass the path of a file"):
            library.dedup(["a text"], decisions=wrong)  # type: ignore[arg-type]


def test_rows_that_are_one_document_are_named_by_its_id(tmp_path: Path) -> None:
    rows = [
        {"page": page, "text": edited(0, *places, count=160)[at : at + 500]}
        for page, places in (("p", ()), ("q", (9,)), ("r", (50,)))
        for at in (0, 500)
    ]
    source = write_jsonl(tmp_path / "pages.jsonl", rows)
    write_decisions(tmp_path / "d.jsonl", [decide("drop", "p"), decide("different", "q", "r")])
    given = ("--merge-rows", "page", "--decisions", tmp_path / "d.jsonl")
    record = dedup(source, "-o", tmp_path / "out", *given)
    assert [row["id"] for row in table(tmp_path / "out", "removed")] == ["p"]
    assert record["counts"]["kept"] == 2
    assert len((tmp_path / "out/kept/pages.jsonl").read_text().splitlines()) == 4


def test_a_run_resumes_with_other_decisions(source: Path, said: Path, tmp_path: Path) -> None:
    """The sketches are used again; nothing that depends on decisions is."""
    out = tmp_path / "out"
    dedup(source, "-o", out, "--save-sketches")
    dedup(source, "-o", out, "--save-sketches", "--force", "--decisions", said)
    dedup(source, "-o", tmp_path / "fresh", "--decisions", said)
    for name in ("removed", "clusters", "decided"):
        assert table(out, name) == table(tmp_path / "fresh", name)


def test_applying_copies_only_kept_files_that_the_run_has_written(tmp_path: Path) -> None:
    """One file has other rows now, one was edited by hand since, one is as it was."""
    (tmp_path / "in").mkdir()
    for at, name in enumerate(("changed", "edited", "same")):
        write_jsonl(tmp_path / "in" / f"{name}.jsonl", DOCUMENTS[3 * at : 3 * at + 3])
    run, out = tmp_path / "run", tmp_path / "out"
    dedup(tmp_path / "in", "-o", run)
    written = {path.name: path.read_bytes() for path in (run / "kept").iterdir()}
    (run / "kept/edited.jsonl").write_bytes(b"{}\n")
    for name in ("same", "edited"):
        later = (run / "run.json").stat().st_mtime_ns + (10**9 if name == "edited" else -(10**9))
        os.utime(run / f"kept/{name}.jsonl", ns=(later, later))
    result = library.apply_decisions(run, [decide("different", "a0", "a1")], out)
    assert result.record["decisions"]["judged_again"] == 3
    kept = {path.name: path.read_bytes() for path in (out / "kept").iterdir()}
    assert kept["same.jsonl"] == written["same.jsonl"]
    assert kept["edited.jsonl"] == written["edited.jsonl"]
    assert len(kept["changed.jsonl"].splitlines()) == 2
    assert (out / "decisions.parquet").exists()
