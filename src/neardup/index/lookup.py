"""Look-up tables: the bands of kept documents, and all documents by id, content and witness.

They are derived from the store. A lock keeps readers and the writer thread apart, so that a reader
sees all of a commit or nothing of it. Tables that exceed their memory budget are moved to disk
(`cold.py`), all of them at once: the oldest documents are the first to be cold.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup.index.cold import Segments, living, merge_postings
from neardup.index.postings import Dead, Integers, Keys, Numbers, Postings, PostingTable
from neardup.index.segment import PostingList, sort_postings
from neardup.index.store import Row


class ReadWriteLock:
    """A lock for many readers or one writer, which goes before readers that come later.

    Meant to be held for a short time.
    """

    def __init__(self) -> None:
        self._free = threading.Condition(threading.Lock())
        self._readers = 0
        self._writers = 0
        """Threads that write or wait for it."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock to read."""
        with self._free:
            while self._writers:
                self._free.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._free:
                self._readers -= 1
                if not self._readers:
                    self._free.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock to write. Callers ensure that one thread writes at a time."""
        with self._free:
            self._writers += 1
            while self._readers:
                self._free.wait()
        try:
            yield
        finally:
            with self._free:
                self._writers -= 1
                self._free.notify_all()


ROOM: Final = 1 << 12
"""Documents that new tables have room for."""
ALL: Final = 2**31 - 1
"""As a limit: all documents of a bucket."""


class LookupTables:
    """The tables of one operating point, as of the change `sequence` of the store.

    Documents are never deleted from a table, but marked in `dead`, until compaction.
    """

    def __init__(self, bands: int, cold: Segments | None = None, budget: int | None = None) -> None:
        self.guard = ReadWriteLock()
        self.cold, self.budget = cold, budget
        self._start(bands)
        self.dead: Dead = np.zeros(ROOM, np.uint8)
        self.tombstones = 0
        self.sequence = 0

    def _start(self, bands: int) -> None:
        self.bands = Postings(bands)
        self.ids, self.contents, self.members = PostingTable(), PostingTable(), PostingTable()

    @property
    def others(self) -> tuple[PostingTable, PostingTable, PostingTable]:
        """The tables besides the bands: by id, by content, and copies by their witness."""
        return self.ids, self.contents, self.members

    @property
    def all_tables(self) -> list[PostingTable]:
        """All tables, in the order of a snapshot."""
        return [*self.bands.tables, *self.others]

    @property
    def warm_bytes(self) -> int:
        """Bytes of the tables in memory, without those of segments on disk."""
        return sum(table.nbytes for table in self.all_tables)

    @property
    def nbytes(self) -> int:
        return self.warm_bytes + self.dead.nbytes + (self.cold.nbytes if self.cold else 0)

    def spill_if_over_budget(self) -> bool:
        """Move the tables to disk if they exceed the budget; return whether they were moved.

        Called in the writer thread.
        """
        if not self.exceeds_budget(self.warm_bytes):
            return False
        self.move_to_disk(self.all_tables)
        with self.guard.writing():
            self._start(len(self.bands.tables))
        return True

    def exceeds_budget(self, warm_bytes: int) -> bool:
        """Return whether tables of this size in memory have to be moved to disk.

        Tables below an eighth of the budget stay in memory: moving them would not help, because
        filters and tombstones take the rest.
        """
        if self.cold is None or self.budget is None or warm_bytes <= self.budget // 8:
            return False
        return warm_bytes + self.dead.nbytes + self.cold.nbytes > self.budget

    def move_to_disk(self, tables: Iterable[PostingTable]) -> None:
        """Write tables, in the order of a snapshot, to a segment."""
        assert self.cold is not None  # noqa: S101  # with a budget there is a folder for them
        self.cold.add(table.everything(self.dead) for table in tables)

    def compact(self) -> None:
        """Drop removed documents, in memory and on disk. Called in the writer thread."""
        if self.cold:
            self.cold.merge(self.dead, everything=True)
        compacted = [table.compacted(self.dead) for table in self.all_tables]
        with self.guard.writing():
            *self.bands.tables, self.ids, self.contents, self.members = compacted
            self.dead = np.zeros_like(self.dead)
            self.tombstones = 0

    def enter(
        self, rows: Sequence[Row], keys: Keys, sequence: int, removed: Iterable[int] = ()
    ) -> None:
        """Enter a change: mark documents as deleted, and enter added or moved ones.

        Args:
            rows: Documents that were added or have another witness now.
            keys: Their band keys, a row each.
            sequence: The number of the change.
            removed: Numbers of documents to mark as deleted in the same moment.
        """
        numbers = np.array([row.number for row in rows], np.uint32)
        kept = np.array([row.witness is None for row in rows], bool)
        ids = np.array([id_key(row.id) for row in rows], np.uint64)
        contents = np.frombuffer(b"".join(row.content for row in rows), np.uint64)[::2].copy()
        with self.guard.writing():
            self._mark_deleted(removed)
            if rows:
                self.reach(max(row.number for row in rows))
                # A document of another generation may be replaced under its own number.
                self.tombstones -= int(np.count_nonzero(self.dead[numbers]))
                self.dead[numbers] = 0
            self.bands.put(keys[kept], numbers[kept])
            self.ids.put(ids, numbers)
            self.contents.put(contents, numbers)
            self._enter_copies(rows)
            self.sequence = max(self.sequence, sequence)

    def mark_deleted(self, numbers: Iterable[int], sequence: int) -> None:
        """Mark documents as deleted, by their numbers."""
        with self.guard.writing():
            self._mark_deleted(numbers)
            self.sequence = max(self.sequence, sequence)

    def _mark_deleted(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.reach(number)
            self.tombstones += not self.dead[number]
            self.dead[number] = 1

    def leaders(
        self, keys: Keys, limit: int, excluded: Sequence[int] = ()
    ) -> tuple[Integers, Integers, Numbers]:
        """Return the first kept documents of each bucket; see `Postings.find`.

        Documents with the numbers `excluded` are passed over, as if they had been removed.
        """
        with self.guard.reading():
            dead = self.dead
            if excluded:
                numbers, dead = np.array(excluded, np.int64), dead.copy()
                dead[numbers[numbers < len(dead)]] = 1
            warm = self.bands.find(keys, dead, limit)
            return self.cold.find(keys, dead, limit, 0, warm) if self.cold else warm

    def with_ids(self, ids: Sequence[str]) -> list[list[int]]:
        """Return for each id the documents that may have it: hashes of ids can collide."""
        return self._find(0, np.array([id_key(id) for id in ids], np.uint64))

    def with_contents(self, contents: NDArray[np.uint64]) -> list[list[int]]:
        """Return for each content, of 128 bits, the documents that may have it."""
        return self._find(1, np.ascontiguousarray(contents[:, 0]))

    def with_witnesses(self, numbers: Sequence[int]) -> list[list[int]]:
        """Return for each document those that are or were copies of it."""
        return self._find(2, np.array(numbers, np.uint64))

    def copies(self) -> tuple[PostingList, Iterator[PostingList] | None]:
        """Return witnesses and their living copies, each pair once.

        A removed witness may still have the copies that it had.

        Returns:
            The pairs in memory, in no particular order; and if tables are on disk too, an iterator
            over all pairs, in order and piece by piece.
        """
        with self.guard.reading():
            dead, in_memory = self.dead, self.members.everything(self.dead)
            walks = self.cold.walks(len(self.bands.tables) + 2) if self.cold else []
        if not walks:
            return in_memory, None
        merged = merge_postings([*walks, iter([sort_postings(*in_memory)])])
        return in_memory, (living(piece, dead) for piece in merged)

    def _find(self, other: int, keys: Keys) -> list[list[int]]:
        """Return the documents of each key, in the table `others[other]`."""
        with self.guard.reading():
            counts, numbers = self.others[other].find(keys, self.dead, ALL)
            if self.cold:
                warm = counts[None], np.repeat(np.arange(len(keys)), counts), numbers
                place = len(self.bands.tables) + other
                totals, _, numbers = self.cold.find(keys[:, None], self.dead, ALL, place, warm)
                counts = totals[0]
        if not len(numbers):
            return [[] for _ in keys]
        ends = np.cumsum(counts).tolist()
        listed = numbers.tolist()
        return [listed[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]

    def _enter_copies(self, rows: Sequence[Row]) -> None:
        copies = [(row.witness, row.number) for row in rows if row.witness is not None]
        if copies:
            pairs = np.array(copies, np.uint64)
            witnesses = np.ascontiguousarray(pairs[:, 0])
            self.members.put(witnesses, pairs[:, 1].astype(np.uint32))

    def reach(self, number: int) -> None:
        """Make room for documents up to this number."""
        if number >= len(self.dead):
            larger = np.zeros(max(number + 1, 2 * len(self.dead)), np.uint8)
            larger[: len(self.dead)] = self.dead
            self.dead = larger


def id_key(id: str) -> int:
    """Return the key that an id is looked up by."""
    return xxhash.xxh3_64_intdigest(id.encode())
