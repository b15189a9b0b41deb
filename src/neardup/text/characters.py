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
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.reference.text import DROPPED, look_alikes
from neardup.spec import UNICODE, UNIFYING
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
    """Return the table of a text profile, one of `spec.PROFILES`."""
    r = load_ranges()
    combining = {ccc: rank for rank, ccc in enumerate(sorted(set(r.ccc)))}
    packed = np.zeros(CODES, dtype=np.uint32)
    for first, last, kind, ccc, check, lower in zip(
        r.first, r.last, r.kind, r.ccc, r.check, r.lower, strict=True
    ):
        properties = CLASS[kind] | (check != "Y") << 3 | combining[ccc] << 4
        if profile in UNIFYING and kind == "N":
            folds = (ord("0") - np.arange(first, last + 1)).astype(np.uint32) % FOLD << 10
            packed[first : last + 1] = properties | folds
            continue
        fold = 0 if profile == "conservative" else lower % FOLD
        packed[first : last + 1] = properties | fold << 10
    if profile == "look-alikes":
        _fold_look_alikes(packed)
    for first, last in DROPPED.get(profile, ()):
        packed[first : last + 1] = packed[first : last + 1] & ~CLASSES | CLASS["D"]
    blocks = packed.reshape(-1, BLOCK)
    turns = np.append(True, (blocks[1:] != blocks[:-1]).any(axis=1))
    numbers: dict[bytes, int] = {}
    places = [numbers.setdefault(block.tobytes(), len(numbers)) for block in blocks[turns]]
    stage1 = np.array(places, np.uint16)[np.cumsum(turns) - 1]
    return CharacterTable(stage1, np.frombuffer(b"".join(numbers), np.uint32))


def _fold_look_alikes(packed: NDArray[np.uint32]) -> None:
    """Make the characters whose lower case passes for a Latin letter that letter."""
    codes = np.arange(CODES, dtype=np.uint32)
    letters = codes.copy()
    letters[list(look_alikes())] = list(look_alikes().values())
    lower = (codes + (packed >> 10)) % FOLD
    folds = (letters[lower] != lower).nonzero()[0]
    properties = packed[folds] & 1023 & ~CLASSES | CLASS["W"]
    packed[folds] = properties | (letters[lower[folds]] - codes[folds]) % FOLD << 10


@cache
def unassigned() -> re.Pattern[str]:
    """Return a pattern of the characters that are not assigned in the tables' Unicode version."""
    return _any_of("U")


@cache
def unwanted(profile: str) -> re.Pattern[str]:
    """Return a pattern of what a unifying profile removes: accents, and what it drops."""
    return _any_of("AD" if profile == "look-alikes" else "A", DROPPED.get(profile, ()))


def _any_of(kinds: str, others: Iterable[tuple[int, int]] = ()) -> re.Pattern[str]:
    r = load_ranges()
    ranges = zip(r.first, r.last, r.kind, strict=True)
    spans = [(first, last) for first, last, kind in ranges if kind in kinds] + [*others]
    written = (f"\\U{first:08x}-\\U{last:08x}" for first, last in spans)
    return re.compile("([" + "".join(written) + "]+)")


def normalise_texts(texts: Ragged, profile: str) -> Ragged:
    """Return the texts in the profile's normal form (kernels fold the case later).

    A space never combines with the character after it, so that stretches between spaces are
    normalised one by one; most texts need it in few places, if at all.
    """
    table, unifying = character_table(profile), profile in UNIFYING
    spans = kernels.unsettled(texts.data, texts.offsets, table.stage1, table.stage2, unifying)
    if not spans.size:
        return texts
    convert = partial(unify, profile=profile) if unifying else nfc
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


def unify(text: str, profile: str) -> str:
    """Return the text with compatibility forms unified, without accents, composed again."""
    return nfc(unwanted(profile).sub("", _normal("NFKD", text)))


def _normal(form: Literal["NFC", "NFKD"], text: str) -> str:
    if unicodedata.unidata_version == UNICODE:
        return unicodedata.normalize(form, text)
    pieces = unassigned().split(text)
    # re.split with a group: matches are at odd places, the text between them at even ones.
    pieces[::2] = [unicodedata.normalize(form, piece) for piece in pieces[::2]]
    return "".join(pieces)
