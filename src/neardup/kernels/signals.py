"""Compare documents by their vectors, alone or together with their shingles.

`rows` has the words of all documents, one after the other: sorted shingles, if there are any, and
then the vector, two float32 numbers a word. The kernels of each measure are those of
`verification.py`.
"""

from __future__ import annotations

import math

import numpy as np

from neardup.kernels.compile import F64_ROWS, I64, I64_ROWS, U64, float64, int64, kernel, uncounted
from neardup.kernels.intrinsics import dot_products
from neardup.kernels.measures import (
    BothSignals,
    EitherSignal,
    VectorRows,
    both_similarity,
    cosine_between,
    cosine_similarity,
    either_similarity,
    text_similarity,
)
from neardup.kernels.verification import connect, keep_pass


@kernel(U64, I64, int64, I64, I64, float64)
def cosine_pairs(rows, offsets, dimension, left, right, threshold):
    """Return the cosine of each pair (left[i], right[i]), at least 0; -1.0 below the threshold."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        data = VectorRows(rows, offsets, dimension)
        out[i] = cosine_similarity(data, left[i], right[i], threshold)
    return out


PARTS = 4
"""A pair is looked at in so many parts of its vectors; most pairs need only the first."""
LEAST_GAP = 1e-9
"""A pair is ruled out if its cosine is less than the threshold by more than rounding can add."""


@kernel(U64, I64, int64)
def vector_rests(rows, offsets, dimension):
    """Return the length of each vector, and that of what is left of it after each part."""
    out = np.empty((offsets.size - 1, PARTS), np.float64)
    size = dimension // PARTS
    for row in range(out.shape[0]):
        end = 8 * (offsets[row + 1] - (dimension + 1) // 2)
        for part in range(PARTS):
            at, count = end + 4 * part * size, dimension - part * size
            out[row, part] = math.sqrt(dot_products(rows, at, rows, at, count)[1])
    return out


@uncounted
def may_reach(rows, a, b, size, rests, u, v, least):
    """Return whether the product of two vectors at bytes a and b may be `least`.

    What is left of both adds at most the product of its lengths.
    """
    product = 0.0
    for part in range(PARTS - 1):
        at = 4 * part * size
        product += dot_products(rows, a + at, rows, b + at, size)[0]
        if product + rests[u, part + 1] * rests[v, part + 1] < least:
            return False
    return True


@kernel(U64, I64, int64, F64_ROWS, I64, I64, float64)
def cosine_pairs_pruned(rows, offsets, dimension, rests, left, right, threshold):
    """Return what `cosine_pairs` does, faster for pairs of which most are far from similar.

    `rests` is what `vector_rests` returns.
    """
    out = np.empty(left.size, np.float64)
    size, tail = dimension // PARTS, (dimension + 1) // 2
    for i in range(left.size):
        u, v = left[i], right[i]
        a, b = 8 * (offsets[u + 1] - tail), 8 * (offsets[v + 1] - tail)
        least = (threshold - LEAST_GAP) * rests[u, 0] * rests[v, 0]
        out[i] = -1.0
        if threshold <= 0.0 or may_reach(rows, a, b, size, rests, u, v, least):
            out[i] = cosine_similarity(VectorRows(rows, offsets, dimension), u, v, threshold)
    return out


@kernel(I64_ROWS, I64, U64, I64, int64, float64)
def keep_cosine(buckets, room, rows, offsets, dimension, threshold):
    """Return the keep list by the cosine, as `keep_pass` does."""
    return keep_pass(buckets, room, VectorRows(rows, offsets, dimension), threshold)


@kernel(int64, I64, I64, int64, U64, I64, int64, float64)
def components_cosine(documents, members, starts, cap, rows, offsets, dimension, threshold):
    """Return the components by the cosine, as `connect` does."""
    data = VectorRows(rows, offsets, dimension)
    return connect(documents, members, starts, cap, data, threshold)


@kernel(U64, I64, int64, float64, I64, I64, float64)
def either_pairs(rows, offsets, dimension, least, left, right, threshold):
    """Return the Jaccard of each pair if it is enough, else the cosine if that is at least `least`;
    -1.0 if neither is."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        data = EitherSignal(rows, offsets, dimension, least)
        out[i] = either_similarity(data, left[i], right[i], threshold)
    return out


@kernel(I64_ROWS, I64, U64, I64, int64, float64, float64)
def keep_either(buckets, room, rows, offsets, dimension, least, threshold):
    """Return the keep list by either signal, as `keep_pass` does."""
    return keep_pass(buckets, room, EitherSignal(rows, offsets, dimension, least), threshold)


@kernel(int64, I64, I64, int64, U64, I64, int64, float64, float64)
def components_either(documents, members, starts, cap, rows, offsets, dimension, least, threshold):
    """Return the components by either signal, as `connect` does."""
    data = EitherSignal(rows, offsets, dimension, least)
    return connect(documents, members, starts, cap, data, threshold)


@kernel(U64, I64, int64, float64, I64, I64, float64)
def both_pairs(rows, offsets, dimension, least, left, right, threshold):
    """Return the Jaccard of each pair if the cosine is at least `least`; -1.0 if one is below."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        data = BothSignals(rows, offsets, dimension, least)
        out[i] = both_similarity(data, left[i], right[i], threshold)
    return out


@kernel(I64_ROWS, I64, U64, I64, int64, float64, float64)
def keep_both(buckets, room, rows, offsets, dimension, least, threshold):
    """Return the keep list by both signals, as `keep_pass` does."""
    return keep_pass(buckets, room, BothSignals(rows, offsets, dimension, least), threshold)


@kernel(int64, I64, I64, int64, U64, I64, int64, float64, float64)
def components_both(documents, members, starts, cap, rows, offsets, dimension, least, threshold):
    """Return the components by both signals, as `connect` does."""
    data = BothSignals(rows, offsets, dimension, least)
    return connect(documents, members, starts, cap, data, threshold)


@kernel(U64, I64, int64, I64, I64)
def signal_numbers(rows, offsets, dimension, left, right):
    """Return the Jaccard and the cosine of each pair, whatever they are.

    The Jaccard of two documents without shingles is 1.
    """
    out = np.empty((left.size, 2), np.float64)
    data = VectorRows(rows, offsets, dimension)
    for i in range(left.size):
        out[i, 0] = text_similarity(data, left[i], right[i], 0.0)
        out[i, 1] = cosine_between(data, left[i], right[i])
    return out
