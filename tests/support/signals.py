"""Documents with vectors as the kernels compare them."""

from __future__ import annotations

import numpy as np


def words_of(vectors, sets=None):
    """Return the words of documents and where each begins: the sorted set, then the vector."""
    count, dimension = vectors.shape
    tails = np.zeros((count, dimension + dimension % 2), np.float32)
    tails[:, :dimension] = vectors
    sets = sets or [set()] * count
    rows = [
        np.concatenate([np.array(sorted(one), np.uint64), tail.view(np.uint64)])
        for one, tail in zip(sets, tails, strict=True)
    ]
    return np.concatenate(rows), np.cumsum([0, *map(len, rows)], dtype=np.int64)
