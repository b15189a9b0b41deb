"""What fits into one task, or onto the driver? The engine goes by it, and so does its plan."""

from __future__ import annotations

from typing import Final

MEMORY: Final = 10**9
"""What a task may hold, in bytes, if nothing is said about it."""
FEW: Final = 200_000
"""Removed documents that the driver holds, with their names."""
SHARES: Final = 4
"""What a task holds is a fourth of its memory: Arrow's copy, ours, what is made of it."""
BYTES_OF_MEMBER, BYTES_OF_EDGE, BYTES_OF_PIECE = 48, 64, 1_000
"""What a place in a bucket, a pair, and a row of a large bucket take, about."""
BYTES_OF_KEY, BYTES_OF_CONTENT = 20, 100
"""What a document takes where one task finds all buckets: for each band, and besides."""


def keys_fit(documents: float, bands: int, memory: float) -> bool:
    """Whether one task can find all identical documents and buckets."""
    return documents * (BYTES_OF_KEY * bands + BYTES_OF_CONTENT) <= memory * 3 / 5


def sets_fit(sets: float, members: float, memory: float) -> bool:
    """Whether one task can decide everything: so many bytes are compared, of so many members."""
    return sets + BYTES_OF_MEMBER * members <= memory / SHARES


def is_few(candidates: float, copies: float) -> bool:
    """Whether the driver can hold everything that may be removed."""
    return candidates + copies <= FEW
