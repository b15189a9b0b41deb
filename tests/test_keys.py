"""Keys are parsed and derived as specified, never shown, and defeat evasion of the hash."""

from __future__ import annotations

import copy
import pickle
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import neardup
from neardup import MinHash, Spec, reference
from neardup.corpus.documents import Documents
from neardup.errors import ParameterError, SpecMismatch, UsageError
from neardup.keys import Key, make_hasher, require_key, seeded
from neardup.lsh.curve import Curve
from neardup.options import Options
from neardup.reference.hashes import constants_seed, key_id
from neardup.reference.sketches import signature
from neardup.sketcher import Sketcher
from neardup.spec import HASHES
from neardup.text.lines import LineCounts

SECRET = bytes(range(16))
OTHER = bytes(16)
KEY_ID = Key(SECRET).id
TEXTS = ["one and the same text here", "One and the same text here!", "another"]

PUBLIC = Options.of()
FEW = Curve(bands=4, rows=13)
WORDS = [f"word{number}" for number in range(3_000)]
KEYS = 300

secrets = st.binary(min_size=16, max_size=16)


@given(secrets, st.integers(0, 2**64 - 1))
def test_key_id_and_seed_equal_the_reference(secret, seed):
    key = Key(secret)
    assert key.id == key_id(secret)
    spec = Spec(hash="siphash", key=key.id, seed=seed)
    assert seeded(spec, key).seed == constants_seed(spec, secret)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_key_is_read_from_hexadecimal_digits(end):
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
def test_invalid_keys_are_refused(wrong):
    with pytest.raises(ParameterError) as error:
        Key(wrong)
    assert not wrong or repr(wrong)[2:-1] not in str(error.value)


def test_key_is_never_shown_or_pickled():
    key = Key(SECRET)
    assert repr(key) == str(key) == f"Key(id='{KEY_ID}')"
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(UsageError, match="never pickled"):
            act(key)
    with pytest.raises(UsageError, match="never pickled"):
        pickle.dumps(LineCounts(Spec(hash="siphash", key=KEY_ID), 8, key))


def test_error_names_the_missing_or_wrong_key():
    spec = Spec(hash="siphash", key=KEY_ID)
    for act in (require_key, make_hasher, seeded):
        with pytest.raises(ParameterError, match=f"key {KEY_ID} is missing: give"):
            act(spec, None)
        with pytest.raises(SpecMismatch, match=f"{Key(OTHER).id} was given, {KEY_ID} is needed"):
            act(spec, Key(OTHER))
        with pytest.raises(ParameterError, match="goes with hash siphash"):
            act(Spec(), Key(SECRET))


def test_specification_contains_the_key_id_but_not_the_key():
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


def test_ignored_lines_are_stored_by_the_keyed_hash():
    pages = [f"a banner that is everywhere\ntopic {number}" for number in range(4)]
    result = neardup.dedup(pages, hash="siphash", key=SECRET, strip="lines:50%")
    assert [line.documents for line in result.ignored_lines] == [4]
    assert result.kept == [0, 1, 2, 3]


def test_siphash_without_key_or_key_without_siphash_is_refused():
    with pytest.raises(ParameterError, match="needs a key"):
        neardup.dedup(TEXTS, hash="siphash")
    with pytest.raises(ParameterError, match="goes with hash siphash"):
        neardup.dedup(TEXTS, key=SECRET)
    with pytest.raises(ParameterError, match="16 bytes"):
        neardup.dedup(TEXTS, hash="siphash", key=b"short")
    with pytest.raises(ParameterError, match="xxh64, murmur3, fnv1a, siphash"):
        neardup.dedup(TEXTS, hash="md5")


@pytest.mark.parametrize("name", HASHES)
def test_minhash_with_each_hash_equals_the_reference(name):
    key = SECRET if name == "siphash" else None
    sketch = MinHash(hash=name, key=key, seed=3)
    sketch.update("one")
    sketch.update_batch(["two", b"three"])
    elements = set(reference.unit_hashes([b"one", b"two", b"three"], sketch.spec, SECRET))
    assert sketch.slots.tolist() == signature(elements, sketch.spec, SECRET)


def test_keyed_minhash_can_be_updated_only_with_its_key():
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


def test_sketches_of_different_keys_or_hashes_are_refused():
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


def band_keys(texts: list[str]) -> np.ndarray:
    column = pa.array(texts, pa.large_string())
    documents = Documents(column, [], None, None, {})
    return Sketcher(PUBLIC.spec)(documents).keys(PUBLIC.hash_tables)


def make_evading_copy(page: list[str], chance: random.Random) -> list[str]:
    """Edit a page, as an attacker who knows all but the key, until no band is shared.

    Each step tries other words and keeps the edit after which the fewest bands are shared.
    """
    copy, target = list(page), band_keys([" ".join(page)])[0]
    shared = PUBLIC.curve.bands
    while shared:
        tries = [list(copy) for _ in range(200)]
        for one in tries:
            one[chance.randrange(len(page))] = chance.choice(WORDS)
        bands = (band_keys([" ".join(one) for one in tries]) == target).sum(axis=1)
        copy, shared = tries[int(bands.argmin())], int(bands.min())
    return copy


@pytest.fixture(scope="module")
def pair() -> tuple[str, str]:
    chance = random.Random(4)
    page = chance.choices(WORDS, k=400)
    return " ".join(page), " ".join(make_evading_copy(page, chance))


def test_copy_made_to_evade_the_public_hash_is_missed(pair):
    similarity = neardup.similarity(*pair)
    assert similarity > 0.85
    assert PUBLIC.curve.probability(similarity) > 0.99999, "chance alone would not miss it"
    assert neardup.dedup(pair).kept == [0, 1], "the copy is not seen"


def test_copy_made_to_evade_the_public_hash_is_found_with_a_key(pair):
    for number in range(20):
        assert neardup.dedup(pair, hash="siphash", key=number.to_bytes(16, "big")).kept == [0]


def test_recall_of_an_evading_copy_with_random_keys_follows_the_s_curve(pair):
    """With few bands, so that it is missed at times; up to four standard errors."""
    chance = random.Random(5)
    removed = 0
    for _ in range(KEYS):
        result = neardup.dedup(
            pair, bands=FEW.bands, rows=FEW.rows, hash="siphash", key=chance.randbytes(16)
        )
        removed += result.kept == [0]
    expected = FEW.probability(neardup.similarity(*pair))
    assert 0.3 < expected < 0.9
    error = (expected * (1 - expected) / KEYS) ** 0.5
    assert abs(removed / KEYS - expected) < 4 * error
