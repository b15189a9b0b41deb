"""SimHash: a bit is 1 if the terms that have it weigh more than those that don't.

Terms of equal weight are counted for 64 bits at once: plane j holds bit j of the 64 counts, eight
terms are reduced to four words by adders of a few logical operations each, and the counts are
compared with half the number of terms plane by plane.
"""

from __future__ import annotations

import numpy as np
from numba import types

from neardup.kernels.compile import I64, OUT_U32, U32, U64, inline, inner, int64, kernel, uint64
from neardup.kernels.hashing import mix
from neardup.kernels.intrinsics import add_where

U = np.uint64
uint32 = types.uint32
STEP = U(0x9E3779B97F4A7C15)
PLANES = 48
CELL_BITS = 22


@inline
def word(element, place):
    """Return 64 of a term's bits: its hash, or a mix of it."""
    return mix(element + STEP) if place else element


@inline
def full_add(a, b, c):
    both = a ^ b
    return both ^ c, (a & b) | (both & c)


@inner
def add_at(planes, plane, carry):
    """Add 2^plane to the counts whose bit is set in `carry`."""
    while carry:
        held = planes[U(plane)]
        planes[U(plane)] = held ^ carry
        carry &= held
        plane += 1


@inner
def count_bits(elements, begin, end, place, planes):
    """Count how often each bit is set, as planes."""
    planes[:] = U(0)
    p = begin
    while p + 8 <= end:
        a, b = word(elements[U(p)], place), word(elements[U(p + 1)], place)
        c, d = word(elements[U(p + 2)], place), word(elements[U(p + 3)], place)
        e, f = word(elements[U(p + 4)], place), word(elements[U(p + 5)], place)
        g, h = word(elements[U(p + 6)], place), word(elements[U(p + 7)], place)
        ones, twos_a = full_add(a, b, c)
        ones, twos_b = full_add(ones, d, e)
        ones, twos_c = full_add(ones, f, g)
        ones, twos_d = full_add(ones, h, planes[0])
        planes[0] = ones
        twos, fours_a = full_add(twos_a, twos_b, twos_c)
        twos, fours_b = full_add(twos, twos_d, planes[1])
        planes[1] = twos
        planes[2], eights = full_add(fours_a, fours_b, planes[2])
        add_at(planes, 3, eights)
        p += 8
    while p < end:
        add_at(planes, 0, word(elements[U(p)], place))
        p += 1


@inner
def above(planes, bound):
    """Return the bits whose count is greater than the bound."""
    greater, equal = U(0), ~U(0)
    for plane in range(PLANES - 1, -1, -1):
        wanted = U(0) - ((U(bound) >> U(plane)) & U(1))
        greater |= equal & planes[U(plane)] & ~wanted
        equal &= ~(planes[U(plane)] ^ wanted)
    return greater


@kernel(U64, I64, int64)
def simhash_equal(elements, offsets, places):
    """Return one row of words a document, by equal weights; repeats count again."""
    rows = offsets.size - 1
    out = np.empty((rows, places), np.uint64)
    planes = np.empty(PLANES, np.uint64)
    for i in range(rows):
        for place in range(places):
            count_bits(elements, offsets[i], offsets[i + 1], place, planes)
            out[i, place] = above(planes, (offsets[i + 1] - offsets[i]) // 2)
    return out


@inner
def sum_weights(elements, weights, sums):
    """Sum, for each bit, the weights of the elements that have it."""
    sums[:] = U(0)
    for place in range(sums.size // 64):
        for p in range(elements.size):
            add_where(sums, place * 64, word(elements[U(p)], place), weights[U(p)])


@kernel(U64, U64, int64)
def simhash_sums(elements, weights, places):
    """Return for each bit the sum of the weights of the elements that have it."""
    sums = np.empty(places * 64, np.uint64)
    sum_weights(elements, weights, sums)
    return sums


@kernel(U64, I64, U32, int64)
def simhash_cells(elements, offsets, weight_of_cell, places):
    """Return one row of words a document; the weight of an element is that of its cell."""
    rows = offsets.size - 1
    out = np.zeros((rows, places), np.uint64)
    sums = np.empty(places * 64, np.uint64)
    weights = np.empty(elements.size, np.uint64)
    for i in range(rows):
        total = U(0)
        # All weights are loaded first, so that the cache misses overlap.
        for p in range(offsets[i], offsets[i + 1]):
            weights[U(p)] = U(weight_of_cell[elements[U(p)] >> U(64 - CELL_BITS)])
            total += weights[U(p)]
        here = slice(offsets[i], offsets[i + 1])
        sum_weights(elements[here], weights[here], sums)
        for bit in range(sums.size):
            if U(2) * sums[bit] > total:
                out[i, bit // 64] |= U(1) << U(bit % 64)
    return out


@kernel(U64, I64, OUT_U32, OUT_U32, uint32)
def count_cells(elements, offsets, counts, last, first):
    """Count each document once in every cell of its elements.

    Documents are numbered from `first` on; `last` holds the number of the last one that was
    counted in a cell.
    """
    for i in range(offsets.size - 1):
        number = np.uint32(first + np.uint32(i))
        for p in range(offsets[i], offsets[i + 1]):
            cell = elements[U(p)] >> U(64 - CELL_BITS)
            if last[cell] != number:
                last[cell] = number
                counts[cell] += np.uint32(1)


@inner
def log2_fixed(number):
    """Return the binary logarithm of a whole number, in 2^-16, by squaring."""
    whole = U(0)
    while number >> (whole + U(1)):
        whole += U(1)
    x = (number << U(31)) >> whole if whole <= U(31) else number >> (whole - U(31))
    found = whole
    for _ in range(16):
        x = (x * x) >> U(31)
        found = (found << U(1)) | (x >> U(32))
        x >>= x >> U(32)
    return found


@kernel(U32, uint64)
def cell_weights(counts, documents):
    """Return 1 + log2((1 + documents) / (1 + count)) of each cell, in 2^-16."""
    out = np.empty(counts.size, np.uint32)
    most = log2_fixed(documents + U(1)) + (U(1) << U(16))
    for cell in range(counts.size):
        count = min(U(counts[cell]), documents)
        out[cell] = np.uint32(most - log2_fixed(count + U(1)))
    return out
