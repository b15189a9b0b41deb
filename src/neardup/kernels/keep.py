"""The keep list: one pass in rank order over tables that hold kept documents only.

Documents are numbered in rank order. `buckets[v]` holds v's bucket numbers, -1 where v is alone
in it. `room` says where each bucket's leaders (its first kept documents, at most the limit) are
stored. In rank order, v is removed if it is similar to a leader of one of its buckets; the
best-ranked such leader is its witness; otherwise v is kept and leads where there is room.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import (
    I64,
    I64_ROWS,
    U8_ROWS,
    U32_ROWS,
    U64,
    U64_ROWS,
    float64,
    inner,
    kernel,
    kernel_for,
)
from neardup.kernels.jaccard import similarity


@inner
def leaders_of(v, buckets, room, leading, leaders, seen, found):
    """The distinct leaders of v's buckets, best rank first, into `found`; returns how many."""
    count = 0
    for bucket in buckets[v]:
        if bucket >= 0:
            for at in range(room[bucket], room[bucket] + leading[bucket]):
                u = leaders[at]
                if seen[u] != v:
                    seen[u] = v
                    found[count] = u
                    count += 1
    if count > 1:
        found[:count].sort()
    return count


@inner
def lead(v, buckets, room, leading, leaders, turned_away):
    """Make the kept document v a leader of each of its buckets that has room."""
    for bucket in buckets[v]:
        if bucket >= 0:
            if room[bucket] + leading[bucket] < room[bucket + 1]:
                leaders[room[bucket] + leading[bucket]] = v
                leading[bucket] += 1
            else:
                turned_away[bucket] += 1


@inner
def keep_pass(buckets, room, data, threshold):
    documents = buckets.shape[0]
    witness, similar = np.full(documents, -1, np.int64), np.ones(documents, np.float64)
    leading, turned_away = np.zeros(room.size, np.int64), np.zeros(room.size, np.int64)
    leaders, seen = np.empty(room[-1], np.int64), np.full(documents, -1, np.int64)
    found = np.empty(documents, np.int64)
    compared = 0
    for v in range(documents):
        for i in range(leaders_of(v, buckets, room, leading, leaders, seen, found)):
            compared += 1
            measured = similarity(data, found[i], v, threshold)
            if measured >= 0.0:
                witness[v], similar[v] = found[i], measured
                break
        if witness[v] < 0:
            lead(v, buckets, room, leading, leaders, turned_away)
    return witness, similar, compared, turned_away


@kernel(I64_ROWS, I64, U64, I64, float64)
def keep_exact(buckets, room, shingles, offsets, threshold):
    """Witness (-1: kept) and similarity of each document, comparisons, turned away by bucket."""
    return keep_pass(buckets, room, (shingles, offsets), threshold)


@kernel_for(
    (I64_ROWS, I64, U8_ROWS, float64),
    (I64_ROWS, I64, U32_ROWS, float64),
    (I64_ROWS, I64, U64_ROWS, float64),
)
def keep_slots(buckets, room, signatures, threshold):
    """The same by estimated similarity; with threshold 0.0 every leader counts as similar."""
    return keep_pass(buckets, room, signatures, threshold)
