"""Compare documents by their vectors, alone or together with their shingles.

`rows` has the words of all documents, one after the other: sorted shingles, if there are any, and
then the vector, two float32 numbers a word. `rests` is what `vector_rests` returns; it makes
comparisons faster and changes none. The kernels of each measure are those of `verification.py`.
"""

from __future__ import annotations

import math

import numpy as np

from neardup.kernels.compile import (
    F32,
    F64_ROWS,
    I8_ROWS,
    I32,
    I64,
    I64_ROWS,
    U64,
    float64,
    int64,
    kernel,
)
from neardup.kernels.intrinsics import AHEAD, dot_products, prefetch
from neardup.kernels.measures import (
    PARTS,
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

CODES = 32
"""Numbers of a code that are compared before it is asked whether the rest matters."""


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


@kernel(U64, I64, int64, F64_ROWS, I64, I64, float64)
def cosine_pairs(rows, offsets, dimension, rests, left, right, threshold):
    """Return the cosine of each pair (left[i], right[i]), at least 0; -1.0 below the threshold."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        data = VectorRows(rows, offsets, dimension, rests)
        out[i] = cosine_similarity(data, left[i], right[i], threshold)
    return out


@kernel(I64_ROWS, I64, U64, I64, int64, F64_ROWS, float64)
def keep_cosine(buckets, room, rows, offsets, dimension, rests, threshold):
    """Return the keep list by the cosine, as `keep_pass` does."""
    return keep_pass(buckets, room, VectorRows(rows, offsets, dimension, rests), threshold)


@kernel(int64, I64, I64, int64, U64, I64, int64, F64_ROWS, float64)
def components_cosine(documents, members, starts, cap, rows, offsets, dimension, rests, threshold):
    """Return the components by the cosine, as `connect` does."""
    data = VectorRows(rows, offsets, dimension, rests)
    return connect(documents, members, starts, cap, data, threshold)


@kernel(U64, I64, int64, F64_ROWS, float64, I64, I64, float64)
def either_pairs(rows, offsets, dimension, rests, least, left, right, threshold):
    """Return the Jaccard of each pair if it is enough, else the cosine if that is at least `least`;
    -1.0 if neither is."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        data = EitherSignal(rows, offsets, dimension, rests, least)
        out[i] = either_similarity(data, left[i], right[i], threshold)
    return out


@kernel(I64_ROWS, I64, U64, I64, int64, F64_ROWS, float64, float64)
def keep_either(buckets, room, rows, offsets, dimension, rests, least, threshold):
    """Return the keep list by either signal, as `keep_pass` does."""
    return keep_pass(buckets, room, EitherSignal(rows, offsets, dimension, rests, least), threshold)


@kernel(int64, I64, I64, int64, U64, I64, int64, F64_ROWS, float64, float64)
def components_either(
    documents, members, starts, cap, rows, offsets, dimension, rests, least, threshold
):
    """Return the components by either signal, as `connect` does."""
    data = EitherSignal(rows, offsets, dimension, rests, least)
    return connect(documents, members, starts, cap, data, threshold)


@kernel(U64, I64, int64, F64_ROWS, float64, I64, I64, float64)
def both_pairs(rows, offsets, dimension, rests, least, left, right, threshold):
    """Return the Jaccard of each pair if the cosine is at least `least`; -1.0 if one is below."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        data = BothSignals(rows, offsets, dimension, rests, least)
        out[i] = both_similarity(data, left[i], right[i], threshold)
    return out


@kernel(I64_ROWS, I64, U64, I64, int64, F64_ROWS, float64, float64)
def keep_both(buckets, room, rows, offsets, dimension, rests, least, threshold):
    """Return the keep list by both signals, as `keep_pass` does."""
    return keep_pass(buckets, room, BothSignals(rows, offsets, dimension, rests, least), threshold)


@kernel(int64, I64, I64, int64, U64, I64, int64, F64_ROWS, float64, float64)
def components_both(
    documents, members, starts, cap, rows, offsets, dimension, rests, least, threshold
):
    """Return the components by both signals, as `connect` does."""
    data = BothSignals(rows, offsets, dimension, rests, least)
    return connect(documents, members, starts, cap, data, threshold)


@kernel(U64, I64, int64, I64, I64)
def signal_numbers(rows, offsets, dimension, left, right):
    """Return the Jaccard and the cosine of each pair, whatever they are.

    The Jaccard of two documents without shingles is 1.
    """
    out = np.empty((left.size, 2), np.float64)
    data = VectorRows(rows, offsets, dimension, np.empty((0, PARTS), np.float64))
    for i in range(left.size):
        out[i, 0] = text_similarity(data, left[i], right[i], 0.0)
        out[i, 1] = cosine_between(data, left[i], right[i])
    return out


@kernel(I8_ROWS, F32, I32, float64, float64, I64, I64)
def near_codes(codes, errors, rows, step, farthest, left, right):
    """Return which pairs of documents may have vectors that are at most `farthest` apart.

    codes[rows[d]] times `step` is near the vector of document d, errors[rows[d]] away at most. A
    code has a multiple of CODES numbers.
    """
    out = np.empty(left.size, np.bool_)
    width = np.uint64(codes.shape[1])
    for i in range(left.size):
        if i + AHEAD < left.size:
            coming = np.uint64(rows[right[i + AHEAD]])
            prefetch(errors, coming)
            prefetch(codes, coming * width)
            coming = np.uint64(rows[left[i + AHEAD]])
            prefetch(errors, coming)
            prefetch(codes, coming * width)
        u, v = rows[left[i]], rows[right[i]]
        allowed = (farthest + np.float64(errors[u]) + np.float64(errors[v])) / step
        most, apart = allowed * allowed, np.int32(0)
        for start in range(0, codes.shape[1], CODES):
            for place in range(start, start + CODES):
                difference = np.int32(codes[u, place]) - np.int32(codes[v, place])
                apart += difference * difference
            if apart > most:
                break
        out[i] = apart <= most
    return out
