"""Unicode: the shipped character tables, and the normalisation of texts.

A kernel finds the stretches that are not in normal form; the standard library normalises them. Its
Unicode version is that of the running Python, ours is that of the tables: characters that the
tables don't have are left as they are, so that every Python gives the same answer.

The tables are arrays for the kernels, with one lookup a character. An entry of `stage2` packs the
class (3 bits), whether the character may not be in normal form C (1 bit), the rank of its combining
class (6 bits), and the number to add, mod 2^21, to fold it.
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
from neardup.reference.text import DROPPED_BY_PLAIN
from neardup.spec import UNICODE
from neardup.text.arrays import Ragged

# The numbers that kernels/characters.py calls OTHER, WORD, ALONE, MARK, DROPPED and SPACE.
CLASS = {"-": 0, "U": 0, "W": 1, "N": 1, "S": 2, "M": 3, "A": 3, "D": 4, "_": 5}
CLASSES = np.uint32(7)
"""The bits of an entry that are its class."""
CODES = 0x110000
BLOCK = 128
FOLD = 1 << 21


@dataclass(frozen=True)
class Ranges:
    """The range lines of the table file, by column; the head of the file explains them."""

    first: list[int]
    last: list[int]
    kind: list[str]
    ccc: list[int]
    check: list[str]
    lower: list[int]


@cache
def load_ranges() -> Ranges:
    """Read the shipped table file."""
    path = Path(__file__).with_name(f"unicode-{UNICODE}.txt")
    ranges = path.read_text(encoding="ascii").partition("\ncanonical ")[0].splitlines()
    lines = [line.split() for line in ranges if not line.startswith("#")]
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
    """Return the table of a text profile: conservative, standard, plain or aggressive."""
    r = load_ranges()
    combining = {ccc: rank for rank, ccc in enumerate(sorted(set(r.ccc)))}
    packed = np.zeros(CODES, dtype=np.uint32)
    for first, last, kind, ccc, check, lower in zip(
        r.first, r.last, r.kind, r.ccc, r.check, r.lower, strict=True
    ):
        properties = CLASS[kind] | (check != "Y") << 3 | combining[ccc] << 4
        if profile == "aggressive" and kind == "N":
            folds = (ord("0") - np.arange(first, last + 1)).astype(np.uint32) % FOLD << 10
            packed[first : last + 1] = properties | folds
            continue
        fold = 0 if profile == "conservative" else lower % FOLD
        packed[first : last + 1] = properties | fold << 10
    for first, last in DROPPED_BY_PLAIN if profile == "plain" else ():
        packed[first : last + 1] = packed[first : last + 1] & ~CLASSES | CLASS["D"]
    blocks = packed.reshape(-1, BLOCK)
    turns = np.append(True, (blocks[1:] != blocks[:-1]).any(axis=1))
    numbers: dict[bytes, int] = {}
    places = [numbers.setdefault(block.tobytes(), len(numbers)) for block in blocks[turns]]
    stage1 = np.array(places, np.uint16)[np.cumsum(turns) - 1]
    return CharacterTable(stage1, np.frombuffer(b"".join(numbers), np.uint32))


@cache
def unassigned() -> re.Pattern[str]:
    """Return a pattern of the characters that are not assigned in the tables' Unicode version."""
    return _any_of("U")


@cache
def accents() -> re.Pattern[str]:
    """Return a pattern of the marks that the aggressive profile removes."""
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
    """Return the texts in the profile's normal form (kernels fold the case later).

    A space never combines with the character after it, so that stretches between spaces are
    normalised one by one; most texts need it in few places, if at all.
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
        normal = convert(texts.data[begin:end].tobytes().decode()).encode()
        pieces += (texts.data[done:begin].data, normal)
        longer[place] = len(normal) - (end - begin)
        done = end
    pieces.append(texts.data[done : texts.offsets[-1]].data)
    grown = np.concatenate([[0], np.cumsum(longer)])
    offsets = texts.offsets + grown[np.searchsorted(spans[:, 1], texts.offsets, side="right")]
    return Ragged(np.frombuffer(b"".join(pieces), np.uint8), offsets - texts.offsets[0])


def nfc(text: str) -> str:
    """Return the text in normal form C, by the characters of the tables' Unicode version only."""
    return _normal("NFC", text)


def fold_accents(text: str) -> str:
    """Return the text with compatibility forms unified and accents removed, composed again."""
    return nfc(accents().sub("", _normal("NFKD", text)))


def _normal(form: Literal["NFC", "NFKD"], text: str) -> str:
    if unicodedata.unidata_version == UNICODE:
        return unicodedata.normalize(form, text)
    pieces = unassigned().split(text)
    # re.split with a group: matches are at odd places, the text between them at even ones.
    pieces[::2] = [unicodedata.normalize(form, piece) for piece in pieces[::2]]
    return "".join(pieces)
