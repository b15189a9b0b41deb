"""Compare candidates: pair by pair, to a keep list, or to connected components, by each measure.

Documents are numbered in rank order. The keep list is one pass in that order over tables that
hold kept documents only. `buckets[v]` has v's bucket numbers, -1 where no other document has its
key. `room` has the place of each bucket's leaders (its first kept documents, at most the limit). v
is removed if it is similar to a leader of one of its buckets; the best-ranked such leader is its
witness. Otherwise v is kept, and becomes a leader of each of its buckets that has room.

For components a document is compared with the documents of its buckets that it is not connected
with yet.

Each measure has a kernel for each of the three; `measures.py` has the comparison itself.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import (
    I64,
    I64_ROWS,
    OUT_U32,
    U8_ROWS,
    U32_ROWS,
    U64,
    U64_ROWS,
    float64,
    inner,
    int64,
    kernel,
    kernel_for,
)
from neardup.kernels.intrinsics import bits_set
from neardup.kernels.measures import (
    Bags,
    Fingerprints,
    Nested,
    bag_similarity,
    bit_similarity,
    containment,
    exact_similarity,
    reach,
    similarity,
    slot_similarity,
)


@inner
def leaders_of(v, buckets, room, leading, leaders, seen, distinct):
    """Write the distinct leaders of v's buckets to `distinct`, best rank first; return how many."""
    count = 0
    for bucket in buckets[v]:
        if bucket >= 0:
            for at in range(room[bucket], room[bucket] + leading[bucket]):
                u = leaders[at]
                if seen[u] != v:
                    seen[u] = v
                    distinct[count] = u
                    count += 1
    if count > 1:
        distinct[:count].sort()
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
    """Return witness (-1: kept), similarity, number of comparisons, turned away by bucket."""
    documents = buckets.shape[0]
    witness, similar = np.full(documents, -1, np.int64), np.ones(documents, np.float64)
    leading, turned_away = np.zeros(room.size, np.int64), np.zeros(room.size, np.int64)
    leaders, seen = np.empty(room[-1], np.int64), np.full(documents, -1, np.int64)
    near = np.empty(documents, np.int64)
    compared = 0
    for v in range(documents):
        for i in range(leaders_of(v, buckets, room, leading, leaders, seen, near)):
            compared += 1
            measured = similarity(data, near[i], v, threshold)
            if measured >= 0.0:
                witness[v], similar[v] = near[i], measured
                break
        if witness[v] < 0:
            lead(v, buckets, room, leading, leaders, turned_away)
    return witness, similar, compared, turned_away


@kernel(I64_ROWS, I64, U64, I64, float64)
def keep_exact(buckets, room, shingles, offsets, threshold):
    """Return the keep list by exact Jaccard, as `keep_pass` does."""
    return keep_pass(buckets, room, (shingles, offsets), threshold)


@kernel_for(
    (I64_ROWS, I64, U8_ROWS, float64),
    (I64_ROWS, I64, U32_ROWS, float64),
    (I64_ROWS, I64, U64_ROWS, float64),
)
def keep_slots(buckets, room, signatures, threshold):
    """Return the keep list by estimated Jaccard; with threshold 0.0 every leader is similar."""
    return keep_pass(buckets, room, signatures, threshold)


@inner
def root(parent, document):
    while parent[document] != document:
        parent[document] = parent[parent[document]]
        document = np.int64(parent[document])
    return document


@inner
def join(parent, u, v):
    """Connect u and v; the better-ranked root stays."""
    u, v = root(parent, u), root(parent, v)
    parent[max(u, v)] = min(u, v)


@inner
def connect(documents, members, starts, cap, data, threshold):
    """Return each document's best-ranked connected one, and the number of comparisons.

    A document is compared with the first `cap` documents of its bucket.
    """
    parent = np.arange(documents)
    compared = 0
    for bucket in range(starts.size - 1):
        for at in range(starts[bucket] + 1, starts[bucket + 1]):
            v = members[at]
            for i in range(starts[bucket], min(at, starts[bucket] + cap)):
                if root(parent, members[i]) != root(parent, v):
                    compared += 1
                    if reach(data, members[i], v, threshold):
                        join(parent, members[i], v)
    for document in range(documents):
        parent[document] = root(parent, document)
    return parent, compared


@kernel(int64, I64, I64, int64, U64, I64, float64)
def components_exact(documents, members, starts, cap, shingles, offsets, threshold):
    """Return the components by exact Jaccard, as `connect` does."""
    return connect(documents, members, starts, cap, (shingles, offsets), threshold)


@kernel_for(
    (int64, I64, I64, int64, U8_ROWS, float64),
    (int64, I64, I64, int64, U32_ROWS, float64),
    (int64, I64, I64, int64, U64_ROWS, float64),
)
def components_slots(documents, members, starts, cap, signatures, threshold):
    """Return the components by estimated Jaccard, as `connect` does."""
    return connect(documents, members, starts, cap, signatures, threshold)


