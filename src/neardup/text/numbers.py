"""Find the numbers of texts, by which documents with the same words are distinguished.

`reference.numbers` is the definition: maximal runs of decimal digits, of any script, by value. They
are found in the text that is compared, in normal form, before any profile folds its digits.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup import kernels
from neardup.text.arrays import Ragged, view_strings
from neardup.text.characters import character_table, load_ranges, normalise_texts


def find_numbers(texts: pa.Array, profile: str) -> Ragged:
    """Return the numbers of each text as a row of bytes: ASCII digits, a blank between two.

    Args:
        texts: A large_string column; null has no numbers.
        profile: The text profile, whose normal form the texts are brought into first.
    """
    rows, table = normalise_texts(view_strings(texts), profile), character_table(profile)
    return Ragged(
        *kernels.number_rows(rows.data, rows.offsets, table.stage1, table.stage2, digit_zeros())
    )


@cache
def digit_zeros() -> NDArray[np.int64]:
    """Return the code points of all digits of value 0, ascending."""
    ranges = load_ranges()
    spans = zip(ranges.first, ranges.last, ranges.kind, strict=True)
    zeros = [zero for a, b, kind in spans if kind == "N" for zero in range(a, b + 1, 10)]
    return np.array(sorted(zeros), np.int64)
