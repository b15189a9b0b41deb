"""Weighted similarity of pairs: the kernels equal plain arithmetic, to the last bit."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neardup.reference.weighted import weighted_jaccard
from neardup.verify import Weighed

bags = st.lists(st.integers(0, 20), min_size=1, max_size=60).map(Counter)
weights_of = st.lists(st.integers(1, 2**20), min_size=21, max_size=21)
thresholds = st.one_of(
    st.floats(0.01, 1.0), st.fractions(0, 1, max_denominator=40).filter(bool).map(float)
)


def verifier(rows, weights, threshold) -> Weighed:
    flat = np.array([x for row in rows for x in sorted(row.elements())], np.uint64)
    ends = np.cumsum([0, *(row.total() for row in rows)]).astype(np.int64)
    return Weighed.of(flat, ends, np.array(weights, np.uint32)[flat], threshold)


def truth(a, b, weights):
    return weighted_jaccard(*({x: n * weights[x] for x, n in bag.items()} for bag in (a, b)))


@given(st.lists(bags, min_size=2, max_size=5), weights_of, thresholds)
def test_bag_pairs_equal_weighted_jaccard(rows, weights, threshold):
    left, right = (side.astype(np.int64) for side in np.triu_indices(len(rows), 1))
    got = verifier(rows, weights, threshold).pairs(left, right).tolist()
    for u, v, similarity in zip(left.tolist(), right.tolist(), got, strict=True):
        want = truth(rows[u], rows[v], weights)
        assert similarity == (want if want >= threshold else -1.0)


@given(st.lists(bags, min_size=2, max_size=6), weights_of, thresholds)
def test_bags_are_kept_and_connected_by_the_same_similarity(rows, weights, threshold):
    judge, count = verifier(rows, weights, threshold), len(rows)
    witness, similar, _, _ = judge.keep(np.zeros((count, 1), np.int64), np.array([0, count]))
    kept: list[int] = []
    parent = list(range(count))
    for v in range(count):
        near = [u for u in kept if truth(rows[u], rows[v], weights) >= threshold]
        assert witness[v] == (near[0] if near else -1)
        assert similar[v] == (truth(rows[near[0]], rows[v], weights) if near else 1.0)
        kept += [] if near else [v]
        for u in range(v):
            if truth(rows[u], rows[v], weights) >= threshold:
                low, high = sorted((parent[u], parent[v]))
                parent = [low if root == high else root for root in parent]
    members, starts = np.arange(count), np.array([0, count])
    assert judge.connect(members, starts, count)[0].tolist() == parent
