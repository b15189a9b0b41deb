"""What is looked up: band tables of kept documents, and tables of ids, contents and witnesses.

All of it is derived from the store. Readers and the writer thread are kept apart by a lock, so
that a reader sees all of a commit or nothing of it. What takes more memory than it may is moved to
disk (`cold.py`), all tables at once: what came first is the first to be cold.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup.index.cold import Segments
from neardup.index.postings import Dead, Integers, Keys, Numbers, Postings, PostingTable
from neardup.index.store import Row


class ReadWriteLock:
    """Short turns only. Readers don't wait for readers; a writer goes before later readers."""

    def __init__(self) -> None:
        self._free = threading.Condition(threading.Lock())
        self._readers = 0
        self._writers = 0
        """Threads that write, or wait to."""

    @contextmanager
    def reading(self) -> Iterator[None]:
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
        """One thread writes at a time: callers see to that."""
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
ALL: Final = 2**31 - 1


class LookupTables:
    """The tables of one operating point, up to a change of the store."""

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
        """The tables that hold all documents, or copies: not by bands."""
        return self.ids, self.contents, self.members

    @property
    def all_tables(self) -> list[PostingTable]:
        """All tables, in the order in which they are written."""
        return [*self.bands.tables, *self.others]

    @property
    def warm_bytes(self) -> int:
        """Of tables that are in memory."""
        return sum(table.nbytes for table in self.all_tables)

    @property
    def nbytes(self) -> int:
        return self.warm_bytes + self.dead.nbytes + (self.cold.nbytes if self.cold else 0)

    def settle(self) -> bool:
        """Move the tables to disk if they take too much memory; for the writer thread.

        As long as they are less than a part of what they may take it would not help: then filters
        and removed documents are too many.
        """
        if self.cold is None or self.budget is None or self.nbytes <= self.budget:
            return False
        if self.warm_bytes <= self.budget // 8:
            return False
        self.cold.add(table.everything(self.dead) for table in self.all_tables)
        with self.guard.writing():
            self._start(len(self.bands.tables))
        return True

    def compact(self) -> None:
        """Leave out removed documents, in memory and on disk; for the writer thread."""
        if self.cold:
            self.cold.merge(self.dead, everything=True)
        fresh = [table.compacted(self.dead) for table in self.all_tables]
        with self.guard.writing():
            *self.bands.tables, self.ids, self.contents, self.members = fresh
            self.dead = np.zeros_like(self.dead)
            self.tombstones = 0

    def enter(
        self, rows: Sequence[Row], keys: Keys, sequence: int, gone: Iterable[int] = ()
    ) -> None:
        """Documents that were added, or have another witness now; row i has the keys of row i.

        Documents `gone` are marked as deleted in the same moment.
        """
        numbers = np.array([row.number for row in rows], np.uint32)
        kept = np.array([row.witness is None for row in rows], bool)
        ids = np.array([id_key(row.id) for row in rows], np.uint64)
        contents = np.frombuffer(b"".join(row.content for row in rows), np.uint64)[::2].copy()
        with self.guard.writing():
            self._mark_deleted(gone)
            self._make_room(rows)
            self.bands.put(keys[kept], numbers[kept])
            self.ids.put(ids, numbers)
            self.contents.put(contents, numbers)
            self._follow_witnesses(rows)
            self.sequence = max(self.sequence, sequence)

    def mark_deleted(self, numbers: Iterable[int], sequence: int) -> None:
        """Documents that are gone."""
        with self.guard.writing():
            self._mark_deleted(numbers)
            self.sequence = max(self.sequence, sequence)

    def _mark_deleted(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.reach(number)
            self.tombstones += not self.dead[number]
            self.dead[number] = 1

    def leaders(
        self, keys: Keys, limit: int, without: Sequence[int] = ()
    ) -> tuple[Integers, Integers, Numbers]:
        """The first kept documents of each bucket, as if some were gone; see `Postings.find`."""
        with self.guard.reading():
            dead = self.dead
            if without:
                dead = dead.copy()
                dead[list(without)] = 1
            warm = self.bands.find(keys, dead, limit)
            return self.cold.find(keys, dead, limit, 0, warm) if self.cold else warm

    def with_ids(self, ids: Sequence[str]) -> list[list[int]]:
        """For each id the documents that may have it."""
        return self._with(0, np.array([id_key(id) for id in ids], np.uint64))

    def with_contents(self, contents: NDArray[np.uint64]) -> list[list[int]]:
        """For each content, of 128 bits, the documents that may have it."""
        return self._with(1, np.ascontiguousarray(contents[:, 0]))

    def with_witnesses(self, numbers: Sequence[int]) -> list[list[int]]:
        """For each document those that may be copies of it."""
        return self._with(2, np.array(numbers, np.uint64))

    def _with(self, other: int, keys: Keys) -> list[list[int]]:
        with self.guard.reading():
            counts, numbers = self.others[other].find(keys, self.dead, ALL)
            if self.cold:
                warm = counts[None], np.repeat(np.arange(len(keys)), counts), numbers
                place = len(self.bands.tables) + other
                found, _, numbers = self.cold.find(keys[:, None], self.dead, ALL, place, warm)
                counts = found[0]
        if not len(numbers):
            return [[] for _ in keys]
        ends = np.cumsum(counts).tolist()
        listed = numbers.tolist()
        return [listed[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]

    def _follow_witnesses(self, rows: Sequence[Row]) -> None:
        copies = [(row.witness, row.number) for row in rows if row.witness is not None]
        if copies:
            pairs = np.array(copies, np.uint64)
            witnesses = np.ascontiguousarray(pairs[:, 0])
            self.members.put(witnesses, pairs[:, 1].astype(np.uint32))

    def _make_room(self, rows: Sequence[Row]) -> None:
        if rows:
            self.reach(max(row.number for row in rows))

    def reach(self, number: int) -> None:
        """Have room for documents up to this number."""
        if number >= len(self.dead):
            larger = np.zeros(max(number + 1, 2 * len(self.dead)), np.uint8)
            larger[: len(self.dead)] = self.dead
            self.dead = larger


def id_key(id: str) -> int:
    """What an id is looked up by."""
    return xxhash.xxh3_64_intdigest(id.encode())
