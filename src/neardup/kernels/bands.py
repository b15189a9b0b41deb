"""Make band keys of signatures, find those that occur repeatedly, and candidate pairs of buckets.

A key is the xxHash64, seeded with the band's number, of the band's slots. For pairs, `members`
lists the documents of each bucket in rank order, `starts` has the start of each bucket in it, and
`band_of` its band. A pair that shares several buckets is listed once, in the first such band.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import (
    F64,
    I64,
    I64_ROWS,
    OUT_U8,
    U8,
    U32_ROWS,
    U64,
    U64_ROWS,
    int64,
    kernel,
    kernel_for,
    uncounted,
)
from neardup.kernels.hashing import P5, U, absorb, avalanche, finish, xxh64
from neardup.kernels.intrinsics import load64

TILE = 64
"""Documents whose keys are made together: they stay in the processor's cache."""


@uncounted
def gather_words(signatures, first, row_bytes, words):
    """Write eight bytes of each signature, from byte `first` of the first one on, to `words`."""
    for i in range(words.size):
        words[i] = load64(signatures, first + i * row_bytes)


@uncounted
def keys_of_tile(signatures, first, row_bytes, size, seed, words, keys):
    """Write the hashes of 8 to 31 bytes of each signature, from byte `first` on, to `keys`.

    The steps of xxHash64 one after the other, each for all documents, in vector registers.
    """
    for i in range(keys.size):
        keys[i] = seed + P5 + U(size)
    for step in range(size >> 3):
        gather_words(signatures, first + 8 * step, row_bytes, words)
        for i in range(keys.size):
            keys[i] = absorb(keys[i], words[i])
    rest = size & 7
    if rest:
        gather_words(signatures, first + size - 8, row_bytes, words)
        for i in range(keys.size):
            keys[i] = finish(keys[i], words[i] >> U(64 - 8 * rest), rest)
    else:
        for i in range(keys.size):
            keys[i] = avalanche(keys[i])


@kernel(U8, int64, I64, I64)
def band_keys(signature_bytes, row_bytes, starts, sizes):
    """Return one row of keys a document, from its signature's little-endian bytes.

    A signature has `row_bytes` bytes; band j has sizes[j] of them, from starts[j] on.
    """
    documents = signature_bytes.size // row_bytes
    out = np.empty((documents, starts.size), np.uint64)
    words, keys = np.empty(TILE, np.uint64), np.empty(TILE, np.uint64)
    together = (sizes >= 8) & (sizes < 32)
    for begin in range(0, documents, TILE):
        count = min(TILE, documents - begin)
        for band in range(starts.size):
            if together[band]:
                first, here = begin * row_bytes + starts[band], keys[:count]
                keys_of_tile(
                    signature_bytes, first, row_bytes, sizes[band], U(band), words[:count], here
                )
                for i in range(count):
                    out[begin + i, band] = here[i]
    for i in range(documents):
        for band in range(starts.size):
            if not together[band]:
                start = i * row_bytes + starts[band]
                out[i, band] = xxh64(signature_bytes, start, sizes[band], U(band))
    return out


@kernel_for((U32_ROWS, int64), (U64_ROWS, int64))
def column_keys(slots, band):
    """Return the keys of one band; slots[i, d] is its slot i of document d."""
    rows, documents = slots.shape
    out = np.empty(documents, np.uint64)
    here = np.empty(rows, slots.dtype)
    here_bytes = here.view(np.uint8)
    for d in range(documents):
        for i in range(rows):
            here[i] = slots[i, d]
        out[d] = xxh64(here_bytes, 0, here_bytes.size, U(band))
    return out


@kernel_for((U32_ROWS,), (U64_ROWS,))
def transposed(signatures):
    """Return the transposed signatures, copied in tiles that fit into the processor's cache."""
    documents, slots = signatures.shape
    out = np.empty((slots, documents), signatures.dtype)
    for first in range(0, documents, 16):
        last = min(first + 16, documents)
        for slot in range(slots):
            for d in range(first, last):
                out[slot, d] = signatures[d, slot]
    return out


