"""Brute force: what every pair compared gives, whatever the sets are."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sizes import full

from neardup import reference
from neardup.errors import ParameterError
from neardup.evaluation.truth import SetJoin, Truth, brute_force, expected_seconds, similar_sets
from neardup.text.arrays import Ragged


def ragged(rows) -> Ragged:
    flat = np.array([x for row in rows for x in sorted(row)], np.uint64)
    return Ragged(flat, np.cumsum([0, *map(len, rows)]).astype(np.int64))


def pairs(truth: Truth) -> list[tuple[int, int, float]]:
    return list(zip(truth.a.tolist(), truth.b.tolist(), truth.similarity.tolist(), strict=True))


class Watched:
    """A progress that remembers."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int, str]] = []
        self.done = 0

    def stage(self, name: str, total: int | None, unit: str) -> None:
        self.stages.append((name, total, unit))

    def advance(self, amount: int) -> None:
        self.done += amount

    def say(self, message: str) -> None:
        raise AssertionError(message)


@given(
    # Few elements: equal sets are common, and so are empty ones.
    st.lists(st.sets(st.integers(0, 4), max_size=5), max_size=20),
    st.sampled_from([0.1, 1 / 3, 0.5, 0.8, 1.0]),
)
def test_brute_force_equals_its_twin(rows, floor):
    truth = brute_force(ragged(rows), floor, workers=1)
    want = reference.similar_pairs(rows, floor)
    assert pairs(truth) == want
    assert (truth.documents, truth.floor) == (len(rows), floor)
    copies = similar_sets(ragged(rows), floor, workers=1)
    for threshold in (floor, 0.75, 1.0):
        reached = sum(similarity >= max(threshold, floor) for _, _, similarity in want)
        assert copies.similar(max(threshold, floor)) == reached


@pytest.mark.parametrize("floor", [full(0.1), 0.6, full(0.95)])
def test_two_threads_find_the_same_pairs(floor):
    chance = random.Random(8)
    start = [set(chance.sample(range(10**6), 40)) for _ in range(200)]
    rows = start + [
        set(chance.sample(sorted(old), chance.randint(20, 40))) | {7, chance.randint(0, 99)}
        for old in chance.choices(start, k=1_000)
    ]
    watched = Watched()
    truth = brute_force(ragged(rows), floor, 2, watched)
    assert pairs(truth) == reference.similar_pairs(rows, floor)
    different = len(set(map(frozenset, rows)))
    total = different * (different - 1) // 2
    assert watched.stages == [("comparing", total, "pairs")]
    assert watched.done == total


def test_copies_are_one_set():
    rows = [{1, 2, 3}] * 1_000 + [{1, 2, 3, 4}] * 10
    found = similar_sets(ragged(rows), 0.5, 1)
    assert pairs(found.truth) == [(0, 1, 0.75)]
    assert found.copies.tolist() == [1_000, 10]
    assert found.similar(0.7) == 1_010 * 1_009 // 2
    assert found.similar(0.8) == 1_000 * 999 // 2 + 45
    assert len(found.of_documents().a) == 1_010 * 1_009 // 2


@pytest.mark.parametrize(
    "rows", [[{1}] * 6, [{1, 2, *range(10 * x, 10 * x + 2)} for x in range(1, 7)]]
)
def test_more_pairs_than_fit_are_refused(rows):
    with pytest.raises(ParameterError, match=r"more than 14 pairs .* smaller sample or a higher"):
        brute_force(ragged(rows), 0.1, 1, most=14)
    assert len(brute_force(ragged(rows), 0.1, 1, most=15).a) == 15


@pytest.mark.parametrize("floor", [0.0, -1.0, 1.5, float("nan")])
def test_floor_out_of_range_is_refused(floor):
    with pytest.raises(ParameterError, match="floor"):
        brute_force(ragged([{1}]), floor, 1)


@pytest.mark.parametrize("rows", [[], [set()], [{1}], [set(), set(), {1}]])
def test_empty_sets_have_no_pairs(rows):
    truth = brute_force(ragged(rows), 0.1, 2)
    assert pairs(truth) == []
    assert truth.histogram().tolist() == [0] * 100
    assert expected_seconds(ragged(rows), 0.1, 2) >= 0.0


def test_histogram_bins_begin_at_whole_hundredths():
    values = np.array([1 / 3, 29 / 100, 57 / 100, 0.5, 0.999, 1.0, 1.0])
    truth = Truth(9, 0.1, np.arange(7), np.arange(7) + 1, values)
    counts = truth.histogram()
    assert counts.shape == (100,)
    assert {at: int(counts[at]) for at in np.flatnonzero(counts).tolist()} == {
        29: 1,
        33: 1,
        50: 1,
        57: 1,
        99: 3,
    }


def test_expected_seconds_leave_out_the_time_to_load_a_kernel(monkeypatch):
    """The first call of a kernel compiled for a second: 5,000 documents "took 4 minutes"."""
    compare, waited = SetJoin.rows, []

    def compare_slowly_at_first(self, *arguments):
        if not waited:
            waited.append(True)
            time.sleep(0.25)
        return compare(self, *arguments)

    monkeypatch.setattr(SetJoin, "rows", compare_slowly_at_first)
    assert expected_seconds(ragged([{n, n + 1} for n in range(2_000)]), 0.1, 1) < 1.0
    assert waited


def test_expected_seconds_grow_with_the_work():
    chance = np.random.default_rng(2)
    rows = [set(chance.integers(0, 300, 100).tolist()) for _ in range(1_500)]
    few, many = ragged(rows[:100]), ragged(rows)
    assert 0.0 < expected_seconds(few, 0.1, 1) < expected_seconds(many, 0.1, 1)