@kernel(OUT_U32, I64, I64)
def join_all(parent, left, right):
    """Connect the documents of each pair; the better-ranked root stays."""
    for i in range(left.size):
        join(parent, left[i], right[i])


@kernel(OUT_U32)
def to_roots(parent):
    """Replace each document's parent by its root."""
    for document in range(parent.size):
        parent[document] = root(parent, document)


@kernel(U64, I64, I64, I64, float64)
def exact_pairs(shingles, offsets, left, right, threshold):
    """Return the exact Jaccard of each pair (left[i], right[i]); -1.0 below the threshold."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        out[i] = exact_similarity((shingles, offsets), left[i], right[i], threshold)
    return out


PARITY_WORDS = 8
"""64-bit words of the parities of a set: one line of a processor's cache."""


@kernel(U64, I64)
def set_parities(shingles, offsets):
    """Return for each set, by the leading bits of a shingle, whether it has an odd number of them.

    The bits that differ between two sets are at most as many as the shingles that only one has.
    """
    out = np.zeros((offsets.size - 1, PARITY_WORDS), np.uint64)
    for row in range(offsets.size - 1):
        for at in range(offsets[row], offsets[row + 1]):
            place = shingles[at] >> np.uint64(55)
            out[row, place >> np.uint64(6)] ^= np.uint64(1) << (place & np.uint64(63))
    return out


@kernel(U64, I64, U64_ROWS, I64, I64, float64)
def exact_pairs_pruned(shingles, offsets, parities, left, right, threshold):
    """Return what `exact_pairs` does, faster for sets of which `set_parities` shows that they
    differ in too many shingles."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        u, v = left[i], right[i]
        both = offsets[u + 1] - offsets[u] + offsets[v + 1] - offsets[v]
        apart = 0
        for word in range(PARITY_WORDS):
            apart += bits_set(parities[u, word] ^ parities[v, word])
        common = (both - apart) // 2  # at most
        if common / (both - common) < threshold:
            out[i] = -1.0
        else:
            out[i] = exact_similarity((shingles, offsets), u, v, threshold)
    return out


@kernel_for(
    (U8_ROWS, I64, I64, float64), (U32_ROWS, I64, I64, float64), (U64_ROWS, I64, I64, float64)
)
def slot_pairs(signatures, left, right, threshold):
    """Return the estimated Jaccard of each pair; -1.0 below the threshold."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        out[i] = slot_similarity(signatures, left[i], right[i], threshold)
    return out


@kernel(U64, I64, I64, I64, I64, float64)
def bag_pairs(shingles, offsets, sums, left, right, threshold):
    """Return the exact weighted Jaccard of each pair; -1.0 below the threshold."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        out[i] = bag_similarity(Bags(shingles, offsets, sums), left[i], right[i], threshold)
    return out


@kernel(I64_ROWS, I64, U64, I64, I64, float64)
def keep_bags(buckets, room, shingles, offsets, sums, threshold):
    """Return the keep list by weighted Jaccard, as `keep_pass` does."""
    return keep_pass(buckets, room, Bags(shingles, offsets, sums), threshold)


@kernel(int64, I64, I64, int64, U64, I64, I64, float64)
def components_bags(documents, members, starts, cap, shingles, offsets, sums, threshold):
    """Return the components by weighted Jaccard, as `connect` does."""
    return connect(documents, members, starts, cap, Bags(shingles, offsets, sums), threshold)


@kernel(U64, I64, I64, I64, float64)
def contained_pairs(shingles, offsets, left, right, threshold):
    """Return the share of each right[i] that is contained in left[i]; -1.0 below the threshold."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        out[i] = containment(Nested(shingles, offsets), left[i], right[i], threshold)
    return out


@kernel(I64_ROWS, I64, U64, I64, float64)
def keep_contained(buckets, room, shingles, offsets, threshold):
    """Return the keep list by containment of v in a leader, as `keep_pass` does."""
    return keep_pass(buckets, room, Nested(shingles, offsets), threshold)


@kernel(U64_ROWS, I64, I64, float64)
def near_pairs(words, left, right, threshold):
    """Return the share of equal bits of each pair; -1.0 below the threshold."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        out[i] = bit_similarity(Fingerprints(words), left[i], right[i], threshold)
    return out


@kernel(I64_ROWS, I64, U64_ROWS, float64)
def keep_near(buckets, room, words, threshold):
    """Return the keep list by the equal bits of fingerprints, as `keep_pass` does."""
    return keep_pass(buckets, room, Fingerprints(words), threshold)


@kernel(int64, I64, I64, int64, U64_ROWS, float64)
def components_near(documents, members, starts, cap, words, threshold):
    """Return the components by the equal bits of fingerprints, as `connect` does."""
    return connect(documents, members, starts, cap, Fingerprints(words), threshold)
