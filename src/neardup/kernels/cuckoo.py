"""Cuckoo filters: buckets of four fingerprints of 12 bits, in six bytes, 0 for an empty place.

A key's fingerprint is in one of two buckets. They add up to a number that the fingerprint alone
gives, modulo the number of buckets, so that either leads to the other. If both are full, one
fingerprint goes to its other bucket, where one may have to go, and so on; if that finds no end,
all of them go back, and the filter is as it was.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import OUT_U8, U8, U64, boolean, inline, inner, kernel, uint64
from neardup.kernels.hashing import load64, store64, trailing_zeros
from neardup.kernels.probing import AHEAD, prefetch, scaled, spread

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
    """From 1 to 4095, by the low half of the key."""
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
    """Bits that are 0 if no place of a bucket holds a fingerprint; the lowest is the first's."""
    apart = content ^ (mark * ONES)
    return (apart - ONES) & ~apart & HIGHS


@inline
def exchange(table, bucket, shift, mark):
    """Put a fingerprint into a place, and return the one that was there."""
    at = np.int64(bucket) * BYTES
    word = load64(table, at)
    before = (word >> shift) & FINGERPRINT
    store64(table, at, word ^ ((before ^ mark) << shift))
    return before


@inline
def exchange_first(table, bucket, old, new):
    """Replace a fingerprint of a bucket, if it is there."""
    places = places_of(load_bucket(table, bucket), old)
    if places == U(0):
        return False
    exchange(table, bucket, U(trailing_zeros(places) - (BITS - 1)), new)
    return True


@inline
def move_one(table, buckets, bucket, mark):
    """Put a fingerprint into the place of one whose other bucket has room; False if none has.

    All four are looked at, whatever the first ones say: memory answers all at once.
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
    """Make room by moving fingerprints to their other buckets; False, and nothing moved, if
    that takes too long. `state` chooses which."""
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
    """Put a fingerprint where there is room, or make some; False if there is none."""
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
    """A key's fingerprint and its two buckets."""
    mark = fingerprint(key)
    first = scaled(key, buckets)
    return mark, first, other_bucket(first, mark, buckets)


@inline
def either_has(table, first, second, mark):
    here = places_of(load_bucket(table, first), mark)
    return here | places_of(load_bucket(table, second), mark) != U(0)


@kernel(OUT_U8, uint64, U64, uint64, boolean)
def cuckoo_insert(table, buckets, hashes, salt, once):
    """Put the keys in, with `once` only those that are not there; and which were there.

    Stops at a key for which there is no room: the answer has an entry for each key that is in.
    """
    there = np.empty(hashes.size, np.bool_)
    path = np.empty(MOST_MOVES, np.uint64)
    for i in range(hashes.size):
        look_ahead(table, buckets, hashes, i, salt)
        key = spread(hashes[U(i)], salt)
        mark, first, second = buckets_of(key, buckets)
        there[U(i)] = either_has(table, first, second, mark)
        if not (once and there[U(i)]) and not place_new(
            table, buckets, first, second, mark, key, path
        ):
            return there[:i]
    return there


@kernel(OUT_U8, uint64, U64, uint64)
def cuckoo_remove(table, buckets, hashes, salt):
    """Take the keys out; and which were there."""
    there = np.empty(hashes.size, np.bool_)
    for i in range(hashes.size):
        look_ahead(table, buckets, hashes, i, salt)
        mark, first, second = buckets_of(spread(hashes[U(i)], salt), buckets)
        there[U(i)] = exchange_first(table, first, mark, U(0)) or exchange_first(
            table, second, mark, U(0)
        )
    return there


@kernel(U8, uint64, U64, uint64)
def cuckoo_contains(table, buckets, hashes, salt):
    """Whether one of each key's two buckets has its fingerprint."""
    there = np.empty(hashes.size, np.bool_)
    for i in range(hashes.size):
        look_ahead(table, buckets, hashes, i, salt)
        mark, first, second = buckets_of(spread(hashes[U(i)], salt), buckets)
        there[U(i)] = either_has(table, first, second, mark)
    return there
