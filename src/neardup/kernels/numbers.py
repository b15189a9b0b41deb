"""Find the numbers of UTF-8 texts: maximal runs of decimal digits, of any script."""

from __future__ import annotations

import numpy as np

from neardup.kernels.characters import DROPPED, WORD, U, decode, entry
from neardup.kernels.compile import I64, U8, U16, U32, kernel, uncounted

ZERO, NINE, BLANK, NO_DIGIT = 48, 57, 32, -1


@uncounted
def digit_value(code, zeros):
    """Return the value of a decimal digit, NO_DIGIT for other characters.

    `zeros` are the code points of value 0, ascending; the digits up to 9 follow each of them.
    """
    low, high = 0, zeros.size
    while low < high:
        middle = (low + high) >> 1
        if zeros[U(middle)] <= code:
            low = middle + 1
        else:
            high = middle
    if low == 0 or code - zeros[U(low - 1)] > 9:
        return NO_DIGIT
    return code - zeros[U(low - 1)]


@kernel(U8, I64, U16, U32, I64)
def number_rows(data, offsets, stage1, stage2, zeros):
    """Return the numbers of each text, in ASCII with a blank between two, as rows of bytes."""
    rows = offsets.size - 1
    # A number is at most as long as its digits in the text, and there is a character between two.
    out = np.empty(offsets[rows] - offsets[0], np.uint8)
    ends = np.zeros(rows + 1, np.int64)
    size = 0
    for i in range(rows):
        at, end, begin, in_run = offsets[i], offsets[i + 1], size, False
        while at < end:
            code, length = decode(data, at)
            at += length
            if code < 0x80:
                value = code - ZERO if ZERO <= code <= NINE else NO_DIGIT
            else:
                kind = entry(code, stage1, stage2) & 7
                if kind == DROPPED:
                    continue
                value = digit_value(code, zeros) if kind == WORD else NO_DIGIT
            if value == NO_DIGIT:
                in_run = False
                continue
            if not in_run and size > begin:
                out[U(size)] = BLANK
                size += 1
            out[U(size)] = ZERO + value
            size += 1
            in_run = True
        ends[i + 1] = size
    return out[:size], ends
