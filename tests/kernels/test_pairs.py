"""Pairs of leaders, spread to pairs of their copies, are those of a plain loop, in any parts."""

from __future__ import annotations

import random
from itertools import combinations, pairwise, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neardup import kernels

Pair = tuple[int, int, float]


def spread(pairs: list[Pair], groups: list[list[int]]) -> list[Pair]:
    return [
        (min(a, b), max(a, b), similarity)
        for u, v, similarity in pairs
        for a, b in (combinations(groups[u], 2) if u == v else product(groups[u], groups[v]))
    ]


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.floats(0, 1)), max_size=8),
    st.integers(1, 12),
    st.randoms(use_true_random=False),
)
def test_spread_pairs_are_those_of_a_loop(
    sizes: list[int], drawn: list[Pair], room: int, chance: random.Random
) -> None:
    documents = list(range(sum(sizes)))
    chance.shuffle(documents)
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    groups = [documents[begin:end] for begin, end in pairwise(ends)]
    pairs = [(u % len(sizes), v % len(sizes), similarity) for u, v, similarity in drawn]
    want = spread(pairs, groups)
    left, right = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    similarity = np.array([value for _, _, value in pairs], np.float64)
    copies = np.array(documents, np.int64)
    got: list[Pair] = []
    for first in range(0, len(want) + room, room):
        *columns, total = kernels.spread_pairs(left, right, similarity, copies, ends, first, room)
        assert total == len(want)
        got += zip(*(column.tolist() for column in columns), strict=True)
    assert got == want
