"""The hash table: open addressing over one array, growing a few entries at a time.

An entry is one or two words of key and a word of value + 1, which is 0 in an empty slot: a new
table is zeros, which cost nothing until they are touched. A key's home is the high end of its
mixed bits, scaled to the number of slots; it is in the first slot from there on that was free.

A table that grows has an old array beside the new one. Entries in the old array's slots before
`state[MOVED]` have been copied to the new one and don't count; every insert moves STEP more. A new
key goes into the old array if its slot is not moved yet. As homes keep their order, the new array
is written from its beginning to its end, so that few new memory pages are touched at once: 256
inserts that each touched a new page of 2 MB took half a second.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import (
    I64,
    OUT_I64,
    OUT_U64,
    U64,
    U64_ROWS,
    boolean,
    inline,
    inner,
    int64,
    kernel,
)
from neardup.kernels.hashing import mix
from neardup.kernels.intrinsics import AHEAD, prefetch, scaled

U = np.uint64
MOVED, COUNT = 0, 1
STEP = 16
"""Slots of the old array that an insert moves."""
DEAD = ~U(0)
"""The value of a removed entry of the old array; in the new one the gap is closed."""


@inline
def home(first, slots):
    return np.int64(scaled(mix(first), U(slots)))


@inline
def seek(entries, slots, words, first, second):
    """Return the place of a key's value, or where it would go."""
    stride = words + 1
    at = home(first, slots) * stride
    while entries[U(at + words)] != U(0):
        if entries[U(at)] == first and (words == 1 or entries[U(at + 1)] == second):
            break
        at += stride
        if at == entries.size:
            at = 0
    return at + words


@inner
def seek_old(old, words, first, second, moved):
    """Return the place of the key's value in the old array, -1 if it is not there or moved."""
    if moved * (words + 1) >= old.size:
        return -1
    at = seek(old, old.size // (words + 1), words, first, second)
    if old[U(at)] == U(0) or old[U(at)] == DEAD or at // (words + 1) < moved:
        return -1
    return at


@inner
def move_some(old, new, words, moved):
    """Copy the next STEP slots of the old array; return how many are copied now."""
    stride, slots = words + 1, new.size // (words + 1)
    end = min(moved + STEP, old.size // stride)
    for at in range(moved * stride, end * stride, stride):
        value = old[U(at + words)]
        if value != U(0) and value != DEAD:
            to = seek(new, slots, words, old[U(at)], old[U(at + words - 1)])
            for word in range(words):
                new[U(to - words + word)] = old[U(at + word)]
            new[U(to)] = value
    return end


@kernel(U64, OUT_U64, OUT_I64, int64)
def table_settle(old, new, state, words):
    """Move all remaining entries of the old array."""
    while state[MOVED] * (words + 1) < old.size:
        state[MOVED] = move_some(old, new, words, state[MOVED])


@inline
def look_ahead(entries, words, keys, i):
    if i + AHEAD < keys.shape[0]:
        at = home(keys[i + AHEAD, 0], entries.size // (words + 1))
        prefetch(entries, U(at * (words + 1)))


@kernel(OUT_U64, OUT_U64, OUT_I64, U64_ROWS, I64, boolean, int64)
def table_put(old, new, state, keys, values, replace, limit):
    """Insert missing keys, and with `replace` new values for existing ones.

    Returns each key's previous value, -1 if there was none. Stops when the table has `limit` keys:
    the result has an entry for each key before that.
    """
    words = keys.shape[1]
    slots = new.size // (words + 1)
    before = np.empty(keys.shape[0], np.int64)
    for i in range(keys.shape[0]):
        if state[COUNT] >= limit:
            return before[:i]
        look_ahead(new, words, keys, i)
        first, second = keys[i, 0], keys[i, words - 1]
        entries, at = new, seek(new, slots, words, first, second)
        held = new[U(at)]
        if held == U(0) and state[MOVED] * (words + 1) < old.size:
            place = seek(old, old.size // (words + 1), words, first, second)
            if place // (words + 1) >= state[MOVED]:
                entries, at = old, place
                held = old[U(at)] if old[U(at)] != DEAD else U(0)
        if held == U(0) or replace:
            for word in range(words):
                entries[U(at - words + word)] = keys[i, word]
            entries[U(at)] = U(values[i]) + U(1)
            state[COUNT] += held == U(0)
        before[i] = np.int64(held) - 1
        state[MOVED] = move_some(old, new, words, state[MOVED])
    return before


@kernel(U64, U64, I64, U64_ROWS)
def table_get(old, new, state, keys):
    """Return the value of each key, -1 for a missing one."""
    words = keys.shape[1]
    slots = new.size // (words + 1)
    found = np.empty(keys.shape[0], np.int64)
    for i in range(keys.shape[0]):
        look_ahead(new, words, keys, i)
        first, second = keys[i, 0], keys[i, words - 1]
        held = new[U(seek(new, slots, words, first, second))]
        if held == U(0):
            in_old = seek_old(old, words, first, second, state[MOVED])
            held = old[U(in_old)] if in_old >= 0 else U(0)
        found[i] = np.int64(held) - 1
    return found


@inner
def close_up(entries, words, gap):
    """Empty a slot, and move entries that it had displaced nearer to their homes."""
    stride = words + 1
    slots = entries.size // stride
    at = gap
    while True:
        at = at + 1 if at + 1 < slots else 0
        base = at * stride
        if entries[U(base + words)] == U(0):
            break
        wanted = home(entries[U(base)], slots)
        # Distances from its home and from the gap, modulo the number of slots.
        if (at - wanted + slots) % slots >= (at - gap + slots) % slots:
            for word in range(stride):
                entries[U(gap * stride + word)] = entries[U(base + word)]
            gap = at
    for word in range(stride):
        entries[U(gap * stride + word)] = U(0)


@kernel(OUT_U64, OUT_U64, OUT_I64, U64_ROWS)
def table_remove(old, new, state, keys):
    """Remove keys; return the value that each had, -1 for a missing one."""
    words = keys.shape[1]
    slots = new.size // (words + 1)
    before = np.empty(keys.shape[0], np.int64)
    for i in range(keys.shape[0]):
        first, second = keys[i, 0], keys[i, words - 1]
        at = seek(new, slots, words, first, second)
        held = new[U(at)]
        if held != U(0):
            close_up(new, words, at // (words + 1))
        else:
            in_old = seek_old(old, words, first, second, state[MOVED])
            if in_old >= 0:
                held = old[U(in_old)]
                old[U(in_old)] = DEAD
        before[i] = np.int64(held) - 1
        state[COUNT] -= held != U(0)
    return before
