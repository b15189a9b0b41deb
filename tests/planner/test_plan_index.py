"""An index takes what a plan says: its tables, and its files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from neardup import Index, plan
from neardup.index.postings import Postings
from neardup.options import Options
from neardup.planner.prediction import tables_bytes


@pytest.mark.parametrize("documents", [10, 1_000, 20_000, 45_000])
def test_tables_grow_as_predicted(documents: int) -> None:
    bands = 7
    postings = Postings(bands)
    chance = np.random.default_rng(documents)
    keys = chance.integers(0, 2**64, (documents, bands), np.uint64)
    for start in range(0, documents, 997):
        some = keys[start : start + 997]
        postings.put(some, np.arange(start, start + len(some), dtype=np.uint32))
    predicted = tables_bytes(documents, 0.0, bands) - tables_bytes(documents, 0.0, 0)
    assert predicted == pytest.approx(postings.nbytes, rel=0.01)


@pytest.mark.parametrize("asked", [{}, {"bits": 8}, {"bands": 8, "rows": 4}])
def test_an_index_takes_what_is_planned(tmp_path: Path, asked: dict[str, int]) -> None:
    count, words = 3_000, 300
    chance = np.random.default_rng(1)
    texts = [" ".join(map(str, chance.integers(0, 50_000, words))) for _ in range(count)]
    texts[9::10] = texts[::10]
    options = Options.of(threshold=0.8, **asked)
    point = {"slots": options.spec.slots, "bands": options.curve.bands, "rows": options.curve.rows}
    with Index.open(tmp_path / "index", threshold=0.8, **asked) as index:
        index.add_batch([f"document-{at}" for at in range(count)], texts)
        index.compact()
        stats = index.stats()
    planned = plan(
        count, threshold=0.8, purpose="index", shingles=words - 4, calibrate=False, **point | asked
    ).predicted
    assert stats.bytes_per_document == pytest.approx(planned.tables / count, rel=0.1)
    stored = sum(stats.disk_bytes.values()) - stats.wal_bytes
    assert stored == pytest.approx(planned.disk, rel=0.1)
