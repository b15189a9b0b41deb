"""Which documents have this key? Tables in memory, one a band, and more for ids and contents.

They are derived from what is stored and never the truth. Entering a document twice does no harm.
Removed documents stay in them until compaction: look-ups say which documents are dead.
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

LAST_NUMBER: Final = 2**31 - 2
"""Of a document."""
MOST_LOAD: Final = 0.8
GROWTH: Final = 1.5
LEAST_SLOTS: Final = 1024
LEAST_NODES: Final = 256
PARTS: Final = ("keys", "values", "numbers", "following", "state")


class PostingTable:
    """Keys of 64 bits to numbers of documents, ascending. One writer, or readers."""

    def __init__(self, slots: int = LEAST_SLOTS, nodes: int = LEAST_NODES) -> None:
        self._take(
            np.empty(slots, np.uint64),
            np.zeros(slots, np.uint32),
            np.empty(nodes, np.uint32),
            np.empty(nodes, np.uint32),
            np.zeros(3, np.int64),
        )

    def _take(
        self, keys: Keys, values: Numbers, numbers: Numbers, following: Numbers, state: Integers
    ) -> None:
        self.keys, self.values = keys, values
        self.numbers, self.following, self.state = numbers, following, state
        self.place = self._placed()

    def _placed(self) -> Integers:
        """Where the arrays are, for the kernel that looks into many tables."""
        arrays = (self.keys, self.values, self.numbers, self.following)
        sizes = (len(self.keys), len(self.numbers))
        return np.array([[*(array.ctypes.data for array in arrays), *sizes]], np.int64)

    @classmethod
    def of(cls, parts: Sequence[NDArray[Any]]) -> PostingTable:
        """The table that had these arrays."""
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
        """The largest number of a document in it; 0 if there is none."""
        alone = self.values[self.values <= LAST_NUMBER + 1].max(initial=1)
        return max(int(alone) - 1, int(self.numbers[: self.state[1]].max(initial=0)))

    def put(self, keys: Keys, numbers: Numbers) -> None:
        """Enter documents; those that are there stay."""
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
        """For each key how many living documents have it, `limit` at most; and their numbers."""
        counts, numbers = kernels.postings_find(self.place, dead, keys[None], limit)
        return counts[0], numbers

    def everything(self, dead: Dead) -> tuple[Keys, Numbers]:
        """All living postings, in no particular order."""
        found: tuple[Keys, Numbers] = kernels.postings_list(
            self.keys, self.values, self.numbers, self.following, dead, self.postings
        )
        return found

    def compacted(self, dead: Dead) -> PostingTable:
        """The same without the dead, and with room to grow, but no larger than it is."""
        keys, numbers = self.everything(dead)
        counts = np.unique(keys, return_counts=True)[1]
        slots = max(int(len(counts) / MOST_LOAD * GROWTH**0.5), LEAST_SLOTS)
        nodes = max(int(counts[counts > 1].sum() * GROWTH**0.5), LEAST_NODES)
        table = PostingTable(min(slots, len(self.keys)), min(nodes, len(self.numbers)))
        table.put(keys, numbers)
        return table

    def shared(self, dead: Dead) -> Integers:
        """The sizes of the buckets that more than one document is or was in."""
        sizes: Integers = kernels.postings_sizes(
            self.values, self.numbers, self.following, dead, self.state
        )
        return sizes

    def _grow(self) -> None:
        """All of it or, if there is no memory, nothing."""
        keys, values, numbers, following, state = self.parts
        if state[0] >= int(len(keys) * MOST_LOAD):
            slots = int(len(keys) * GROWTH)
            keys, values = np.empty(slots, np.uint64), np.zeros(slots, np.uint32)
            kernels.postings_grow(self.keys, self.values, keys, values)
        if state[1] + 2 > len(numbers):
            nodes = int(len(numbers) * GROWTH)
            numbers, following = np.resize(numbers, nodes), np.resize(following, nodes)
        self._take(keys, values, numbers, following, state)


def first_slots(at: int, count: int) -> int:
    """With how many slots one of several tables begins: so they don't all grow at once."""
    return LEAST_SLOTS + LEAST_SLOTS * at // (2 * count)


class Postings:
    """Several tables over the same documents. Each grows at a time of its own."""

    def __init__(self, count: int) -> None:
        self.tables = [PostingTable(first_slots(at, count)) for at in range(count)]

    def put(self, keys: Keys, numbers: Numbers) -> None:
        """Enter documents by their keys in all tables: (documents x tables)."""
        columns = np.ascontiguousarray(keys.T)
        for table, column in zip(self.tables, columns, strict=True):
            table.put(column, numbers)

    def find(self, keys: Keys, dead: Dead, limit: int) -> tuple[Integers, Integers, Numbers]:
        """The first `limit` living documents of each bucket.

        How many there are, (tables x documents); then for each of them who asked, and its number,
        table by table.
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
