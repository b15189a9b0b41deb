"""The comparisons of fingerprints: what share of their bits is equal?"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import I64, I64_ROWS, U64_ROWS, float64, int64, kernel
from neardup.kernels.components import connect
from neardup.kernels.jaccard import Fingerprints, bit_similarity
from neardup.kernels.keep import keep_pass


@kernel(U64_ROWS, I64, I64, float64)
def near_pairs(words, left, right, threshold):
    """The share of equal bits of each pair; -1.0 below the threshold."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        out[i] = bit_similarity(Fingerprints(words), left[i], right[i], threshold)
    return out


@kernel(I64_ROWS, I64, U64_ROWS, float64)
def keep_near(buckets, room, words, threshold):
    """The keep list of `keep.py` by the bits of fingerprints."""
    return keep_pass(buckets, room, Fingerprints(words), threshold)


@kernel(int64, I64, I64, int64, U64_ROWS, float64)
def components_near(documents, members, starts, cap, words, threshold):
    """The components of `components.py` by the bits of fingerprints."""
    return connect(documents, members, starts, cap, Fingerprints(words), threshold)
