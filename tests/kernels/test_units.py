"""Texts to unit hashes: the kernels equal their slow twin, character for character."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import specs, texts

from neardup import kernels, reference
from neardup.reference.text import DROPPED
from neardup.spec import Spec
from neardup.text.shingle import hash_units, shingle_documents


def rows(ragged) -> list[list[int]]:
    return [
        ragged.data[begin:end].tolist()
        for begin, end in zip(ragged.offsets[:-1], ragged.offsets[1:], strict=True)
    ]


LONG_TEXT = "the last bytes of the data are read one by one, all others in blocks of 64; "
"""Texts before it are read in blocks."""


@given(
    st.lists(texts, max_size=6),
    specs,
    st.sampled_from([0, 1, 2**64 - 1]),
    st.sampled_from([[], [LONG_TEXT]]),
)
def test_units_equal_their_twin(found, shape, seed, last):
    spec, found = Spec.of(shape[0], profile=shape[1], seed=seed), found + last
    got = rows(hash_units(pa.array(found, pa.large_string()), spec))
    assert got == [reference.unit_hashes(reference.units(text, spec), spec) for text in found]


@pytest.mark.parametrize("hasher", ["xxh64", "murmur3"])
def test_words_of_many_short_texts_and_of_texts_without_words(hasher):
    spec = Spec(hash=hasher)
    some = [
        "a",
        "one two",
        "",
        "?!",
        " ",
        "三つ",
        "naïve café x",
        "w" * 15 + " " + "w" * 16,
        LONG_TEXT,
    ]
    found = [*some * 100, "word " * 2000, *some]
    got = rows(hash_units(pa.array(found, pa.large_string()), spec))
    want = {text: reference.unit_hashes(reference.units(text, spec), spec) for text in set(found)}
    assert got == [want[text] for text in found]


@given(st.lists(texts, max_size=5), specs)
def test_shingles_and_content_equal_their_twins(found, shape):
    spec = Spec.of(shape[0], profile=shape[1])
    cut = shingle_documents(pa.array(found, pa.large_string()), spec)
    hashes = [reference.unit_hashes(reference.units(text, spec), spec) for text in found]
    assert [set(row) for row in rows(cut.shingles)] == [
        reference.shingles(one, spec.size) for one in hashes
    ]
    assert [tuple(row) for row in cut.content.tolist()] == [
        reference.content_hash(one) for one in hashes
    ]


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9), max_size=5))
def test_tokens_equal_their_twin(lists):
    spec = Spec.of("token:3")
    got = rows(hash_units(pa.array(lists, pa.large_list(pa.int64())), spec))
    assert got == [reference.unit_hashes(reference.token_units(one), spec) for one in lists]


def test_every_character_alone_and_after_a_letter():
    codes = [c for c in range(0x30000) if not 0xD800 <= c <= 0xDFFF]
    codes += [0x323AF, 0x323B0, 0xE0001, 0xE0100, 0x10FFFD]
    for profile in ("standard", "plain", "aggressive", "look-alikes"):
        spec = Spec(profile=profile)
        found = ["a" + chr(c) + "b" for c in codes]
        got = hash_units(pa.array(found, pa.large_string()), spec)
        counts = got.sizes.tolist()
        sample = range(0, len(codes), 7) if profile == "standard" else range(0, len(codes), 23)
        for i in sample:
            assert counts[i] == len(reference.units(found[i], spec)), hex(codes[i])


@pytest.mark.parametrize("profile", DROPPED)
def test_every_character_that_a_profile_drops_is_dropped_by_both(profile):
    dropped = [chr(c) for a, b in DROPPED[profile] for c in range(a, b + 1)]
    found = [
        form for c in dropped for form in (f"a{c}b", f"{c}a b{c}{c}", f"{c}", f"e{c}\u0301 1{c}2")
    ]
    texts = pa.array(found, pa.large_string())
    for shingle in ("word:1", "char:1", "line:1"):
        spec = Spec.of(shingle, profile=profile)
        got = rows(hash_units(texts, spec))
        assert got == [reference.unit_hashes(reference.units(text, spec), spec) for text in found]
    assert rows(hash_units(texts.slice(0, 1), Spec(profile=profile))) == [
        [xxhash.xxh64_intdigest(b"ab")]
    ]


@pytest.mark.parametrize("length", [*range(70), 127, 128, 129, 1000])
def test_words_of_every_length_at_every_place(length):
    word = "x" * length
    spec = Spec()
    found = [" " * shift + word + " y" for shift in range(9)]
    got = rows(hash_units(pa.array(found, pa.large_string()), spec))
    want = [xxhash.xxh64_intdigest(w) for w in ([word.encode()] if length else []) + [b"y"]]
    assert got == [want] * 9


@given(st.lists(st.binary(max_size=100)), st.integers(0, 2**64 - 1))
def test_xxh64_equals_the_library(found, seed):
    column = pa.array(found, pa.large_binary())
    data = column.buffers()[2]
    got = kernels.hash_rows(
        np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8),
        np.cumsum([0, *map(len, found)]),
        np.uint64(seed),
    )
    assert got.tolist() == [xxhash.xxh64_intdigest(one, seed) for one in found]


def test_slices_and_nulls_of_arrow_columns():
    column = pa.array(["zero", "one two", None, "three"], pa.large_string())[1:]
    assert hash_units(column, Spec()).sizes.tolist() == [2, 0, 1]
    lists = pa.array([[9], [1, 2], None, [3]], pa.large_list(pa.int64()))[1:]
    assert hash_units(lists, Spec.of("token:1")).sizes.tolist() == [2, 0, 1]
    assert len(hash_units(pa.array([], pa.large_string()), Spec())) == 0


@given(st.lists(st.text("e\u0301 a\u0323\u0301ộ", max_size=60), max_size=4), specs)
def test_texts_with_many_stretches_to_normalise(found, shape):
    spec = Spec.of(shape[0], profile=shape[1])
    got = rows(hash_units(pa.array(found, pa.large_string()), spec))
    assert got == [reference.unit_hashes(reference.units(text, spec), spec) for text in found]
