"""Stored costs, corrected by measured runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from neardup.options import Options
from neardup.planner.costs import Costs, MeasuredRun, correct_costs, measure_costs, random_texts


def ran(documents: int, size: int, seconds: float, sketch: float, band: float) -> MeasuredRun:
    record: dict[str, Any] = {
        "seconds": {"sketch": sketch, "band": band, "rank": 0.0, "tables": 0.0, "filter": 0.0},
        "counts": {"removed": 0},
    }
    return MeasuredRun(documents, size, seconds, 2 * seconds, 300_000_000, record)


def test_corrected_costs_explain_what_was_measured() -> None:
    empty = ran(8, 8_000, 2.0, 0.5, 0.1)
    large = ran(100_000, 200_000_000, 9.0, 4.5, 2.1)
    options, stored = Options(), Costs()
    found = correct_costs(stored, empty, large, options, 300, workers=2)
    assert (found.start, found.start_work, found.base) == (2.0, 4.0, 3e8)
    sketching = found.sketch("minhash", 128, 300, 2_000) * 100_000 / found.cores(2)
    assert sketching == pytest.approx(4.0)
    # Two more seconds for banding than expected: it is made dearer, but not by all of it.
    usual = stored.band * 21 * 100_000 / stored.cores(2)
    assert stored.band < found.band < stored.band * 2.0 / usual
    assert found.match / stored.match == pytest.approx(found.band / stored.band)


def test_run_at_stored_speed_keeps_stored_costs() -> None:
    stored, options = Costs(), Options()
    sketch = stored.sketch("minhash", 128, 300, 2_000) * 50_000
    band = stored.band * 21 * 50_000
    rest = stored.rank * 50_000 + stored.keep * 100
    empty = ran(8, 8_000, stored.start, 0.5, 0.0)
    large = ran(50_000, 100_000_000, 5.0, 0.5 + sketch, band + rest)
    found = correct_costs(stored, empty, large, options, 300, workers=1)
    for name in ("text", "document", "band", "match", "keep", "lookup"):
        assert getattr(found, name) == pytest.approx(getattr(stored, name))


def test_one_permutation_costs_one_hash_a_shingle() -> None:
    costs = Costs()
    assert costs.signature("minhash", 1024, 300) == 8 * costs.signature("minhash", 128, 300)
    assert costs.signature("oneperm", 1024, 300) < costs.signature("minhash", 1024, 300)


def test_random_texts_have_the_requested_length_and_are_reproducible() -> None:
    texts = list(islice(random_texts(200, 1300), 300))
    assert texts == list(islice(random_texts(200, 1300), 300))
    assert sum(map(len, texts)) / 300 == pytest.approx(1300, rel=0.05)
    assert {len(text.split()) for text in texts} == {204, 205}


def test_calibration_runs_the_engine_and_cleans_up(tmp_path: Path) -> None:
    options = Options.of(slots=64, bands=10, rows=6)
    point = {"slots": 64, "bands": 10, "rows": 6}
    found = measure_costs(
        random_texts(100, 600), options, point, 100, 1, enough=200_000, folder=tmp_path
    )
    assert found.source.startswith("measured here with 3")
    assert found.start > 0.1
    assert 50e6 < found.base < 1e9
    assert found.text > 0
    assert list(tmp_path.iterdir()) == []
    assert replace(found, source="") != replace(Costs(), source="")
