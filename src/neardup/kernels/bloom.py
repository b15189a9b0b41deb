"""Bloom filters in blocks of 512 bits: all bits of a key are in one line of the cache.

A key's 64 mixed bits choose the block by their high end; multiplied, they give seven bit
numbers of nine bits each, multiplied again the next seven. Loops have no branch on what is
found, so that the next keys are on their way while memory answers.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import OUT_U64, U64, inline, int64, kernel, uint64
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
