"""What became of each source is counted, and limits stop a run before it writes kept rows."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import batch_engine
from support.command_line import (
    WRITERS,
    Row,
    dedup,
    neardup,
    refused,
    table,
    words,
    write_jsonl,
)

import neardup as library
from neardup.errors import ParameterError, TooManyRemoved
from neardup.pipeline import sources as pipeline_sources
from neardup.pipeline.run import run_job
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


@pytest.mark.parametrize("merged", [False, True])
def test_files_are_counted_in_any_pieces(tmp_path: Path, merged: bool) -> None:
    """With rejected documents and an earlier corpus; or with documents of several rows."""
    found = batch_engine.rows(3, 150)
    for n, row in enumerate(found):
        row["page"] = f"p{n * 7 % 100}"
    inputs = batch_engine.write(tmp_path / "in", found, files=5)
    against = batch_engine.write(tmp_path / "earlier", batch_engine.rows(3, 40), files=2)
    others: Row = {"against": tuple(against)}
    if merged:
        others = {"merge_rows": True}
    for shard in (600, 100_000):
        out = tmp_path / str(shard)
        job = batch_engine.job(inputs, out, shard=shard, chunk=300, others=others)
        if merged:
            job = replace(job, columns=replace(job.columns, id="page", id_option="merge-rows"))
        run_job(job, batch_engine.Silent())
        record = json.loads((out / "run.json").read_bytes())
        removed = Counter(row["file"] for row in table(out, "removed"))
        rejected = Counter(row["file"] for row in table(out, "rejected"))
        assert sum(removed.values()) > 20
        assert merged or sum(rejected.values()) > 0
        listed = {one["source"]: one for one in record["sources"]["listed"]}
        assert len(listed) == 5
        for file, one in listed.items():
            assert one["removed"] == removed[file]
            assert one["documents"] == one["kept"] + removed[file] + rejected[file]
        for name in ("documents", "kept", "removed"):
            assert sum(one[name] for one in listed.values()) == record["counts"][name]


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


def languages(count: int, kinds: int, seed: int) -> list[Row]:
    """Some are copies, some are rejected, some have no language."""
    chance = random.Random(seed)
    texts = [" ".join(words(seed + n, 12)) for n in range(count // 2 + 1)]
    rows = []
    for n in range(count):
        kind = chance.randrange(kinds + 1)
        text = chance.choice([*texts, ""])
        rows.append({"id": str(n), "text": text, "lang": f"l{kind}" if kind else None})
    return rows


def counted(rows: list[Row], kept: set[str], removed: set[str]) -> dict[str | None, Any]:
    found: dict[str | None, list[int]] = {}
    for row in rows:
        counts = found.setdefault(row["lang"], [0, 0, 0])
        counts[0] += 1
        counts[1] += row["id"] in kept
        counts[2] += row["id"] in removed
    return {source: tuple(counts) for source, counts in found.items()}


@pytest.mark.parametrize(("kinds", "most"), [(4, 1 << 20), (40, 1 << 20), (40, 3)])
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_values_of_a_column_are_counted_as_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: int, most: int, ending: str
) -> None:
    """Also in several passes, of which each counts a few sources; and in memory."""
    rows = languages(400, kinds, seed=kinds)
    WRITERS[ending](tmp_path / f"in.{ending}", rows)
    count, passes = pipeline_sources._count_by_value, []

    def slowly(sketches: Any, kept: Any, _: int) -> Iterator[Any]:
        for groups in count(sketches, kept, most):
            passes.append(groups)
            yield groups

    monkeypatch.setattr(pipeline_sources, "_count_by_value", slowly)
    monkeypatch.setattr(pipeline_sources, "LEAST_HELD", 0)
    record = dedup(tmp_path / f"in.{ending}", "-o", tmp_path / "out", "--source", "lang", *POINT)
    result = library.dedup(rows, shingle="word:2", source="lang")
    want = counted(rows, set(result.kept), {one.id for one in result.removed})
    assert (len(passes) > 1) == (most == 3)
    assert record["sources"]["column"] == record["parameters"]["source"] == "lang"
    for summary in (record["sources"], result.sources.stated):
        listed = {
            one["source"]: (one["documents"], one["kept"], one["removed"])
            for one in summary["listed"]
        }
        assert listed == want and summary["count"] == len(want)
    assert [one["removed"] for one in record["sources"]["listed"]] == sorted(
        (removed for _, _, removed in want.values()), reverse=True
    )
    result.save(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "run.json").read_bytes())["sources"]
    assert saved == result.sources.stated


def test_limit_of_a_source_is_that_of_a_column(tmp_path: Path) -> None:
    given = [row | {"lang": "en"} for row in rows(0, 100, 0)]
    given += [row | {"lang": "de"} for row in rows(1_000, 80, 120)]
    write_jsonl(tmp_path / "in.jsonl", given)
    asked = ("--source", "lang", "--max-removed-per-source", 0.5)
    stopped = "120 of 200 documents (60.0%) of de would be removed"
    ran = neardup("dedup", tmp_path / "in.jsonl", "-o", tmp_path / "out", "-q", *POINT, *asked)
    refused(ran, 3, stopped)
    point = {"shingle": "word:2", "source": "lang", "max_removed_per_source": 0.5}
    with pytest.raises(TooManyRemoved, match=re.escape(stopped)):
        library.dedup(given, **point)
    assert len(library.dedup(given, **point, yes=True).removed) == 120
    with pytest.raises(ParameterError, match="pass source="):
        library.dedup(given, max_removed_per_source=0.5)
    merged = neardup(
        *("dedup", tmp_path / "in.jsonl", "-o", tmp_path / "x"),
        *("--source", "lang", "--merge-rows", "id"),
    )
    refused(merged, 2, "--source is not supported with --merge-rows")
    unknown = neardup("dedup", tmp_path / "in.jsonl", "-o", tmp_path / "x", "--source", "lng", "-q")
    refused(unknown, 2, "no column 'lng'", "Did you mean 'lang'?", "--source")


def test_folders_are_sources(tmp_path: Path) -> None:
    for folder, name in (("en", "a"), ("en", "b"), ("de", "a")):
        file = tmp_path / "in" / folder / f"{name}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(file, [{"text": "one and the same text"}])
    record = dedup(tmp_path / "in", "-o", tmp_path / "out", "--source", "folder:1")
    found = [(one["source"], one["documents"]) for one in record["sources"]["listed"]]
    assert found == [("en", 2), ("de", 1)]


def test_nan_is_no_source() -> None:
    """So pandas has what is missing in a column of texts."""
    rows = [
        {"text": f"text {n}", "src": value} for n, value in enumerate((float("nan"), None, "null"))
    ]
    found = library.dedup(rows, source="src").sources
    assert found is not None
    assert {one.source: one.documents for one in found.listed} == {None: 2, "null": 1}


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
