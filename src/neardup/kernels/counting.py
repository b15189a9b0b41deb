"""Counting Bloom filters: the positions of `bloom.py`, each a counter of four bits.

Two counters are in a byte, the first one in its low half. A counter that has reached 15 stays
there: it does not know any more how many keys it stands for, so nothing takes it down.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.bloom import DRAWS, drawn
from neardup.kernels.compile import OUT_U8, U8, U64, boolean, inline, inner, int64, kernel, uint64
from neardup.kernels.probing import AHEAD, prefetch, scaled, spread

U = np.uint64
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
