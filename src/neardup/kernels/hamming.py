"""Find fingerprints within a Hamming distance by sorted tables, and check each exactly.

A fingerprint is a row of one or two words. A table holds all fingerprints, sorted by the leading 32
bits of a key, which are the bits of a mask, gathered; `starts` has the start of each value of the
key's first `lead` bits.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import I64, OUT_U64, U32, U64, U64_ROWS, inner, int64, kernel
from neardup.kernels.hashing import xxh64
from neardup.kernels.intrinsics import bits_set, trailing_zeros

U = np.uint64
NARROW = 16
"""Up to this many fingerprints are compared without narrowing the range by bisection."""
KEY = U(32)


@inner
def gathered(word, mask, key, room):
    """Append the masked bits of a word to the key, run by run, as long as there is room."""
    while mask and room:
        low = U(trailing_zeros(mask))
        mask >>= low
        word >>= low
        run = min(U(trailing_zeros(~mask)), U(63))
        taken = min(run, room)
        key = (key << taken) | ((word >> (run - taken)) & ((U(1) << taken) - U(1)))
        mask >>= run
        word >>= run
        room -= taken
    return key, room


@inner
def key_of(fingerprint, masks):
    """Return the first 32 of the masked bits, or all of them, from bit 31 down."""
    key, room = U(0), KEY
    for place in range(masks.size):
        key, room = gathered(fingerprint[place], masks[place], key, room)
    return key << room


@inner
def next_near(query, fingerprints, place, end, distance):
    """Return the next place of a near fingerprint and its distance; `end` if there is none.

    It is apart from the loops that store matches, whose growing array would make Numba count
    references here.
    """
    first, last = query[0], query[query.size - 1]
    if query.size == 1:
        for at in range(place, end):
            apart = bits_set(first ^ fingerprints[U(at), 0])
            if apart <= distance:
                return at, apart
    else:
        for at in range(place, end):
            apart = bits_set(first ^ fingerprints[U(at), 0])
            apart += bits_set(last ^ fingerprints[U(at), 1])
            if apart <= distance:
                return at, apart
    return end, 0


@inner
def agrees(query, other, masks):
    """Return whether two fingerprints are equal where the mask has a bit."""
    if query.size == 2 and (query[1] ^ other[1]) & masks[1]:
        return False
    return (query[0] ^ other[0]) & masks[0] == U(0)


@inner
def agrees_before(query, other, masks, table):
    """Return whether the two share the key of an earlier table, which then found them."""
    for earlier in range(table):
        if agrees(query, other, masks[earlier]):
            return True
    return False


@inner
def first_with(table, masks, begin, end, key):
    """Return the first place from `begin` on whose key is not below this one."""
    while begin < end:
        middle = (begin + end) // 2
        if key_of(table[middle], masks) < key:
            begin = middle + 1
        else:
            end = middle
    return begin


@inner
def grown(matches):
    out = np.empty((2 * matches.shape[0], 3), np.int64)
    out[: matches.shape[0]] = matches
    return out


@kernel(U64_ROWS, U64, OUT_U64)
def packed_keys(fingerprints, masks, out):
    """Write the fingerprints' keys with their rows in the lower half: sorted, they are a table."""
    for row in range(fingerprints.shape[0]):
        out[row] = (key_of(fingerprints[row], masks) << KEY) | U(row)


@kernel(U64, int64)
def key_starts(packed, lead):
    """Return where each value of the keys' `lead` leading bits begins in a table."""
    starts = np.zeros((1 << lead) + 1, np.int64)
    for place in range(packed.size):
        starts[(packed[place] >> U(64 - lead)) + U(1)] += 1
    for value in range(1 << lead):
        starts[value + 1] += starts[value]
    return starts


@kernel(U64_ROWS, U64_ROWS, U32, I64, U64_ROWS, int64, int64, int64)
def search_table(queries, table, rows, starts, masks, number, lead, distance):
    """Return query, row and distance of the matches that no earlier table has found."""
    matches, count = np.empty((1024, 3), np.int64), 0
    mask = masks[number]
    longer = bits_set(mask[0]) + (bits_set(mask[1]) if mask.size == 2 else 0) > lead
    for q in range(queries.shape[0]):
        query = queries[q]
        key = key_of(query, mask)
        lead_key = key >> (KEY - U(lead))
        begin, end = starts[lead_key], starts[lead_key + U(1)]
        if longer and end - begin > NARROW:
            begin = first_with(table, mask, begin, end, key)
            end = first_with(table, mask, begin, end, key + U(1))
        place, apart = next_near(query, table, begin, end, distance)
        while place < end:
            near = table[place]
            if agrees(query, near, mask) and not agrees_before(query, near, masks, number):
                if count == matches.shape[0]:
                    matches = grown(matches)
                matches[count, 0], matches[count, 1], matches[count, 2] = q, rows[place], apart
                count += 1
            place, apart = next_near(query, table, place + 1, end, distance)
    return matches[:count]


@kernel(U64_ROWS, U64_ROWS, int64)
def search_all(queries, fingerprints, distance):
    """Return query, row and distance of all matches, by comparing every pair."""
    matches, count = np.empty((1024, 3), np.int64), 0
    end = fingerprints.shape[0]
    for q in range(queries.shape[0]):
        query = queries[q]
        row, apart = next_near(query, fingerprints, 0, end, distance)
        while row < end:
            if count == matches.shape[0]:
                matches = grown(matches)
            matches[count, 0], matches[count, 1], matches[count, 2] = q, row, apart
            count += 1
            row, apart = next_near(query, fingerprints, row + 1, end, distance)
    return matches[:count]


@kernel(U64_ROWS, U64, int64)
def block_keys(columns, mask, table):
    """Return the keys of one table from fingerprints as columns: xxHash64 of the masked words."""
    words, documents = columns.shape
    out = np.empty(documents, np.uint64)
    here = np.empty(words, np.uint64)
    here_bytes = here.view(np.uint8)
    for d in range(documents):
        for i in range(words):
            here[i] = columns[i, d] & mask[i]
        out[d] = xxh64(here_bytes, 0, words * 8, U(table))
    return out
