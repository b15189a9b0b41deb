"""Limits of what one task, or the driver, may hold. The engine uses them, and so does its plan."""

from __future__ import annotations

from typing import Final

TASK_MEMORY: Final = 10**9
"""What a task may hold, in bytes, if nothing is said about it."""
MAX_ON_DRIVER: Final = 200_000
"""Removed documents that the driver holds, with their names."""
MEMORY_SHARES: Final = 4
"""What a task holds is a fourth of its memory: Arrow's copy, ours, what is made of it."""
BYTES_PER_MEMBER, BYTES_PER_EDGE, BYTES_PER_PIECE = 48, 64, 1_000
"""What a place in a bucket, a pair, and a row of a large bucket take, about."""
BYTES_PER_KEY, BYTES_PER_CONTENT = 20, 100
"""What a document takes where one task finds all buckets: for each band, and besides."""


def keys_fit_one_task(documents: float, bands: int, memory: float) -> bool:
    """Whether one task can find all identical documents and buckets."""
    return documents * (BYTES_PER_KEY * bands + BYTES_PER_CONTENT) <= memory * 3 / 5


def sets_fit_one_task(sets: float, members: float, memory: float) -> bool:
    """Whether one task can decide everything: so many bytes are compared, of so many members."""
    return sets + BYTES_PER_MEMBER * members <= memory / MEMORY_SHARES


def fits_on_driver(candidates: float, copies: float) -> bool:
    """Whether the driver can hold everything that may be removed."""
    return candidates + copies <= MAX_ON_DRIVER
