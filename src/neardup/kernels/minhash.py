"""MinHash signatures: k-hash, one-permutation, and slots with spare values.

k-hash: slot j is the least a_j x + b_j over a document's shingles x, modulo 2^32, of the lower
halves of the shingles; or modulo the prime 2^61 - 1. What was tried: one shingle a pass over the
slots reads and writes each slot for every shingle and ran at a fifth of the speed. Eight a pass: 27
G slot updates a second on one core. Modulo 2^61 - 1 the products are made of 32-bit halves, which
vectors have (128-bit ones they don't): 2.4 G updates a second, four shingles a pass as fast as
eight.

One-permutation: in each round every shingle falls into one slot. A slot holds the least value of
the first round in which any fell into it; rounds go on until no slot is empty, sixteen at most.
What is empty then is filled from other slots (`fill`). Later rounds have greater values, so that
the least one counts in every case, and the slots of a union are the least of its parts'. What was
tried: where shingles fall is worked out for a chunk of them first, in vectors; counting empty
slots meanwhile doubled the time of a round. Shifts one at a time took twice as long as eight;
noting the shifts' numbers in bytes and copying once took as long, copying is what costs.

Spare values: each slot keeps the least keys of the set, not only the least one. A key is a slot's
32-bit value of an element, then the upper half of the element: one to one, so that it is the
element. A slot's row holds exactly the set's keys below its limit, ascending, then 2^64 - 1 where
there is none. The limit starts at 2^64 - 1, where nothing is missing.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import (
    I64,
    OUT_U32_ROWS,
    OUT_U64,
    OUT_U64_ROWS,
    U32,
    U64,
    U64_ROWS,
    inline,
    inner,
    kernel,
    uint64,
)
from neardup.kernels.hashing import U, mix

EMPTY = np.uint32(0xFFFFFFFF)


@inner
def low(shingles, at, last):
    """Return the lower half of a shingle; past the end the last one, which changes nothing."""
    return np.uint32(shingles[min(at, last)])


@kernel(U64, I64, U32, U32)
def minhash_m32(shingles, offsets, a, b):
    """Return one row of slots a document; without shingles all slots are 2^32 - 1."""
    rows, slots = offsets.size - 1, a.size
    out = np.empty((rows, slots), np.uint32)
    for i in range(rows):
        row = out[i]
        row[:] = EMPTY
        last = offsets[i + 1] - 1
        for p in range(offsets[i], offsets[i + 1], 8):
            x0, x1 = low(shingles, p, last), low(shingles, p + 1, last)
            x2, x3 = low(shingles, p + 2, last), low(shingles, p + 3, last)
            x4, x5 = low(shingles, p + 4, last), low(shingles, p + 5, last)
            x6, x7 = low(shingles, p + 6, last), low(shingles, p + 7, last)
            for j in range(slots):
                aj, bj = a[j], b[j]
                m01 = min(np.uint32(aj * x0 + bj), np.uint32(aj * x1 + bj))
                m23 = min(np.uint32(aj * x2 + bj), np.uint32(aj * x3 + bj))
                m45 = min(np.uint32(aj * x4 + bj), np.uint32(aj * x5 + bj))
                m67 = min(np.uint32(aj * x6 + bj), np.uint32(aj * x7 + bj))
                row[j] = min(row[j], min(min(m01, m23), min(m45, m67)))
    return out


PRIME, HALF, LOW, LOW29 = U((1 << 61) - 1), U(32), U(0xFFFFFFFF), U((1 << 29) - 1)
EMPTY_WIDE = U(0xFFFFFFFFFFFFFFFF)


@inline
def folded(x):
    """Return a number that is congruent modulo 2^61 - 1, and at most 7 above that."""
    return (x & PRIME) + (x >> U(61))


@inner
def reduced(shingles, at, last):
    """Return a shingle modulo 2^61 - 1; past the end the last one, which changes nothing."""
    x = folded(shingles[min(at, last)])
    return x - PRIME if x >= PRIME else x


@inline
def affine(a_high, a_low, b, x):
    """Return (a x + b) mod 2^61 - 1 for arguments below that; no sum reaches 2^64.

    With halves, a x = high 2^64 + middle 2^32 + low, and 2^61 is congruent to 1.
    """
    x_high, x_low = x >> HALF, x & LOW
    middle = a_high * x_low + a_low * x_high
    low = a_low * x_low
    high = a_high * x_high * U(8)
    y = folded(high + (middle >> U(29)) + ((middle & LOW29) << HALF) + folded(low) + b)
    return min(y, y - PRIME)


@kernel(U64, I64, U64, U64)
def minhash_m61(shingles, offsets, a, b):
    """Return one row of 64-bit slots a document; without shingles all slots are 2^64 - 1."""
    rows, slots = offsets.size - 1, a.size
    out = np.empty((rows, slots), np.uint64)
    for i in range(rows):
        row = out[i]
        row[:] = EMPTY_WIDE
        last = offsets[i + 1] - 1
        for p in range(offsets[i], offsets[i + 1], 4):
            x0, x1 = reduced(shingles, p, last), reduced(shingles, p + 1, last)
            x2, x3 = reduced(shingles, p + 2, last), reduced(shingles, p + 3, last)
            for j in range(slots):
                high, low, bj = a[j] >> HALF, a[j] & LOW, b[j]
                m01 = min(affine(high, low, bj, x0), affine(high, low, bj, x1))
                m23 = min(affine(high, low, bj, x2), affine(high, low, bj, x3))
                row[j] = min(row[j], min(m01, m23))
    return out


FIRST_OF_LATER, EACH_LATER = np.uint32(1 << 31), np.uint32(1 << 27)
AT_ONCE = 8
CHUNK = 1024
STRETCH = 512
"""Slots that are filled together: while one of them is empty, more shifts are tried."""


@inner
def one_round(mixed, multiplier, first, narrow, row, at, value):
    """Put every shingle into a slot, which keeps the least value."""
    slots = U(row.size)
    for start in range(0, mixed.size, at.size):
        chunk = mixed[start : start + at.size]
        for i in range(chunk.size):
            y = chunk[i] * multiplier
            at[i] = np.uint32(((y >> U(32)) * slots) >> U(32))
            value[i] = np.uint32(first + (np.uint32(y & LOW) >> narrow))
        for i in range(chunk.size):
            slot = U(at[i])
            row[slot] = min(row[slot], value[i])


@inner
def empty_in(row):
    empty = np.uint32(0)
    for i in range(row.size):
        empty += np.uint32(row[i] == EMPTY)
    return np.int64(empty)


@inner
def fall(mixed, multipliers, row, at, value):
    """Run rounds until no slot is empty, or all of them; return the number of empty slots."""
    row[:] = EMPTY
    one_round(mixed, multipliers[0], np.uint32(0), np.uint32(1), row, at, value)
    first = FIRST_OF_LATER
    for r in range(1, multipliers.size):
        # Counting is skipped while there are fewer values than slots.
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
    """Fill empty slots by eight shifts from the t-th on; return how many are still empty."""
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
    """Write the slots to `row` with empty ones filled, each by the first shift to a full slot.

    Slots that are empty after all shifts start again with the row as it is then. `before` holds the
    slots and has room for them twice, so that no shift wraps; they are not all empty.
    """
    slots = row.size
    empty = slots
    while empty:
        copied(before[:slots], before[slots:])
        empty = 0
        for start in range(0, slots, STRETCH):
            stretch, others = row[start : start + STRETCH], before[start:]
            copied(others[: stretch.size], stretch)
            missing, t = 1, 0
            while missing > 0 and t < shifts.size:
                missing = take(stretch, others, shifts, t)
                t += AT_ONCE
            empty += missing
        if empty:
            copied(row, before)


@kernel(U64, I64, uint64, U64, I64, OUT_U32_ROWS)
def one_permutation(shingles, offsets, key, multipliers, shifts, out):
    """Write one row of slots a document to `out`; return how many of each were empty at first.

    Without shifts nothing is filled. The number of shifts is a multiple of eight.
    """
    rows, slots = out.shape
    empty = np.empty(rows, np.int64)
    longest = 0
    for i in range(rows):
        longest = max(longest, offsets[i + 1] - offsets[i])
    mixed, before = np.empty(longest, np.uint64), np.empty(2 * slots, np.uint32)
    at, value = np.empty(CHUNK, np.uint32), np.empty(CHUNK, np.uint32)
    for i in range(rows):
        size = offsets[i + 1] - offsets[i]
        for p in range(size):
            mixed[U(p)] = mix(shingles[U(offsets[i] + p)] ^ key)
        empty[i] = fall(mixed[:size], multipliers, before[:slots], at, value)
        if shifts.size and 0 < empty[i] < slots:
            fill(before, out[i], shifts)
        else:
            copied(before[:slots], out[i])
    return empty


@kernel(OUT_U32_ROWS, I64)
def fill_rows(rows, shifts):
    """Fill the empty slots of each row, in place; rows without any value stay as they are."""
    count, slots = rows.shape
    before = np.empty(2 * slots, np.uint32)
    for i in range(count):
        if 0 < empty_in(rows[i]) < slots:
            copied(rows[i], before)
            fill(before, rows[i], shifts)


NONE = U(0xFFFFFFFFFFFFFFFF)


@inner
def key_of(x, a, b):
    return (U(np.uint32(a * np.uint32(x) + b)) << U(32)) | (x >> U(32))


@inner
def place(row, key):
    """Return the place of a key in its row, or where it would be."""
    at = 0
    while at < row.size and row[at] < key:
        at += 1
    return at


@inner
def add_key(row, limits, slot, key):
    if key >= limits[slot]:
        return
    at = place(row, key)
    if at < row.size and row[at] == key:
        return
    # The key that falls out at the end is the least of those that are not kept.
    for i in range(at, row.size):
        row[i], key = key, row[i]
    limits[slot] = key if key < limits[slot] else limits[slot]


@kernel(OUT_U64_ROWS, OUT_U64, U64, U32, U32)
def add_keys(rows, limits, hashes, a, b):
    """Add elements to all slots."""
    for slot in range(rows.shape[0]):
        for p in range(hashes.size):
            add_key(rows[slot], limits, slot, key_of(hashes[p], a[slot], b[slot]))


@kernel(OUT_U64_ROWS, OUT_U64, U64_ROWS, U64)
def merge_keys(rows, limits, other_rows, other_limits):
    """Add another sketch's elements; the limit of a slot becomes the lesser of both."""
    for slot in range(rows.shape[0]):
        limit = min(limits[slot], other_limits[slot])
        limits[slot] = limit
        row = rows[slot]
        row[place(row, limit) :] = NONE
        for key in other_rows[slot]:
            add_key(row, limits, slot, key)


@kernel(OUT_U64_ROWS, U64, uint64, U32, U32)
def remove_key(rows, limits, x, a, b):
    """Remove an element; return in how many slots it was, and in how many it certainly was not."""
    removed = absent = 0
    for slot in range(rows.shape[0]):
        row, key = rows[slot], key_of(x, a[slot], b[slot])
        if key >= limits[slot]:
            continue
        at = place(row, key)
        if at == row.size or row[at] != key:
            absent += 1
            continue
        removed += 1
        row[at:-1] = row[at + 1 :]
        row[-1] = NONE
    return removed, absent
