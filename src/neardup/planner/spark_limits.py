"""Limits of what one task, or the driver, may hold: used by the engine and by its planner."""

from __future__ import annotations

from typing import Final

TASK_MEMORY: Final = 10**9
"""Default of the bytes that a task may hold."""
MAX_ON_DRIVER: Final = 200_000
"""Removed documents that the driver may hold, with their names."""
MEMORY_SHARES: Final = 4
"""A task's input may take this part of its memory: it exists as Arrow, as NumPy and as results."""
BYTES_PER_MEMBER, BYTES_PER_EDGE, BYTES_PER_PIECE = 48, 64, 1_000
"""Approximate bytes of a bucket's member, of a pair, and of a row of a large bucket."""
BYTES_PER_KEY, BYTES_PER_CONTENT = 20, 100
"""Bytes of a document where one task finds all buckets: per band, and once."""


def keys_fit_one_task(documents: float, bands: int, memory: float) -> bool:
    """Return whether one task can find all identical documents and buckets."""
    return documents * (BYTES_PER_KEY * bands + BYTES_PER_CONTENT) <= memory * 3 / 5


def sets_fit_one_task(sets: float, members: float, memory: float) -> bool:
    """Return whether one task can decide everything.

    Args:
        sets: Bytes of what is compared of all candidates.
        members: Members of all buckets.
        memory: Bytes that a task may hold.
    """
    return sets + BYTES_PER_MEMBER * members <= memory / MEMORY_SHARES


def fits_on_driver(candidates: float, copies: float) -> bool:
    """Return whether the driver can hold all documents that may be removed."""
    return candidates + copies <= MAX_ON_DRIVER
