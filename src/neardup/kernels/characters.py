"""Decode, classify and fold the characters of UTF-8 text, eight ASCII ones at once if possible.

`stage1` and `stage2` are the two-stage character table of `text/characters.py`; an entry packs a
character's class, its NFC quick check, its combining class and its folding. Input is valid UTF-8:
`corpus/` has rejected everything else.

Indices are unsigned: a signed one costs a check for negative numbers each time.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import I64, U8, U16, U32, boolean, inline, kernel, uncounted
from neardup.kernels.intrinsics import BLOCK, bytes_within, trailing_zeros

U = np.uint64
OTHER, WORD, ALONE, MARK, DROPPED, SPACE = 0, 1, 2, 3, 4, 5
NEWLINE, RETURN, BLANK = 10, 13, 32

ONES = U(0x0101010101010101)
HIGH = U(0x8080808080808080)
FROM_UPPER, PAST_UPPER = ONES * U(0x80 - 65), ONES * U(0x80 - 91)
FROM_LOWER, PAST_LOWER = ONES * U(0x80 - 97), ONES * U(0x80 - 123)
FROM_DIGIT, PAST_DIGIT = ONES * U(0x80 - 48), ONES * U(0x80 - 58)
UNDERSCORES, SEVENS = ONES * U(95), ONES * U(0x7F)


@uncounted
def decode(data, position):
    """Return the code point at a position, and its length in bytes."""
    at = U(position)
    first = np.int64(data[at])
    if first < 0x80:
        return first, 1
    second = np.int64(data[at + U(1)]) & 0x3F
    if first < 0xE0:
        return (first & 0x1F) << 6 | second, 2
    third = np.int64(data[at + U(2)]) & 0x3F
    if first < 0xF0:
        return (first & 0x0F) << 12 | second << 6 | third, 3
    fourth = np.int64(data[at + U(3)]) & 0x3F
    return (first & 0x07) << 18 | second << 12 | third << 6 | fourth, 4


@uncounted
def encode(out, position, code):
    """Write a code point as UTF-8; return the position after it."""
    at = U(position)
    if code < 0x80:
        out[at] = code
        return position + 1
    if code < 0x800:
        out[at] = 0xC0 | code >> 6
        out[at + U(1)] = 0x80 | code & 0x3F
        return position + 2
    if code < 0x10000:
        out[at] = 0xE0 | code >> 12
        out[at + U(1)] = 0x80 | code >> 6 & 0x3F
        out[at + U(2)] = 0x80 | code & 0x3F
        return position + 3
    out[at] = 0xF0 | code >> 18
    out[at + U(1)] = 0x80 | code >> 12 & 0x3F
    out[at + U(2)] = 0x80 | code >> 6 & 0x3F
    out[at + U(3)] = 0x80 | code & 0x3F
    return position + 4


@inline
def entry(code, stage1, stage2):
    """Return the packed entry of a character."""
    block = U(stage1[U(code >> 7)])
    return np.int64(stage2[block << U(7) | U(code & 127)])


@inline
def folded(code, packed):
    """Return the folded character: its entry has the number to add, mod 2^21."""
    return (code + (packed >> 10)) & 0x1FFFFF


@inline
def classify(bytes8, fold_case, fold_digits):
    """Return eight ASCII bytes folded, and a word with 0x80 in each byte that is part of a word."""
    upper = (bytes8 + FROM_UPPER) & ~(bytes8 + PAST_UPPER) & HIGH
    lower = bytes8 | (upper >> U(2))
    alpha = (lower + FROM_LOWER) & ~(lower + PAST_LOWER)
    digit = (bytes8 + FROM_DIGIT) & ~(bytes8 + PAST_DIGIT) & HIGH
    under = ~((bytes8 ^ UNDERSCORES) + SEVENS)
    kept = lower if fold_case else bytes8
    if fold_digits:
        kept &= ~((digit >> U(7)) * U(0x0F))
    return kept, (alpha | digit | under) & HIGH


@inline
def ascii_ahead(data, at, end):
    """Return how many bytes from `at` on are ASCII, at most 64.

    A block is read even if the text ends sooner; 0 if the data ends before that.
    """
    if at + BLOCK > data.size:
        return 0
    return min(trailing_zeros(bytes_within(data, at, 0x80, 0xFF)), end - at)


@uncounted
def is_ascii(data, begin, end):
    at = begin
    while at < end:
        size = ascii_ahead(data, at, end)
        if size == 0 and data[U(at)] >= 0x80:
            return False
        at += max(size, 1)
    return True


MOST_STRETCHES = 8


@uncounted
def unsettled_in(data, begin, end, stage1, stage2, every, spans, count):
    at, last_class, low, first = begin, 0, begin, count
    while at < end:
        size = ascii_ahead(data, at, end)
        if size:
            at += size
            last_class = 0
            continue
        here = at
        code, length = decode(data, at)
        at += length
        packed = entry(code, stage1, stage2)
        mark_class = packed >> 4 & 63
        settled = packed & 8 == 0 and (mark_class == 0 or mark_class >= last_class)
        last_class = mark_class
        if (settled and not every) or code < 0x80:
            continue
        if count - first == MOST_STRETCHES:
            spans[first, 0], spans[first, 1] = begin, end
            return first + 1
        while here > low and data[U(here - 1)] != BLANK:
            here -= 1
        while at < end and data[U(at)] != BLANK:
            at += 1
        spans[count, 0], spans[count, 1] = here, at
        count += 1
        low, last_class = at, 0
    return count


@kernel(U8, I64, U16, U32, boolean)
def unsettled(data, offsets, stage1, stage2, every):
    """Return [begin, end) of the stretches between spaces that may not be in normal form C.

    With `every`, of all stretches that are not ASCII. A text with many of them is one stretch.
    """
    rows = offsets.size - 1
    spans = np.empty(((offsets[rows] - offsets[0]) // 2 + rows + 1, 2), np.int64)
    count = np.int64(0)
    for i in range(rows):
        begin, end = offsets[i], offsets[i + 1]
        if not is_ascii(data, begin, end):
            count = unsettled_in(data, begin, end, stage1, stage2, every, spans, count)
    return spans[:count]
