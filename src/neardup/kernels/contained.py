"""The comparisons of containment: how much of a document is inside another?"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import I64, I64_ROWS, U64, float64, kernel
from neardup.kernels.jaccard import Nested, containment
from neardup.kernels.keep import keep_pass


@kernel(U64, I64, I64, I64, float64)
def contained_pairs(shingles, offsets, left, right, threshold):
    """The share of each right[i] that is inside left[i]; -1.0 below the threshold."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        out[i] = containment(Nested(shingles, offsets), left[i], right[i], threshold)
    return out


@kernel(I64_ROWS, I64, U64, I64, float64)
def keep_contained(buckets, room, shingles, offsets, threshold):
    """The keep list of `keep.py` by containment: v is removed if it is inside a leader."""
    return keep_pass(buckets, room, Nested(shingles, offsets), threshold)
