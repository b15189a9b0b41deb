"""Similarity of pairs: the kernels equal set arithmetic, at the threshold to the last bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neardup import reference
from neardup.verify import Estimated, Exact

sets = st.sets(st.integers(0, 40), min_size=1, max_size=40)
thresholds = st.one_of(
    st.floats(0.01, 1.0), st.fractions(0, 1, max_denominator=40).filter(bool).map(float)
)


def exact(rows, threshold) -> Exact:
    flat = np.array([x for row in rows for x in sorted(row)], np.uint64)
    return Exact(flat, np.cumsum([0, *map(len, rows)]).astype(np.int64), threshold)


def every_pair(count):
    left, right = np.triu_indices(count, 1)
    return left.astype(np.int64), right.astype(np.int64)


@given(st.lists(sets, min_size=2, max_size=6), thresholds)
def test_exact_pairs_equal_jaccard(rows, threshold):
    left, right = every_pair(len(rows))
    got = exact(rows, threshold).pairs(left, right).tolist()
    for u, v, similarity in zip(left.tolist(), right.tolist(), got, strict=True):
        truth = reference.jaccard(rows[u], rows[v])
        assert similarity == (truth if truth >= threshold else -1.0)


@given(
    st.lists(st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=40), min_size=1, max_size=4),
    st.sets(st.integers(0, 2**64 - 1), max_size=60),
    thresholds,
)
def test_pruning_by_parities_changes_no_similarity(own, shared, threshold):
    rows = [*(row | shared for row in own), *own]
    left, right = every_pair(len(rows))
    comparison = exact(rows, threshold)
    pruned = comparison.for_many_pairs()
    assert pruned is not comparison
    for least in (None, 0.0, 0.5):
        want = comparison.pairs(left, right, least)
        assert pruned.pairs(left, right, least).tolist() == want.tolist()


def test_parities_rule_out_nothing_that_is_identical_or_nearly():
    rows = [set(range(0, 2**64, 2**64 // 900)) - {number << 54} for number in range(40)]
    left, right = every_pair(len(rows))
    assert (exact(rows, 0.9).for_many_pairs().pairs(left, right) > 0.99).all()


@given(st.integers(1, 100), thresholds, st.randoms(use_true_random=False))
def test_slot_pairs_equal_the_share_of_equal_slots(slots, threshold, random):
    rows = [[random.randint(0, 1) for _ in range(slots)] for _ in range(4)]
    verifier = Estimated(np.array(rows, np.uint32), threshold)
    left, right = every_pair(len(rows))
    got = verifier.pairs(left, right).tolist()
    for u, v, similarity in zip(left.tolist(), right.tolist(), got, strict=True):
        truth = reference.estimate(rows[u], rows[v])
        assert similarity == (truth if truth >= threshold else -1.0)


def test_long_sets_with_a_late_difference():
    long = set(range(0, 20_000, 2))
    rows = [long, long | {1}, long | set(range(1, 5_000, 2))]
    left, right = every_pair(3)
    assert exact(rows, 0.9).pairs(left, right).tolist() == [10_000 / 10_001, -1.0, -1.0]
