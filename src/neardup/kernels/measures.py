"""The similarity of two documents by each measure: exact from shingles, estimated from signatures.

Similarity is one float64 division. All comparisons stop as soon as the verdict is certain. The type
of the data decides the measure when a kernel is compiled: a plain pair of arrays (shingles,
offsets) is compared by Jaccard, a plain array of rows by equal slots, each class below by its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from neardup.kernels.compile import (
    inner,
)
from neardup.kernels.intrinsics import bits_set, dot_products
from neardup.kernels.vectors import cosine_at

CHECK_EVERY = 32
PARTS = 4
"""Two vectors are looked at in so many parts; most pairs need only the first."""
LEAST_GAP = 1e-9
"""A pair is ruled out if its cosine is below the threshold by more than rounding can add."""


class Bags(NamedTuple):
    """Sorted shingles with repeats, and the running sum of the weights of all occurrences."""

    shingles: np.ndarray
    offsets: np.ndarray
    sums: np.ndarray


class Nested(NamedTuple):
    """Sets of shingles that are compared by containment; a plain pair of the same by Jaccard."""

    shingles: np.ndarray
    offsets: np.ndarray


class Fingerprints(NamedTuple):
    """Rows of words that are compared by their bits; plain rows by their values."""

    words: np.ndarray


class VectorRows(NamedTuple):
    """VectorRows of `dimension` float32 numbers at the end of each document's words.

    `EitherSignal` and `BothSignals` are compared by the sorted sets in front of them, too.
    """

    rows: np.ndarray
    offsets: np.ndarray
    dimension: int
    rests: np.ndarray


class EitherSignal(NamedTuple):
    """Sets and vectors, similar if their Jaccard or their cosine is enough."""

    rows: np.ndarray
    offsets: np.ndarray
    dimension: int
    rests: np.ndarray
    least: float


class BothSignals(NamedTuple):
    """Sets and vectors, similar if their Jaccard and their cosine are enough."""

    rows: np.ndarray
    offsets: np.ndarray
    dimension: int
    rests: np.ndarray
    least: float


@inner
def part_needed(whole, threshold):
    """Return the least c with c / whole >= threshold."""
    need = np.int64(threshold * whole)
    while need > 0 and (need - 1) / whole >= threshold:
        need -= 1
    while need <= whole and need / whole < threshold:
        need += 1
    return need


@inner
def overlap_needed(size_a, size_b, threshold):
    """Return the least intersection c with c / (size_a + size_b - c) >= threshold."""
    both = size_a + size_b
    need = np.int64(threshold * both / (1.0 + threshold))
    while need > 0 and (need - 1) / (both - need + 1) >= threshold:
        need -= 1
    while need <= min(size_a, size_b) and need / (both - need) < threshold:
        need += 1
    return need


@inner
def common_at_least(shingles, a, a_end, b, b_end, need):
    """Return the size of the intersection of two sorted sets, or -1 if it is below `need`."""
    common = 0
    i, j = np.uint64(a), np.uint64(b)  # unsigned: no checks for negative indices
    left_a, left_b = a_end - a, b_end - b
    while min(left_a, left_b) > 0:
        if common + min(left_a, left_b) < need:
            return -1
        # This many steps can't pass the end of either set.
        for _ in range(min(min(left_a, left_b), CHECK_EVERY)):
            x, y = shingles[i], shingles[j]
            common += np.int64(x == y)
            i += np.uint64(x <= y)
            j += np.uint64(y <= x)
        left_a, left_b = a_end - np.int64(i), b_end - np.int64(j)
    return common if common >= need else -1


@inner
def jaccard_of_sets(shingles, a, a_end, b, b_end, threshold):
    """Return the Jaccard similarity of two sorted sets, or -1.0 if it is below the threshold."""
    both = a_end - a + b_end - b
    need = overlap_needed(a_end - a, b_end - b, threshold)
    common = common_at_least(shingles, a, a_end, b, b_end, need)
    return common / (both - common) if common >= 0 else -1.0


@inner
def exact_similarity(data, u, v, threshold):
    """Return the Jaccard similarity of documents u and v, or -1.0 if it is below the threshold."""
    shingles, offsets = data
    return jaccard_of_sets(
        shingles, offsets[u], offsets[u + 1], offsets[v], offsets[v + 1], threshold
    )


@inner
def common_weight(shingles, sums, a, a_end, b, b_end, need):
    """Return the weight that two sorted bags have in common, or -1 if it is below `need`."""
    common = 0
    i, j = np.uint64(a), np.uint64(b)
    while np.int64(i) < a_end and np.int64(j) < b_end:
        if common + min(sums[a_end] - sums[i], sums[b_end] - sums[j]) < need:
            return -1
        for _ in range(min(min(a_end - np.int64(i), b_end - np.int64(j)), CHECK_EVERY)):
            x, y = shingles[i], shingles[j]
            if x == y:
                common += sums[i + np.uint64(1)] - sums[i]
            i += np.uint64(x <= y)
            j += np.uint64(y <= x)
    return common if common >= need else -1


@inner
def bag_similarity(data, u, v, threshold):
    """Return the weighted Jaccard of documents u and v, or -1.0 if it is below the threshold.

    All occurrences of a shingle weigh the same, so that the lesser of two sums is the weight of as
    many occurrences as both documents have.
    """
    sums, offsets = data.sums, data.offsets
    a, a_end, b, b_end = offsets[u], offsets[u + 1], offsets[v], offsets[v + 1]
    weight_u, weight_v = sums[a_end] - sums[a], sums[b_end] - sums[b]
    need = overlap_needed(weight_u, weight_v, threshold)
    common = common_weight(data.shingles, sums, a, a_end, b, b_end, need)
    return common / (weight_u + weight_v - common) if common >= 0 else -1.0


@inner
def containment(data, u, v, threshold):
    """Return the share of v that is contained in u, or -1.0 if it is below the threshold."""
    shingles, offsets = data.shingles, data.offsets
    size = offsets[v + 1] - offsets[v]
    need = part_needed(size, threshold)
    common = common_at_least(shingles, offsets[u], offsets[u + 1], offsets[v], offsets[v + 1], need)
    return common / size if common >= 0 else -1.0


@inner
def slot_similarity(data, u, v, threshold):
    """Return the share of equal slots of u and v, or -1.0 if it is below the threshold."""
    slots = data.shape[1]
    need = part_needed(slots, threshold)
    equal = 0
    for start in range(0, slots, CHECK_EVERY):
        end = min(start + CHECK_EVERY, slots)
        for j in range(start, end):
            equal += np.int64(data[u, j] == data[v, j])
        if equal + slots - end < need:
            return -1.0
    return equal / slots


@inner
def bit_similarity(data, u, v, threshold):
    """Return the share of equal bits of u and v, or -1.0 if it is below the threshold."""
    words, apart = data.words, 0
    for place in range(words.shape[1]):
        apart += bits_set(words[u, place] ^ words[v, place])
    equal = 1.0 - apart / (64 * words.shape[1])
    return equal if equal >= threshold else -1.0


@inner
def text_similarity(data, u, v, threshold):
    """Return the Jaccard similarity of the sets in front of the vectors of u and v, or -1.0.

    That of two empty sets is 1.
    """
    rows, offsets, tail = data.rows, data.offsets, (data.dimension + 1) // 2
    a, a_end, b, b_end = offsets[u], offsets[u + 1] - tail, offsets[v], offsets[v + 1] - tail
    if a == a_end and b == b_end:
        return 1.0
    return jaccard_of_sets(rows, a, a_end, b, b_end, threshold)


@inner
def cosine_between(data, u, v):
    """Return the cosine of the vectors of documents u and v."""
    rows, offsets, tail = data.rows, data.offsets, (data.dimension + 1) // 2
    a, b = 8 * (offsets[u + 1] - tail), 8 * (offsets[v + 1] - tail)
    return cosine_at(rows, a, rows, b, data.dimension)


@inner
def may_reach(data, u, v, least):
    """Return whether the cosine of documents u and v may be `least`, which is above 0.

    What is left of two vectors after some parts adds at most the product of its lengths.
    """
    rows, offsets, rests, tail = data.rows, data.offsets, data.rests, (data.dimension + 1) // 2
    needed = (least - LEAST_GAP) * rests[u, 0] * rests[v, 0]
    size, product = data.dimension // PARTS, 0.0
    a, b = 8 * (offsets[u + 1] - tail), 8 * (offsets[v + 1] - tail)
    for part in range(1, PARTS):
        product += dot_products(rows, a, rows, b, size)[0]
        if product + rests[u, part] * rests[v, part] < needed:
            return False
        a, b = a + 4 * size, b + 4 * size
    return True


@inner
def cosine_similarity(data, u, v, threshold):
    """Return the cosine of u and v, at least 0, or -1.0 if it is below the threshold."""
    if threshold > 0.0 and not may_reach(data, u, v, threshold):
        return -1.0
    cosine = max(cosine_between(data, u, v), 0.0)
    return cosine if cosine >= threshold else -1.0


@inner
def either_similarity(data, u, v, threshold):
    """Return the Jaccard similarity of u and v if it is enough, else the cosine, or -1.0."""
    lexical = text_similarity(data, u, v, threshold)
    return lexical if lexical >= 0.0 else cosine_similarity(data, u, v, data.least)


@inner
def both_similarity(data, u, v, threshold):
    """Return the Jaccard similarity of u and v if that and the cosine are enough, or -1.0."""
    lexical = text_similarity(data, u, v, threshold)
    return lexical if lexical >= 0.0 and cosine_between(data, u, v) >= data.least else -1.0


MEASURES = {
    Bags: bag_similarity,
    Nested: containment,
    Fingerprints: bit_similarity,
    VectorRows: cosine_similarity,
    EitherSignal: either_similarity,
    BothSignals: both_similarity,
}


def similarity(data, u, v, threshold):
    """Return the similarity of documents u and v by the type of `data`."""
    raise NotImplementedError("only kernels call this")


@overload(similarity)
def _choose_similarity(data, u, v, threshold):
    if isinstance(data, types.BaseNamedTuple):
        return MEASURES[data.instance_class].py_func
    chosen = exact_similarity if isinstance(data, types.BaseTuple) else slot_similarity
    return chosen.py_func


@inner
def sets_reach(data, u, v, threshold):
    return exact_similarity(data, u, v, threshold) >= 0.0


@inner
def bags_reach(data, u, v, threshold):
    return bag_similarity(data, u, v, threshold) >= 0.0


@inner
def slots_reach(data, u, v, threshold):
    """Return whether u and v reach the threshold; also stops once enough slots are equal."""
    slots, equal = data.shape[1], 0
    for j in range(slots):
        equal += np.int64(data[u, j] == data[v, j])
        if equal / slots >= threshold:
            return True
        if (equal + slots - j - 1) / slots < threshold:
            return False
    return False


@inner
def bits_reach(data, u, v, threshold):
    return bit_similarity(data, u, v, threshold) >= 0.0


@inner
def cosines_reach(data, u, v, threshold):
    return cosine_similarity(data, u, v, threshold) >= 0.0


@inner
def either_reaches(data, u, v, threshold):
    return either_similarity(data, u, v, threshold) >= 0.0


@inner
def both_reach(data, u, v, threshold):
    return both_similarity(data, u, v, threshold) >= 0.0


VERDICTS = {
    Bags: bags_reach,
    Fingerprints: bits_reach,
    VectorRows: cosines_reach,
    EitherSignal: either_reaches,
    BothSignals: both_reach,
}


def reach(data, u, v, threshold):
    """Return whether documents u and v are similar, by the type of `data`."""
    raise NotImplementedError("only kernels call this")


@overload(reach)
def _choose_reach(data, u, v, threshold):
    if isinstance(data, types.BaseNamedTuple):
        return VERDICTS[data.instance_class].py_func
    return (sets_reach if isinstance(data, types.BaseTuple) else slots_reach).py_func
