"""Which sets are equal, and small numbers instead of 64-bit shingles: what a join begins with.

`tokens` are shingles numbered by how many sets they are in, the rarest first; a set is a sorted
row of them.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import (
    I64,
    OUT_U8,
    OUT_U32,
    U32,
    U64,
    inner,
    int64,
    kernel,
)
from neardup.kernels.probing import AHEAD, prefetch, scaled, spread

U = np.uint64
ROOM = 1024
SHORT = 48
"""Rows up to this length are sorted faster by insertion."""


@inner
def equal_rows(data, offsets, u, v):
    """Whether rows u and v hold the same."""
    size = offsets[u + 1] - offsets[u]
    if offsets[v + 1] - offsets[v] != size:
        return False
    for i in range(size):
        if data[offsets[u] + i] != data[offsets[v] + i]:
            return False
    return True


@kernel(U64, I64, U64, I64)
def first_equal(data, offsets, hashes, order):
    """The first row that equals each row. `order` sorts the rows by their hashes, then number."""
    first = np.empty(order.size, np.int64)
    begin = 0
    for end in range(1, order.size + 1):
        if end < order.size and hashes[order[end]] == hashes[order[begin]]:
            continue
        for i in range(begin, end):
            row = order[i]
            first[row] = row
            for j in range(begin, i):
                # Rows of equal hashes that are different are rare, leaders are few.
                if first[order[j]] == order[j] and equal_rows(data, offsets, order[j], row):
                    first[row] = order[j]
                    break
        begin = end
    return first


@kernel(U64, OUT_U8, int64)
def beyond(keys, counts, limit):
    """Which keys come after so many others of the same cell. `counts` holds what was before.

    Keys share a cell by their lower bits; there is a power of two of cells.
    """
    out = np.empty(keys.size, np.bool_)
    for i in range(keys.size):
        cell = keys[i] & U(counts.size - 1)
        out[i] = np.int64(counts[cell]) >= limit
        if not out[i]:
            counts[cell] += np.uint8(1)
    return out


@inner
def doubled(array, used):
    """The first entries of an array in one that is twice as long."""
    longer = np.empty(2 * array.size, array.dtype)
    longer[:used] = array[:used]
    return longer


@inner
def home(entries, key):
    """Where the search for a key begins. An entry is a key and its number + 1, 0 if it is free."""
    return scaled(spread(key, U(0)), U(entries.size >> 1)) << U(1)


@inner
def place_of(entries, key):
    """Where a key is, or would go: the first free entry from its home on."""
    at = home(entries, key)
    while entries[at + U(1)] != U(0) and entries[at] != key:
        at += U(2)
        if at == U(entries.size):
            at = U(0)
    return at


@inner
def wider(entries):
    """The same table with twice the room."""
    to = np.zeros(2 * entries.size, np.uint64)
    for i in range(0, entries.size, 2):
        if i + 2 * AHEAD < entries.size:
            prefetch(to, home(to, entries[i + 2 * AHEAD]))
        if entries[i + 1] != U(0):
            at = place_of(to, entries[i])
            to[at], to[at + U(1)] = entries[i], entries[i + 1]
    return to


@kernel(U64, I64, I64)
def number_shingles(data, offsets, rows):
    """The shingles of some rows as numbers in order of appearance, and how often each is there."""
    size = 0
    for row in rows:
        size += offsets[row + 1] - offsets[row]
    found, counts = np.empty(size, np.uint32), np.empty(ROOM, np.int64)
    entries = np.zeros(4 * ROOM, np.uint64)
    write, used = 0, 0
    for row in rows:
        for p in range(offsets[row], offsets[row + 1]):
            if p + AHEAD < data.size:
                prefetch(entries, home(entries, data[p + AHEAD]))
            at = place_of(entries, data[p])
            number = np.int64(entries[at + U(1)]) - 1
            if number < 0:
                number = used
                entries[at], entries[at + U(1)] = data[p], U(number + 1)
                if used == counts.size:
                    counts = doubled(counts, used)
                counts[number] = 0
                used += 1
                if 4 * used > entries.size:
                    entries = wider(entries)
            found[write] = number
            counts[number] += 1
            write += 1
    return found, counts[:used].copy()


@kernel(I64)
def rank_counts(counts):
    """Each number's place when they are sorted by their counts, the least first."""
    starts = np.zeros(counts.max() + 2 if counts.size else 1, np.int64)
    for count in counts:
        starts[count + 1] += 1
    for count in range(starts.size - 1):
        starts[count + 1] += starts[count]
    ranks = np.empty(counts.size, np.uint32)
    for number in range(counts.size):
        ranks[number] = starts[counts[number]]
        starts[counts[number]] += 1
    return ranks


@inner
def sort_row(row):
    if row.size > SHORT:
        row.sort()
        return
    for i in range(1, row.size):
        value, j = row[i], i
        while j > 0 and row[j - 1] > value:
            row[j] = row[j - 1]
            j -= 1
        row[j] = value


@kernel(OUT_U32, I64, I64, U32)
def rank_rows(numbers, begins, ends, ranks):
    """Make ranks of the numbers in each row, and sort it."""
    for row in range(begins.size):
        for p in range(begins[row], ends[row]):
            numbers[p] = ranks[numbers[p]]
        sort_row(numbers[begins[row] : ends[row]])
