"""Unicode normal forms, for the few texts that are not in one already.

A kernel finds them; the standard library normalises them. Its Unicode version is that of the
running Python, ours is the tables': characters that the tables don't know are left alone, so
that every Python gives the same answer.
"""

from __future__ import annotations

import unicodedata
from typing import Literal

import numpy as np

from neardup import kernels
from neardup.spec import UNICODE
from neardup.text.arrays import Ragged
from neardup.text.tables import accents, character_table, denormal, unassigned

ASCII, NORMAL, DENORMAL = 0, 1, 2


def normalised(texts: Ragged, profile: str) -> Ragged:
    """The texts in the profile's normal form (case is folded later, by the kernels)."""
    table = character_table(profile)
    state = kernels.text_state(texts.data, texts.offsets, table.stage1, table.stage2)
    rows = np.flatnonzero(state >= (NORMAL if profile == "aggressive" else DENORMAL))
    if not rows.size:
        return texts
    convert = fold_accents if profile == "aggressive" else nfc
    pieces: list[bytes | memoryview] = []
    sizes = texts.sizes.copy()
    untouched = texts.offsets[0]
    for row in rows.tolist():
        begin, end = texts.offsets[row], texts.offsets[row + 1]
        fresh = convert(texts.data[begin:end].tobytes().decode()).encode()
        pieces += (texts.data[untouched:begin].data, fresh)
        sizes[row] = len(fresh)
        untouched = end
    pieces.append(texts.data[untouched : texts.offsets[-1]].data)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Ragged(np.frombuffer(b"".join(pieces), np.uint8), offsets)


def nfc(text: str) -> str:
    """Normal form C, with the characters of the tables' Unicode version only.

    Most texts that need it need it in a few places, and the standard library is slow for long
    ones. A space never combines with what follows it, so only the stretches between spaces
    that hold a character in question are normalised.
    """
    pieces: list[str] = []
    done = 0
    for match in denormal().finditer(text):
        if match.start() < done:
            continue
        begin = text.rfind(" ", done, match.start()) + 1 or done
        end = text.find(" ", match.end())
        end = len(text) if end < 0 else end
        pieces += (text[done:begin], _normal("NFC", text[begin:end]))
        done = end
    pieces.append(text[done:])
    return "".join(pieces)


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
