"""Replace the string of one field in JSON lines; `corpus/rows.py` has the slow twin.

The lines are valid, because they were read before. Lines with an escape in a key are left to the
twin.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.characters import HIGH, ONES, SEVENS, U, decode, is_ascii
from neardup.kernels.compile import I64, U8, inline, inner, kernel
from neardup.kernels.intrinsics import load64, store64, trailing_zeros
from neardup.kernels.jsonl import (
    BACKSLASH,
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    OPEN,
    OPEN_LIST,
    QUOTE,
    same,
    special,
)
from neardup.kernels.lines import append

LONGEST_ESCAPE = 6


@inner
def after_string(data, at, end):
    """Return the place after a string that begins before `at`, and whether it has an escape."""
    escaped = False
    while at < end:
        if at + 8 <= end:
            step = trailing_zeros(special(load64(data, at))) >> 3
            at += step
            if step == 8:
                continue
        c = data[U(at)]
        at += 1
        if c == QUOTE:
            break
        if c == BACKSLASH:
            escaped = True
            at += 1
    return at, escaped


@inner
def string_of(data, at, end, key):
    """Return begin and end, quotes included, of the string in the last field of a name.

    The end is 0 if a key has an escape.
    """
    depth, is_key, named = 0, True, False
    begin, stop = 0, 0
    while at < end:
        c = data[U(at)]
        at += 1
        if c == QUOTE:
            start = at - 1
            at, escaped = after_string(data, at, end)
            if depth == 1 and is_key:
                if escaped:
                    return 0, 0
                named = same(data, start + 1, at - 1, key)
            elif depth == 1 and named:
                begin, stop = start, at
        elif c == OPEN or c == OPEN_LIST:
            depth += 1
        elif c == CLOSE or c == CLOSE_LIST:
            depth -= 1
        elif depth == 1 and c == COLON:
            is_key = False
        elif depth == 1 and c == COMMA:
            is_key = True
    return begin, stop


@inline
def beyond_ascii(eight):
    """Return 0x80 in the lowest byte that is not ASCII or is U+007F, a control character."""
    delete = eight ^ SEVENS
    return (eight | ((delete - ONES) & ~delete)) & HIGH


@inner
def write_escape(out, write, code):
    """Write a UTF-16 code unit as an escape of six bytes."""
    out[U(write)], out[U(write + 1)] = BACKSLASH, 0x75
    for i in range(4):
        digit = (code >> (12 - 4 * i)) & 15
        out[U(write + 2 + i)] = digit + (0x30 if digit < 10 else 0x57)
    return write + LONGEST_ESCAPE


@inner
def write_string(out, write, texts, at, end, only_ascii):
    """Write a text as a JSON string, with no more escapes than needed."""
    out[U(write)] = QUOTE
    write += 1
    while at < end:
        if at + 8 <= end:
            eight = load64(texts, at)
            store64(out, write, eight)
            marks = special(eight)
            if only_ascii:
                marks |= beyond_ascii(eight)
            step = trailing_zeros(marks) >> 3
            if step:
                at += step
                write += step
                continue
        if texts[U(at)] >= 0x80 and not only_ascii:  # maybe in the middle of a character
            out[U(write)] = texts[U(at)]
            at += 1
            write += 1
            continue
        code, length = decode(texts, at)
        short = 0
        if code == QUOTE or code == BACKSLASH:
            short = code
        elif code == 0x0A:
            short = 0x6E
        elif code == 0x0D:
            short = 0x72
        elif code == 0x09:
            short = 0x74
        elif code == 0x08:
            short = 0x62
        elif code == 0x0C:
            short = 0x66
        if short:
            out[U(write)], out[U(write + 1)] = BACKSLASH, short
            write += 2
        elif code < 0x20 or (only_ascii and code > 0x7E):
            if code > 0xFFFF:
                write = write_escape(out, write, 0xD800 + ((code - 0x10000) >> 10))
                code = 0xDC00 + (code & 0x3FF)
            write = write_escape(out, write, code)
        else:
            out[U(write)] = code
            write += 1
        at += length
    out[U(write)] = QUOTE
    return write + 1


@kernel(U8, I64, I64, U8, U8, I64)
def edit_strings(data, begins, ends, key, texts, offsets):
    """Return the data with text i in the field `key` of the line from begins[i] to ends[i].

    The first result is False, and nothing is written, if one of the lines has an escape in a key.
    """
    lines = begins.size
    # An escape has up to six bytes; eight are written at a time, and there are quotes.
    room = LONGEST_ESCAPE * (offsets[lines] - offsets[0]) + 2 * lines + 8
    out = np.empty(data.size + room, np.uint8)
    write, copied = 0, 0
    for i in range(lines):
        begin, stop = string_of(data, begins[i], ends[i], key)
        if stop == 0:
            return False, out[:0]
        write = append(out, write, data, copied, begin)
        only_ascii = is_ascii(data, begins[i], ends[i])
        write = write_string(out, write, texts, offsets[i], offsets[i + 1], only_ascii)
        copied = stop
    write = append(out, write, data, copied, data.size)
    return True, out[:write]
