"""Cosines, quantised vectors, sums, signs and their keys equal their slow twins, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.signals import words_of

from neardup import kernels
from neardup.lsh.planes import Planes
from neardup.reference import vectors as twin
from neardup.sketch.hyperplane import digest_centre, directions, sign_words

DENORMAL = 2.0**-149
usual = st.floats(-2, 2, width=32)
anything = st.floats(width=32, allow_nan=False, allow_infinity=False)
trouble = st.sampled_from([0.0, -0.0, DENORMAL, -DENORMAL, 1e-38, 1e38, -3.4e38, 1.0, -7.0, 255.0])
seeds = st.integers(0, 2**64 - 1)


@st.composite
def matrices(draw, most=6):
    """Vectors of one dimension: any numbers, whole ones, copies, opposites and multiples."""
    dimension = draw(st.one_of(st.integers(1, 33), st.sampled_from([64, 100])))
    numbers = draw(st.sampled_from([usual, anything, trouble, st.integers(-128, 127).map(float)]))
    row = st.lists(numbers, min_size=dimension, max_size=dimension)
    rows = [np.array(draw(row), np.float32)]
    for _ in range(draw(st.integers(0, most - 1))):
        factor = draw(st.sampled_from([None, 1.0, -1.0, 0.5, 0.0]))
        rows.append(
            np.array(draw(row), np.float32)
            if factor is None
            else draw(st.sampled_from(rows)) * np.float32(factor)
        )
    return np.array(rows)


@given(matrices())
def test_cosines_equal_their_twin(vectors):
    rows, offsets = words_of(vectors)
    left, right = (side.ravel().astype(np.int64) for side in np.indices((len(vectors),) * 2))
    got = kernels.signal_numbers(rows, offsets, vectors.shape[1], left, right)
    lists = vectors.tolist()
    want = [twin.cosine(lists[u], lists[v]) for u, v in zip(left, right, strict=True)]
    assert got[:, 1].tobytes() == np.array(want).tobytes()
    assert (got[:, 0] == 1.0).all()


@given(matrices(most=1))
def test_cosine_of_a_vector_with_itself_is_one(vectors):
    opposites = np.concatenate([vectors, -vectors])
    rows, offsets = words_of(opposites)
    pairs = np.array([0, 0]), np.array([0, 1])
    cosines = kernels.signal_numbers(rows, offsets, vectors.shape[1], *pairs)[:, 1]
    assert cosines.tolist() == ([1.0, -1.0] if vectors.any() else [0.0, 0.0])


@given(matrices())
def test_quantised_vectors_and_their_sums_equal_their_twin(vectors):
    want = [twin.quantised(row) for row in vectors.tolist()]
    assert kernels.quantised(vectors).tolist() == want
    sums = np.zeros(vectors.shape[1], np.int64)
    assert kernels.sum_quantised(vectors, sums) == vectors.any(axis=1).sum()
    assert sums.tolist() == np.sum(want, axis=0).tolist()


@given(matrices(), st.integers(1, 70), seeds, st.data())
def test_signs_equal_their_twin(vectors, planes, seed, data):
    whole = st.one_of(st.just(0), st.integers(-(2**14), 2**14))
    size = vectors.shape[1]
    middle = data.draw(st.lists(whole, min_size=size, max_size=size))
    words = sign_words(vectors, np.array(middle, np.int16), planes, seed)
    assert words.shape == (len(vectors), -(-planes // 64))
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    assert not bits[:, planes:].any()
    want = [twin.signs(row, middle, planes, seed) for row in vectors.tolist()]
    assert bits[:, :planes].tolist() == want


@pytest.mark.parametrize("sign", [1, -1])
def test_signs_of_the_longest_sums_are_exact(sign):
    """All numbers as large as they can be, in many dimensions: no sum of products overflows."""
    size = 20_000
    along = np.array(twin.direction(0, size, 7))
    vectors = np.where(along >= 0, sign, -sign).astype(np.float32).reshape(1, -1)
    middle = np.where(along >= 0, -sign, sign) * 2**14
    words = sign_words(vectors, middle.astype(np.int16), 1, 7)
    assert words.tolist() == [[1 if sign > 0 else 0]]


@given(st.integers(1, 20), st.integers(1, 20), seeds)
def test_directions_equal_their_twin(planes, dimension, seed):
    want = [twin.direction(plane, dimension, seed) for plane in range(planes)]
    assert directions(planes, dimension, seed).tolist() == want


def test_directions_are_about_normal():
    found = directions(128, 384, 0).astype(np.float64)
    deviation = np.sqrt(8 * (256**2 - 1) / 12)
    assert abs(found.mean()) < 5 * deviation / np.sqrt(found.size)
    assert found.std() == pytest.approx(deviation, rel=5 / np.sqrt(2 * found.size))
    between = np.corrcoef(found)[np.triu_indices(128, 1)]
    assert np.abs(between).max() < 6 / np.sqrt(384)


@given(st.integers(1, 63), st.integers(1, 9), st.integers(1, 5), st.randoms(use_true_random=False))
def test_keys_of_bands_equal_their_twin(rows, bands, documents, random):
    planes = Planes(bands, rows)
    bits = [[random.randint(0, 1) for _ in range(planes.bits)] for _ in range(documents)]
    wide = np.zeros((documents, -(-planes.bits // 64) * 64), np.uint8)
    wide[:, : planes.bits] = bits
    words = np.packbits(wide, axis=1, bitorder="little").view(np.uint64)
    want = [twin.plane_keys(row, bands, rows) for row in bits]
    assert planes.keys(words).tolist() == want
    assert planes.keys(words.view(np.uint32)).tolist() == want


def test_digest_of_a_centre():
    assert digest_centre(np.zeros(8, np.int16)) == "none"
    assert digest_centre(np.arange(8, dtype=np.int16)) != digest_centre(np.ones(8, np.int16))
