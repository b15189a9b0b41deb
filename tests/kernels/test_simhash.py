"""Shingles to fingerprints, frequencies and weights: the kernels equal their slow twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import examples

from neardup import kernels
from neardup.reference import weighted as twin
from neardup.sketch.simhash import simhash_signatures
from neardup.spec import Spec
from neardup.text.arrays import Ragged
from neardup.text.frequencies import FrequencyCounts

hashes = st.integers(0, 2**64 - 1)
few = st.sampled_from([0, 1, 2**63, 2**64 - 1, 0x5555555555555555, 0xAAAAAAAAAAAAAAAA])
documents = st.lists(st.lists(st.one_of(hashes, few), max_size=40), max_size=5)


def ragged(rows) -> Ragged:
    flat = np.array([x for row in rows for x in row], np.uint64)
    return Ragged(flat, np.cumsum([0, *map(len, rows)]).astype(np.int64))


def whole(words) -> list[int]:
    return [sum(int(word) << 64 * place for place, word in enumerate(row)) for row in words]


@given(documents, st.sampled_from([1, 2]))
def test_fingerprints_by_equal_weights_equal_their_twin(rows, places):
    shingles = ragged(rows)
    got = kernels.simhash_equal(shingles.data, shingles.offsets, places)
    assert whole(got) == [twin.simhash(row, 64 * places) for row in rows]


@pytest.mark.parametrize("size", [1_000, 5_003])
def test_counts_of_many_bits_are_carried(size):
    found = np.random.default_rng(size).integers(0, 2**64, size, dtype=np.uint64)
    found &= ~np.uint64(7)  # bits that are never set, and one that always is
    found |= np.uint64(16)
    got = kernels.simhash_equal(found, np.array([0, size]), 1)
    assert whole(got) == [twin.simhash(found.tolist())]


@given(st.lists(st.tuples(hashes, st.integers(0, 2**47)), max_size=30), st.sampled_from([1, 2]))
def test_weighted_sums_equal_their_twin(terms, places):
    elements = np.array([element for element, _ in terms], np.uint64)
    weights = np.array([weight for _, weight in terms], np.uint64)
    got = kernels.simhash_sums(elements, weights, places)
    bits = 64 * places
    want = twin.sums(((twin.words(element, bits), weight) for element, weight in terms), bits)
    total = sum(weight for _, weight in terms)
    assert [2 * having - total for having in got.tolist()] == want


@settings(max_examples=examples(10))
@given(documents, st.sampled_from([1, 2]))
def test_frequencies_and_their_weights(rows, places):
    counts = FrequencyCounts()
    shingles = ragged(rows)
    counts.add(shingles)
    found = counts.freeze()
    cells = twin.cells(rows)
    assert {int(cell): int(found.cells[cell]) for cell in np.flatnonzero(found.cells)} == cells
    assert found.documents == sum(map(bool, rows))

    def weight(element: int) -> int:
        return twin.inverse_frequency(found.documents, cells[element >> 42])

    bits = 64 * places
    spec = Spec.of(sketch="simhash", slots=bits)
    got = simhash_signatures(shingles.data, shingles.offsets, spec, found.weights)
    assert whole(got) == [
        twin.sign(twin.sums(((twin.words(x, bits), weight(x)) for x in row), bits)) for row in rows
    ]


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**40))
def test_weights_of_cells(count, documents):
    got = kernels.cell_weights(np.array([count], np.uint32), np.uint64(documents))
    assert got.tolist() == [twin.inverse_frequency(documents, count)]


@given(st.integers(1, 2**62))
def test_integer_logarithm_is_close_to_the_real_one(number):
    assert abs(twin.log2(number) / 2**16 - math.log2(number)) < 2**-15
