"""The oracle itself, against the standard library, published vectors and worked examples."""

from __future__ import annotations

import random
import sys
import unicodedata

import mmh3
import pytest
import siphash24
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import texts

from neardup import reference
from neardup.reference.hashes import element_hash, fnv1a, murmur3, siphash
from neardup.reference.text import normal_form
from neardup.spec import Spec
from neardup.text.characters import nfc, unassigned, unify


@given(st.binary(max_size=200), st.integers(0, 2**64 - 1))
def test_xxh64_equals_the_library(data, seed):
    assert reference.xxh64(data, seed) == xxhash.xxh64_intdigest(data, seed)


def test_xxh64_published_vectors():
    assert reference.xxh64(b"") == 0xEF46DB3751D8E999
    assert reference.xxh64(b"Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1


@given(st.binary(max_size=100), st.integers(0, 2**32 - 1))
def test_murmur3_equals_the_library(data, seed):
    assert murmur3(data, seed) == mmh3.hash64(data, seed, x64arch=True, signed=False)


@pytest.mark.parametrize(
    ("data", "published"),
    [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)],
)
def test_fnv1a_published_vectors(data, published):
    assert fnv1a(data) == published


@given(st.binary(max_size=100), st.binary(min_size=16, max_size=16))
def test_siphash_equals_the_library(data, key):
    digest = siphash24.siphash24(data, key=key).digest()
    assert siphash(data, key) == int.from_bytes(digest, "little")


def test_siphash_published_vectors():
    key = bytes(range(16))
    assert siphash(b"", key) == 0x726FDB47DD0E0E31
    assert siphash(bytes(range(15)), key) == 0xA129CA6149BE45E5
    assert siphash(bytes(range(63)), key) == 0x958A324CEB064572


def test_an_element_is_hashed_as_the_specification_says():
    assert element_hash(b"a", Spec()) == reference.xxh64(b"a")
    assert element_hash(b"a", Spec(hash="murmur3", seed=7)) == murmur3(b"a", 7)[0]
    assert element_hash(b"a", Spec(hash="fnv1a")) == 0xAF63DC4C8601EC8C
    keyed = Spec(hash="siphash", key="0" * 16)
    assert element_hash(b"", keyed, bytes(range(16))) == 0x726FDB47DD0E0E31


def known(text: str) -> bool:
    """Whether the running Python must agree: it may know more characters than the tables."""
    return not unassigned().search(text)


@given(texts)
def test_normal_forms_equal_the_standard_library(text):
    if known(text):
        got = "".join(map(chr, reference.normalise(text, "conservative")))
        assert got == unicodedata.normalize("NFC", text)


def test_normal_forms_of_marks_in_every_order():
    rng = random.Random(1)
    codes = [c for c in range(sys.maxunicode + 1) if unicodedata.combining(chr(c))]
    codes += [c for c in range(0x3000) if unicodedata.decomposition(chr(c))]
    codes += [*range(0x1100, 0x1200), *range(0xAC00, 0xAC40)]
    for _ in range(5_000):
        text = "".join(chr(rng.choice(codes)) for _ in range(rng.randint(1, 7)))
        if known(text):
            got = "".join(map(chr, reference.normalise(text, "conservative")))
            assert got == unicodedata.normalize("NFC", text), ascii(text)
            everything = reference.decomposed([ord(c) for c in text], compatible=True)
            assert "".join(map(chr, everything)) == unicodedata.normalize("NFKD", text)


@given(texts)
def test_the_fast_normal_forms_equal_the_slow_ones(text):
    assert nfc(text) == "".join(map(chr, reference.normalise(text, "conservative")))
    for profile in ("aggressive", "look-alikes"):
        fast = [*map(ord, unify(text, profile))]
        assert fast == normal_form(text, profile)


