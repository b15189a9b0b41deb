"""Posting tables in memory: keys of 64 bits to the numbers of documents, one table a band.

They are derived from the store. Entering a document twice changes nothing. Removed documents stay
in them until compaction: each look-up takes an array that marks the dead ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup import kernels

Keys = NDArray[np.uint64]
Numbers = NDArray[np.uint32]
Integers = NDArray[np.int64]
Dead = NDArray[np.uint8]
"""By document number: 1 if it is removed."""

LAST_NUMBER: Final = 2**31 - 2
"""The largest number of a document."""
MOST_LOAD: Final = 0.8
GROWTH: Final = 1.5
LEAST_SLOTS: Final = 1024
LEAST_NODES: Final = 256
PARTS: Final = ("keys", "values", "numbers", "following", "state")


class PostingTable:
    """A hash table from keys to ascending document numbers. One writer, or many readers.

    Free slots are zero: a snapshot stores them too, and must not have what was in memory before.
    """

    def __init__(self, slots: int = LEAST_SLOTS, nodes: int = LEAST_NODES) -> None:
        self._take(
            np.zeros(slots, np.uint64),
            np.zeros(slots, np.uint32),
            np.zeros(nodes, np.uint32),
            np.zeros(nodes, np.uint32),
            np.zeros(3, np.int64),
        )

    def _take(
        self, keys: Keys, values: Numbers, numbers: Numbers, following: Numbers, state: Integers
    ) -> None:
        self.keys, self.values = keys, values
        self.numbers, self.following, self.state = numbers, following, state
        self.place = self._addresses()

    def _addresses(self) -> Integers:
        """Return addresses and sizes of the arrays, for the kernel that reads many tables."""
        arrays = (self.keys, self.values, self.numbers, self.following)
        sizes = (len(self.keys), len(self.numbers))
        return np.array([[*(array.ctypes.data for array in arrays), *sizes]], np.int64)

    @classmethod
    def of(cls, parts: Sequence[NDArray[Any]]) -> PostingTable:
        """Make a table of the arrays of another one, in the order of PARTS."""
        table = cls.__new__(cls)
        table._take(*parts)
        return table

    @property
    def parts(self) -> list[NDArray[Any]]:
        """Its arrays, in the order of PARTS."""
        return [getattr(self, name) for name in PARTS]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    @property
    def postings(self) -> int:
        return int(self.state[2])

    @property
    def buckets(self) -> int:
        return int(self.state[0])

    @property
    def largest(self) -> int:
        """The largest document number in it; 0 if it is empty."""
        alone = self.values[self.values <= LAST_NUMBER + 1].max(initial=1)
        return max(int(alone) - 1, int(self.numbers[: self.state[1]].max(initial=0)))

    def put(self, keys: Keys, numbers: Numbers) -> None:
        """Enter documents by their keys; a posting that exists stays."""
        done = 0
        while True:
            done += kernels.postings_put(
                self.keys,
                self.values,
                self.numbers,
                self.following,
                self.state,
                keys[done:],
                numbers[done:],
                int(len(self.keys) * MOST_LOAD),
            )
            if done == len(keys):
                return
            self._grow()

    def find(self, keys: Keys, dead: Dead, limit: int) -> tuple[Integers, Numbers]:
        """Return the count of living documents of each key, at most `limit`, and their numbers."""
        counts, numbers = kernels.postings_find(self.place, dead, keys[None], limit)
        return counts[0], numbers

    def everything(self, dead: Dead) -> tuple[Keys, Numbers]:
        """Return all living postings, in no particular order."""
        listed: tuple[Keys, Numbers] = kernels.postings_list(
            self.keys, self.values, self.numbers, self.following, dead, self.postings
        )
        return listed

    def compacted(self, dead: Dead) -> PostingTable:
        """Return the table without the dead, with room to grow, but no larger than it is."""
        keys, numbers = self.everything(dead)
        counts = np.unique(keys, return_counts=True)[1]
        slots = max(int(len(counts) / MOST_LOAD * GROWTH**0.5), LEAST_SLOTS)
        nodes = max(int(counts[counts > 1].sum() * GROWTH**0.5), LEAST_NODES)
        table = PostingTable(min(slots, len(self.keys)), min(nodes, len(self.numbers)))
        table.put(keys, numbers)
        return table

    def shared(self, dead: Dead) -> Integers:
        """Return the sizes of the buckets that have, or had, more than one document."""
        sizes: Integers = kernels.postings_sizes(
            self.values, self.numbers, self.following, dead, self.state
        )
        return sizes

    def _grow(self) -> None:
        """Make room; without enough memory the table stays as it is."""
        keys, values, numbers, following, state = self.parts
        if state[0] >= int(len(keys) * MOST_LOAD):
            slots = int(len(keys) * GROWTH)
            keys, values = np.zeros(slots, np.uint64), np.zeros(slots, np.uint32)
            kernels.postings_grow(self.keys, self.values, keys, values)
        if state[1] + 2 > len(numbers):
            nodes = int(len(numbers) * GROWTH)
            numbers, following = np.resize(numbers, nodes), np.resize(following, nodes)
        self._take(keys, values, numbers, following, state)


def first_slots(at: int, count: int) -> int:
    """Return the first size of table `at` of `count`: different, so not all grow at once."""
    return LEAST_SLOTS + LEAST_SLOTS * at // (2 * count)


class Postings:
    """Several tables over the same documents, one a band."""

    def __init__(self, count: int) -> None:
        self.tables = [PostingTable(first_slots(at, count)) for at in range(count)]

    def put(self, keys: Keys, numbers: Numbers) -> None:
        """Enter documents by their keys, (documents x tables), into all tables."""
        columns = np.ascontiguousarray(keys.T)
        for table, column in zip(self.tables, columns, strict=True):
            table.put(column, numbers)

    def find(self, keys: Keys, dead: Dead, limit: int) -> tuple[Integers, Integers, Numbers]:
        """Return the first `limit` living documents of each bucket.

        Args:
            keys: A row for each query, a column for each table.
            dead: Marks removed documents.
            limit: The most documents of a bucket.

        Returns:
            How many documents each bucket has, (tables x queries); then, table by table, the row of
            the query and the number of each document.
        """
        places = np.concatenate([table.place for table in self.tables])
        counts, numbers = kernels.postings_find(places, dead, np.ascontiguousarray(keys.T), limit)
        if not len(numbers):
            return counts, np.empty(0, np.int64), numbers
        rows = np.tile(np.arange(len(keys)), len(self.tables)).repeat(counts.reshape(-1))
        return counts, rows, numbers

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables)
