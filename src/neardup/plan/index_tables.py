"""How many bytes do the tables of an index take? They grow in steps, each at a time of its own."""

from __future__ import annotations

from typing import Final

from neardup.index.derived import ROOM
from neardup.index.postings import GROWTH, LEAST_SLOTS, MOST_LOAD, first_slots

SLOT: Final = 12
"""Bytes: a key of 8, a number of 4."""


def tables_bytes(documents: float, removed: float, bands: int) -> float:
    """Of so many documents, of which a share was a copy.

    Kept documents are in one table a band; all are in those of ids and of contents, copies in that
    of their witnesses. Documents that share a bucket take nodes instead of slots, which is about
    the same.
    """
    kept = (1.0 - removed) * documents
    in_bands = sum(_table(kept, first_slots(at, bands)) for at in range(bands))
    others = 2 * _table(documents) + _table(removed * documents)
    return in_bands + others + _marks(documents)


def _table(keys: float, slots: int = LEAST_SLOTS) -> int:
    while keys > int(slots * MOST_LOAD):
        slots = int(slots * GROWTH)
    return SLOT * slots


def _marks(documents: float) -> int:
    """A byte each, which says whether it was removed."""
    room = ROOM
    while documents >= room:
        room *= 2
    return room
