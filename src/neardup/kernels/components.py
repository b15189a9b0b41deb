"""Connected components of the similar pairs, bucket by bucket, in rank order.

A document is compared with those of its bucket that it is not connected with yet.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import (
    I64,
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
from neardup.kernels.jaccard import reach


@inner
def root(parent, document):
    while parent[document] != document:
        parent[document] = parent[parent[document]]
        document = np.int64(parent[document])
    return document


@inner
def join(parent, u, v):
    """The better-ranked root stays."""
    u, v = root(parent, u), root(parent, v)
    parent[max(u, v)] = min(u, v)


@inner
def connect(documents, members, starts, cap, data, threshold):
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
    """Each document's best-ranked connected one, and the number of comparisons.

    A document is compared with the first `cap` documents of its bucket.
    """
    return connect(documents, members, starts, cap, (shingles, offsets), threshold)


@kernel_for(
    (int64, I64, I64, int64, U8_ROWS, float64),
    (int64, I64, I64, int64, U32_ROWS, float64),
    (int64, I64, I64, int64, U64_ROWS, float64),
)
def components_slots(documents, members, starts, cap, signatures, threshold):
    """The same by estimated similarity."""
    return connect(documents, members, starts, cap, signatures, threshold)


@kernel(OUT_U32, I64, I64)
def join_all(parent, left, right):
    """Connect the documents of each pair; the better-ranked root stays."""
    for i in range(left.size):
        join(parent, left[i], right[i])


@kernel(OUT_U32)
def to_roots(parent):
    """Each document's root in the place of its parent."""
    for document in range(parent.size):
        parent[document] = root(parent, document)
