"""Replace the spans of texts that regular rules match, by automata: no byte is read often.

`reference/masks.py` is the definition, `text/regular_rules.py` makes the tables.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.characters import ALONE, MARK, SPACE, WORD, U, decode, entry
from neardup.kernels.compile import I16_ROWS, I64, U8, U8_ROWS, U16, U32, kernel, uncounted
from neardup.kernels.numbers import NO_DIGIT, digit_value

ASCII = 128
ZERO = 48
ENDS_WORD, CONTINUES_WORD = 1, 2


@uncounted
def symbol_of(code, stage1, stage2, zeros, units_of_dates):
    """Return the number of the symbol of a character beyond ASCII; they follow those of ASCII."""
    for place in range(units_of_dates.size):
        if code == units_of_dates[U(place)]:
            return ASCII + 5 + place
    kind = entry(code, stage1, stage2) & 7
    if kind == WORD:
        value = digit_value(code, zeros)
        return ASCII if value == NO_DIGIT else ZERO + value
    if kind == ALONE:
        return ASCII + 1
    if kind == MARK:
        return ASCII + 2
    return ASCII + 3 if kind == SPACE else ASCII + 4


@uncounted
def read_column(data, at, columns, stage1, stage2, zeros, units_of_dates):
    """Return the column of the character at a place, and its length in bytes."""
    first = data[U(at)]
    if first < ASCII:
        return np.int64(columns[U(first)]), 1
    code, length = decode(data, at)
    return np.int64(columns[U(symbol_of(code, stage1, stage2, zeros, units_of_dates))]), length


@uncounted
def match_rule(
    data,
    here,
    end,
    column,
    state,
    columns,
    stage1,
    stage2,
    zeros,
    units_of_dates,
    transitions,
    accepting,
    flags,
    guarded,
):
    """Return where the longest match ends that is in this state, and its last column; 0 if none.

    Args:
        data: The bytes of the text.
        here: The place behind the first character of the match.
        end: The end of the text.
        column, state: The column of the first character, and the state behind it.
        columns, stage1, stage2, zeros, units_of_dates: What a column is found by.
        transitions, accepting, flags: The tables of the automaton.
        guarded: Whether a match must not end inside of a word.
    """  # fmt: skip
    stop, last = np.int64(0), np.int64(0)
    while True:
        following, size = np.int64(-1), 0
        if here < end:
            following, size = read_column(
                data, here, columns, stage1, stage2, zeros, units_of_dates
            )
        if accepting[U(state)] and not (
            guarded
            and following >= 0
            and flags[U(column)] & ENDS_WORD
            and flags[U(following)] & CONTINUES_WORD
        ):
            stop, last = here, column
        if following < 0:
            return stop, last
        state = transitions[U(state), U(following)]
        if state == 0:
            return stop, last
        here, column = here + size, following


@uncounted
def copy(data, begin, end, out, write):
    """Copy data[begin:end] to out[write:]; return the position after it."""
    for place in range(end - begin):
        out[U(write + place)] = data[U(begin + place)]
    return write + end - begin


@uncounted
def mask_text(
    data,
    begin,
    end,
    out,
    write,
    stage1,
    stage2,
    zeros,
    units_of_dates,
    columns,
    transitions,
    accepting,
    starts,
    barred,
    possible,
    guarded,
    flags,
    placeholders,
    sizes,
):
    """Write data[begin:end] with its matches replaced; return the position after it.

    Or the negative of the room that is needed at least, if `out` has less. The arguments are those
    of `mask_spans`.
    """  # fmt: skip
    beginning = np.int64(possible.shape[1])
    at, copied, before = begin, begin, beginning
    while at < end:
        first = data[U(at)]
        if first < ASCII:
            column, length = np.int64(columns[U(first)]), 1
        else:
            column, length = read_column(data, at, columns, stage1, stage2, zeros, units_of_dates)
        if not possible[U(before), U(column)]:
            at, before = at + length, column
            continue
        found, stop, last = np.int64(-1), np.int64(0), np.int64(0)
        for rule in range(starts.size):
            state = transitions[U(starts[U(rule)]), U(column)]
            if state == 0 or (before != beginning and barred[U(rule), U(before)]):
                continue
            stop, last = match_rule(
                data, at + length, end, column, state, columns, stage1, stage2, zeros,
                units_of_dates, transitions, accepting, flags, guarded[U(rule)],
            )  # fmt: skip
            if stop:
                found = rule
                break
        if found < 0:
            at, before = at + length, column
            continue
        needed = write + (at - copied) + sizes[U(found)] + (end - stop)
        if needed > out.size:
            return -needed
        write = copy(data, copied, at, out, write)
        for place in range(sizes[U(found)]):
            out[U(write + place)] = placeholders[U(found), U(place)]
        write += sizes[U(found)]
        at, copied, before = stop, stop, last
    return copy(data, copied, end, out, write)


@kernel(U8, I64, U16, U32, I64, I64, I64, I16_ROWS, U8, I64, U8_ROWS, U8_ROWS, U8, U8, U8_ROWS, I64)
def mask_spans(
    data,
    offsets,
    stage1,
    stage2,
    zeros,
    units_of_dates,
    columns,
    transitions,
    accepting,
    starts,
    barred,
    possible,
    guarded,
    flags,
    placeholders,
    sizes,
):
    """Return the texts with each longest match of a rule replaced by the rule's placeholder.

    At each place the first rule that matches counts. `barred` tells for each rule and column
    whether no match begins behind it, `possible` for each column, and the beginning of a text, with
    which columns a match may begin behind it. `flags` of a column are ENDS_WORD and CONTINUES_WORD,
    between which no match of a guarded rule ends.
    """
    rows = offsets.size - 1
    out = np.empty(offsets[rows] - offsets[0], np.uint8)
    ends = np.zeros(rows + 1, np.int64)
    for i in range(rows):
        while True:
            needed = ends[i] + offsets[i + 1] - offsets[i]
            if needed <= out.size:
                write = mask_text(
                    data, offsets[i], offsets[i + 1], out, ends[i], stage1, stage2, zeros,
                    units_of_dates, columns, transitions, accepting, starts, barred, possible,
                    guarded, flags, placeholders, sizes,
                )  # fmt: skip
                if write >= 0:
                    break
                needed = -write
            larger = np.empty(needed + (needed >> 1) + offsets[rows] - offsets[i + 1], np.uint8)
            larger[: ends[i]] = out[: ends[i]]
            out = larger
        ends[i + 1] = write
    return out[: ends[rows]], ends
