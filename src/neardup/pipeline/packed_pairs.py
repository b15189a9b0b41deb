"""Pairs of documents packed into 64-bit numbers: split, merge, and read them from files.

A pair of ranks u < v is the number v << 32 | u << 1 | hot, as in `kernels/rounds.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup.formats.blocks import BlockReader
from neardup.pipeline.sorting import Keys, Records

PAIRS_KIND = "pairs"
PAIRS_AT_ONCE = 1 << 20

HOT = np.uint64(1)
"""The lowest bit of a pair: its documents share only buckets with more members than the limit."""


@dataclass
class RoundTally:
    """What the rounds did."""

    rounds: int = 0
    verified: int = 0
    similar: int = 0


@dataclass(frozen=True)
class MergedPairs:
    """Pairs in order: which were known, which are wanted now, which are new or count anew."""

    pairs: Keys
    known: NDArray[np.bool_]
    current: NDArray[np.bool_]
    fresh: NDArray[np.bool_]


def merge_pairs(wanted: Keys, known: Keys) -> MergedPairs:
    """Wanted pairs among those that are known; both are in order, each pair is there once."""
    place = np.searchsorted(known | HOT, wanted & ~HOT)
    there = place < len(known)
    there[there] = (known[place[there]] | HOT) == (wanted[there] | HOT)
    mine, new = place[there], place[~there]
    pairs = known.copy()
    pairs[mine] &= wanted[there] | ~HOT
    current = np.zeros(len(known), bool)
    current[mine] = True
    return MergedPairs(
        np.insert(pairs, new, wanted[~there]),
        np.insert(np.ones(len(known), bool), new, False),
        np.insert(current, new, True),
        np.insert(pairs != known, new, True),
    )


def read_pairs(path: Path) -> Iterator[Records]:
    """The pairs in a file, and their similarities."""
    file = BlockReader(path, PAIRS_KIND)
    for block in range(len(file)):
        yield file.read(block, "keys"), file.read(block, "values")


def split_pairs(pairs: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The better-ranked and the other document of each pair."""
    left = (pairs & np.uint64(0xFFFFFFFF)) >> np.uint64(1)
    return left.astype(np.int64), (pairs >> np.uint64(32)).astype(np.int64)


def drop_repeats(wanted: Keys) -> Keys:
    """Each pair once; it counts always if it is once in a bucket that is not hot."""
    fresh = np.ones(len(wanted), bool)
    fresh[1:] = (wanted[1:] | HOT) != (wanted[:-1] | HOT)
    return wanted[fresh]
