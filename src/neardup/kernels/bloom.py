"""Bloom filters in blocks of 512 bits: all bits of a key are in one line of the cache.

A key's 64 mixed bits choose the block by their high end; multiplied, they give seven bit
numbers of nine bits each, multiplied again the next seven. Loops have no branch on what is
found, so that the next keys are on their way while memory answers.

A counting filter has the same positions, each a counter of four bits. Two counters are in a byte,
the first one in its low half. A counter that has reached 15 stays there: it does not know any more
how many keys it stands for, so nothing takes it down.
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
from neardup.kernels.hashing import bits_set
from neardup.kernels.probing import AHEAD, prefetch, scaled, spread

U = np.uint64
WORDS = 8
DRAWS = 7
ODD = U(0x9E3779B97F4A7C15)


@inline
def drawn(state):
    """The next seven bit numbers, the first one in the highest nine bits."""
    return (state ^ (state >> U(32))) * ODD


@inline
def set_bits(words, block, key, probes):
    """Set the bits of a key; the ones that were not set before, 0 if there are none."""
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
    """The bits of a key that are not set."""
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
    """Set the keys' bits; for each key, whether all were set before.

    Stops when `room` keys were new; the answer has an entry for each key that was taken.
    """
    blocks = U(words.size // WORDS)
    there = np.empty(hashes.size, np.bool_)
    fresh = 0
    for i in range(hashes.size):
        if fresh == room:
            return there[:i]
        if i + AHEAD < hashes.size:
            ahead = spread(hashes[U(i + AHEAD)], salt)
            prefetch(words, scaled(ahead, blocks) * U(WORDS))
        key = spread(hashes[U(i)], salt)
        block = scaled(key, blocks) * U(WORDS)
        known = set_bits(words, block, key, probes) == U(0)
        there[U(i)] = known
        fresh += not known
    return there


@kernel(U64, int64, U64, uint64)
def bloom_contains(words, probes, hashes, salt):
    """Whether all bits of each key are set."""
    blocks = U(words.size // WORDS)
    there = np.empty(hashes.size, np.bool_)
    for i in range(hashes.size):
        if i + AHEAD < hashes.size:
            ahead = spread(hashes[U(i + AHEAD)], salt)
            prefetch(words, scaled(ahead, blocks) * U(WORDS))
        key = spread(hashes[U(i)], salt)
        block = scaled(key, blocks) * U(WORDS)
        there[U(i)] = absent_bits(words, block, key, probes) == U(0)
    return there


@kernel(U64)
def block_fills(words):
    """How many blocks have 0, 1, ... 512 bits set."""
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
    """The byte of a counter, how far its bits are shifted there, and its value."""
    at = block + (number >> U(1))
    shift = np.uint8((number & U(1)) << U(2))
    return at, shift, (counters[at] >> shift) & FULL


@inner
def is_there(counters, block, key, probes):
    """Whether none of a key's counters is 0."""
    there, state = True, key
    for first in range(0, probes, DRAWS):
        state = drawn(state)
        numbers = state
        for _ in range(min(DRAWS, probes - first)):
            _, _, value = counter(counters, block, numbers >> U(55))
            there &= value != 0
            numbers <<= U(9)
    return there


@inner
def count_key(counters, block, key, probes, up):
    """Count a key in, or out."""
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
    """Count the keys in, with `once` only those that are not there; and which were there."""
    blocks = U(counters.size // BYTES)
    there = np.empty(hashes.size, np.bool_)
    for i in range(hashes.size):
        look_ahead(counters, blocks, hashes, i, salt)
        key = spread(hashes[U(i)], salt)
        block = scaled(key, blocks) * U(BYTES)
        there[U(i)] = is_there(counters, block, key, probes)
        if not (once and there[U(i)]):
            count_key(counters, block, key, probes, True)
    return there


@kernel(OUT_U8, int64, U64, uint64)
def counting_remove(counters, probes, hashes, salt):
    """Count out the keys that are there; and which these are."""
    blocks = U(counters.size // BYTES)
    there = np.empty(hashes.size, np.bool_)
    for i in range(hashes.size):
        look_ahead(counters, blocks, hashes, i, salt)
        key = spread(hashes[U(i)], salt)
        block = scaled(key, blocks) * U(BYTES)
        there[U(i)] = is_there(counters, block, key, probes)
        if there[U(i)]:
            count_key(counters, block, key, probes, False)
    return there


@kernel(U8, int64, U64, uint64)
def counting_contains(counters, probes, hashes, salt):
    """Whether none of each key's counters is 0."""
    blocks = U(counters.size // BYTES)
    there = np.empty(hashes.size, np.bool_)
    for i in range(hashes.size):
        look_ahead(counters, blocks, hashes, i, salt)
        key = spread(hashes[U(i)], salt)
        there[U(i)] = is_there(counters, scaled(key, blocks) * U(BYTES), key, probes)
    return there
