"""Make JSON lines of a JSON array, or of objects that follow one another, block by block.

The result has the length of the block: a newline inside a record becomes a space (in a string,
where JSON has none, 0x01, so that the record stays invalid and stays one record), a comma between
two elements of the array becomes a newline, and the brackets of the array become spaces. Where a
record of a sequence begins on the line on which another one ends, the caller inserts a newline:
the kernel returns these places. Only nesting and strings are followed: everything else is left to
the reader of JSON lines. `reference/json_records.py` is the slow twin.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.characters import HIGH, U
from neardup.kernels.compile import OUT_I64, U8, inner, kernel
from neardup.kernels.intrinsics import load64, trailing_zeros
from neardup.kernels.jsonl import (
    BACKSLASH,
    BLANKS,
    CLOSE,
    CLOSE_LIST,
    COMMA,
    NEWLINE,
    OPEN,
    OPEN_LIST,
    QUOTE,
    special,
)
from neardup.reference.json_records import (
    AFTER,
    BETWEEN,
    DONE,
    END,
    ENDED,
    FIRST,
    INSIDE,
    LOOSE_COMMA,
    NEXT,
    NO_COMMA,
    SCALAR,
    START,
    STRAY,
)

PLACE, DEPTH, STRING, IS_ARRAY = 0, 1, 2, 3
NO_STRING, IN_STRING, ESCAPED = 0, 1, 2
SPACE, NO_NEWLINE = 0x20, 0x01


@inner
def is_white(c):
    return c == SPACE or c == NEWLINE or c == 0x0D or c == 0x09


@inner
def inside(data, out, at, depth, string):
    """Go on inside a record; return the place after it or the block, depth and string there."""
    size = data.size
    while at < size:
        if string == IN_STRING:
            if at + 8 <= size:
                marks = special(load64(data, at)) & HIGH
                at += trailing_zeros(marks) >> 3
                if marks == U(0):
                    continue
            c = data[U(at)]
            at += 1
            if c == QUOTE:
                string = NO_STRING
                if depth == 0:
                    return at, depth, string
            elif c == BACKSLASH:
                string = ESCAPED
            elif c == NEWLINE:
                out[U(at - 1)] = NO_NEWLINE
            continue
        c = data[U(at)]
        at += 1
        if string == ESCAPED:
            string = IN_STRING
            if c == NEWLINE:
                out[U(at - 1)] = NO_NEWLINE
        elif c == QUOTE:
            string = IN_STRING
        elif c == NEWLINE:
            out[U(at - 1)] = SPACE
            while at + 8 <= size and load64(data, at) == BLANKS:
                at += 8
        elif c == OPEN or c == OPEN_LIST:
            depth += 1
        elif c == CLOSE or c == CLOSE_LIST:
            depth -= 1
            if depth == 0:
                return at, depth, string
    return at, depth, string


@kernel(U8, OUT_I64)
def lines_of_json(data, state):
    """Return the block as JSON lines, the places to insert a newline, how it ended, and where.

    `state` is that after the block before (zeros in the beginning), and becomes that after this
    block: place, depth, state of a string, and whether there is an array. A block ends with DONE,
    or before a byte that can't be read on from, with an error of the twin's module.
    """
    size = data.size
    out = data.copy()
    breaks, count = np.empty(size // 2 + 1, np.int64), 0
    place, depth, string = state[PLACE], state[DEPTH], state[STRING]
    is_array = state[IS_ARRAY]
    at, how = 0, DONE
    while at < size:
        if place == INSIDE:
            at, depth, string = inside(data, out, at, depth, string)
            if depth == 0 and string == NO_STRING:
                place = AFTER if is_array else ENDED
            continue
        c = data[U(at)]
        if place == SCALAR:
            if is_array and (c == COMMA or c == CLOSE_LIST):
                place = AFTER
            elif is_array and c == NEWLINE:
                out[U(at)] = SPACE
                at += 1
            else:
                at += 1
                if c == NEWLINE:
                    place = BETWEEN
            continue
        if is_white(c):
            if c == NEWLINE:
                if place == ENDED or place == BETWEEN:
                    place = BETWEEN
                else:
                    out[U(at)] = SPACE
            at += 1
            continue
        if place == START:
            if c == 0xEF or c == 0xBB or c == 0xBF:  # a byte order mark
                at += 1
                continue
            if c == OPEN_LIST:
                is_array, place = 1, FIRST
                out[U(at)] = SPACE
                at += 1
                continue
            place = BETWEEN
        if place == END:
            how = STRAY
            break
        if place == ENDED and c != COMMA:
            breaks[count] = at
            count += 1
        if place == AFTER:
            if c == COMMA:
                out[U(at)] = NEWLINE
                place = NEXT
            elif c == CLOSE_LIST:
                out[U(at)] = SPACE
                place = END
            else:
                how = STRAY if c == CLOSE else NO_COMMA
                break
            at += 1
            continue
        if c == COMMA or (c == CLOSE_LIST and place == NEXT):
            how = LOOSE_COMMA
            break
        if c == CLOSE_LIST and place == FIRST:
            out[U(at)] = SPACE
            place = END
        elif c == CLOSE and is_array:
            how = STRAY
            break
        elif c == OPEN or c == OPEN_LIST:
            place, depth, string = INSIDE, 1, NO_STRING
        elif c == QUOTE and is_array:
            place, depth, string = INSIDE, 0, IN_STRING
        else:
            place = SCALAR
        at += 1
    state[PLACE], state[DEPTH], state[STRING] = place, depth, string
    state[IS_ARRAY] = is_array
    return out, breaks[:count].copy(), how, at
