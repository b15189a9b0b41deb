"""MinHash slots with spare values: each keeps the least keys of the set, not only the least one.

A key is a slot's 32-bit value of an element, then the upper half of the element: one to one, so
that it is the element. A slot's row holds exactly the set's keys below its limit, ascending, then
2^64 - 1 where there is none. The limit starts at 2^64 - 1, where nothing is missing.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import OUT_U64, OUT_U64_ROWS, U32, U64, U64_ROWS, inner, kernel, uint64

U = np.uint64
NONE = U(0xFFFFFFFFFFFFFFFF)


@inner
def key_of(x, a, b):
    return (U(np.uint32(a * np.uint32(x) + b)) << U(32)) | (x >> U(32))


@inner
def place(row, key):
    """Where the key is in its row, or would be."""
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
    # What falls out at the end is the least of what is not kept.
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
    """Add another sketch's elements; what is known ends where it ends in either."""
    for slot in range(rows.shape[0]):
        limit = min(limits[slot], other_limits[slot])
        limits[slot] = limit
        row = rows[slot]
        row[place(row, limit) :] = NONE
        for key in other_rows[slot]:
            add_key(row, limits, slot, key)


@kernel(OUT_U64_ROWS, U64, uint64, U32, U32)
def remove_key(rows, limits, x, a, b):
    """Take an element out. In how many slots it was, and in how many it was certainly not."""
    there = missing = 0
    for slot in range(rows.shape[0]):
        row, key = rows[slot], key_of(x, a[slot], b[slot])
        if key >= limits[slot]:
            continue
        at = place(row, key)
        if at == row.size or row[at] != key:
            missing += 1
            continue
        there += 1
        row[at:-1] = row[at + 1 :]
        row[-1] = NONE
    return there, missing
