"""What is assumed of documents that nobody has seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.options import Options
from neardup.planner.planner import plan
from neardup.planner.sla import Sla
from neardup.planner.workload import Workload, assume_workload

GROWING = ("candidates", "sets", "compared", "false", "members", "buckets")


def at(bands: int, rows: int, documents: int = 110_000, threshold: float = 0.8) -> Workload:
    options = Options.of(threshold=threshold, slots=bands * rows, bands=bands, rows=rows)
    return assume_workload(Sla(documents, shingles=368, threshold=threshold), options)


def test_pages_are_compared_about_as_often_as_measured() -> None:
    """110,000 pages of RFCs: 0.70, 12.1 and 33.8 pairs a document were compared in vain; large
    buckets are compared only in part, which the table does not know."""
    assert at(21, 6).false == pytest.approx(0.70, rel=0.2)
    assert 12.1 < at(16, 2).false < 2 * 12.1
    assert 33.8 < at(8, 1).false < 3.5 * 33.8


def test_what_is_shared_is_about_as_measured() -> None:
    """Documents that share a bucket, and their places: a sample of the same pages has 0.224 and
    1.7, 0.516 and 3.6, of 8 x 1 bands 3.9 places."""
    usual, flat = at(21, 6), at(16, 2)
    assert (usual.candidates, usual.members) == (
        pytest.approx(0.224, rel=0.2),
        pytest.approx(1.7, rel=0.2),
    )
    assert (flat.candidates, flat.members) == (
        pytest.approx(0.516, rel=0.2),
        pytest.approx(3.6, rel=0.3),
    )
    assert at(8, 1).members == pytest.approx(3.9, rel=0.3)


@given(st.integers(1, 60), st.integers(1, 12), st.integers(2, 10**9))
def test_flatter_bands_and_more_documents_meet_more(bands: int, rows: int, documents: int) -> None:
    mine = at(bands, rows, documents)
    more_bands, more = at(bands + 1, rows, documents), at(bands, rows, 2 * documents)
    fewer_rows = at(bands, max(rows - 1, 1), documents)
    for name in GROWING:
        for other in (more_bands, more, fewer_rows):
            assert getattr(mine, name) <= getattr(other, name) * (1 + 1e-9)
    assert mine.candidates <= 1.0
    assert mine.members <= bands


def test_of_a_bucket_only_the_first_256_are_compared() -> None:
    assert at(8, 1, 10**10).false == 8 * 256


def test_a_higher_threshold_leaves_more_to_compare_in_vain() -> None:
    assert at(21, 6, threshold=0.9).false > at(21, 6).false > at(21, 6, threshold=0.5).false


def test_few_slots_are_warned_of() -> None:
    made = plan(110_000, shingles=368, recall=0.999, slots=8, cores=1, calibrate=False)
    assert (made.options["bands"], made.options["rows"]) == (8, 1)
    assert made.predicted.compared > 30
    assert made.met
    [note] = made.notes
    assert note.startswith("bands of 1 row make documents meet that have little in common")
    assert made.to_json()["notes"] == [note]
    assert "assumed to be like pages of manuals" in made.sources["documents"]


def test_usual_bands_and_few_documents_are_not() -> None:
    assert plan(110_000, cores=1, calibrate=False).notes == []
    assert plan(10_000, slots=8, recall=0.999, cores=1, calibrate=False).notes == []
