"""Postings: map a key to the numbers of the documents that have it, in ascending order.

In memory: open addressing with linear probing; a key's home is the high end of its mixed bits,
scaled to the number of slots, so that a larger table has its keys in the same order. Most keys
belong to one document: the value of a slot is 0 if it is free, the number of its only document + 1,
or from CHAIN on the last node of a chain. A node has a number and the next node; the last node's
next is the first one, so that the slot gives both ends of the chain.

On disk: a page is 512 words: a checksum, the number of postings, 340 keys in ascending order, and
340 numbers of 32 bits. Each table has its own part of the filter and its own run of pages.
"""

from __future__ import annotations

import numpy as np
from numba.np.numpy_support import carray

from neardup.kernels.bloom import WORDS, absent_bits
from neardup.kernels.compile import (
    I64,
    I64_ROWS,
    OUT_I64,
    OUT_U32,
    OUT_U64,
    U8,
    U32,
    U32_ROWS,
    U64,
    U64_ROWS,
    inline,
    inner,
    int64,
    kernel,
)
from neardup.kernels.hashing import mix, spread
from neardup.kernels.intrinsics import AHEAD, pointer, prefetch, scaled

U = np.uint64
CHAIN = np.int64(1) << 31
USED, NODES, POSTINGS = 0, 1, 2
"""The entries of `state`: slots in use, nodes in use, postings in total."""


@inline
def home(key, slots):
    return np.int64(scaled(mix(key), U(slots)))


@inner
def seek(keys, values, key):
    """Return the slot of a key, or the free one where it would go."""
    at = home(key, keys.size)
    while values[U(at)] != 0 and keys[U(at)] != key:
        at += 1
        if at == keys.size:
            at = 0
    return at


@inner
def first_of(value, numbers, following):
    """Return the first document of a slot in use, its node, and the last node; -1 without nodes."""
    if value < CHAIN:
        return value - 1, np.int64(-1), np.int64(-1)
    last = value - CHAIN
    node = np.int64(following[last])
    return np.int64(numbers[node]), node, last


@inner
def add_node(numbers, following, state, number, after):
    """Add a node after another one, and return it."""
    node = state[NODES]
    state[NODES] += 1
    numbers[node] = number
    following[node] = following[after]
    following[after] = node
    return node


@inner
def chained(numbers, following, state, last, number):
    """Add a number to a chain unless it has it; return the chain's last node."""
    if number > np.int64(numbers[last]):
        return add_node(numbers, following, state, number, last)
    before = last
    while np.int64(numbers[following[before]]) < number:
        before = np.int64(following[before])
    if np.int64(numbers[following[before]]) != number:
        add_node(numbers, following, state, number, before)
    return last


@inner
def two(numbers, following, state, one, other):
    """Make a chain of two numbers; return its last node."""
    first = state[NODES]
    state[NODES] += 1
    numbers[first], following[first] = min(one, other), first
    return add_node(numbers, following, state, max(one, other), first)


@kernel(OUT_U64, OUT_U32, OUT_U32, OUT_U32, OUT_I64, U64, U32, int64)
def postings_put(keys, values, numbers, following, state, new_keys, new_numbers, limit):
    """Insert postings until one needs a slot above `limit` or a free node; return how many."""
    for i in range(new_keys.size):
        if i + AHEAD < new_keys.size:
            at = home(new_keys[i + AHEAD], keys.size)
            prefetch(keys, U(at))
            prefetch(values, U(at))
        number = np.int64(new_numbers[i])
        at = seek(keys, values, new_keys[i])
        value = np.int64(values[U(at)])
        before = state[NODES]
        if value == 0:
            if state[USED] >= limit:
                return i
            keys[U(at)], values[U(at)] = new_keys[i], number + 1
            state[USED] += 1
            state[POSTINGS] += 1
        elif before + (1 if value >= CHAIN else 2) > numbers.size:
            return i
        elif value >= CHAIN:
            last = chained(numbers, following, state, value - CHAIN, number)
            values[U(at)] = CHAIN + last
            state[POSTINGS] += state[NODES] - before
        elif value != number + 1:
            values[U(at)] = CHAIN + two(numbers, following, state, value - 1, number)
            state[POSTINGS] += 1
    return new_keys.size


@kernel(I64_ROWS, U8, U64_ROWS, int64)
def postings_find(tables, dead, asked, limit):
    """Return the number and the first `limit` documents, that are not dead, of each asked key.

    `tables` has the addresses of each table's keys, values, numbers and next nodes, and its
    numbers of slots and nodes: a call for each table would take ten times as long for one
    document. `asked` are keys, (tables x documents); the counts have the same shape.
    """
    documents = asked.shape[1]
    counts = np.zeros(asked.shape, np.int64)
    out = np.empty(asked.size + 16, np.uint32)
    total = 0
    for table in range(asked.shape[0]):
        slots, nodes = tables[table, 4], tables[table, 5]
        keys = carray(pointer(tables[table, 0]), slots, np.uint64)
        values = carray(pointer(tables[table, 1]), slots, np.uint32)
        numbers = carray(pointer(tables[table, 2]), nodes, np.uint32)
        following = carray(pointer(tables[table, 3]), nodes, np.uint32)
        for i in range(documents):
            if i + AHEAD < documents:
                at = home(asked[table, i + AHEAD], slots)
                prefetch(keys, U(at))
                prefetch(values, U(at))
            value = np.int64(values[U(seek(keys, values, asked[table, i]))])
            if value == 0:
                continue
            begun = total
            number, node, last = first_of(value, numbers, following)
            while total - begun < limit:
                if dead[number] == 0:
                    if total == out.size:
                        larger = np.empty(2 * out.size, np.uint32)
                        larger[:total] = out
                        out = larger
                    out[total] = number
                    total += 1
                if node == last:
                    break
                node = np.int64(following[node])
                number = np.int64(numbers[node])
            counts[table, i] = total - begun
    return counts, out[:total]


