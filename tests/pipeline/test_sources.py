"""What became of each source is counted, and limits stop a run before it writes kept rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import Row, dedup, neardup, refused, words, write_jsonl

import neardup as library
from neardup.errors import ParameterError, TooManyRemoved
from neardup.source_counts import (
    LEAST_DOCUMENTS,
    MOST_LISTED,
    GroupCounts,
    RemovalLimits,
    SourceCounts,
    SourceTally,
)

POINT = ("--shingle", "word:2")


def rows(begin: int, fresh: int, copies: int) -> list[Row]:
    """Documents that are like no other, and copies of the first one."""
    texts = [" ".join(words(begin + n, 12)) for n in range(fresh)]
    texts += [texts[0]] * copies
    return [{"id": f"{begin}-{n}", "text": text} for n, text in enumerate(texts)]


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    """a: 100 documents, none removed; b: 200 documents, 120 removed; c: 20, of which 19."""
    (tmp_path / "in").mkdir()
    return [
        write_jsonl(tmp_path / "in" / f"{name}.jsonl", some)
        for name, some in {
            "a": rows(0, 100, 0),
            "b": rows(1_000, 80, 120),
            "c": rows(2_000, 1, 19),
        }.items()
    ]


def shown(one: Row) -> tuple[str, int, int, int]:
    return Path(one["source"]).name, one["documents"], one["kept"], one["removed"]


def test_files_are_counted_in_run_json_on_the_terminal_and_in_the_report(
    tmp_path: Path, inputs: list[Path]
) -> None:
    record = dedup(*inputs, "-o", tmp_path / "out", *POINT)
    sources = record["sources"]
    assert sources["column"] is None and sources["count"] == 3 and "others" not in sources
    assert [shown(one) for one in sources["listed"]] == [
        ("b.jsonl", 200, 80, 120),
        ("c.jsonl", 20, 1, 19),
        ("a.jsonl", 100, 100, 0),
    ]
    assert sources["listed"][0]["share"] == 0.6
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "By source" in page and "60.0%" in page
    ran = neardup("dedup", *inputs, "-o", tmp_path / "again", *POINT)
    (line,) = [line for line in ran.out.splitlines() if line.startswith("removed by source")]
    assert f"120 of 200 (60%) of {inputs[1]}   19 of 20 (95%) of {inputs[2]}" in line
    assert "a.jsonl" not in line


def test_text_files_count_by_their_folder(tmp_path: Path) -> None:
    for name in ("x/1", "x/2", "y/deep/1"):
        file = tmp_path / "in" / f"{name}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("one and the same text in three files")
    record = dedup(tmp_path / "in", "-o", tmp_path / "out")
    listed = record["sources"]["listed"]
    assert [(one["source"].rpartition("in/")[2], one["removed"]) for one in listed] == [
        ("x", 1),
        ("y/deep", 1),
    ]


@pytest.mark.parametrize("command", ["dedup", "exact"])
def test_run_that_removes_too_much_stops_and_goes_on_with_yes(
    tmp_path: Path, inputs: list[Path], command: str
) -> None:
    point = POINT if command == "dedup" else ()
    asked = (command, *inputs, "-o", tmp_path / "out", *point, "--max-removed-per-source", 0.5)
    refused(
        neardup(*asked, "-q"),
        3,
        f"120 of 200 documents (60.0%) of {inputs[1]} would be removed",
        "more than --max-removed-per-source 0.5 allows: nothing is written",
        "--yes",
    )
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".unfinished"]
    ran = neardup(*asked, "--yes")
    assert ran.code == 0
    assert "resuming: " in ran.err and "are already read" in ran.err
    record = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert record["counts"]["removed"] == 139
    assert record["parameters"]["max_removed_per_source"] == 0.5
    assert (tmp_path / "out" / "kept").is_dir()


def test_limit_of_all_documents(tmp_path: Path, inputs: list[Path]) -> None:
    asked = ("dedup", *inputs, "-q", *POINT, "--max-removed")
    stopped = "139 of 320 documents (43.4%) would be removed, more than --max-removed 0.4"
    refused(neardup(*asked, 0.4, "-o", tmp_path / "out"), 3, stopped)
    refused(neardup(*asked, 0.4, "-o", tmp_path / "out.jsonl"), 3, stopped)
    assert not (tmp_path / "out.jsonl").exists()
    assert neardup(*asked, 139 / 320, "-o", tmp_path / "out").code == 0, "exactly the limit"
    refused(neardup(*asked, 5, "-o", tmp_path / "x"), 2, "--max-removed must be from 0 to 1")


def test_function_raises_an_error_with_the_table(tmp_path: Path, inputs: list[Path]) -> None:
    point = {"shingle": "word:2", "max_removed_per_source": 0.5}
    with pytest.raises(TooManyRemoved, match="the same with yes=True goes on") as stopped:
        library.dedup_files(inputs, tmp_path / "out", **point)
    sources = stopped.value.sources
    assert [Path(one.source).name for one in sources.over] == ["b.jsonl"]
    assert sources.listed[0] == sources.over[0]
    with library.dedup_files(inputs, tmp_path / "out", **point, yes=True) as result:
        assert result.counts["removed"] == 139


def test_limits_are_checked() -> None:
    for limits in ({"removed": -0.1}, {"per_source": 1.5}, {"removed": float("nan")}):
        with pytest.raises(ParameterError):
            RemovalLimits(**limits)


counts = st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(0, 20))


@given(st.lists(counts, min_size=1, max_size=120), st.floats(0, 1), st.integers(1, 50))
def test_tally_lists_what_a_sort_of_all_sources_would(
    found: list[tuple[int, int, int]], share: float, step: int
) -> None:
    """Whatever the groups in which the sources are counted."""
    everyone = [
        SourceCounts(f"s{n}", kept + removed + rejected, kept, removed)
        for n, (kept, removed, rejected) in enumerate(found)
    ]
    tally = SourceTally(None, RemovalLimits(per_source=share))
    for begin in range(0, len(everyone), step):
        some = everyone[begin : begin + step]
        columns = [[one.documents, one.kept, one.removed] for one in some]
        first = np.arange(begin, begin + len(some))
        tally.add(GroupCounts(first, *np.array(columns, np.int64).T))
    got = tally.summary(lambda chosen: [f"s{n}" for n in chosen])
    most = sorted(everyone, key=lambda one: (-one.removed, -one.documents))
    assert list(got.listed) == most[:MOST_LISTED]
    rest = most[MOST_LISTED:]
    if rest:
        assert got.others == SourceCounts(
            None,
            sum(one.documents for one in rest),
            sum(one.kept for one in rest),
            sum(one.removed for one in rest),
        )
    else:
        assert got.others is None
    over = [one for one in everyone if one.documents >= LEAST_DOCUMENTS and one.share > share]
    over.sort(key=lambda one: (-one.share, -one.documents))
    assert list(got.over) == over[:MOST_LISTED] and got.over_count == len(over)
    assert got.total.documents == sum(one.documents for one in everyone)
