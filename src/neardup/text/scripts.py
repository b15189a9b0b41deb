"""Find the script that a text is mostly written in: Latin, Han, Arabic and others.

Only what matters for shingles is told apart: whether words are separated by spaces, and how long
they are. Scripts that are rare are one group.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from neardup.text.arrays import view_strings

RANGES: Final = (
    (0x0041, "Latin"),
    (0x005B, ""),
    (0x0061, "Latin"),
    (0x007B, ""),
    (0x00C0, "Latin"),
    (0x0370, "Greek"),
    (0x0400, "Cyrillic"),
    (0x0530, "other"),
    (0x0590, "Hebrew"),
    (0x0600, "Arabic"),
    (0x0780, "other"),
    (0x08A0, "Arabic"),
    (0x0900, "Indic"),
    (0x0E00, "Thai, Lao, Burmese, Khmer"),
    (0x0F00, "other"),
    (0x1000, "Thai, Lao, Burmese, Khmer"),
    (0x10A0, "other"),
    (0x1100, "Hangul"),
    (0x1200, "other"),
    (0x1780, "Thai, Lao, Burmese, Khmer"),
    (0x1800, "other"),
    (0x1E00, "Latin"),
    (0x1F00, "Greek"),
    (0x2000, ""),
    (0x2E80, "Han"),
    (0x3000, ""),
    (0x3040, "Kana"),
    (0x3100, "Han"),
    (0x3130, "Hangul"),
    (0x3190, "Han"),
    (0x31F0, "Kana"),
    (0x3200, ""),
    (0x3400, "Han"),
    (0xA000, "other"),
    (0xAC00, "Hangul"),
    (0xD800, ""),
    (0xF900, "Han"),
    (0xFB00, "Latin"),
    (0xFB1D, "Hebrew"),
    (0xFB50, "Arabic"),
    (0xFE00, ""),
    (0xFE70, "Arabic"),
    (0xFEFF, ""),
    (0xFF21, "Latin"),
    (0xFF66, "Kana"),
    (0xFFA0, "Hangul"),
    (0xFFE0, ""),
    (0x10000, "other"),
    (0x1F000, ""),
    (0x20000, "Han"),
    (0x40000, ""),
)
"""Where ranges of characters begin, and their script; empty for signs, symbols and emoji."""
SCRIPTS: Final = tuple(dict.fromkeys(name for _, name in RANGES if name))
"""The scripts, in the order of their numbers."""
CHARACTERS: Final = 100
"""Characters of a text that are looked at."""
UNSPACED: Final = ("Thai, Lao, Burmese, Khmer", "Han", "Kana")
"""Scripts of which each character is a word: it counts as much as LETTERS letters of others."""
LETTERS: Final = 5

_STARTS: Final = np.array([first for first, _ in RANGES], np.uint32)
_NUMBERS: Final = np.array(
    [-1, *(SCRIPTS.index(name) if name else -1 for _, name in RANGES)], np.int64
)
_WEIGHTS: Final = np.array([LETTERS if name in UNSPACED else 1 for name in SCRIPTS], np.int64)


def find_scripts(texts: pa.Array) -> NDArray[np.int64]:
    """Return the number of each text's script in `SCRIPTS`; -1 for a text without letters.

    The first CHARACTERS characters of a text decide; a Chinese page with Latin names is Chinese. Of
    scripts that are equally frequent, the first one in `SCRIPTS` is taken.

    Args:
        texts: A large_string column.
    """
    heads = view_strings(pc.utf8_slice_codeunits(texts, 0, CHARACTERS))
    # Neither fill_null nor to_numpy, which import pandas.
    utf8 = heads.data[heads.offsets[0] : heads.offsets[-1]]
    counted = np.concatenate([[0], np.cumsum(utf8 & 0xC0 != 0x80)])
    lengths = np.diff(counted[heads.offsets - heads.offsets[0]])
    codes = np.frombuffer(utf8.tobytes().decode().encode("utf-32-le"), np.uint32)
    numbers = _NUMBERS[np.searchsorted(_STARTS, codes, side="right")]
    letters = numbers >= 0
    cells = np.repeat(np.arange(len(texts)), lengths)[letters] * len(SCRIPTS) + numbers[letters]
    counts = np.bincount(cells, minlength=len(texts) * len(SCRIPTS))
    counts = counts.reshape(len(texts), len(SCRIPTS)) * _WEIGHTS
    found: NDArray[np.int64] = np.where(counts.any(axis=1), counts.argmax(axis=1), -1)
    return found
