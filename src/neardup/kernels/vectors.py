"""Vectors: the exact cosine, and the signs of their products with random directions.

A cosine is computed in float64 with additions in a stated order. Signs come from integers alone: a
vector is divided by its length and rounded to multiples of 2^-14, directions are small whole
numbers. So no machine and no number of threads changes a bit. `reference/vectors.py` is the
definition.
"""

from __future__ import annotations

import math

import numpy as np

from neardup.kernels.compile import (
    F32_ROWS,
    I16,
    I16_ROWS,
    OUT_I64,
    U32_ROWS,
    U64_ROWS,
    inner,
    int64,
    kernel,
    kernel_for,
    uint64,
    uncounted,
)
from neardup.kernels.hashing import P5, absorb, avalanche, mix
from neardup.kernels.intrinsics import TOGETHER, dot_products, signs_of_two

U = np.uint64
UNIT = 16_384.0
"""The length of a quantised vector."""
PLANE_STEP, PLACE_STEP = U(0x9E3779B97F4A7C15), U(0xD1B54A32D192ED03)
MEAN_OF_BYTES = 1_020
BLOCK_ROWS = 64
"""Vectors whose signs are found together: quantised they stay in the processor's cache."""
MOST_SHORT = 16_384
"""Up to this many numbers, a product with a direction is less than LARGEST, by the inequality of
Cauchy and Schwarz: it has at most the length 2^14 + 64 of a rounded vector times 1020 * 128."""
LARGEST = 2**31 - 1
FIRST_SEED = U(1 << 32)
"""The seed of the keys of the first band: those of bands of slots are smaller."""


@uncounted
def cosine_at(one, a, other, b, count):
    """Return the cosine of `count` float32 numbers at byte a of one array and at b of another.

    The cosine with a vector of zeros is 0.
    """
    dot, xx, yy = dot_products(one, a, other, b, count)
    squares = xx * yy
    if squares == 0.0:
        return 0.0
    return min(max(dot / math.sqrt(squares), -1.0), 1.0)


@inner
def quantise(vectors, row, out):
    """Write a vector of length 2^14 to `out`, in whole numbers; return whether it is not zero."""
    count = vectors.shape[1]
    at = 4 * row * count
    length = math.sqrt(dot_products(vectors, at, vectors, at, count)[1])
    if length == 0.0:
        out[:] = np.int16(0)
        return False
    for i in range(count):
        out[i] = np.int16(np.rint(np.float64(vectors[row, i]) / length * UNIT))
    return True


@kernel(F32_ROWS)
def quantised(vectors):
    """Return each vector with length 2^14, in whole numbers; zeros stay zeros."""
    out = np.empty(vectors.shape, np.int16)
    for row in range(vectors.shape[0]):
        quantise(vectors, row, out[row])
    return out


@kernel(F32_ROWS, OUT_I64)
def sum_quantised(vectors, sums):
    """Add all quantised vectors to `sums`; return how many are not zero."""
    one = np.empty(vectors.shape[1], np.int16)
    count = 0
    for row in range(vectors.shape[0]):
        if quantise(vectors, row, one):
            count += 1
            for i in range(one.size):
                sums[i] += one[i]
    return count


@kernel(int64, int64, uint64)
def plane_directions(planes, dimension, start):
    """Return a direction for each plane, in whole numbers that are about normally distributed."""
    out = np.empty((planes, dimension), np.int16)
    for plane in range(planes):
        of_plane = mix(start + U(plane) * PLANE_STEP)
        for i in range(dimension):
            h, total = mix(of_plane + U(i) * PLACE_STEP), U(0)
            for _ in range(8):
                total += h & U(0xFF)
                h >>= U(8)
            out[plane, i] = np.int16(np.int64(total) - MEAN_OF_BYTES)
    return out


@kernel(I16_ROWS)
def packed_directions(directions):
    """Return directions in the order in which `plane_signs` multiplies them: 32 planes together."""
    planes, dimension = directions.shape
    groups, pairs = (planes + TOGETHER - 1) // TOGETHER, (dimension + 1) // 2
    out = np.zeros(groups * pairs * 2 * TOGETHER, np.int16)
    for plane in range(planes):
        group, place = plane // TOGETHER, plane % TOGETHER
        for i in range(dimension):
            out[((group * pairs + i // 2) * TOGETHER + place) * 2 + i % 2] = directions[plane, i]
    return out


@inner
def product(one, other):
    total = np.int64(0)
    for i in range(other.size):
        total += np.int64(one[i]) * np.int64(other[i])
    return total


@inner
def signs_of_short(block, count, bounds, packed, out, first):
    """Write the signs of the first `count` vectors of a block, of at most MOST_SHORT numbers."""
    planes, pairs = bounds.size, block.shape[1] // 2
    limits = np.full((planes + TOGETHER - 1) // TOGETHER * TOGETHER, LARGEST, np.int32)
    for k in range(planes):
        limits[k] = np.int32(min(max(bounds[k], -LARGEST), LARGEST))
    for group in range(limits.size // TOGETHER):
        at, shift = 4 * group * pairs * TOGETHER, U(TOGETHER * (group % 2))
        for row in range(0, count, 2):
            other = min(row + 1, count - 1)
            one, two = signs_of_two(
                block,
                4 * row * pairs,
                4 * other * pairs,
                packed,
                at,
                limits,
                4 * group * TOGETHER,
                pairs,
            )
            out[first + row, group // 2] |= one << shift
            if other > row:
                out[first + other, group // 2] |= two << shift


@inner
def signs_of_long(block, count, bounds, directions, out, first):
    """Write the signs of the first `count` vectors of a block, of any length."""
    for row in range(count):
        for k in range(bounds.size):
            along = product(block[row], directions[k]) >= bounds[k]
            out[first + row, k >> 6] |= U(along) << U(k & 63)


@kernel(F32_ROWS, I16, I16_ROWS, I16)
def plane_signs(vectors, centre, directions, packed):
    """Return a row of words a vector: bit k is 1 if, from the centre, it lies along direction k."""
    planes, dimension = directions.shape
    out = np.zeros((vectors.shape[0], (planes + 63) // 64), np.uint64)
    bounds = np.empty(planes, np.int64)
    for k in range(planes):
        bounds[k] = product(centre, directions[k])
    block = np.zeros((BLOCK_ROWS, (dimension + 1) // 2 * 2), np.int16)
    for first in range(0, vectors.shape[0], BLOCK_ROWS):
        count = min(BLOCK_ROWS, vectors.shape[0] - first)
        for row in range(count):
            quantise(vectors, first + row, block[row])
        if dimension <= MOST_SHORT:
            signs_of_short(block, count, bounds, packed, out, first)
        else:
            signs_of_long(block, count, bounds, directions, out, first)
    return out


@kernel_for((U32_ROWS, int64, int64, int64), (U64_ROWS, int64, int64, int64))
def plane_keys(columns, first, count, band):
    """Return the keys of one band of planes: the `count` bits from `first` on of each document.

    columns[i, d] has the bits of document d from 32 i, or 64 i, on.
    """
    size = np.int64(columns.itemsize * 8)
    documents = columns.shape[1]
    out = np.empty(documents, np.uint64)
    mask = (U(1) << U(count)) - U(1)
    seed = (FIRST_SEED + U(band)) + P5 + U(8)
    for d in range(documents):
        bits, have, column = U(0), np.int64(0), first // size
        skip = first - column * size
        while have < count:
            bits |= (U(columns[column, d]) >> U(skip)) << U(have)
            have += size - skip
            skip, column = np.int64(0), column + 1
        out[d] = avalanche(absorb(seed, bits & mask))
    return out