@kernel(U64, U32, OUT_U64, OUT_U32)
def postings_grow(keys, values, new_keys, new_values):
    """Copy all slots into a larger, empty table."""
    for at in range(keys.size):
        if values[at] != 0:
            to = seek(new_keys, new_values, keys[at])
            new_keys[to], new_values[to] = keys[at], values[at]


@kernel(U64, U32, U32, U32, U8, int64)
def postings_list(keys, values, numbers, following, dead, count):
    """Return keys and numbers of all postings, at most `count`, of documents that are not dead."""
    out_keys, out_numbers = np.empty(count, np.uint64), np.empty(count, np.uint32)
    total = 0
    for at in range(keys.size):
        value = np.int64(values[at])
        if value == 0:
            continue
        number, node, last = first_of(value, numbers, following)
        while True:
            if dead[number] == 0:
                out_keys[total], out_numbers[total] = keys[at], number
                total += 1
            if node == last:
                break
            node = np.int64(following[node])
            number = np.int64(numbers[node])
    return out_keys[:total], out_numbers[:total]


@kernel(U32, U32, U32, U8, I64)
def postings_sizes(values, numbers, following, dead, state):
    """Return for each chain the number of its documents that are not dead."""
    sizes = np.empty(state[NODES], np.int64)
    chains = 0
    for at in range(values.size):
        if np.int64(values[at]) >= CHAIN:
            last = np.int64(values[at]) - CHAIN
            node, size = last, 0
            while True:
                node = np.int64(following[node])
                size += np.int64(dead[numbers[node]] == 0)
                if node == last:
                    break
            sizes[chains] = size
            chains += 1
    return sizes[:chains]


COUNT, KEYS, ROOM = 1, 2, 340
NUMBERS = 2 * (KEYS + ROOM)
"""Where the numbers begin in a page, in halves of a word."""
NO_SALT = U(0)


@inline
def filter_place(mixed, blocks, table):
    """Return where the block of a key begins in the filter's words."""
    return (U(blocks[table]) + scaled(mixed, U(blocks[table + 1] - blocks[table]))) * U(WORDS)


@inner
def first_reaching(lasts, start, end, key):
    """Return the first page whose last key is not below the key; `end` if there is none."""
    while start < end:
        middle = (start + end) // 2
        if lasts[U(middle)] < key:
            start = middle + 1
        else:
            end = middle
    return start


@kernel(U64, I64, int64, U64, I64, U64_ROWS)
def cold_pages(words, blocks, probes, lasts, pages, keys):
    """Return the keys that may be stored, as cells table * rows + row, and each one's first page.

    Table t has the filter's blocks from blocks[t] to blocks[t + 1], and the pages likewise. While
    a row is looked up, the next row's blocks are prefetched.
    """
    rows, tables = keys.shape
    cells, firsts = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
    count = 0
    for row in range(-1, rows):
        if row + 1 < rows:
            for table in range(tables):
                mixed = spread(keys[row + 1, table], NO_SALT)
                prefetch(words, filter_place(mixed, blocks, table))
        if row < 0:
            continue
        for table in range(tables):
            mixed = spread(keys[row, table], NO_SALT)
            if absent_bits(words, filter_place(mixed, blocks, table), mixed, probes) == U(0):
                page = first_reaching(lasts, pages[table], pages[table + 1], keys[row, table])
                if page < pages[table + 1]:
                    cells[count] = table * rows + row
                    firsts[count] = page
                    count += 1
    return cells[:count], firsts[:count]


@inner
def first_posting(page, key):
    """Return the place of a page's first posting whose key is not below the key."""
    low, high = 0, min(np.int64(page[COUNT]), ROOM)
    while low < high:
        middle = (low + high) // 2
        if page[KEYS + middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def is_alive(dead, number):
    return number >= dead.size or dead[number] == 0


@kernel(U64_ROWS, U32_ROWS, I64, U64, I64, U8)
def cold_take(pages, halves, which, keys, room, dead):
    """Return the first numbers of each key on its page, without those marked in `dead`.

    Key i is looked up on row which[i] of `pages`; `halves` are the same bytes as 32-bit numbers.
    Returns how many numbers each key has, at most room[i]; the numbers; and whether its bucket may
    continue on the next page.
    """
    counts, goes_on = np.zeros(keys.size, np.int64), np.zeros(keys.size, np.bool_)
    most = 0
    for i in range(keys.size):
        most += min(room[i], ROOM)
    numbers = np.empty(most, np.uint32)
    end = 0
    for i in range(keys.size):
        page, numbered = pages[which[i]], halves[which[i]]
        size = min(np.int64(page[COUNT]), ROOM)
        at = first_posting(page, keys[i])
        while at < size and page[KEYS + at] == keys[i] and counts[i] < room[i]:
            number = numbered[NUMBERS + at]
            if is_alive(dead, np.int64(number)):
                numbers[end] = number
                end += 1
                counts[i] += 1
            at += 1
        goes_on[i] = at == size and counts[i] < room[i]
    return counts, numbers[:end], goes_on