@kernel(U64, U8, OUT_U8, int64, int64)
def count_keys(keys, chosen, cells, skipped, shift):
    """Count each of the chosen keys in its cell: once or more often.

    The cell of a key is the number of its leading bits without the first `skipped` ones, shifted
    right by `shift`. A byte has four cells of two bits. Returns how many cells were not empty.
    """
    again = U(0)
    for i in range(keys.size):
        if chosen[i]:
            cell = keys[i] << U(skipped) >> U(shift)
            place, bit = cell >> U(2), (cell & U(3)) << U(1)
            held = U(cells[place])
            seen = held >> bit & U(1)
            cells[place] = held | U(1) << bit | seen << (bit + U(1))
            again += seen
    return np.int64(again)


@kernel(U64, U8, U8, int64, int64)
def find_repeats(keys, chosen, cells, skipped, shift):
    """Return the places of the chosen keys whose cell has counted more than one, ascending."""
    out = np.empty(keys.size, np.int64)
    count = U(0)
    for i in range(keys.size):
        cell = keys[i] << U(skipped) >> U(shift)
        often = U(cells[cell >> U(2)]) >> ((cell & U(3)) << U(1)) >> U(1) & U(1)
        out[count] = i
        count += often & U(chosen[i] != 0)
    return out[:count]


@kernel(I64_ROWS, I64, I64, I64, int64, int64, int64, int64)
def candidate_pairs(buckets, members, starts, band_of, cap, first_bucket, first_place, limit):
    """Return about `limit` pairs from (first_bucket, first_place) on, and where to continue.

    Only the first `cap` members of a bucket are paired.
    """
    left, right = np.empty(limit, np.int64), np.empty(limit, np.int64)
    count, place = 0, first_place
    for bucket in range(first_bucket, starts.size - 1):
        begin, band = starts[bucket], band_of[bucket]
        size = min(starts[bucket + 1] - begin, cap)
        while place < size:
            if count + place > limit and count > 0:
                return left[:count], right[:count], bucket, place
            v = members[begin + place]
            for i in range(place):
                u = members[begin + i]
                earlier = False
                for j in range(band):
                    if buckets[u, j] >= 0 and buckets[u, j] == buckets[v, j]:
                        earlier = True
                        break
                if not earlier:
                    left[count], right[count] = u, v
                    count += 1
            place += 1
        place = 1
    return left[:count], right[:count], starts.size - 1, 1


@kernel(I64, I64, F64, I64, I64, int64, int64)
def spread_pairs(left, right, similarity, copies, ends, first, room):
    """Expand pairs of leaders to pairs of their copies: (a, b, similarity), and the total number.

    Leader u has the copies copies[ends[u] : ends[u + 1]], itself included; a leader paired with
    itself stands for all pairs of its copies. At most `room` pairs are returned, from number
    `first` on.
    """
    total = 0
    for i in range(left.size):
        mine = ends[left[i] + 1] - ends[left[i]]
        theirs = ends[right[i] + 1] - ends[right[i]]
        total += mine * (mine - 1) // 2 if left[i] == right[i] else mine * theirs
    many = max(min(total - first, room), 0)
    a, b, values = np.empty(many, np.int64), np.empty(many, np.int64), np.empty(many, np.float64)
    count = 0
    for i in range(left.size):
        u, v = left[i], right[i]
        for p in range(ends[u], ends[u + 1]):
            begin = p + 1 if u == v else ends[v]
            if first >= ends[v + 1] - begin:
                first -= ends[v + 1] - begin
                continue
            for q in range(begin + first, ends[v + 1]):
                if count == many:
                    return a, b, values, total
                a[count], b[count] = min(copies[p], copies[q]), max(copies[p], copies[q])
                values[count] = similarity[i]
                count += 1
            first = 0
    return a, b, values, total
