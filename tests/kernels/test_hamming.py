"""Blocks, their keys, and the search in sorted tables equal their slow twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from neardup.lsh.blocks import Blocks
from neardup.lsh.hamming import HammingIndex
from neardup.reference import weighted as twin
from neardup.verify import Near


@st.composite
def schemes(draw):
    bits = draw(st.sampled_from([64, 128]))
    distance = draw(st.integers(0, 5))
    return draw(st.sampled_from(Blocks.choices(bits, distance)[:6]))


@st.composite
def neighbours(draw, bits: int):
    """A few random fingerprints, and many that differ from one of them in a few bits."""
    centres = draw(st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=4))
    near = draw(
        st.lists(
            st.tuples(st.sampled_from(centres), st.lists(st.integers(0, bits - 1), max_size=7)),
            max_size=40,
        )
    )
    return [centre ^ sum({1 << bit for bit in flipped}) for centre, flipped in near]


def rows(fingerprints, bits: int) -> np.ndarray:
    low = 2**64 - 1
    words = [[one >> 64 * place & low for place in range(bits // 64)] for one in fingerprints]
    return np.array(words, np.uint64).reshape(-1, bits // 64)


@given(schemes(), st.data())
def test_keys_equal_their_twin(blocks, data):
    found = data.draw(st.lists(st.integers(0, 2**blocks.bits - 1), max_size=5))
    got = blocks.keys(rows(found, blocks.bits)).tolist()
    assert got == [
        twin.block_keys(one, blocks.bits, blocks.distance, blocks.blocks) for one in found
    ]
    assert blocks.whole_masks == twin.block_masks(blocks.bits, blocks.distance, blocks.blocks)


@given(schemes(), st.data())
def test_fingerprints_within_the_distance_share_a_key(blocks, data):
    one = data.draw(st.integers(0, 2**blocks.bits - 1))
    flipped = data.draw(st.sets(st.integers(0, blocks.bits - 1), max_size=blocks.distance))
    other = one ^ sum(1 << bit for bit in flipped)
    a, b = blocks.keys(rows([one, other], blocks.bits))
    assert (a == b).any()


@settings(deadline=None)
@given(schemes(), st.data())
def test_the_index_finds_exactly_the_fingerprints_within_the_distance(blocks, data):
    known = data.draw(neighbours(blocks.bits))
    queries = data.draw(neighbours(blocks.bits)) + known[:3]
    index = HammingIndex(blocks.bits, blocks.distance, blocks.blocks)
    index.insert_many(range(len(known)), rows(known, blocks.bits))
    found = list(zip(*(part.tolist() for part in index.query_many(queries)), strict=True))
    assert found == sorted(twin.within(queries, known, blocks.distance))


def test_a_crowded_key_is_searched():
    """Many share the key's first bits: the rest of it is found by halving."""
    rng = np.random.default_rng(3)
    known = rng.integers(0, 2**10, 3_000, dtype=np.uint64) << np.uint64(20)
    index = HammingIndex(64, 2, 6)
    index.insert_many(range(len(known)), known)
    some = known[:50].tolist()
    found = set(zip(*(part.tolist() for part in index.query_many(known[:50])), strict=True))
    assert found == twin.within(some, known.tolist(), 2)


@given(st.sampled_from([64, 128]), st.floats(0, 1), st.data())
def test_similarity_of_fingerprints(bits, threshold, data):
    found = data.draw(neighbours(bits)) or [0]
    near = Near(rows(found, bits), threshold)
    pairs = [(u, v) for v in range(len(found)) for u in range(v)]
    left, right = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    want = [1 - twin.hamming(found[u], found[v]) / bits for u, v in pairs]
    assert near.pairs(left, right).tolist() == [s if s >= threshold else -1 for s in want]
    assert near.pairs(left, right, least=0.0).tolist() == want


@given(st.sampled_from([64, 128]), st.integers(0, 6), st.data())
def test_components_of_fingerprints(bits, distance, data):
    found = data.draw(neighbours(bits)) or [0]
    best = list(range(len(found)))
    for _ in found:
        for u, v, _ in twin.within(found, found, distance):
            best[u] = best[v] = min(best[u], best[v])
    near = Near(rows(found, bits), 1 - distance / bits)
    everyone = np.arange(len(found), dtype=np.int64)
    got, _ = near.connect(everyone, np.array([0, len(found)], np.int64), len(found))
    assert got.tolist() == best
