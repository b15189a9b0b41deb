"""Stems: words with other endings are compared as the same word."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import texts

import neardup
from neardup import kernels, reference
from neardup.errors import ParameterError, SpecMismatch, UsageError
from neardup.keys import to_key
from neardup.spec import PROFILES, Spec
from neardup.text import stems
from neardup.text.shingle import hash_units
from neardup.text.stems import StemTable, Vocabulary, state_stem

ENGLISH = state_stem("english")
WORDS = st.sampled_from(
    [
        *("cat", "cats", "running", "runs", "Straße", "houses", "geese"),
        *("12", "_", "!", "你好", "é"),
    ]
)
sentences = st.lists(WORDS, max_size=12).map(" ".join)


def stemmed(several: list[str], spec: Spec, key: bytes | None = None) -> list[list[int]]:
    column = pa.array(several, pa.large_string())
    units = hash_units(column, spec, to_key(key))
    ends = units.offsets.tolist()
    return [units.data[a:b].tolist() for a, b in pairwise(ends)]


@given(
    st.lists(st.one_of(sentences, texts), max_size=5),
    st.sampled_from(PROFILES),
    st.sampled_from(["english", "german", "turkish", "arabic"]),
)
def test_units_are_the_stems_of_the_definition(
    several: list[str], profile: str, language: str
) -> None:
    spec = Spec(profile=profile, stem=state_stem(language))
    stem = Stemmer.Stemmer(language).stemWord
    assert stemmed(several, spec) == [
        reference.unit_hashes(reference.units(text, spec, stem), spec) for text in several
    ]


@given(st.lists(sentences, max_size=4))
def test_a_vocabulary_that_forgets_gives_the_same_stems(several: list[str]) -> None:
    spec = Spec(stem=ENGLISH)
    once = stemmed(several, spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stems, "MOST_REMEMBERED", 3)
        assert stemmed(several, spec) == once


def test_a_table_grows_and_keeps_what_it_has() -> None:
    words = np.random.default_rng(1).integers(0, 2**63, 5_000).astype(np.uint64)
    table = StemTable.empty()
    for start in range(0, 5_000, 500):
        table = table.learned(words[start : start + 500], words[start : start + 500] + np.uint64(1))
    found, missing = kernels.translate(words, table.keys, table.mapped, table.used)
    assert not len(missing) and (found == words + np.uint64(1)).all()
    assert 2 * table.count <= len(table.keys)


def test_threads_share_a_vocabulary() -> None:
    spec = Spec(stem=state_stem("german"), seed=77)
    several = [[f"Häuser{n % 50}en Wörter{m}ungen" for m in range(20)] for n in range(8)]
    want = [stemmed(texts, spec) for texts in several]
    stems.vocabulary.cache_clear()
    got: dict[int, list[list[int]]] = {}
    threads = [
        threading.Thread(target=lambda n=n: got.update({n: stemmed(several[n], spec)}))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [got[n] for n in range(8)] == want


def test_stems_are_hashed_with_the_key() -> None:
    key = b"0123456789abcdef"
    spec = Spec(stem=ENGLISH, hash="siphash", key=to_key(key).id)
    ((one,), (other,)) = stemmed(["cats", "cat"], spec, key)
    assert one == other != stemmed(["cats"], Spec(stem=ENGLISH))[0][0]


def test_documents_with_other_endings_are_copies() -> None:
    said = [
        "The cat sleeps while bread is rising in the oven",
        "The cats sleep while breads rise in the oven",
    ]
    assert neardup.dedup(said, threshold=0.6, shingle="word:1").kept == [0, 1]
    result = neardup.dedup(said, threshold=0.6, shingle="word:1", stem="english")
    assert result.kept == [0]
    assert f"stemmed             english, PyStemmer {Stemmer.version()}\n" in result.summary()
    assert neardup.similarity("cats", "cat", shingle="word:1", stem="english") == 1.0
    bannered = [f"The Banners of all\n{text}" for text in ("one two", "three", "four five")]
    assert neardup.dedup(bannered, stem="english", strip="lines:50%").ignored_lines[0].documents


def test_another_version_is_a_mismatch_with_its_cure(tmp_path: Path) -> None:
    for act in (
        lambda: stemmed(["cats"], Spec(stem="english:2.2.0")),
        lambda: Vocabulary("english:2.2.0", (0, 0, 0)),
        lambda: neardup.Index.open(tmp_path / "index", spec=Spec(stem="english:2.2.0")),
    ):
        with pytest.raises(SpecMismatch, match=r"pip install 'PyStemmer==2\.2\.0'"):
            act()


def test_wrong_stems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="did you mean english"):
        neardup.dedup(["a"], stem="englsh")
    with pytest.raises(ParameterError, match="not of char shingles"):
        neardup.dedup(["a"], stem="english", shingle="char:5")
    for wrong in ("english", "english:x", "English:3.1.0", 3):
        with pytest.raises(ParameterError, match="version of PyStemmer"):
            Spec(stem=wrong)  # type: ignore[arg-type]
    monkeypatch.setattr(stems, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'neardup\[stem\]'"):
        neardup.dedup(["a"], stem="english")
