"""Unicode: the shipped character tables, and normal forms for the text that is not in one yet.

A kernel finds the stretches to normalise; the standard library normalises them. Its Unicode version
is that of the running Python, ours is the tables': characters that the tables don't know are left
alone, so that every Python gives the same answer.

The tables are arrays for the kernels, one look-up a character. An entry of `stage2` packs: class (3
bits), "may not be in normal form C" (1 bit), the rank of the combining class (6 bits), and what to
add, mod 2^21, to fold the character.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.spec import UNICODE
from neardup.text.arrays import Ragged

# The numbers that kernels/characters.py calls OTHER, WORD, ALONE, MARK, DROPPED and SPACE.
CLASS = {"-": 0, "U": 0, "W": 1, "N": 1, "S": 2, "M": 3, "A": 3, "D": 4, "_": 5}
CODES = 0x110000
BLOCK = 128
FOLD = 1 << 21


@dataclass(frozen=True)
class Ranges:
    """The table file's range lines, a column each."""

    first: list[int]
    last: list[int]
    kind: list[str]
    ccc: list[int]
    check: list[str]
    lower: list[int]


@cache
def load_ranges() -> Ranges:
    path = Path(__file__).with_name(f"unicode-{UNICODE}.txt")
    lines = re.findall(
        r"^([0-9A-F]+) ([0-9A-F]+) (\S) (\d+) ([YNM]) (-?\d+)$",
        path.read_text(encoding="ascii"),
        flags=re.MULTILINE,
    )
    first, last, kind, ccc, check, lower = map(list, zip(*lines, strict=True))
    return Ranges(
        [int(f, 16) for f in first],
        [int(f, 16) for f in last],
        kind,
        [int(c) for c in ccc],
        check,
        [int(d) for d in lower],
    )


@dataclass(frozen=True)
class CharacterTable:
    """entry(code) = stage2[stage1[code >> 7] << 7 | code & 127]"""

    stage1: NDArray[np.uint16]
    stage2: NDArray[np.uint32]


@cache
def character_table(profile: str) -> CharacterTable:
    """The table of a text profile."""
    r = load_ranges()
    combining = {ccc: rank for rank, ccc in enumerate(sorted(set(r.ccc)))}
    packed = np.zeros(CODES, dtype=np.uint32)
    for first, last, kind, ccc, check, lower in zip(
        r.first, r.last, r.kind, r.ccc, r.check, r.lower, strict=True
    ):
        codes = slice(first, last + 1)
        packed[codes] = CLASS[kind] | (check != "Y") << 3 | combining[ccc] << 4
        if profile == "aggressive" and kind == "N":
            packed[codes] |= (ord("0") - np.arange(first, last + 1)).astype(np.uint32) % FOLD << 10
        elif profile != "conservative":
            packed[codes] |= lower % FOLD << 10
    numbers: dict[bytes, int] = {}
    blocks = (packed[at : at + BLOCK].tobytes() for at in range(0, CODES, BLOCK))
    stage1 = [numbers.setdefault(block, len(numbers)) for block in blocks]
    return CharacterTable(np.array(stage1, np.uint16), np.frombuffer(b"".join(numbers), np.uint32))


@cache
def unassigned() -> re.Pattern[str]:
    """Matches the characters that Unicode had not assigned in the tables' version."""
    return _any_of("U")


@cache
def accents() -> re.Pattern[str]:
    """Matches the marks that the aggressive profile folds away."""
    return _any_of("A")


def _any_of(wanted: str) -> re.Pattern[str]:
    r = load_ranges()
    spans = (
        f"\\U{first:08x}-\\U{last:08x}"
        for first, last, kind in zip(r.first, r.last, r.kind, strict=True)
        if kind == wanted
    )
    return re.compile("([" + "".join(spans) + "]+)")


def normalise_texts(texts: Ragged, profile: str) -> Ragged:
    """The texts in the profile's normal form (case is folded later, by the kernels).

    A space never combines with what follows it, so stretches between spaces can be taken one
    by one; most texts that need it need it in a few places.
    """
    table, aggressive = character_table(profile), profile == "aggressive"
    spans = kernels.unsettled(texts.data, texts.offsets, table.stage1, table.stage2, aggressive)
    if not spans.size:
        return texts
    convert = fold_accents if aggressive else nfc
    pieces: list[bytes | memoryview] = []
    longer = np.empty(len(spans), np.int64)
    done = texts.offsets[0]
    for place, (begin, end) in enumerate(spans.tolist()):
        fresh = convert(texts.data[begin:end].tobytes().decode()).encode()
        pieces += (texts.data[done:begin].data, fresh)
        longer[place] = len(fresh) - (end - begin)
        done = end
    pieces.append(texts.data[done : texts.offsets[-1]].data)
    grown = np.concatenate([[0], np.cumsum(longer)])
    offsets = texts.offsets + grown[np.searchsorted(spans[:, 1], texts.offsets, side="right")]
    return Ragged(np.frombuffer(b"".join(pieces), np.uint8), offsets - texts.offsets[0])


def nfc(text: str) -> str:
    """Normal form C, with the characters of the tables' Unicode version only."""
    return _normal("NFC", text)


def fold_accents(text: str) -> str:
    """Compatibility forms unified and accents taken off, composed again."""
    return nfc(accents().sub("", _normal("NFKD", text)))


def _normal(form: Literal["NFC", "NFKD"], text: str) -> str:
    if unicodedata.unidata_version == UNICODE:
        return unicodedata.normalize(form, text)
    pieces = unassigned().split(text)
    # re.split with a group: what lies between the matches at even places, the matches at odd.
    pieces[::2] = [unicodedata.normalize(form, piece) for piece in pieces[::2]]
    return "".join(pieces)
