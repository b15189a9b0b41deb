"""Pairs are drawn with known chances, reproducibly, and any beginning of a queue is a sample."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.evaluation import pair_drawing
from neardup.evaluation.drawn_pairs import RANDOM
from neardup.evaluation.pair_drawing import (
    PairSpace,
    SearchedPairs,
    Stratum,
    draw_strata,
    queue,
    share_out,
)


def similar_pairs(documents: int = 60, seed: int = 0) -> SearchedPairs:
    """A tenth of all pairs are 0.3 similar or more; clusters of three, mostly of similar ones."""
    chance = np.random.default_rng(seed)
    every = np.array(list(combinations(range(documents), 2)))
    rows = np.sort(chance.choice(len(every), len(every) // 10, replace=False))
    cluster = np.where(np.arange(documents) < 30, np.arange(documents) // 3, -1)
    a, b = every[rows].T
    found = (cluster[a] >= 0) & (cluster[a] == cluster[b])
    similarity = chance.uniform(0.3, 1, len(a))
    group = np.arange(documents)
    return SearchedPairs(documents, a, b, similarity, 0.3, found, cluster, group)


def ones(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.ones(len(a))


@pytest.mark.parametrize("threshold", [1.0, 0.31])
def test_pairs_are_in_one_stratum_at_any_threshold(threshold: float) -> None:
    pairs = similar_pairs()
    pairs.similarity[:5] = 1.0
    strata = list(draw_strata(pairs, threshold, ones, 1))
    assert sum(map(len, strata)) == 60 * 59 // 2


@pytest.mark.parametrize("listed", [1 << 22, 10])
def test_strata_have_all_pairs_once(listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where pairs are drawn because there are too many to be listed."""
    monkeypatch.setattr(pair_drawing, "LISTED", listed)
    pairs = similar_pairs()
    strata = list(draw_strata(pairs, 0.8, ones, 1))
    every = [pair for one in strata for pair in zip(one.a.tolist(), one.b.tolist(), strict=True)]
    assert sorted(every) == list(combinations(range(60), 2))
    assert sum(one.size for one in strata) == 60 * 59 / 2
    for one in strata:
        assert one.size == len(one)
        together = (pairs.cluster[one.a] == pairs.cluster[one.b]) & (pairs.cluster[one.a] >= 0)
        assert (together == one.found).all()
    names = [one.name for one in strata]
    assert names[-2:] == ["found below 0.30", RANDOM]
    assert "found 0.90 to 1.00" in names
    assert "missed 0.68 to 0.80" in names


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_numbers_of_a_space_are_its_pairs(sizes: list[int]) -> None:
    space = PairSpace(np.arange(sum(sizes)), np.array(sizes))
    a, b = space.pair(np.arange(len(space)))
    group = np.repeat(np.arange(len(sizes)), sizes)
    every = combinations(range(sum(sizes)), 2)
    want = {(x, y) for x, y in every if group[x] == group[y]}
    assert set(zip(a.tolist(), b.tolist(), strict=True)) == want
    assert len(a) == len(want)


def test_numbers_of_a_large_space_are_pairs() -> None:
    space = PairSpace(np.arange(100_000), np.array([100_000]))
    ends = np.cumsum(np.arange(100_000))
    a, b = space.pair(np.array([0, *ends[90_000:90_003] - 1, *ends[90_000:90_003], len(space) - 1]))
    assert list(zip(a, b, strict=True)) == [
        (0, 1),
        *((n - 1, n) for n in range(90_000, 90_003)),
        *((0, n) for n in range(90_001, 90_004)),
        (99_998, 99_999),
    ]


def test_a_seed_draws_the_same_and_another_seed_other_pairs() -> None:
    def drawn(seed: int) -> list[tuple[str, list[int]]]:
        strata = list(draw_strata(similar_pairs(), 0.8, ones, seed))
        return [(strata[s].name, [int(strata[s].a[n])]) for s, n in queue(strata, 50, seed)]

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_longer_queue_begins_as_a_shorter_one() -> None:
    strata = list(draw_strata(similar_pairs(), 0.8, ones, 1))
    longest = queue(strata, 10_000, 1)
    assert len(longest) == len(set(longest)) == 60 * 59 // 2
    for count in (1, 7, 20, 133):
        assert queue(strata, count, 1) == longest[:count]


def test_pairs_of_a_stratum_are_equally_likely() -> None:
    """Of 100 pairs 20 are drawn, 2,000 times: each 400 times, give or take 18."""
    rows = np.arange(100)
    times = Counter[int]()
    for seed in range(2_000):
        order = pair_drawing._order(np.ones(100), np.random.default_rng(seed))
        times.update(rows[order][:20].tolist())
    assert min(times.values()) > 400 - 90
    assert max(times.values()) < 400 + 90


def test_pairs_that_stand_for_more_come_sooner_in_proportion() -> None:
    """Of 1,000 pairs half stand for three: they are three quarters of the first fifty."""
    weights = np.repeat([1.0, 3.0], 500)
    first = [
        pair_drawing._order(weights, np.random.default_rng(seed))[:50] >= 500 for seed in range(200)
    ]
    assert np.mean(first) == pytest.approx(0.75, abs=0.02)


def some(size: float, rate: float, found: bool, name: str = "some") -> Stratum:
    pairs = np.arange(min(int(size), 500))
    return Stratum(name, size, pairs, pairs, rate, found)


def test_labels_go_where_answers_are_open() -> None:
    strata = [
        some(1_000, 0.5, True),
        some(1_000, 0.97, True),
        some(10, 0.9, False),
        some(5_000, 0.05, False),
        some(1e9, 0.0, False, RANDOM),
    ]
    shares = share_out(strata)
    assert shares.sum() == pytest.approx(1)
    assert shares[0] > shares[1] > 0.02
    assert shares[3] > shares[2] > 0.02
    assert shares[4] == pytest.approx(0.05)
    taken = Counter(stratum for stratum, _ in queue(strata, 200, 3))
    assert [taken[n] / 200 for n in (0, 1, 3, 4)] == pytest.approx(shares[[0, 1, 3, 4]], abs=0.03)
    assert 5 < taken[2] <= 10


@pytest.mark.parametrize("strata", [[some(1e6, 0.0, False, RANDOM)], [some(3, 0.5, True)]])
def test_few_strata_are_no_error(strata: list[Stratum]) -> None:
    assert len(queue(strata, 40, 0)) == min(sum(map(len, strata)), 40)
