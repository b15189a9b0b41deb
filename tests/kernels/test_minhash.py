"""Shingles to slots to band keys: the kernels equal their slow twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neardup import reference
from neardup.lsh.bands import Bands
from neardup.lsh.buckets import group_by_key
from neardup.lsh.curve import Curve
from neardup.sketch.minhash import minhash_signatures, permutations
from neardup.spec import Spec

hashes = st.integers(0, 2**64 - 1)


@given(st.lists(st.lists(hashes, max_size=30), max_size=4), st.integers(1, 70), hashes)
def test_minhash_equals_its_twin(rows, slots, seed):
    spec = Spec(slots=slots, seed=seed)
    flat = np.array([x for row in rows for x in row], np.uint64)
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    got = minhash_signatures(flat, offsets, spec).tolist()
    assert got == [reference.signature(set(row), spec) for row in rows]


@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from([0, 3, 64, 65]),
    st.randoms(use_true_random=False),
)
def test_band_keys_equal_their_twin(bands, rows, documents, random):
    slots = bands * rows + random.randint(0, 3)
    sig = [[random.getrandbits(32) for _ in range(slots)] for _ in range(documents)]
    got = (
        Bands((Curve(bands, rows),))
        .keys(np.array(sig, np.uint32).reshape(documents, slots))
        .tolist()
    )
    assert got == [reference.band_keys(row, bands, rows) for row in sig]


def test_permutations_come_from_the_seed_alone():
    a, b = permutations(5, 7)
    assert [(int(x), int(y)) for x, y in zip(a, b, strict=True)] == [
        reference.permutation(slot, 7) for slot in range(5)
    ]
    assert (permutations(3, 7)[0] == a[:3]).all(), "more slots must not change the first ones"


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), max_size=12))
def test_groups_are_the_documents_that_share_a_key(keys):
    table = np.array(keys, np.uint64).reshape(-1, 3)
    buckets = group_by_key(table)
    for place, document in enumerate(buckets.documents.tolist()):
        for band in range(3):
            mates = {d for d in range(len(keys)) if keys[d][band] == keys[document][band]}
            number = buckets.numbers[place, band]
            if len(mates) == 1:
                assert number == -1
                continue
            here = buckets.documents[buckets.numbers[:, band] == number]
            assert set(here.tolist()) == mates
            assert buckets.sizes[number] == len(mates)
            assert buckets.band_of[number] == band
            assert buckets.key_of[number] == keys[document][band]
    alone = set(range(len(keys))) - set(buckets.documents.tolist())
    for document in alone:
        assert all(sum(row[band] == keys[document][band] for row in keys) == 1 for band in range(3))
    members, starts = buckets.members()
    for number in range(len(buckets.sizes)):
        here = members[starts[number] : starts[number + 1]].tolist()
        assert here == sorted(here)
        assert len(here) == buckets.sizes[number]
