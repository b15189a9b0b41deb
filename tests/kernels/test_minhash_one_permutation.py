"""One-permutation MinHash and 64-bit slots: the kernels equal their slow twins."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from neardup import reference
from neardup.reference import sketches as twin
from neardup.sketch import minhash
from neardup.sketch.minhash import PRIME, minhash_signatures, wide_permutations
from neardup.spec import Spec

hashes = st.integers(0, 2**64 - 1)
corner = st.sampled_from([0, 1, PRIME - 1, PRIME, PRIME + 1, 2 * PRIME, 2**63, 2**64 - 1])
documents = st.lists(st.lists(hashes, max_size=30), max_size=3)


def flat(rows):
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return np.array([x for row in rows for x in row], np.uint64), offsets


@given(documents, st.one_of(st.integers(1, 70), st.just(600)), hashes)
@example([[7]], 1, 0)
@example([[7], [], [7, 8]], 600, 0)
def test_slots_equal_their_twin(rows, slots, seed):
    spec = Spec.of(sketch="oneperm", slots=slots, seed=seed)
    shingles, offsets = flat(rows)
    bins = [twin.bins(row, slots, seed) for row in rows]
    opened, empty = minhash.oneperm_signatures(shingles, offsets, spec, fill=False)
    assert opened.tolist() == bins
    filled = [twin.fill_slots(found) for found in bins]
    assert minhash.fill_slots(opened).tolist() == filled
    at_once, too = minhash.oneperm_signatures(shingles, offsets, spec)
    assert at_once.tolist() == filled
    assert empty.tolist() == too.tolist() == [row.count(2**32 - 1) for row in bins]


def test_many_shingles_fall_in_several_chunks():
    rng = np.random.default_rng(5)
    row = rng.integers(0, 2**64, 2500, dtype=np.uint64)
    spec = Spec.of(sketch="oneperm", slots=300)
    got, _ = minhash.oneperm_signatures(row, np.array([0, 2500]), spec, fill=False)
    assert got[0].tolist() == twin.bins(row.tolist(), 300, 0)


@given(st.lists(st.lists(st.one_of(hashes, corner), max_size=9), max_size=3), hashes)
def test_slots_modulo_a_prime_equal_their_twin(rows, seed):
    spec = Spec.of(family="affine-m61", slots=13, seed=seed)
    got = minhash_signatures(*flat(rows), spec)
    assert got.dtype == np.uint64
    assert got.tolist() == [reference.signature(set(row), spec) for row in rows]


@given(st.one_of(hashes, corner), st.integers(0, PRIME - 1), st.integers(0, PRIME - 1))
@example(2**64 - 1, PRIME - 1, PRIME - 1)
@example(PRIME - 1, PRIME - 1, PRIME - 1)
def test_no_product_overflows(x, a, b):
    from neardup import kernels

    constants = np.array([a], np.uint64), np.array([b], np.uint64)
    got = kernels.minhash_m61(np.array([x], np.uint64), np.array([0, 1]), *constants)
    assert got.tolist() == [[(a * x + b) % PRIME]]


def test_wide_constants_come_from_the_seed_alone():
    a, b = wide_permutations(5, 7)
    assert list(zip(a.tolist(), b.tolist(), strict=True)) == [
        reference.wide_permutation(slot, 7) for slot in range(5)
    ]
