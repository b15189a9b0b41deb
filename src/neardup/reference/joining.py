"""Which sets are similar? The slow truth of brute force."""

from __future__ import annotations

from collections.abc import Sequence

from neardup.reference.sketches import jaccard


def similar_pairs(sets: Sequence[set[int]], floor: float) -> list[tuple[int, int, float]]:
    """All pairs a < b that are at least so similar, in order. An empty set is similar to none."""
    return [
        (a, b, jaccard(sets[a], sets[b]))
        for a in range(len(sets))
        for b in range(a + 1, len(sets))
        if sets[a] and sets[b] and jaccard(sets[a], sets[b]) >= floor
    ]
