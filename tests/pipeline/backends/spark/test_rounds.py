"""Similar pairs are settled as in rank order, in one task and by passes over ranges."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from neardup.pipeline.backends.spark.rounds import settle_pairs


def in_order(count: int, edges: list[tuple[int, int]]) -> list[int | None]:
    """Return the witness of each document, None for those that are kept, in rank order."""
    witness: list[int | None] = [None] * count
    for v in range(count):
        kept = [u for u, w in edges if w == v and witness[u] is None]
        witness[v] = min(kept, default=None)
    return witness


def frame(spark: Any, edges: list[tuple[int, int]]) -> Any:
    rows = [(v << 32 | u << 1,) for u, v in edges]
    return spark.createDataFrame(rows, "pair long")


@pytest.mark.parametrize("one_task", [10, 10**6])
def test_settled_pairs_equal_the_sequential_answer(spark: Any, one_task: int) -> None:
    chance, count = random.Random(5), 300
    starts = [u for u in range(count - 40) for _ in range(chance.randint(0, 2))]
    edges = sorted({(u, u + chance.randint(1, 40)) for u in starts})
    want = in_order(count, edges)
    settled = settle_pairs(frame(spark, edges), count, 60, 2, one_task)
    assert settled.kept.tolist() == [witness is None for witness in want]
    removed = np.flatnonzero(~settled.kept)
    assert settled.bound[removed].tolist() == [(want[v] or 0) >> 2 for v in removed.tolist()]
    assert settled.edges == len(edges)
    assert (settled.passes > 1) == (one_task == 10)


def test_a_long_chain_is_settled_by_one_task(spark: Any) -> None:
    edges = [(v - 1, v) for v in range(1, 2_000)]
    settled = settle_pairs(frame(spark, edges), 2_000, 500, 3, 700)
    assert settled.kept.tolist() == [v % 2 == 0 for v in range(2_000)]
    assert settled.passes == 4, "a range a pass, as long as more is left than fits"


def test_no_similar_pairs_keep_everything(spark: Any) -> None:
    settled = settle_pairs(frame(spark, []), 3, 2, 0, 10)
    assert settled.kept.all()
    assert settled.passes == 0
