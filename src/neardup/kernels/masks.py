"""Replace the spans of texts that regular rules match, by automata: no byte is read often.

`reference/masks.py` is the definition, `text/regular_rules.py` makes the tables.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.characters import ALONE, MARK, SPACE, WORD, U, decode, entry
from neardup.kernels.compile import I16_ROWS, I64, U8, U8_ROWS, U16, U32, inner, kernel
from neardup.kernels.lines import append
from neardup.kernels.numbers import NO_DIGIT, digit_value

ASCII = 128
ZERO = 48
ENDS_WORD, CONTINUES_WORD = 1, 2


@inner
def symbol_of(code, stage1, stage2, zeros, units_of_dates):
    """Return the number of a character's symbol; those beyond ASCII follow its 128."""
    if code < ASCII:
        return code
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


@kernel(U8, I64, U16, U32, I64, I64, I64, I16_ROWS, U8, I64, U8_ROWS, U8, U8, U8_ROWS, I64)
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
    guarded,
    flags,
    placeholders,
    placeholder_sizes,
):
    """Return the texts with each longest match of a rule replaced by the rule's placeholder.

    At each place the first rule that matches counts. `barred` tells for each rule and column
    whether no match begins behind it; `flags` of a column are ENDS_WORD and CONTINUES_WORD, between
    which no match of a guarded rule ends.
    """
    rows = offsets.size - 1
    out = np.empty(offsets[rows] - offsets[0], np.uint8)
    ends = np.zeros(rows + 1, np.int64)
    write = np.int64(0)
    for i in range(rows):
        at, end, copied, before = offsets[i], offsets[i + 1], offsets[i], np.int64(-1)
        while at < end:
            code, length = decode(data, at)
            column = columns[U(symbol_of(code, stage1, stage2, zeros, units_of_dates))]
            stop, last, found = np.int64(0), np.int64(0), -1
            for rule in range(starts.size):
                state = transitions[U(starts[rule]), U(column)]
                if state == 0 or (before >= 0 and barred[rule, before]):
                    continue
                here, latest = at + length, column
                while True:
                    following, size = np.int64(-1), 0
                    if here < end:
                        code, size = decode(data, here)
                        symbol = symbol_of(code, stage1, stage2, zeros, units_of_dates)
                        following = columns[U(symbol)]
                    splits = (
                        guarded[rule]
                        and following >= 0
                        and flags[latest] & ENDS_WORD
                        and flags[following] & CONTINUES_WORD
                    )
                    if accepting[U(state)] and not splits:
                        stop, last, found = here, latest, rule
                    if following < 0:
                        break
                    state = transitions[U(state), U(following)]
                    if state == 0:
                        break
                    here, latest = here + size, following
                if found >= 0:
                    break
            if found < 0:
                at, before = at + length, column
                continue
            size = placeholder_sizes[found]
            needed = write + (at - copied) + size + (offsets[rows] - stop)
            if needed > out.size:
                larger = np.empty(needed + (needed >> 1), np.uint8)
                larger[:write] = out[:write]
                out = larger
            write = append(out, write, data, copied, at)
            write = append(out, write, placeholders[found], 0, size)
            at, copied, before = stop, stop, last
        write = append(out, write, data, copied, end)
        ends[i + 1] = write
    return out[:write], ends
