"""Sorted neighbourhood, the baseline without a sketch: sort by a key, compare what is near."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

KEY = 64
WINDOW = 10

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


def keys_of(text: str) -> tuple[str, str]:
    """How a text begins, and how it ends, backwards: lower case, one space between words."""
    plain = " ".join(text.lower().split())
    return plain[:KEY], plain[: -KEY - 1 : -1]


def neighbours(texts: Sequence[str], window: int = WINDOW) -> Pairs:
    """Pairs a < b that are fewer than `window` places apart when sorted by either key."""
    keys = [keys_of(text) for text in texts]
    found: list[NDArray[np.int64]] = []
    for which in range(2):
        order = np.array(sorted(range(len(keys)), key=lambda row: (keys[row][which], row)))
        for distance in range(1, min(window, len(order))):
            near = np.sort(np.stack([order[:-distance], order[distance:]]), axis=0)
            found.append(near[0] * len(texts) + near[1])
    code = np.unique(np.concatenate([np.empty(0, np.int64), *found]))
    return code // len(texts), code % len(texts)
