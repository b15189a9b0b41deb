"""Stems: words that differ in their endings are compared as the same word.

The Snowball stemmers of PyStemmer define the stems, of the version that the specification states. A
stemmer sees each distinct word once: what stands for it is remembered by the hash of the word.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import SpecMismatch, UsageError
from neardup.spec import UNIFYING, check_choice
from neardup.text.arrays import Ragged
from neardup.text.characters import character_table

Hashes = NDArray[np.uint64]
MOST_REMEMBERED = 1 << 20
"""Words that a vocabulary remembers before it begins again: 70 MB."""


def state_stem(language: str) -> str:
    """Return a stemmer as a specification states it: the language and the library's version.

    Args:
        language: The name of a Snowball stemmer, such as `english`; "" for none.
    """
    if language == "":
        return ""
    check_choice("stem", language, tuple(_library().algorithms()))
    return f"{language}:{_library().version()}"


def require_stemmer(stem: str) -> None:
    """Raise `SpecMismatch` if the installed stemmers are of another version than stated.

    Args:
        stem: The stemmer as a specification states it; "" for none.
    """
    version = stem.partition(":")[2]
    if stem and _library().version() != version:
        raise SpecMismatch(
            f"the specification has the stems of PyStemmer {version}, here is "
            f"{_library().version()}: pip install 'PyStemmer=={version}', or sketch the documents "
            "again"
        )


def _library() -> Any:
    if find_spec("Stemmer") is None:
        raise UsageError("stem needs a library that is missing: pip install 'neardup[stem]'")
    import Stemmer

    return Stemmer


@dataclass(frozen=True)
class StemTable:
    """A hash table of words: the hash of each, and the hash of its stem. Never changed.

    Attributes:
        keys, mapped: The hashes of a word and of its stem at each place.
        used: Which places are taken, at most half.
        count: How many are.
    """

    keys: Hashes
    mapped: Hashes
    used: NDArray[np.uint8]
    count: int = 0

    @classmethod
    def empty(cls, words: int = 512) -> StemTable:
        """Return an empty table with room for so many words."""
        size = 1 << (2 * words - 1).bit_length()
        return cls(np.zeros(size, np.uint64), np.zeros(size, np.uint64), np.zeros(size, np.uint8))

    def learned(self, words: Hashes, stems: Hashes) -> StemTable:
        """Return a table with more words.

        Args:
            words: The hashes of the words.
            stems: The hashes of their stems.
        """
        total = self.count + len(words)
        if 2 * total <= len(self.keys):
            arrays = self.keys.copy(), self.mapped.copy(), self.used.copy()
        else:
            larger, known = StemTable.empty(2 * total), self.used.astype(bool)
            arrays = larger.keys, larger.mapped, larger.used
            kernels.learn(self.keys[known], self.mapped[known], *arrays)
        kernels.learn(words, stems, *arrays)
        return StemTable(*arrays, total)


@dataclass
class Vocabulary:
    """The stems of the words that were seen. Thread-safe: a table is replaced, never changed.

    Args:
        stem: The stemmer, as the specification states it.
        hasher: How words are hashed.
    """

    stem: str
    hasher: tuple[Any, ...]
    _table: StemTable = field(default_factory=StemTable.empty)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        require_stemmer(self.stem)

    def translate(self, words: Hashes, texts: WordTexts) -> Hashes:
        """Return the hashes of the stems of words.

        Args:
            words: The hashes of the words.
            texts: The words themselves.
        """
        table = self._table
        stems, missing = kernels.translate(words, table.keys, table.mapped, table.used)
        if len(missing):
            new, firsts, places = np.unique(words[missing], return_index=True, return_inverse=True)
            found = self._stem(texts.listed(missing[firsts]))
            stems[missing] = found[places]
            self._remember(new, found)
        return stems  # type: ignore[no-any-return]

    def _stem(self, words: list[str]) -> Hashes:
        # A stemmer serves one thread at a time, and is cheap to make.
        stems = _library().Stemmer(self.stem.partition(":")[0], 0).stemWords(words)
        rows = [stem.encode() for stem in stems]
        ends = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        data = np.frombuffer(b"".join(rows), np.uint8)
        return kernels.element_hashes(data, ends, self.hasher)  # type: ignore[no-any-return]

    def _remember(self, words: Hashes, stems: Hashes) -> None:
        with self._lock:
            full = self._table.count + len(words) > MOST_REMEMBERED
            self._table = (StemTable.empty() if full else self._table).learned(words, stems)


@dataclass(frozen=True)
class WordTexts:
    """The words of a batch of texts, folded.

    Attributes:
        data: The bytes of the folded texts.
        edges: Where each word begins and ends in them, by turns.
        starts: The number of the first word of each text, and of all words.
    """

    data: NDArray[np.uint8]
    edges: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Ragged, profile: str) -> WordTexts:
        """Return the words of texts in normal form.

        Args:
            texts: The texts, in the normal form of the profile.
            profile: The text profile.
        """
        table = character_table(profile)
        fold_case, fold_digits = profile != "conservative", profile in UNIFYING
        return cls(
            *kernels.word_spans(
                texts.data, texts.offsets, table.stage1, table.stage2, fold_case, fold_digits
            )
        )

    def listed(self, places: NDArray[np.int64]) -> list[str]:
        """Return the words with these numbers."""
        spans = self.edges.reshape(-1, 2)[places].tolist()
        return [self.data[begin:end].tobytes().decode() for begin, end in spans]


@lru_cache(8)
def vocabulary(stem: str, hasher: tuple[Any, ...]) -> Vocabulary:
    """Return the vocabulary of a stemmer and a hash function, which threads share."""
    return Vocabulary(stem, hasher)


def stem_units(units: Ragged, texts: WordTexts, stem: str, hasher: tuple[Any, ...]) -> Ragged:
    """Return the hashes of words with those of their stems in their place.

    The unit of a text without any word, which is the whole text, stays.

    Args:
        units: The hashes of the units of each text.
        texts: The words of the texts.
        stem: The stemmer, as the specification states it.
        hasher: How words are hashed.
    """
    words = np.repeat(np.diff(texts.starts) > 0, units.sizes)
    data = units.data.copy()
    data[words] = vocabulary(stem, hasher).translate(data[words], texts)
    return Ragged(data, units.offsets)