def test_marks_that_meet_when_an_accent_between_them_is_removed_are_sorted():
    text = "k\u094d\u20dd\u093c"  # virama, enclosing circle, nukta
    assert unify(text, "aggressive") == "k\u093c\u094d"
    assert normal_form(text, "aggressive") == [0x6B, 0x93C, 0x94D]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat sat", ["the", "cat", "sat"]),
        ("don't stop_now 3.14", ["don", "t", "stop_now", "3", "14"]),
        ("so\u00adft na\u00efve e\u0301tude", ["soft", "na\u00efve", "\u00e9tude"]),
        ("Straße ΣΟΦΟΣ İstanbul", ["straße", "σοφοσ", "istanbul"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("العَرَبِيَّة", ["العَرَبِيَّة"]),
        ("東京 2020年", ["東", "京", "2020", "年"]),
        ("กำลังดี", ["ก", "ำ", "ลั", "ง", "ดี"]),
        ("ok👍🏽ok", ["ok", "ok"]),
        ("👍🏽 !!", ["👍🏽 !!"]),
        ("\u0301a", ["a"]),
    ],
)
def test_words_of_every_script(text, words):
    assert [unit.decode() for unit in reference.units(text, Spec())] == words


def test_profiles_normalise_as_documented():
    def first(text: str, profile: str) -> str:
        return reference.units(text, Spec(profile=profile))[0].decode()

    assert first("Café", "conservative") == "Café"
    assert first("Café", "standard") == "café"
    assert first("Café", "aggressive") == "cafe"
    assert first("ﬁnd", "aggressive") == "find"
    assert first("x１９٣", "aggressive") == "x000"
    assert first("हिन्दी", "aggressive") == "हिन्दी", "vowel signs are letters, not accents"
    assert first("Cafe\u0301", "plain") == "café"


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("free\u200bmoney", "freemoney"),  # zero-width space
        ("fr\u200cee\u00admo\ufeffney", "freemoney"),  # dropped by every profile
        ("\u202efree\u202c\u2066money\u2069\u200e", "freemoney"),  # marks of the direction
        ("مُحَمَّد", "محمد"),  # harakat and shadda
        ("الرحـــمن", "الرحمن"),  # tatweel
        ("أحمد", "أحمد"),  # a letter with hamza is another letter
        ("ا\u0654حمد", "أحمد"),
        ("שָׁלוֹם", "שלום"),  # Hebrew points
        ("हिन्दी", "हिन्दी"),
        ("1２3", "1２3"),
    ],
)
def test_profile_plain_drops_what_is_not_seen_and_vowel_marks(written, plain):
    units = reference.units(written, Spec(profile="plain"))
    assert [unit.decode() for unit in units] == [plain]


def test_profile_plain_differs_from_standard_in_nothing_else():
    text = "The Café, naïve — 東京 2020年 กำลังดี हिन्दी ﬁn"
    assert reference.units(text, Spec(profile="plain")) == reference.units(text, Spec())


def test_units_are_characters_lines_or_the_whole_text():
    assert reference.units(" A  b ", Spec.of("char:2")) == [b"a", b" ", b"b"]
    assert reference.units("A b\n\n c\r\nd ", Spec.of("line:1")) == [b"a b", b"c", b"d"]
    for nothing in ("", " \n\u200b\u3000", "\u00ad\ufeff"):
        assert reference.units(nothing, Spec()) == []


def test_the_worked_example_of_minhash():
    a = reference.shingles(reference.unit_hashes([b"the", b"cat", b"sat"], Spec()), 2)
    b = reference.shingles(reference.unit_hashes([b"the", b"cat", b"lay"], Spec()), 2)
    assert (len(a & b), len(a | b)) == (1, 3)
    assert reference.jaccard(a, b) == 1 / 3
    # Sig(A) = [1, 1] and Sig(B) = [3, 1] agree in one slot of two.
    assert reference.estimate([1, 1], [3, 1]) == 0.5


def test_short_texts_are_one_shingle_each():
    assert len(reference.shingles([1, 2], 5)) == 1
    assert reference.shingles([1, 2], 5) != reference.shingles([2, 1], 5)
    assert reference.shingles([0, 1], 5) != reference.shingles([1], 5), "the length counts"
