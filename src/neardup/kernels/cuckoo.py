"""Cuckoo filters: buckets of four fingerprints of 12 bits, in six bytes, 0 for an empty place.

A key's fingerprint is in one of two buckets. Modulo the number of buckets, their numbers add up to
a number that depends on the fingerprint alone, so that one gives the other. If both are full, one
fingerprint moves to its other bucket, where another one may have to move, and so on. If that takes
too many moves, all of them are undone.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import OUT_U8, U8, U64, boolean, inline, inner, kernel, uint64
from neardup.kernels.hashing import spread
from neardup.kernels.intrinsics import AHEAD, load64, prefetch, scaled, store64, trailing_zeros

U = np.uint64
BYTES = 6
BITS = 12
MOST_MOVES = 500
FINGERPRINT = U(0xFFF)
BUCKET = U(0xFFFFFFFFFFFF)
ONES = U(0x001001001001)
HIGHS = U(0x800800800800)
ODD = U(0x9E3779B97F4A7C15)
STEP = U(0xD1342543DE82EF95)


@inline
def fingerprint(key):
    """Return the fingerprint of a key, from 1 to 4095, by its low half."""
    return ((key & U(0xFFFFFFFF)) * U(4095) >> U(32)) + U(1)


@inline
def other_bucket(bucket, mark, buckets):
    total = scaled(mark * ODD, buckets)
    return total - bucket if total >= bucket else total + buckets - bucket


@inline
def load_bucket(table, bucket):
    return load64(table, np.int64(bucket) * BYTES) & BUCKET


@inline
def places_of(content, mark):
    """Return bits that mark the places of a bucket with this fingerprint; the lowest is right."""
    apart = content ^ (mark * ONES)
    return (apart - ONES) & ~apart & HIGHS


@inline
def exchange(table, bucket, shift, mark):
    """Put a fingerprint into a place, and return the previous one."""
    at = np.int64(bucket) * BYTES
    word = load64(table, at)
    before = (word >> shift) & FINGERPRINT
    store64(table, at, word ^ ((before ^ mark) << shift))
    return before


@inline
def exchange_first(table, bucket, old, new):
    """Replace the first place of a bucket that has fingerprint `old`; return False if none has."""
    places = places_of(load_bucket(table, bucket), old)
    if places == U(0):
        return False
    exchange(table, bucket, U(trailing_zeros(places) - (BITS - 1)), new)
    return True


@inline
def move_one(table, buckets, bucket, mark):
    """Move a fingerprint whose other bucket has room, and take its place; False if none has.

    All four are examined even if the first has room, so that memory is read at once.
    """
    content, chosen = load_bucket(table, bucket), U(64)
    for shift in range(0, 4 * BITS, BITS):
        moving = (content >> U(shift)) & FINGERPRINT
        goal = load_bucket(table, other_bucket(bucket, moving, buckets))
        chosen = chosen if places_of(goal, U(0)) == U(0) else U(shift)
    if chosen == U(64):
        return False
    moving = exchange(table, bucket, chosen, mark)
    return exchange_first(table, other_bucket(bucket, moving, buckets), U(0), moving)


@inner
def move_others(table, buckets, bucket, mark, state, path):
    """Make room by moving fingerprints to their other buckets, which `state` chooses.

    Return False, with all moves undone, if it takes more than MOST_MOVES.
    """
    for step in range(MOST_MOVES):
        if move_one(table, buckets, bucket, mark):
            return True
        state = state * STEP + ODD
        shift = (state >> U(62)) * U(BITS)
        path[step] = (bucket << U(6)) | shift
        mark = exchange(table, bucket, shift, mark)
        bucket = other_bucket(bucket, mark, buckets)
    for step in range(MOST_MOVES - 1, -1, -1):
        mark = exchange(table, path[step] >> U(6), path[step] & U(63), mark)
    return False


@inline
def place_new(table, buckets, first, second, mark, key, path):
    """Put a fingerprint into one of its buckets, making room if needed; False if it can't be."""
    if exchange_first(table, first, U(0), mark) or exchange_first(table, second, U(0), mark):
        return True
    start = second if key >> U(63) else first
    return move_others(table, buckets, start, mark, key, path)


@inline
def look_ahead(table, buckets, hashes, i, salt):
    if i + AHEAD < hashes.size:
        key = spread(hashes[U(i + AHEAD)], salt)
        bucket = scaled(key, buckets)
        prefetch(table, bucket * U(BYTES))
        prefetch(table, other_bucket(bucket, fingerprint(key), buckets) * U(BYTES))


@inline
def buckets_of(key, buckets):
    """Return a key's fingerprint and its two buckets."""
    mark = fingerprint(key)
    first = scaled(key, buckets)
    return mark, first, other_bucket(first, mark, buckets)


@inline
def either_has(table, first, second, mark):
    here = places_of(load_bucket(table, first), mark)
    return here | places_of(load_bucket(table, second), mark) != U(0)


@kernel(OUT_U8, uint64, U64, uint64, boolean)
def cuckoo_insert(table, buckets, hashes, salt, once):
    """Insert keys, with `once` only those that are not present; return which were present.

    Stops at a key that does not fit: the result has an entry for each key before it.
    """
    present = np.empty(hashes.size, np.bool_)
    path = np.empty(MOST_MOVES, np.uint64)
    for i in range(hashes.size):
        look_ahead(table, buckets, hashes, i, salt)
        key = spread(hashes[U(i)], salt)
        mark, first, second = buckets_of(key, buckets)
        present[U(i)] = either_has(table, first, second, mark)
        if not (once and present[U(i)]) and not place_new(
            table, buckets, first, second, mark, key, path
        ):
            return present[:i]
    return present


@kernel(OUT_U8, uint64, U64, uint64)
def cuckoo_remove(table, buckets, hashes, salt):
    """Remove keys; return which were present."""
    present = np.empty(hashes.size, np.bool_)
    for i in range(hashes.size):
        look_ahead(table, buckets, hashes, i, salt)
        mark, first, second = buckets_of(spread(hashes[U(i)], salt), buckets)
        present[U(i)] = exchange_first(table, first, mark, U(0)) or exchange_first(
            table, second, mark, U(0)
        )
    return present


@kernel(U8, uint64, U64, uint64)
def cuckoo_contains(table, buckets, hashes, salt):
    """Return for each key whether one of its two buckets has its fingerprint."""
    present = np.empty(hashes.size, np.bool_)
    for i in range(hashes.size):
        look_ahead(table, buckets, hashes, i, salt)
        mark, first, second = buckets_of(spread(hashes[U(i)], salt), buckets)
        present[U(i)] = either_has(table, first, second, mark)
    return present
