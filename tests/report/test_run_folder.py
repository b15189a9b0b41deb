"""A run's folder: tables are read in batches, and a damaged run is refused with the cure."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import neardup, refused, unprivileged

from neardup.formats import tables
from neardup.formats.tables import CLUSTERS
from neardup.report import run_folder
from neardup.report.run_folder import RunTable, similarity_counts, size_counts, smallest_positions

BATCHES = st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.8, 0.999, 1.0]), max_size=9))


@given(BATCHES, st.integers(1, 6))
def test_smallest_positions_equal_a_stable_sort(batches: list[list[float]], count: int) -> None:
    values = [value for batch in batches for value in batch]
    wanted = sorted(range(len(values)), key=values.__getitem__)[:count]
    assert smallest_positions((np.array(batch, float) for batch in batches), count) == wanted


@given(BATCHES)
def test_every_similarity_is_counted_once(batches: list[list[float]]) -> None:
    values = [value for batch in batches for value in batch]
    counts = similarity_counts(np.array(batch, float) for batch in batches)
    assert counts.sum() == len(values)
    assert counts[100] == values.count(1.0)
    assert counts[99] == values.count(0.999)
    assert counts[80] == values.count(0.8)


@pytest.mark.parametrize("hundredth", range(101))
def test_a_bin_begins_with_its_own_hundredth(hundredth: int) -> None:
    assert similarity_counts([np.array([hundredth / 100])])[hundredth] == 1


@given(st.lists(st.lists(st.integers(2, 2**40), max_size=5)))
def test_every_cluster_size_is_counted_in_its_range(batches: list[list[int]]) -> None:
    sizes = [size for batch in batches for size in batch]
    counts = size_counts(np.array(batch, np.int64) for batch in batches)
    for (low, high), count in counts.items():
        assert count == sum(low <= size <= high for size in sizes)
    assert sum(counts.values()) == len(sizes)


def test_cluster_size_ranges_are_powers_of_two() -> None:
    counts = size_counts([np.array([2, 2, 3, 4, 5, 8, 9])])
    assert counts == {(2, 2): 2, (3, 4): 2, (5, 8): 2, (9, 16): 1}


@pytest.mark.parametrize("batch", [1, 2, 5, 1_000])
def test_rows_are_read_from_every_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(run_folder, "BATCH", batch)
    rows = [{"cluster": n, "id": f"id {n}", "file": "f", "row": n, "size": n} for n in range(20)]
    path = tmp_path / "clusters.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=CLUSTERS), path, row_group_size=7)
    table = RunTable(path, CLUSTERS, len(rows))
    assert np.concatenate(list(table.numbers("size"))).tolist() == list(range(20))
    assert table.at([19, 0, 7, 6, 13]) == [rows[n] for n in (19, 0, 7, 6, 13)]
    assert table.at([]) == []
    assert table.first(3) == rows[:3]
    assert list(table.each()) == rows


WATCHED = pa.proxy_memory_pool(pa.default_memory_pool())
"""It outlives its test: a thread of Arrow that frees its last buffer later would crash."""


def test_memory_does_not_grow_with_row_groups(tmp_path: Path) -> None:
    path, schema = tmp_path / "numbers.parquet", pa.schema([("size", pa.int64())])
    pick = np.random.default_rng(1)
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(40):
            numbers = pa.array(pick.integers(0, 2**60, 50_000))
            writer.write_table(pa.Table.from_arrays([numbers], schema=schema))
    usual, watched = pa.default_memory_pool(), WATCHED
    pa.set_memory_pool(watched)
    try:
        assert sum(len(batch) for batch in RunTable(path, schema).numbers("size")) == 2_000_000
    finally:
        pa.set_memory_pool(usual)
    assert 0 < watched.max_memory() < path.stat().st_size / 2


MakeRun = Any


@pytest.mark.parametrize(
    "make",
    [
        lambda path: None,
        lambda path: path.mkdir(),
        lambda path: path.write_text("a file"),
    ],
)
def test_folder_without_a_finished_run_is_refused(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "run")
    ran = neardup("report", tmp_path / "run")
    refused(ran, 2, f"{tmp_path / 'run'} holds no finished run", "neardup dedup -o")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"version": 1, "fingerprint": 2, "counts": 3}',
    ],
)
def test_unparsable_run_json_is_refused(make_run: MakeRun, content: bytes) -> None:
    run = make_run()
    (run / "run.json").write_bytes(content)
    refused(neardup("report", run), 1, "run.json is damaged", "run neardup dedup again")
    assert not (run / "report.html").exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"counts": {"documents": 9, "kept": 3, "removed": 2, "rejected": 1}},
        {"counts": {"documents": 2, "kept": -1, "removed": 2, "rejected": 1}},
        {"parameters": {"threshold": 0.8, "bands": 0, "rows": 6}},
        {"parameters": {"threshold": float("nan"), "bands": 21, "rows": 6}},
        {"stages": [{"name": "sketch", "seconds": float("inf")}]},
        {"stages": 7},
        {"inputs": [None]},
        {"hot_buckets": [{"size": "x"}]},
        {"reasons": []},
        {"metrics": {"buckets": "many"}},
        {"skipped_files": [{}]},
    ],
)
def test_inconsistent_run_json_is_refused(make_run: MakeRun, changed: dict[str, Any]) -> None:
    refused(neardup("report", make_run(**changed)), 1, "run.json is damaged", "dedup again")


@pytest.mark.parametrize("name", ["removed", "clusters", "rejected"])
def test_missing_table_is_named(make_run: MakeRun, name: str) -> None:
    run = make_run()
    (run / f"{name}.parquet").unlink()
    refused(neardup("report", run), 1, f"{name}.parquet", "missing", "run neardup dedup again")


@pytest.mark.parametrize("name", ["removed", "clusters", "rejected", "samples"])
def test_truncated_or_altered_table_is_refused(make_run: MakeRun, name: str) -> None:
    run = make_run()
    path = run / f"{name}.parquet"
    data = path.read_bytes()
    for broken in (b"", data[:-9], data[: len(data) // 2], b"PAR1" + bytes(60) + data[64:]):
        path.write_bytes(broken)
        refused(neardup("report", run), 1, f"{name}.parquet is damaged")


@pytest.mark.parametrize("name", ["removed", "clusters", "rejected", "samples"])
def test_table_with_other_columns_is_refused(make_run: MakeRun, name: str) -> None:
    run = make_run()
    pq.write_table(pa.table({"id": [1, 2]}), run / f"{name}.parquet")
    refused(neardup("report", run), 1, f"{name}.parquet is damaged", "columns")


def test_row_count_that_contradicts_run_json_is_refused(make_run: MakeRun) -> None:
    run = make_run()
    pq.write_table(tables.REMOVED.empty_table(), run / "removed.parquet")
    refused(neardup("report", run), 1, "removed.parquet", "it has 0 rows, run.json states 2")


@pytest.mark.parametrize("column", ["similarity", "id", "cluster"])
def test_missing_value_in_a_table_is_refused(make_run: MakeRun, column: str) -> None:
    run = make_run()
    path = run / "removed.parquet"
    rows = [row | {column: None} for row in pq.read_table(path).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=tables.REMOVED), path)
    refused(neardup("report", run), 1, "removed.parquet is damaged")


def test_unwritable_folder_keeps_its_old_report(make_run: MakeRun) -> None:
    run = make_run()
    (run / "report.html").write_text("an older report")
    run.chmod(0o555)
    try:
        refused(unprivileged("report", run), 1, "report.html can't be written")
    finally:
        run.chmod(0o755)
    assert (run / "report.html").read_text() == "an older report"
    assert json.loads((run / "run.json").read_bytes())
    assert not list(run.glob(".*"))
