"""The look-ups of a `View`, answered by the buckets on Redis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from neardup.index.postings import Integers, Keys, Numbers
from neardup.index.redis_store.buckets import SharedBuckets
from neardup.index.redis_store.documents import SharedDocuments
from neardup.index.redis_store.keyspace import KEPT, STORED, content_keys, id_keys
from neardup.index.segment import PostingList


class SharedTables:
    """Finds documents by band, id, content and witness, as they are stored at this moment."""

    def __init__(self, buckets: SharedBuckets, documents: SharedDocuments) -> None:
        self._buckets, self._documents = buckets, documents

    @property
    def sequence(self) -> int:
        """The last number that was given."""
        return self._documents.last_number()

    def leaders(
        self, keys: Keys, limit: int, excluded: Sequence[int] = ()
    ) -> tuple[Integers, Integers, Numbers]:
        """Return the first kept documents of each bucket; see `Postings.find`."""
        flat = np.ascontiguousarray(keys).reshape(-1)
        members = self._buckets.find(flat)
        met = {number for listed in members.values() for number in listed}
        states = self._documents.states(sorted(met.difference(excluded)))
        kept = {number for number, state in states.items() if state.kind == KEPT}
        return list_leaders(members, kept, keys.shape, limit)

    def with_ids(self, ids: Sequence[str]) -> list[list[int]]:
        """Return for each id the documents that may have it: hashes of ids can collide."""
        return self._stored(id_keys(ids))

    def with_contents(self, contents: NDArray[np.uint64]) -> list[list[int]]:
        """Return for each content, of 128 bits, the kept documents that may have it."""
        return self._stored(content_keys(contents))

    def with_witnesses(self, numbers: Sequence[int]) -> list[list[int]]:
        """Return for each document those that are or were copies of it."""
        return self._documents.members(numbers)

    def copies(self) -> tuple[PostingList, None]:
        """Return witnesses and their copies; see `LookupTables.copies`."""
        return self._documents.copies(), None

    def _stored(self, keys: Keys) -> list[list[int]]:
        members = self._buckets.find(keys)
        met = sorted({number for listed in members.values() for number in listed})
        states = self._documents.states(met)
        stored = {number for number, state in states.items() if state.kind in STORED}
        return [
            sorted(number for number in members.get(place, ()) if number in stored)
            for place in range(len(keys))
        ]


def list_leaders(
    members: dict[int, list[int]], kept: set[int], shape: tuple[int, ...], limit: int
) -> tuple[Integers, Integers, Numbers]:
    """Return the first kept members of buckets, as `Postings.find` does.

    Args:
        members: The members of the buckets that have some, by the place of their key.
        kept: The documents that are kept.
        shape: The shape of the keys: documents, tables.
        limit: The most documents of a bucket.
    """
    documents, tables = shape
    counts = np.zeros((tables, documents), np.int64)
    found: list[tuple[int, int, list[int]]] = []
    for place, listed in members.items():
        leaders = sorted(number for number in set(listed) if number in kept)[:limit]
        if leaders:
            row, table = divmod(place, tables)
            counts[table, row] = len(leaders)
            found.append((table, row, leaders))
    found.sort()
    rows = [row for _, row, leaders in found for _ in leaders]
    numbers = [number for _, _, leaders in found for number in leaders]
    return counts, np.array(rows, np.int64), np.array(numbers, np.uint32)
