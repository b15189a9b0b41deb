"""Words of scripts without spaces, cut by ICU's dictionaries instead of character by character.

Only runs of such characters are cut: other words are the same with and without a segmenter. ICU
looks at the script of each run and needs no language. All runs of a batch are cut in one call, with
newlines between them, across which no word goes.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import SpecMismatch, UsageError
from neardup.spec import check_choice
from neardup.text.arrays import Ragged
from neardup.text.characters import character_table
from neardup.text.stems import WordTexts

Integers = NDArray[np.int64]
SEGMENTERS = ("icu",)
OF_EACH_DICTIONARY = "一ひカกກကក"
"""A character of each script that has one.

ICU loads a dictionary when it meets its script, and cuts some characters in another way before: the
first text of a process, if it begins with U+30FC.
"""
LONGEST_CALL = 1 << 24
"""The most bytes that ICU is given at once: it counts in 32 bits."""


def state_segmenter(name: str) -> str:
    """Return a segmenter as a specification states it: its name and version.

    Args:
        name: `icu`; "" for none.
    """
    if name == "":
        return ""
    check_choice("segment", name, SEGMENTERS)
    return f"{name}:{_library().icu_version}"


def require_segmenter(segment: str) -> None:
    """Raise `SpecMismatch` if the installed segmenter is of another version than stated.

    Args:
        segment: The segmenter as a specification states it; "" for none.
    """
    version = segment.partition(":")[2]
    if segment and _library().icu_version != version:
        raise SpecMismatch(
            f"the specification has words as ICU {version} cuts them, here is ICU "
            f"{_library().icu_version}: install the icu4py that brings ICU {version}, or sketch "
            "the documents again"
        )


def _library() -> Any:
    if find_spec("icu4py") is None:
        raise UsageError("segment needs a library that is missing: pip install 'neardup[icu]'")
    import icu4py.breakers

    return icu4py


@cache
def load_dictionaries() -> None:
    """Have ICU load its dictionaries, so that it cuts every text in the same way from then on."""
    list(_library().breakers.WordBreaker(OF_EACH_DICTIONARY, ""))


def segment_words(texts: Ragged, profile: str) -> WordTexts:
    """Return the words of texts, cut by ICU where they are written without spaces.

    Args:
        texts: The texts, in the normal form of the profile.
        profile: The text profile.
    """
    table = character_table(profile)
    data, begins, starts, runs, places, joined = kernels.unspaced_words(
        texts.data, texts.offsets, table.stage1, table.stage2
    )
    boundary = np.zeros(len(runs) + 1, bool)
    boundary[find_boundaries(runs)] = True
    # A word begins unless it goes on where the one before ended, and ICU does not cut there.
    first = np.ones(len(places), bool)
    first[joined > 0] = boundary[places[joined > 0]]
    edges = np.repeat(np.append(begins[:-1][first], begins[-1]), 2)[1:-1]
    return WordTexts(data, edges, np.append(0, np.cumsum(first))[starts])


def find_boundaries(runs: NDArray[np.uint8]) -> Integers:
    """Return the places in UTF-8 at which ICU ends a word.

    Args:
        runs: Texts, with a newline behind each.
    """
    found, begin = [np.empty(0, np.int64)], 0
    while begin < len(runs):
        end = min(begin + LONGEST_CALL, len(runs))
        if end < len(runs):
            newlines = np.flatnonzero(runs[begin:end] == ord("\n"))
            end = begin + int(newlines[-1]) + 1 if len(newlines) else len(runs)
        found.append(begin + _boundaries_of_part(runs[begin:end]))
        begin = end
    return np.concatenate(found)


def _boundaries_of_part(part: NDArray[np.uint8]) -> Integers:
    load_dictionaries()
    # ICU counts in UTF-16: a character of four bytes has two units.
    begins = (part & 0xC0) != 0x80
    units = begins.astype(np.int64) + (part >= 0xF0)
    places = np.append(np.repeat(np.arange(len(part)), units), len(part))
    spans = _library().breakers.WordBreaker(part.tobytes().decode(), "").segments()
    return places[np.fromiter(map(itemgetter(1), spans), np.int64)]


def segment_units(words: WordTexts, wholes: Ragged, hasher: tuple[Any, ...]) -> Ragged:
    """Return the hashes of the units of texts whose words were cut by `segment_words`.

    Args:
        words: The words.
        wholes: The units of the texts as they are without a segmenter: of a text without any word
            the whole text.
        hasher: How words are hashed.
    """
    offsets = np.append(words.edges[::2], len(words.data))
    hashes = kernels.element_hashes(words.data, offsets, hasher)
    counts = np.diff(words.starts)
    has_no_word = (counts == 0) & (wholes.sizes > 0)
    if not has_no_word.any():
        return Ragged(hashes, words.starts)
    whole = wholes.data[wholes.offsets[:-1][has_no_word]]
    data = np.insert(hashes, words.starts[:-1][has_no_word], whole)
    return Ragged(data, np.append(0, np.cumsum(counts + has_no_word)))
