"""How many bytes does an index take? Tables, which grow in steps, and rows of a file of pages."""

from __future__ import annotations

from typing import Final

from neardup.index.lookup import ROOM
from neardup.index.postings import GROWTH, LEAST_NODES, LEAST_SLOTS, MOST_LOAD, first_slots
from neardup.index.store import PAGE

SLOT: Final = 12
"""Bytes: a key of 8, a number of 4."""
NODE: Final = 8
ROW: Final = 20
"""What SQLite and a checksum add to a blob."""
BESIDES: Final = 62
"""Bytes of a document's row and of the change that added it, without its id."""


def tables_bytes(documents: float, removed: float, bands: int) -> float:
    """In memory, of so many documents, of which a share was a copy.

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
    return SLOT * slots + NODE * LEAST_NODES


def _marks(documents: float) -> int:
    """A byte each, which says whether it was removed."""
    room = ROOM
    while documents >= room:
        room *= 2
    return room


def row_bytes(signature: float, shingles: float, id: float) -> float:
    """In the file, of one document."""
    return BESIDES + id + _in_pages(signature) + (_in_pages(shingles) if shingles else 0.0)


def _in_pages(blob: float) -> float:
    """A page is left when the next row does not fit: half a row of each is empty, on average."""
    size = blob + ROW
    return size / (1.0 - size / (2 * PAGE)) if size < PAGE else size + PAGE / 2
