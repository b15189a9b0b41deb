"""The exact join: both ways give what comparing every pair of sets gives, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import examples

from neardup import kernels, reference
from neardup.evaluation.truth import SetJoin, TokenSets
from neardup.text.arrays import Ragged

floors = st.one_of(
    st.floats(0.01, 1.0), st.fractions(0, 1, max_denominator=40).filter(bool).map(float)
)
small = st.sets(st.integers(0, 30), min_size=1, max_size=30)
# Many common elements, so that some are in nearly all sets, and sets of very different sizes.
wide = st.builds(
    lambda most, few: set(range(most)) | few,
    st.integers(1, 90),
    st.sets(st.integers(2**64 - 50, 2**64 - 1), max_size=40),
)
collections = st.one_of(st.lists(small, max_size=12), st.lists(wide, max_size=40))


def ragged(rows) -> Ragged:
    flat = np.array([x for row in rows for x in sorted(row)], np.uint64)
    return Ragged(flat, np.cumsum([0, *map(len, rows)]).astype(np.int64))


@pytest.mark.parametrize("way", [SetJoin.counting, SetJoin.matching, SetJoin.of])
@settings(max_examples=examples(80))
@given(collections, floors)
def test_a_join_equals_its_twin(way, rows, floor):
    different = [set(row) for row in {frozenset(row): None for row in rows}]
    sets = TokenSets.of(ragged(different), np.arange(len(different)), floor, 1)
    got = []
    for settled, (left, right, similarity) in way(sets, floor).blocks(1, most=1_000):
        assert settled >= len(left)
        pairs = zip(sets.order[left].tolist(), sets.order[right].tolist(), strict=True)
        got += [(*sorted(pair), value) for pair, value in zip(pairs, similarity, strict=True)]
    assert sorted(got) == reference.similar_pairs(different, floor)


@pytest.mark.parametrize("way", [SetJoin.counting, SetJoin.matching])
def test_the_join_stops_at_the_most_pairs_held(way):
    sets = TokenSets.of(ragged([{*range(40), 100 + x} for x in range(200)]), np.arange(200), 0.9, 1)
    found = sum(len(pairs[0]) for _, pairs in way(sets, 0.9).blocks(1, most=300))
    assert 300 < found <= 300 + 200


@given(st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=12), st.booleans())
def test_first_equal_row_equals_a_naive_search(rows, all_alike):
    flat = np.array([x for row in rows for x in row], np.uint64)
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    # Hashes that are all the same: the rows themselves decide.
    hashes = [0 if all_alike else hash(tuple(row)) % 2**64 for row in rows]
    hashed = np.array(hashes, np.uint64)
    first = kernels.first_equal(flat, offsets, hashed, np.argsort(hashed, kind="stable"))
    assert first.tolist() == [rows.index(row) for row in rows]


@given(st.lists(small, max_size=8), st.randoms(use_true_random=False))
def test_shingles_are_numbered_by_first_appearance(rows, random):
    chosen = [row for row in range(len(rows)) if random.random() < 0.7]
    sets = ragged(rows)
    numbers, counts = kernels.number_shingles(sets.data, sets.offsets, np.array(chosen, np.int64))
    shingles = [x for row in chosen for x in sorted(rows[row])]
    known = list(dict.fromkeys(shingles))
    assert [known[number] for number in numbers] == shingles
    assert counts.tolist() == [shingles.count(x) for x in known]
    ranks = kernels.rank_counts(counts)
    assert sorted(ranks.tolist()) == list(range(len(known)))
    assert sorted(counts.tolist()) == counts[np.argsort(ranks)].tolist()


def test_more_shingles_than_the_first_table_has_room_for():
    many = np.random.default_rng(1).integers(0, 2**64, 20_000, np.uint64)
    data = np.concatenate([many, many])
    offsets = np.array([0, len(many), len(data)])
    numbers, counts = kernels.number_shingles(data, offsets, np.arange(2))
    assert numbers.tolist() == 2 * list(range(len(many)))
    assert set(counts.tolist()) == {2}


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 8), st.integers(0, 60))
def test_keys_beyond_the_limit_of_a_cell_are_marked(keys, limit, cut):
    counts = np.zeros(16, np.uint8)
    parts = [np.array(part, np.uint64) for part in (keys[:cut], keys[cut:])]
    got = np.concatenate([kernels.beyond(part, counts, limit) for part in parts])
    assert got.tolist() == [keys[:at].count(key) >= limit for at, key in enumerate(keys)]
