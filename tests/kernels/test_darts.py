"""Weighted shingles to slots: the darts equal their slow twin."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neardup import kernels
from neardup.reference.hashes import xxh64
from neardup.reference.weighted import gap, weighted_signature

hashes = st.integers(0, 2**64 - 1)
# Light, usual and heavy ones; lighter ones cost the twin too many darts that they don't own.
weights = st.one_of(
    st.integers(0, 9).map(lambda w: w << 9),
    st.sampled_from([2**16, 3 * 2**16]),
    st.integers(2**9, 2**20),
    st.integers(2**9, 2**48),
)
bags = st.lists(st.tuples(st.one_of(hashes, st.integers(0, 5)), weights), max_size=20)


def thrown(documents, slots, seed):
    pairs = [pair for document in documents for pair in document]
    offsets = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    return kernels.throw_darts(
        np.array([x for x, _ in pairs], np.uint64),
        np.array([w for _, w in pairs], np.uint64),
        offsets,
        slots,
        np.uint64(xxh64(b"darts", seed)),
    ).tolist()


def summed(document):
    total = {}
    for x, weight in document:
        total[x] = total.get(x, 0) + weight
    return total


@given(st.lists(bags, max_size=3), st.integers(1, 40), hashes)
def test_darts_equal_their_twin(documents, slots, seed):
    got = thrown(documents, slots, seed)
    assert got == [weighted_signature(summed(document), slots, seed) for document in documents]


def test_darts_have_pinned_values():
    """The same on every machine: additions, products and divisions alone."""
    assert thrown([[(1, 2**16), (2, 3 * 2**16)]], 4, 0) == [
        [941716674, 942418250, 934960898, 909951891]
    ]
    assert thrown([[]], 2, 0) == [[0x7F800000] * 2]


def test_the_lightest_weights_equal_their_twin():
    for weight in (1, 2, 5, 4_095, 4_096, 4_097):
        bag = {7: weight, 8: 1}
        assert thrown([list(bag.items())], 3, 0) == [weighted_signature(bag, 3, 0)]


@given(hashes)
def test_gaps_are_exponential(h):
    share = (2**53 - (h >> 11)) / 2**53
    assert math.isclose(gap(h), -math.log(share), rel_tol=1e-8, abs_tol=1e-30)
