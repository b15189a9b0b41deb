"""Bloom filters in blocks of 512 bits: all bits of a key are in one cache line.

The high end of a key's 64 mixed bits chooses the block; multiplied, they give seven bit numbers of
nine bits each, multiplied again the next seven. Loops don't branch on the content of the filter, so
that the processor loads the blocks of the next keys meanwhile.

A counting filter has the same positions, each a counter of four bits. Two counters are in a byte,
the first one in its low half. A counter that has reached 15 stays there, because the number of its
keys is not known any more.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import (
    OUT_U8,
    OUT_U64,
    U8,
    U64,
    boolean,
    inline,
    inner,
    int64,
    kernel,
    uint64,
)
from neardup.kernels.hashing import spread
from neardup.kernels.intrinsics import AHEAD, bits_set, prefetch, scaled

U = np.uint64
WORDS = 8
DRAWS = 7
ODD = U(0x9E3779B97F4A7C15)


@inline
def drawn(state):
    """Return the next seven bit numbers, the first one in the highest nine bits."""
    return (state ^ (state >> U(32))) * ODD


@inline
def set_bits(words, block, key, probes):
    """Set the bits of a key; return a number that is 0 if all were set before."""
    absent, state = U(0), key
    for first in range(0, probes, DRAWS):
        state = drawn(state)
        numbers = state
        for _ in range(min(DRAWS, probes - first)):
            at = block + (numbers >> U(61))
            bit = U(1) << ((numbers >> U(55)) & U(63))
            absent |= ~words[at] & bit
            words[at] |= bit
            numbers <<= U(9)
    return absent


@inline
def absent_bits(words, block, key, probes):
    """Return a number that is 0 if all bits of a key are set."""
    absent, state = U(0), key
    for first in range(0, probes, DRAWS):
        state = drawn(state)
        numbers = state
        for _ in range(min(DRAWS, probes - first)):
            at = block + (numbers >> U(61))
            absent |= ~words[at] & (U(1) << ((numbers >> U(55)) & U(63)))
            numbers <<= U(9)
    return absent


@kernel(OUT_U64, int64, U64, uint64, int64)
def bloom_insert(words, probes, hashes, salt, room):
    """Set the keys' bits; return for each key whether all of them were set before.

    Stops when `room` keys were new: the result has an entry for each key that was inserted.
    """
    blocks = U(words.size // WORDS)
    present = np.empty(hashes.size, np.bool_)
    inserted = 0
    for i in range(hashes.size):
        if inserted == room:
            return present[:i]
        if i + AHEAD < hashes.size:
            ahead = spread(hashes[U(i + AHEAD)], salt)
            prefetch(words, scaled(ahead, blocks) * U(WORDS))
        key = spread(hashes[U(i)], salt)
        block = scaled(key, blocks) * U(WORDS)
        known = set_bits(words, block, key, probes) == U(0)
        present[U(i)] = known
        inserted += not known
    return present


@kernel(U64, int64, U64, uint64)
def bloom_contains(words, probes, hashes, salt):
    """Return for each key whether all of its bits are set."""
    blocks = U(words.size // WORDS)
    present = np.empty(hashes.size, np.bool_)
    for i in range(hashes.size):
        if i + AHEAD < hashes.size:
            ahead = spread(hashes[U(i + AHEAD)], salt)
            prefetch(words, scaled(ahead, blocks) * U(WORDS))
        key = spread(hashes[U(i)], salt)
        block = scaled(key, blocks) * U(WORDS)
        present[U(i)] = absent_bits(words, block, key, probes) == U(0)
    return present


@kernel(U64)
def block_fills(words):
    """Return how many blocks have 0, 1, ... 512 bits set."""
    counted = np.zeros(64 * WORDS + 1, np.int64)
    for block in range(0, words.size, WORDS):
        count = 0
        for at in range(block, block + WORDS):
            count += bits_set(words[U(at)])
        counted[count] += 1
    return counted


BYTES = 256
FULL = np.uint8(15)


@inline
def counter(counters, block, number):
    """Return the byte of a counter, the shift of its bits in that byte, and its value."""
    at = block + (number >> U(1))
    shift = np.uint8((number & U(1)) << U(2))
    return at, shift, (counters[at] >> shift) & FULL


@inner
def is_present(counters, block, key, probes):
    """Return whether none of a key's counters is 0."""
    present, state = True, key
    for first in range(0, probes, DRAWS):
        state = drawn(state)
        numbers = state
        for _ in range(min(DRAWS, probes - first)):
            _, _, value = counter(counters, block, numbers >> U(55))
            present &= value != 0
            numbers <<= U(9)
    return present


@inner
def count_key(counters, block, key, probes, up):
    """Increment the counters of a key if `up`, else decrement them."""
    state = key
    for first in range(0, probes, DRAWS):
        state = drawn(state)
        numbers = state
        for _ in range(min(DRAWS, probes - first)):
            at, shift, value = counter(counters, block, numbers >> U(55))
            if value != FULL:
                if up:
                    counters[at] += np.uint8(1) << shift
                elif value:
                    counters[at] -= np.uint8(1) << shift
            numbers <<= U(9)


@inline
def look_ahead(counters, blocks, hashes, i, salt):
    if i + AHEAD < hashes.size:
        ahead = spread(hashes[U(i + AHEAD)], salt)
        prefetch(counters, scaled(ahead, blocks) * U(BYTES))


@kernel(OUT_U8, int64, U64, uint64, boolean)
def counting_insert(counters, probes, hashes, salt, once):
    """Insert keys, with `once` only those that are not present; return which were present."""
    blocks = U(counters.size // BYTES)
    present = np.empty(hashes.size, np.bool_)
    for i in range(hashes.size):
        look_ahead(counters, blocks, hashes, i, salt)
        key = spread(hashes[U(i)], salt)
        block = scaled(key, blocks) * U(BYTES)
        present[U(i)] = is_present(counters, block, key, probes)
        if not (once and present[U(i)]):
            count_key(counters, block, key, probes, True)
    return present


@kernel(OUT_U8, int64, U64, uint64)
def counting_remove(counters, probes, hashes, salt):
    """Remove the keys that are present; return which were."""
    blocks = U(counters.size // BYTES)
    present = np.empty(hashes.size, np.bool_)
    for i in range(hashes.size):
        look_ahead(counters, blocks, hashes, i, salt)
        key = spread(hashes[U(i)], salt)
        block = scaled(key, blocks) * U(BYTES)
        present[U(i)] = is_present(counters, block, key, probes)
        if present[U(i)]:
            count_key(counters, block, key, probes, False)
    return present


@kernel(U8, int64, U64, uint64)
def counting_contains(counters, probes, hashes, salt):
    """Return for each key whether none of its counters is 0."""
    blocks = U(counters.size // BYTES)
    present = np.empty(hashes.size, np.bool_)
    for i in range(hashes.size):
        look_ahead(counters, blocks, hashes, i, salt)
        key = spread(hashes[U(i)], salt)
        present[U(i)] = is_present(counters, scaled(key, blocks) * U(BYTES), key, probes)
    return present
