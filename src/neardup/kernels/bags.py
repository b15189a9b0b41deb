"""The comparisons of bags: the sum of the lesser weights divided by the sum of the greater ones.

`sums` are the weights of all occurrences, added up: sums[i + 1] - sums[i] is that of occurrence i.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import I64, I64_ROWS, U64, float64, int64, kernel
from neardup.kernels.components import connect
from neardup.kernels.jaccard import Bags, bag_similarity
from neardup.kernels.keep import keep_pass


@kernel(U64, I64, I64, I64, I64, float64)
def bag_pairs(shingles, offsets, sums, left, right, threshold):
    """Exact weighted Jaccard of each pair; -1.0 for those below the threshold."""
    out = np.empty(left.size, np.float64)
    for i in range(left.size):
        out[i] = bag_similarity(Bags(shingles, offsets, sums), left[i], right[i], threshold)
    return out


@kernel(I64_ROWS, I64, U64, I64, I64, float64)
def keep_bags(buckets, room, shingles, offsets, sums, threshold):
    """The keep list of `keep.py` by weighted Jaccard."""
    return keep_pass(buckets, room, Bags(shingles, offsets, sums), threshold)


@kernel(int64, I64, I64, int64, U64, I64, I64, float64)
def components_bags(documents, members, starts, cap, shingles, offsets, sums, threshold):
    """The components of `components.py` by weighted Jaccard."""
    return connect(documents, members, starts, cap, Bags(shingles, offsets, sums), threshold)
