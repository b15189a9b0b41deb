"""The element hashes as kernels: equal to their twins, in every place that hashes a unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import specs, texts

from neardup import kernels, reference
from neardup.keys import Key, make_hasher
from neardup.reference.hashes import element_hash, murmur3
from neardup.spec import HASHES, Spec
from neardup.text.lines import hash_lines, ignore_lines
from neardup.text.shingle import hash_units

SECRET = bytes(range(16))
KEY = Key(SECRET)
hashes = st.sampled_from(HASHES)
seeds = st.integers(0, 2**64 - 1)


def spec_of(name: str, seed: int = 0) -> Spec:
    return Spec(hash=name, seed=seed, key=KEY.id if name == "siphash" else "")


def key_for(spec: Spec) -> Key | None:
    return KEY if spec.hash == "siphash" else None


@given(st.lists(st.binary(max_size=70), max_size=8), hashes, seeds)
def test_rows_equal_their_twins(rows, name, seed):
    spec = spec_of(name, seed)
    ends = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    data = np.frombuffer(b"".join(rows), np.uint8)
    got = kernels.element_hashes(data, ends, make_hasher(spec, key_for(spec)))
    assert got.tolist() == [element_hash(row, spec, SECRET) for row in rows]


@given(st.binary(max_size=70), seeds)
def test_both_halves_of_murmur3_equal_their_twin(data, seed):
    from neardup.kernels import hashing

    array = np.frombuffer(data, np.uint8)
    assert hashing.murmur3(array, 0, len(data), np.uint64(seed)) == murmur3(data, seed)


@given(st.lists(texts, max_size=4), specs, hashes, seeds)
def test_units_equal_their_twins(found, shape, name, seed):
    unit, size = shape[0].split(":")
    spec = replace(spec_of(name, seed), unit=unit, size=int(size), profile=shape[1])
    got = hash_units(pa.array(found, pa.large_string()), spec, key_for(spec))
    rows = [got.data[got.offsets[i] : got.offsets[i + 1]].tolist() for i in range(len(got))]
    assert rows == [
        reference.unit_hashes(reference.units(text, spec), spec, SECRET) for text in found
    ]


@pytest.mark.parametrize("name", HASHES)
def test_tokens_equal_their_twin(name):
    spec = replace(spec_of(name), unit="token", size=1)
    tokens = [0, -1, 2**63 - 1, -(2**63)]
    got = hash_units(pa.array([tokens], pa.large_list(pa.int64())), spec, key_for(spec))
    twin = reference.unit_hashes(reference.token_units(tokens), spec, SECRET)
    assert got.data.tolist() == twin


@pytest.mark.parametrize("name", HASHES)
def test_lines_are_ignored_by_the_same_hash(name):
    spec = spec_of(name)
    column = pa.array(["a banner line\nsome text", "other text"], pa.large_string())
    banner = reference.line_hash("A banner  line", spec, SECRET)
    assert hash_lines(column, spec, key_for(spec)).data[0] == banner
    got = ignore_lines(column, np.array([banner], np.uint64), spec, key_for(spec))
    assert got.to_pylist() == ["\nsome text", "other text"]
