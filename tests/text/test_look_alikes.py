"""Profile look-alikes: what passes for a Latin letter is that letter, and nothing else changes."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import defaultdict
from pathlib import Path
from string import ascii_lowercase

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import texts

import neardup
from neardup import reference
from neardup.reference.text import look_alikes, unicode_tables, whole
from neardup.spec import Spec
from neardup.text.shingle import hash_units

LOOK_ALIKES, AGGRESSIVE = Spec(profile="look-alikes"), Spec(profile="aggressive")
LETTERS = [chr(code) for code in look_alikes()]
BOTH_CASES = [
    chr(code) for code in range(0x110000) if unicode_tables().lower.get(code, code) in look_alikes()
]


def fold(text: str, profile: str = "look-alikes") -> str:
    return "".join(map(chr, reference.normalise(text, profile)))


def test_the_table_is_the_one_of_the_profile_for_ever():
    """Another table is another profile: sketches that are stored would no longer be comparable."""
    path = Path(neardup.__file__).parent / "text" / "look-alikes.txt"
    assert hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest() == "aaf484b6068f620a"
    assert LOOK_ALIKES.fingerprint == "d8f29d091918e283b5dd1f5b34f56971"


def test_every_letter_folds_in_both_cases_and_wherever_it_is():
    assert len(BOTH_CASES) > 500
    found = [form for c in BOTH_CASES for form in (c, f"x{c}9", f"{c} {c}\u0301{c}", f"東{c}a")]
    for shingle in ("word:1", "char:1", "line:1"):
        spec = Spec.of(shingle, profile="look-alikes")
        got = hash_units(pa.array(found, pa.large_string()), spec)
        for i, text in enumerate(found):
            want = reference.unit_hashes(reference.units(text, spec), spec)
            assert got.data[got.offsets[i] : got.offsets[i + 1]].tolist() == want, ascii(text)
    lower = unicode_tables().lower
    letters = {c: chr(look_alikes()[lower.get(ord(c), ord(c))]) for c in BOTH_CASES}
    assert {c: fold(c) for c in BOTH_CASES} == letters
    assert set(letters.values()) == set(ascii_lowercase)


def test_no_letter_is_in_the_table_for_nothing():
    """Each is left by the folding of accents and compatibility forms, and is in lower case."""
    assert [c for c in LETTERS if fold(c, "aggressive") != c] == []
    assert not set(LETTERS) & set(map(chr, range(128)))


def test_words_of_one_script_stay_as_different_as_they_are_by_aggressive():
    seen = defaultdict(list)
    for c in LETTERS:
        script = unicodedata.name(c).split()[0]
        if script not in ("LATIN", "NEGATIVE"):
            seen[script, fold(c)].append(c)
    assert [found for found in seen.values() if len(found) > 1] == []
    assert {script for script, _ in seen} == {
        "ARMENIAN",
        "CHEROKEE",
        "COPTIC",
        "CYRILLIC",
        "GREEK",
        "LISU",
    }


@given(texts)
def test_folding_again_changes_nothing(text):
    once = fold(text)
    assert fold(once) == once


@given(st.text(st.sampled_from(BOTH_CASES + list("aZ 9é")), max_size=40))
def test_upper_and_lower_case_are_the_same(text):
    lower = "".join(chr(unicode_tables().lower.get(ord(c), ord(c))) for c in text)
    assert fold(text) == fold(lower)


@given(texts, st.sampled_from(["word:1", "char:1"]))
def test_texts_that_are_equal_by_aggressive_or_plain_are_equal(text, shingle):
    spec = Spec.of(shingle, profile="look-alikes")
    units = reference.units(text, spec)
    assert reference.units(fold(text, "plain"), spec) == units
    assert reference.units(fold(text, "aggressive"), spec) == units


@given(st.text("abc XYZ 019 _.,-!?\n@$", max_size=60))
def test_ascii_text_is_what_it_is_by_aggressive(text):
    """Digits and signs that pass for letters are not folded: 0 is no o, and $ no s."""
    assert fold(text) == fold(text, "aggressive")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("рауmеnt", "payment"),  # Cyrillic
        ("ΡAYΤΒE", "paytbe"),  # Greek
        ("ｐａｙ ｍｅ", "pay me"),  # full width
        ("𝐩𝒶𝔂 𝗺𝚎", "pay me"),  # mathematical
        ("ᴘᴀʏ ꜱᴏᴏɴ", "pay soon"),  # small capitals
        ("Ⓟⓐⓨ 🅿🅰🆈", "pay pay"),
        ("ꓑꓮꓬ ᏢᎪᎽ ⲣⲁⲩ սո", "pay pay pay un"),  # Lisu, Cherokee, Coptic, Armenian
        ("p̷a̸y̶ pą̃ý", "pay pay"),
        ("p\u200ba\u200cy\u00ad\u2060\u202e\u3164\u115f", "pay"),
        ("сор СОР", "cop cop"),  # words of one script, too
        ("Łódź", "lodz"),
        ("5 µm, 5 kΩ", "0 μm, 0 kω"),  # units of measurement stay
        ("p4y m0n3y", "p0y m0n0y"),  # digits are digits
        ("東京 हिन्दी", "東京 हिन्दी"),
    ],
)
def test_what_a_reader_sees_is_what_is_compared(written, meant):
    codes = reference.normalise(written, "look-alikes")
    assert whole(codes) == meant


def test_homoglyphs_in_a_post_are_found():
    post = "hey anna I made five hundred dollars this week working from home with this trick"
    disguised = post.translate(str.maketrans("aeopc", "аеорс"))
    assert neardup.dedup([post, disguised], text_profile="aggressive").removed == []
    assert neardup.dedup([post, disguised], text_profile="look-alikes").removed[0].similarity == 1.0


def test_nothing_unseen_keeps_characters_from_being_composed():
    for unseen in ("\u200b", "\u200d", "\u034f", "\u3164", "\ufe0f"):
        assert fold(f"\u1112{unseen}\u1161{unseen}\u11ab") == "한"
