"""Words of scripts without spaces, as ICU cuts them."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import icu4py
import pyarrow as pa
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st
from icu4py.breakers import WordBreaker
from support.strategies import texts

import neardup
from neardup import reference
from neardup.errors import ParameterError, SpecMismatch, UsageError
from neardup.spec import PROFILES, Spec
from neardup.text import segments
from neardup.text.segments import state_segmenter
from neardup.text.shingle import hash_units
from neardup.text.stems import state_stem

ICU = state_segmenter("icu")
SAMPLES = {
    "ja": "私は東京の大学で日本語を勉強しています。",
    "zh": "我们在北京大学学习计算机科学，天气很好。",
    "th": "ภาษาไทยเป็นภาษาที่ไม่มีช่องว่างระหว่างคำ",
    "km": "ភាសាខ្មែរជាភាសាដែលគ្មានចន្លោះរវាងពាក្យ",
    "lo": "ພາສາລາວບໍ່ມີຊ່ອງຫວ່າງລະຫວ່າງຄຳ",
    "my": "မြန်မာဘာသာစကားသည်စကားလုံးများကြားတွင်နေရာလွတ်မရှိပါ",
}
PIECES = [
    *("東京", "大学", "の", "で", "ภาษา", "ไทย", "ភាសា", "ခ", "ာ", "人\u200d", "か\u3099"),
    *("\u3099", "𠀀", "𠮷野", "ー", "T", "cats", "12", "_", " ", "\n", "。", ",", "\u00ad", "é"),
    *("٣", "๓", "😀"),
]
mixed = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def cut(run: str) -> list[str]:
    segments.load_dictionaries()
    return list(WordBreaker(run, ""))


def units(several: list[str], spec: Spec) -> list[list[int]]:
    found = hash_units(pa.array(several, pa.large_string()), spec)
    return [found.data[a:b].tolist() for a, b in pairwise(found.offsets.tolist())]


@given(
    st.lists(st.one_of(mixed, texts), max_size=5),
    st.sampled_from(PROFILES),
    st.sampled_from(["", "english"]),
)
def test_units_are_the_words_of_the_definition(
    several: list[str], profile: str, language: str
) -> None:
    spec = Spec(profile=profile, segment=ICU, stem=state_stem(language))
    stem = Stemmer.Stemmer(language).stemWord if language else str
    assert units(several, spec) == [
        reference.unit_hashes(reference.units(text, spec, stem, cut), spec) for text in several
    ]


@pytest.mark.parametrize("language", SAMPLES)
def test_words_of_several_characters_are_found(language: str) -> None:
    text = SAMPLES[language]
    spec = Spec(segment=ICU)
    words = [unit.decode() for unit in reference.units(text, spec, segment=cut)]
    assert "".join(words) == "".join(u.decode() for u in reference.units(text, Spec()))
    assert len(words) < len(reference.units(text, Spec())) * 0.75
    # The language makes no difference: ICU goes by the script.
    assert list(WordBreaker(text, language)) == cut(text)


@given(st.lists(mixed, max_size=5))
def test_texts_cut_in_several_calls_are_cut_in_the_same_way(several: list[str]) -> None:
    spec = Spec(segment=ICU)
    once = units(several, spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "LONGEST_CALL", 7)
        assert units(several, spec) == once


def test_the_first_text_of_a_process_is_cut_as_the_others_are() -> None:
    """ICU alone takes the first "ーひ" of a process for one word, and later ones for two."""
    program = (
        "import neardup; print([neardup.similarity('ーひ', text, shingle='word:1', segment='icu') "
        "for text in ('ひ', 'ひー', 'ひ')])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "[0.5, 1.0, 0.5]\n", ran.stderr


def test_texts_with_spaces_are_the_same_words() -> None:
    text = "Don't mix 3.5 Äpfel and 한국어 단어, говорит он_2"
    assert units([text], Spec(segment=ICU)) == units([text], Spec())


def test_documents_are_compared_by_these_words() -> None:
    several = [SAMPLES["ja"], SAMPLES["ja"].replace("東京", "大阪"), SAMPLES["zh"]]
    result = neardup.dedup(several, shingle="word:1", threshold=0.7, segment="icu")
    assert result.kept == [0, 2]
    assert f"words cut by        ICU {icu4py.icu_version}\n" in result.summary()
    assert neardup.similarity("東京", "東京都", shingle="word:1", segment="icu") < 1


def test_another_version_is_a_mismatch_with_its_cure() -> None:
    from neardup.sketcher import Sketcher

    with pytest.raises(SpecMismatch, match=r"install the icu4py that brings ICU 63\.1"):
        Sketcher(Spec(segment="icu:63.1"))
    with pytest.raises(SpecMismatch, match="same --segment and version of ICU"):
        Spec(segment="icu:63.1").require_same(Spec(segment="icu:78.3"), "a", "b")


def test_wrong_segmenters_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="choose one of icu"):
        neardup.dedup(["a"], segment="jieba")
    with pytest.raises(ParameterError, match="not char shingles"):
        neardup.dedup(["a"], segment="icu", shingle="char:5")
    for wrong in ("icu", "icu:", "jieba:1", 78):
        with pytest.raises(ParameterError, match="version of ICU"):
            Spec(segment=wrong)  # type: ignore[arg-type]
    monkeypatch.setattr(segments, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'neardup\[icu\]'"):
        neardup.dedup(["a"], segment="icu")
