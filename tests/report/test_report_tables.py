"""Tables are read a batch at a time, and give what reading them at once would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.formats.tables import CLUSTERS
from neardup.report import run_folder
from neardup.report.run_folder import RunTable, similarity_counts, size_counts, smallest_positions

BATCHES = st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.8, 0.999, 1.0]), max_size=9))


@given(BATCHES, st.integers(1, 6))
def test_the_smallest_are_those_of_a_stable_sort(batches: list[list[float]], count: int) -> None:
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
def test_every_size_is_counted_where_it_belongs(batches: list[list[int]]) -> None:
    sizes = [size for batch in batches for size in batch]
    counts = size_counts(np.array(batch, np.int64) for batch in batches)
    for (low, high), count in counts.items():
        assert count == sum(low <= size <= high for size in sizes)
    assert sum(counts.values()) == len(sizes)


def test_ranges_of_sizes() -> None:
    counts = size_counts([np.array([2, 2, 3, 4, 5, 8, 9])])
    assert counts == {(2, 2): 2, (3, 4): 2, (5, 8): 2, (9, 16): 1}


@pytest.mark.parametrize("batch", [1, 2, 5, 1_000])
def test_rows_are_found_in_every_row_group(
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


def test_memory_does_not_grow_with_row_groups(tmp_path: Path) -> None:
    path, schema = tmp_path / "numbers.parquet", pa.schema([("size", pa.int64())])
    pick = np.random.default_rng(1)
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(40):
            numbers = pa.array(pick.integers(0, 2**60, 50_000))
            writer.write_table(pa.Table.from_arrays([numbers], schema=schema))
    usual, watched = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(watched)
    try:
        assert sum(len(batch) for batch in RunTable(path, schema).numbers("size")) == 2_000_000
    finally:
        pa.set_memory_pool(usual)
    assert 0 < watched.max_memory() < path.stat().st_size / 2
