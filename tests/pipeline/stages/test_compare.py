"""Pairs that don't fit into memory are read by few ranges of documents at a time."""

from __future__ import annotations

import numpy as np

from neardup.pipeline.stages.compare import order_by_place


def test_pairs_read_together_are_of_few_documents() -> None:
    left, right = np.sort(np.random.default_rng(1).integers(0, 10_000, (2, 100_000)), axis=0)
    order = order_by_place(left, right, 5_000)
    assert np.sort(order).tolist() == list(range(100_000))

    def read(order: np.ndarray) -> int:
        steps = (order[start : start + 5_000] for start in range(0, len(order), 5_000))
        return sum(len(np.union1d(left[one], right[one])) for one in steps)

    assert read(order) < read(np.arange(100_000)) / 1.5


def test_few_pairs_keep_their_order() -> None:
    left, right = np.array([3, 1, 2]), np.array([4, 5, 4])
    assert order_by_place(left, right, 100).tolist() == [0, 1, 2]
    assert order_by_place(left[:0], right[:0], 100).tolist() == []
