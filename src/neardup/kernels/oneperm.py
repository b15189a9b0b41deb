"""One-permutation MinHash: a shingle falls into a few slots instead of trying them all.

In each round every shingle falls into one slot. A slot holds the least value of the first round in
which any fell into it; rounds go on until no slot is empty, sixteen at most. What is empty then is
filled from other slots (`fill`). Later rounds have greater values, so that the least one counts in
every case, and the slots of a union are the least of its parts'.

What was tried: where shingles fall is worked out for a chunk of them first, in vectors; counting
empty slots meanwhile doubled the time of a round. Shifts one at a time took twice as long as eight;
noting the shifts' numbers in bytes and copying once took as long, copying is what costs.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import I64, OUT_U32_ROWS, U64, inline, inner, kernel, uint64
from neardup.kernels.hashing import U, mix

EMPTY = np.uint32(0xFFFFFFFF)
LOW = U(0xFFFFFFFF)
FIRST_OF_LATER, EACH_LATER = np.uint32(1 << 31), np.uint32(1 << 27)
AT_ONCE = 8
CHUNK = 1024
STRETCH = 512
"""Slots that are filled together: as long as one of them is empty, more shifts are tried."""


@inner
def one_round(mixed, multiplier, first, narrow, row, at, value):
    """Let every shingle fall into a slot."""
    slots = U(row.size)
    for start in range(0, mixed.size, at.size):
        some = mixed[start : start + at.size]
        for i in range(some.size):
            y = some[i] * multiplier
            at[i] = np.uint32(((y >> U(32)) * slots) >> U(32))
            value[i] = np.uint32(first + (np.uint32(y & LOW) >> narrow))
        for i in range(some.size):
            here = U(at[i])
            row[here] = min(row[here], value[i])


@inner
def empty_in(row):
    empty = np.uint32(0)
    for i in range(row.size):
        empty += np.uint32(row[i] == EMPTY)
    return np.int64(empty)


@inner
def fall(mixed, multipliers, row, at, value):
    """All rounds that are needed; returns how many slots are still empty."""
    row[:] = EMPTY
    one_round(mixed, multipliers[0], np.uint32(0), np.uint32(1), row, at, value)
    first = FIRST_OF_LATER
    for r in range(1, multipliers.size):
        # So few can't have filled all slots.
        if mixed.size == 0 or (r * mixed.size >= row.size and empty_in(row) == 0):
            break
        one_round(mixed, multipliers[r], first, np.uint32(5), row, at, value)
        first = np.uint32(first + EACH_LATER)
    return empty_in(row)


@inline
def either(value, other):
    return other if value == EMPTY else value


@inner
def take(row, before, shifts, t):
    """Eight shifts from the t-th on, for some slots; returns how many are still empty."""
    b0, b1 = before[shifts[t] :], before[shifts[t + 1] :]
    b2, b3 = before[shifts[t + 2] :], before[shifts[t + 3] :]
    b4, b5 = before[shifts[t + 4] :], before[shifts[t + 5] :]
    b6, b7 = before[shifts[t + 6] :], before[shifts[t + 7] :]
    empty = np.uint32(0)
    for i in range(row.size):
        left = either(either(either(row[i], b0[i]), b1[i]), either(b2[i], b3[i]))
        right = either(either(b4[i], b5[i]), either(b6[i], b7[i]))
        value = either(left, right)
        row[i] = value
        empty += np.uint32(value == EMPTY)
    return np.int64(empty)


@inner
def copied(source, target):
    for i in range(source.size):
        target[i] = source[i]


@inner
def fill(before, row, shifts):
    """The row of slots with the empty ones filled: the first shift to one that is not counts.

    After all shifts, what is still empty starts again with the row as it is then. `before` holds
    the slots and has room for them twice, so that no shift wraps; they are not all empty.
    """
    slots = row.size
    empty = slots
    while empty:
        copied(before[:slots], before[slots:])
        empty = 0
        for start in range(0, slots, STRETCH):
            some, others = row[start : start + STRETCH], before[start:]
            copied(others[: some.size], some)
            left, t = 1, 0
            while left > 0 and t < shifts.size:
                left = take(some, others, shifts, t)
                t += AT_ONCE
            empty += left
        if empty:
            copied(row, before)


@kernel(U64, I64, uint64, U64, I64, OUT_U32_ROWS)
def one_permutation(shingles, offsets, key, multipliers, shifts, out):
    """One row of slots a document into `out`; returns how many of each were empty at first.

    Without shifts nothing is filled. The number of shifts is a multiple of eight.
    """
    rows, slots = out.shape
    found = np.empty(rows, np.int64)
    longest = 0
    for i in range(rows):
        longest = max(longest, offsets[i + 1] - offsets[i])
    mixed, before = np.empty(longest, np.uint64), np.empty(2 * slots, np.uint32)
    at, value = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    for i in range(rows):
        size = offsets[i + 1] - offsets[i]
        for p in range(size):
            mixed[U(p)] = mix(shingles[U(offsets[i] + p)] ^ key)
        found[i] = fall(mixed[:size], multipliers, before[:slots], at, value)
        if shifts.size and 0 < found[i] < slots:
            fill(before, out[i], shifts)
        else:
            copied(before[:slots], out[i])
    return found


@kernel(OUT_U32_ROWS, I64)
def fill_rows(rows, shifts):
    """Fill the empty slots of each row, in place; rows without any value stay as they are."""
    count, slots = rows.shape
    before = np.empty(2 * slots, np.uint32)
    for i in range(count):
        if 0 < empty_in(rows[i]) < slots:
            copied(rows[i], before)
            fill(before, rows[i], shifts)
