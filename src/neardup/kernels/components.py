"""Connected components of the similar pairs, bucket by bucket, in rank order.

A document is compared with those of its bucket that it is not connected with yet. Those that
are connected with the bucket's first document (in a hot bucket most) need one hit for all.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import I64, U32_ROWS, U64, float64, inner, int64, kernel
from neardup.kernels.jaccard import reach


@inner
def root(parent, document):
    while parent[document] != document:
        parent[document] = parent[parent[document]]
        document = parent[document]
    return document


@inner
def join(parent, u, v):
    """The better-ranked root stays."""
    u, v = root(parent, u), root(parent, v)
    parent[max(u, v)] = min(u, v)


@inner
def connect(documents, members, starts, cap, data, threshold):
    parent = np.arange(documents)
    left_out = np.zeros(starts.size, np.int64)
    main, apart = np.empty(documents, np.int64), np.empty(documents, np.int64)
    compared = 0
    for bucket in range(starts.size - 1):
        first = members[starts[bucket]]
        main[0] = first
        many_main, many_apart = 1, 0
        for at in range(starts[bucket] + 1, starts[bucket + 1]):
            v, tries = members[at], 0
            if root(parent, v) != root(parent, first):
                for i in range(min(many_main, cap)):
                    tries += 1
                    if reach(data, main[i], v, threshold):
                        join(parent, main[i], v)
                        break
            for i in range(many_apart):
                if tries >= cap:
                    break
                if root(parent, apart[i]) != root(parent, v):
                    tries += 1
                    if reach(data, apart[i], v, threshold):
                        join(parent, apart[i], v)
            compared += tries
            left_out[bucket] += np.int64(tries >= cap)
            if root(parent, v) == root(parent, first):
                main[many_main] = v
                many_main += 1
            else:
                apart[many_apart] = v
                many_apart += 1
    for document in range(documents):
        parent[document] = root(parent, document)
    return parent, compared, left_out


@kernel(int64, I64, I64, int64, U64, I64, float64)
def components_exact(documents, members, starts, cap, shingles, offsets, threshold):
    """Each document's best-ranked connected one, comparisons, documents left out by bucket.

    A document makes at most `cap` comparisons in a bucket.
    """
    return connect(documents, members, starts, cap, (shingles, offsets), threshold)


@kernel(int64, I64, I64, int64, U32_ROWS, float64)
def components_slots(documents, members, starts, cap, signatures, threshold):
    """The same by estimated similarity."""
    return connect(documents, members, starts, cap, signatures, threshold)
