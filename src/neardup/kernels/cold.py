"""Look-ups in postings on disk: on which page would a key be, and what does that page say of it?

A page is 512 words: a checksum, how many postings there are, 340 keys in ascending order, and
340 numbers of 32 bits. Each table has its own part of the filter and its own run of pages.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.bloom import WORDS, absent_bits
from neardup.kernels.compile import I64, U8, U32_ROWS, U64, U64_ROWS, inline, inner, int64, kernel
from neardup.kernels.probing import prefetch, scaled, spread

U = np.uint64
COUNT, KEYS, ROOM = 1, 2, 340
NUMBERS = 2 * (KEYS + ROOM)
"""Where the numbers begin, in halves of a word."""
NO_SALT = U(0)


@inline
def filter_place(mixed, blocks, table):
    """Where in the filter's words the block of a key is."""
    return (U(blocks[table]) + scaled(mixed, U(blocks[table + 1] - blocks[table]))) * U(WORDS)


@inner
def first_reaching(lasts, start, end, key):
    """The first of some pages whose last key is not below the key; `end` if there is none."""
    while start < end:
        middle = (start + end) // 2
        if lasts[U(middle)] < key:
            start = middle + 1
        else:
            end = middle
    return start


@kernel(U64, I64, int64, U64, I64, U64_ROWS)
def cold_pages(words, blocks, probes, lasts, pages, keys):
    """Which keys may be there, as cells, table * rows + row; and the page on which each begins.

    Table t has the filter's blocks from blocks[t] to blocks[t + 1], and the pages likewise. While
    a row is looked up, the next row's blocks are on their way.
    """
    rows, tables = keys.shape
    cells, found = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
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
                    found[count] = page
                    count += 1
    return cells[:count], found[:count]


@inner
def first_posting(page, key):
    """The place of the first posting of a page whose key is not below the key."""
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
    """The first numbers of each key on its page, those marked in `dead` left out.

    Key i is looked for on row which[i] of `pages`, of which `halves` are the same bytes. Returns
    how many numbers each key has, at most room[i]; the numbers; and whether its bucket may go on
    on the next page.
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
