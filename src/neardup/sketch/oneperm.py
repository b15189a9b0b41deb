"""Sets of 64-bit shingles to signatures by one-permutation MinHash.

A shingle falls into one slot a round instead of being tried in all of them, so that many slots
cost little more than few. Slots that stay empty are filled from others at the end, by a rule that
is the same for every set: two sets agree in a slot as often as they are similar.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup import kernels
from neardup.spec import Spec

EMPTY = np.uint32(0xFFFFFFFF)
FIRST_ROUND = 1 << 31
"""Values of the first round are below it."""
ROUNDS, SHIFTS = 16, 64

Slots = NDArray[np.uint32]


@cache
def multipliers(seed: int) -> tuple[np.uint64, NDArray[np.uint64]]:
    """What shingles are mixed with first, and what they are multiplied with in each round."""
    rounds = [xxhash.xxh64_intdigest(f"r:{number}".encode(), seed) | 1 for number in range(ROUNDS)]
    return np.uint64(xxhash.xxh64_intdigest(b"oneperm", seed)), np.array(rounds, np.uint64)


@cache
def shifts(slots: int) -> NDArray[np.int64]:
    """Which slots help out, counted from the empty one. They are the same for every seed.

    The neighbour is the last of them: from any slot, all are reached.
    """
    hashes = [xxhash.xxh64_intdigest(f"s:{number}".encode(), 0) for number in range(SHIFTS - 1)]
    return np.array([*(1 + each % max(slots - 1, 1) for each in hashes), 1], np.int64)


def signatures(
    shingles: NDArray[np.uint64], offsets: NDArray[np.int64], spec: Spec, *, fill: bool = True
) -> tuple[Slots, NDArray[np.int64]]:
    """One row of slots a document, and how many slots of each were empty before they were filled.

    Rows that are not filled can be merged by their least values.
    """
    # NumPy asks for large pages, which is faster by half for thousands of slots.
    rows = np.empty((len(offsets) - 1, spec.slots), np.uint32)
    filling = shifts(spec.slots)[: SHIFTS if fill else 0]
    empty: NDArray[np.int64] = kernels.one_permutation(
        shingles, offsets, *multipliers(spec.seed), filling, rows
    )
    return rows, empty


def filled(rows: Slots) -> Slots:
    """The rows with their empty slots filled; those of empty sets stay as they are."""
    rows = np.array(rows, np.uint32, order="C")
    kernels.fill_rows(rows, shifts(rows.shape[1]))
    return rows


def count(slots: Slots) -> float:
    """The estimated size of a set, from slots that are not filled.

    A slot waits for its first value of the first round until 1; the rate is that of the values
    that came, by the time that was waited.
    """
    waited = np.minimum(slots, FIRST_ROUND) / FIRST_ROUND
    return float(len(slots) * np.count_nonzero(waited < 1) / waited.sum())
