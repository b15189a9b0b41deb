"""Unicode normal forms, for the few stretches of text that are not in one already.

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
from neardup.text.tables import accents, character_table, unassigned


def normalised(texts: Ragged, profile: str) -> Ragged:
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
