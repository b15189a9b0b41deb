"""Of each cluster nothing stays: what the tables, the report and the explanations say of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import Row, dedup, edited, neardup, refused, table, words, write_jsonl

import neardup as library
from neardup import reference
from neardup.pipeline.budget import Budget
from neardup.pipeline.stages import removed as removed_stage
from neardup.pipeline.stages.removed import RemovedDocuments

ROWS: list[Row] = [
    {"id": f"d{n}", "text": text}
    for n, text in enumerate(
        [
            " ".join(words(7)),
            edited(1),
            " ".join(words(8)),
            edited(1, 40),
            edited(1).upper(),
            " ",
            edited(2),
            edited(2, 3),
        ]
    )
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "in.jsonl", ROWS)


def test_tables_report_and_explanations(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    record = dedup(source, "-o", out, "--keep", "none")
    assert record["counts"]["kept"] == 2 and record["counts"]["removed"] == 5
    kept = [json.loads(line)["id"] for line in (out / "kept" / "in.jsonl").open()]
    assert kept == ["d0", "d2"]
    found = {row["id"]: (row["witness"], row["cluster"]) for row in table(out, "removed")}
    assert found == {
        "d1": ("d3", 1),
        "d3": ("d1", 1),
        "d4": ("d1", 1),
        "d6": ("d7", 6),
        "d7": ("d6", 6),
    }
    assert [(row["cluster"], row["size"]) for row in table(out, "clusters")] == [(1, 3), (6, 2)]
    page = (out / "report.html").read_text("utf-8")
    assert "of each cluster nothing is kept" in page and "removed too" in page
    assert "and -1 more" not in page
    why = neardup("why", out, "d1").out
    assert "'d1' was removed: " in why and "'d3', which was removed too" in why
    assert "which was removed too" in neardup("why", out, "d3").out
    refused(neardup("review", out, "--no-open"), 2, "--keep none", "no choice to review")


def test_result_in_memory(tmp_path: Path, source: Path) -> None:
    dedup(source, "-o", tmp_path / "out", "--keep", "none")
    result = library.dedup(ROWS, keep="none")
    listed = [(one.id, one.witness, one.cluster) for one in result.removed]
    assert listed == [
        (row["id"], row["witness"], row["cluster"]) for row in table(tmp_path / "out", "removed")
    ]
    assert [(one.id, one.copies) for one in result.clusters] == [
        ("d1", ["d3", "d4"]),
        ("d6", ["d7"]),
    ]
    assert result.to_arrow()["cluster"].to_pylist() == [0, 1, 2, 1, 1, None, 6, 6]
    assert "which was removed too" in str(result.why("d1"))
    result.save(tmp_path / "saved", ROWS)
    for name in ("removed", "clusters"):
        saved, written = (table(tmp_path / place, name) for place in ("saved", "out"))
        columns = ("id", "cluster", "size") if name == "clusters" else ("id", "witness", "cluster")
        assert [[row[one] for one in columns] for row in saved] == [
            [row[one] for one in columns] for row in written
        ]


def test_exact_keeps_nothing_of_copies(tmp_path: Path) -> None:
    texts = ["a", "b", "a", "c", "b", "a"]
    source = write_jsonl(tmp_path / "in.jsonl", [{"text": text} for text in texts])
    ran = neardup("exact", source, "-o", tmp_path / "out.jsonl", "--keep", "none", "-q")
    assert ran.code == 0, ran.err
    assert (tmp_path / "out.jsonl").read_text() == '{"text": "c"}\n'
    line = ("exact", source, "-o", tmp_path / "x", "--keep", "none", "--unit", "line", "-q")
    refused(neardup(*line), 2, "--keep none is about documents")
    refused(neardup("exact", source, "-o", tmp_path / "x", "--keep", "none", "--filter", "set"), 2)


answers = st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1)), max_size=60)


@given(answers, st.integers(1, 9), st.integers(0, 3))
def test_leaders_are_removed_as_the_reference_says(
    asked: list[tuple[int, float]], window: int, first_new: int
) -> None:
    """Whatever fits into memory at once; documents of an earlier corpus stay."""
    answer: list[tuple[int, float] | None] = []
    for v, (witness, similarity) in enumerate(asked):
        is_copy = v >= first_new and witness < v and answer[witness] is None
        answer.append((witness, similarity) if is_copy else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(removed_stage, "RECORDS_AT_ONCE", window)
        removed = RemovedDocuments(Path(), Budget(1 << 30), keeps_none=True)
        pairs = [(v, *verdict) for v, verdict in enumerate(answer) if verdict is not None]
        for v, witness, similarity in pairs:
            removed.add(*_columns(v, witness), _numbers(similarity), v % 2 == 0)
        leaders = removed.remove_leaders(first_new).tolist()
        got = {
            row[0]: row[1:]
            for batch in removed
            for row in zip(
                batch.documents.tolist(),
                batch.witnesses.tolist(),
                batch.clusters.tolist(),
                batch.similarity.tolist(),
                batch.exact.tolist(),
                strict=True,
            )
        }
    want = reference.keep_none(answer)
    for v, verdict in enumerate(want):
        if v < first_new or verdict is None:
            assert v not in got
            continue
        cluster = v if answer[v] is None else answer[v][0]
        decided = v if answer[v] is not None else verdict[0]
        assert got[v] == (verdict[0], cluster, verdict[1], decided % 2 == 0)
    assert leaders == [v for v in got if answer[v] is None]


def _columns(*numbers: int) -> list[object]:
    return [_numbers(number) for number in numbers]


def _numbers(number: float) -> object:
    return np.array([number])
