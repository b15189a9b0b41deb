"""Keys: what is one, what is said of it, and that it is never shown."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import neardup
from neardup import MinHash, Spec, reference
from neardup.errors import ParameterError, SpecMismatch, UsageError
from neardup.keys import Key, make_hasher, require_key, seeded
from neardup.reference.hashes import constants_seed, key_id
from neardup.reference.sketches import signature
from neardup.spec import HASHES
from neardup.text.lines import LineCounts

SECRET = bytes(range(16))
OTHER = bytes(16)
KEY_ID = Key(SECRET).id
TEXTS = ["one and the same text here", "One and the same text here!", "another"]

secrets = st.binary(min_size=16, max_size=16)


@given(secrets, st.integers(0, 2**64 - 1))
def test_what_is_derived_equals_its_twin(secret, seed):
    key = Key(secret)
    assert key.id == key_id(secret)
    spec = Spec(hash="siphash", key=key.id, seed=seed)
    assert seeded(spec, key).seed == constants_seed(spec, secret)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_key_in_hexadecimal_digits(end):
    assert Key(SECRET.hex().encode() + end).id == Key(SECRET.hex().upper().encode()).id == KEY_ID


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"short",
        SECRET + b"\n",
        SECRET * 2,
        b"g" * 32,
        b"0" * 33,
        b"0" * 32 + b"\n\n",
        "0" * 16,
    ],
)
def test_what_is_no_key(wrong):
    with pytest.raises(ParameterError) as error:
        Key(wrong)
    assert not wrong or repr(wrong)[2:-1] not in str(error.value)


def test_it_is_never_shown_or_pickled():
    key = Key(SECRET)
    assert repr(key) == str(key) == f"Key(id='{KEY_ID}')"
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(UsageError, match="never pickled"):
            act(key)
    with pytest.raises(UsageError, match="never pickled"):
        pickle.dumps(LineCounts(Spec(hash="siphash", key=KEY_ID), 8, key))


def test_a_missing_or_wrong_key_is_named():
    spec = Spec(hash="siphash", key=KEY_ID)
    for act in (require_key, make_hasher, seeded):
        with pytest.raises(ParameterError, match=f"key {KEY_ID} is missing: give"):
            act(spec, None)
        with pytest.raises(SpecMismatch, match=f"{Key(OTHER).id} was given, {KEY_ID} is needed"):
            act(spec, Key(OTHER))
        with pytest.raises(ParameterError, match="goes with hash siphash"):
            act(Spec(), Key(SECRET))


def test_specifications_hold_an_id_and_no_key():
    assert "key" not in Spec().stated
    assert Spec(hash="siphash", key=KEY_ID).stated["key"] == KEY_ID
    for wrong in (SECRET, SECRET.hex(), "xyz"):
        with pytest.raises(ParameterError) as error:
            Spec(hash="siphash", key=wrong)
        assert str(wrong) not in str(error.value)
    with pytest.raises(ParameterError, match="needs a key"):
        Spec(hash="siphash")
    with pytest.raises(ParameterError, match="goes with hash siphash"):
        Spec(key=KEY_ID)


@pytest.mark.parametrize("name", HASHES)
def test_every_hash_gives_the_same_answer(name):
    key = SECRET if name == "siphash" else None
    result = neardup.dedup(TEXTS, hash=name, key=key)
    assert result.kept == [0, 2]
    assert result.options.spec.hash == name
    for shown in (repr(result), repr(result.options), pickle.dumps(result.options).hex()):
        assert SECRET.hex() not in shown and repr(SECRET)[2:-1] not in shown


def test_ignored_lines_are_known_by_the_keyed_hash():
    pages = [f"a banner that is everywhere\ntopic {number}" for number in range(4)]
    result = neardup.dedup(pages, hash="siphash", key=SECRET, strip="lines:50%")
    assert [line.documents for line in result.ignored_lines] == [4]
    assert result.kept == [0, 1, 2, 3]


def test_the_library_refuses_half_of_it():
    with pytest.raises(ParameterError, match="needs a key"):
        neardup.dedup(TEXTS, hash="siphash")
    with pytest.raises(ParameterError, match="goes with hash siphash"):
        neardup.dedup(TEXTS, key=SECRET)
    with pytest.raises(ParameterError, match="16 bytes"):
        neardup.dedup(TEXTS, hash="siphash", key=b"short")
    with pytest.raises(ParameterError, match="xxh64, murmur3, fnv1a, siphash"):
        neardup.dedup(TEXTS, hash="md5")


@pytest.mark.parametrize("name", HASHES)
def test_minhash_equals_its_twin(name):
    key = SECRET if name == "siphash" else None
    sketch = MinHash(hash=name, key=key, seed=3)
    sketch.update("one")
    sketch.update_batch(["two", b"three"])
    elements = set(reference.unit_hashes([b"one", b"two", b"three"], sketch.spec, SECRET))
    assert sketch.slots.tolist() == signature(elements, sketch.spec, SECRET)


def test_a_keyed_minhash_is_updated_with_its_key_only():
    sketch = MinHash(hash="siphash", key=SECRET)
    sketch.update("one")
    data = sketch.to_bytes()
    for bare in (MinHash.from_bytes(data), pickle.loads(pickle.dumps(sketch))):
        assert bare == sketch and bare.jaccard(sketch) == 1.0
        bare.merge(sketch)
        for act in (bare.update, lambda element: bare.update_batch([element])):  # noqa: B023
            with pytest.raises(ParameterError, match=f"key {KEY_ID} is missing"):
                act("two")
    with pytest.raises(SpecMismatch, match=KEY_ID):
        MinHash.from_bytes(data, key=OTHER)
    again = MinHash.from_bytes(data, key=SECRET)
    twin = sketch.copy()
    for one in (again, twin, sketch):
        one.update("two")
    assert again == twin == sketch


def test_sketches_of_different_keys_or_hashes_never_meet():
    mine = MinHash(hash="siphash", key=SECRET)
    for other in (MinHash(hash="siphash", key=OTHER), MinHash(), MinHash(hash="fnv1a")):
        with pytest.raises(SpecMismatch, match=f"'{KEY_ID}'.*--key-file"):
            mine.jaccard(other)


def test_constants_depend_on_the_key():
    """The same hashes as elements: only the constants of the slots can differ."""
    hashes = np.arange(100, dtype=np.uint64)
    sketches = [MinHash(hash="siphash", key=key) for key in (SECRET, OTHER)] + [MinHash()]
    for sketch in sketches:
        sketch.update_hashes(hashes)
    assert len({tuple(sketch.slots.tolist()) for sketch in sketches}) == 3
