"""Which documents are similar? By brute force: every pair, exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.text.arrays import Ragged
from neardup.threads import in_order

Integers = NDArray[np.int64]
AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Truth:
    """All pairs a < b that are at least `floor` similar, sorted by `code`."""

    documents: int
    floor: float
    a: Integers
    b: Integers
    similarity: NDArray[np.float64]

    def of(self, a: Integers, b: Integers) -> NDArray[np.float64]:
        """The exact similarity of some pairs; 0.0 below the floor."""
        if not len(self.a):
            return np.zeros(len(a))
        known, asked = self.a * self.documents + self.b, a * self.documents + b
        place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        found: NDArray[np.float64] = np.where(known[place] == asked, self.similarity[place], 0.0)
        return found

    def similar(self, threshold: float) -> int:
        """How many pairs reach a threshold."""
        return int(np.count_nonzero(self.similarity >= threshold))


def brute_force(sets: Ragged, floor: float, workers: int) -> Truth:
    """Compare everything with everything."""
    documents = len(sets.offsets) - 1
    rows = max(AT_ONCE // max(documents, 1), 1)

    def some(start: int) -> tuple[Integers, Integers, NDArray[np.float64]]:
        left, right = np.meshgrid(
            np.arange(start, min(start + rows, documents)), np.arange(documents), indexing="ij"
        )
        later = right > left
        a, b = left[later].astype(np.int64), right[later].astype(np.int64)
        found = kernels.exact_pairs(sets.data, sets.offsets, a, b, floor)
        good = found >= 0.0
        return a[good], b[good], found[good]

    parts = [part for _, part in in_order(range(0, documents, rows), some, workers)]
    a, b, similarity = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Truth(documents, floor, a, b, similarity)
