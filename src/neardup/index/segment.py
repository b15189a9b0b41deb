"""A segment: postings in an immutable file; a look-up reads a filter and one page of 4 KB.

    blocks of pages   each page: XXH3-64 of the rest, seeded with the page's number; how many
                      postings; 340 keys (64 bits), ascending; 340 numbers (32 bits), ascending
                      where keys are equal. The last page of a table may have fewer.
    a block a table   filter, a Bloom filter of the table's keys
    the last block    tables (postings, buckets, blocks of the filter), lasts (the last key of each
                      page), sizes (table, size, how many buckets have it)

A posting is a key and the number of a document that is in its bucket; each table has its own
postings. All but the pages stays in memory, about 1.3 bytes a posting: a key that is not in the
segment costs a test of the filter, and one in a hundred a page.
"""

from __future__ import annotations

import os
import weakref
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import FormatError, ParameterError
from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.framing import CHECKSUM
from neardup.index.postings import Dead, Integers, Keys, Numbers
from neardup.membership.sizing import BloomShape

KIND: Final = "cold"
WORDS, COUNT, KEYS, ROOM = 512, 1, 2, 340
"""Layout of a page in words: its size, the places of the count and of the keys; its postings."""
BLOCK_PAGES = 1 << 10
"""Pages of a block of the file."""
RATE = 0.01
"""False positives of the filter, each of which costs a page: 9.9 bits a key."""
NO_LIMIT = 2**62

PostingList = tuple[Keys, Numbers]
"""Postings as two columns: keys and numbers."""


def sort_postings(keys: Keys, numbers: Numbers) -> PostingList:
    """Sort postings by key and number, and drop repeated ones.

    The numbers of a key are mostly sorted before, and sorting by both takes three times as long.
    """
    order = np.argsort(keys, kind="stable")
    sorted_keys, sorted_numbers = keys[order], numbers[order]
    equal = sorted_keys[1:] == sorted_keys[:-1]
    if (equal & (sorted_numbers[1:] < sorted_numbers[:-1])).any():
        order = np.lexsort((numbers, keys))
        sorted_numbers = numbers[order]
    repeated = equal & (sorted_numbers[1:] == sorted_numbers[:-1])
    if repeated.any():
        distinct = np.concatenate([[True], ~repeated])
        return sorted_keys[distinct], sorted_numbers[distinct]
    return sorted_keys, sorted_numbers


class SegmentWriter:
    """Writes a segment table by table; the file gets its name when it is closed."""

    def __init__(self, path: Path, note: dict[str, Any]) -> None:
        self._probes = BloomShape.of(1, RATE).probes
        self._file = BlockWriter(path, KIND, probes=self._probes, note=note)
        self._pages = 0
        self._tables: list[tuple[int, int, int]] = []
        self._lasts: list[Keys] = []
        self._filters: list[NDArray[np.uint64]] = []
        self._sizes: list[tuple[int, int, int]] = []

    def add_table(self, pieces: Iterable[PostingList], buckets: int) -> None:
        """Add the sorted postings of a table, piece by piece; it has at most `buckets` buckets."""
        bits = np.zeros(BloomShape.of(max(buckets, 1), RATE).blocks * 8, np.uint64)
        sizes = _Sizes()
        pending: list[PostingList] = []
        waiting = postings = 0
        for keys, numbers in pieces:
            kernels.bloom_insert(bits, self._probes, sizes.add(keys), np.uint64(0), NO_LIMIT)
            pending.append((keys, numbers))
            waiting, postings = waiting + len(keys), postings + len(keys)
            if waiting >= BLOCK_PAGES * ROOM:
                pending = [self._write(pending, waiting // ROOM * ROOM)]
                waiting = len(pending[0][0])
        if waiting:
            self._write(pending, waiting)
        counted = sizes.counted()
        self._sizes += [(len(self._tables), size, count) for size, count in counted]
        self._tables.append((postings, sum(count for _, count in counted), len(bits) // 8))
        self._filters.append(bits)

    def _write(self, pending: list[PostingList], count: int) -> PostingList:
        """Write the first `count` of the pending postings; return the rest."""
        keys, numbers = (np.concatenate(part) for part in zip(*pending, strict=True))
        pages = pack_pages(keys[:count], numbers[:count], self._pages)
        self._file.add({"pages": pages.reshape(-1)})
        self._pages += len(pages)
        self._lasts.append(keys[:count][np.append(np.arange(ROOM, count, ROOM), count) - 1])
        return keys[count:], numbers[count:]

    def close(self) -> None:
        """Complete the file durably."""
        while self._filters:
            self._file.add({"filter": self._filters.pop(0)})
        self._file.add(
            {
                "tables": np.array(self._tables, np.int64).reshape(-1, 3),
                "lasts": np.concatenate([np.empty(0, np.uint64), *self._lasts]),
                "sizes": np.array(self._sizes, np.int64).reshape(-1, 3),
            }
        )
        self._file.close(durable=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self._file.__exit__(*about)


def pack_pages(keys: Keys, numbers: Numbers, first: int) -> NDArray[np.uint64]:
    """Return postings as pages; `first` is the number of the first page in the file."""
    full, rest = divmod(len(keys), ROOM)
    out = np.zeros((full + (rest > 0), WORDS), np.uint64)
    halves = out.view(np.uint32)
    out[:full, COUNT] = ROOM
    out[:full, KEYS : KEYS + ROOM] = keys[: full * ROOM].reshape(-1, ROOM)
    halves[:full, 2 * (KEYS + ROOM) :] = numbers[: full * ROOM].reshape(-1, ROOM)
    if rest:
        out[full, COUNT] = rest
        out[full, KEYS : KEYS + rest] = keys[full * ROOM :]
        halves[full, 2 * (KEYS + ROOM) :][:rest] = numbers[full * ROOM :]
    for number, page in enumerate(out, first):
        page[0] = page_sum(page.data.cast("B"), number)
    return out


def page_sum(page: memoryview, number: int) -> int:
    """Return the checksum of a page, which depends on its number too."""
    return xxhash.xxh3_64_intdigest(page[CHECKSUM.size :], number)


class _Sizes:
    """Counts buckets by size, from sorted keys that come in pieces."""

    def __init__(self) -> None:
        self._counted: Counter[int] = Counter()
        self._key: int | None = None
        self._open = 0

    def add(self, keys: Keys) -> Keys:
        """Count the buckets of a piece; return their keys. The last bucket may continue."""
        if not len(keys):
            return keys
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        sizes = np.diff(starts, append=len(keys))
        if int(keys[0]) == self._key:
            sizes[0] += self._open
        elif self._open:
            self._counted[self._open] += 1
        values, counts = np.unique(sizes[:-1], return_counts=True)
        self._counted.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        self._key, self._open = int(keys[-1]), int(sizes[-1])
        return keys[starts]

    def counted(self) -> list[tuple[int, int]]:
        """Return (size, number of buckets), after the last piece."""
        if self._open:
            self._counted[self._open] += 1
            self._open = 0
        return sorted(self._counted.items())


PAGE = WORDS * 8
BLOCK_WORDS = 8
"""Words of a block of the filter."""
AT_ONCE = 1 << 10
"""Pages that a look-up reads at a time: 4 MB."""
STRIDE = 1 << 7
"""Pages of one read when a table is walked."""

CellPostings = tuple[Integers, Numbers]
"""The cell of each posting, table * queries + query, and its number. In any order."""
NOTHING: Final[CellPostings] = np.empty(0, np.int64), np.empty(0, np.uint32)


class _SegmentFile(BlockReader):
    def damaged(self, why: str) -> FormatError:
        return FormatError(
            f"{self.path} is damaged ({why}): delete it and open the index again, "
            "it is built again from the stored documents"
        )


class Segment:
    """A segment file, open. Usable in any thread, also after the file was deleted."""

    def __init__(self, path: Path) -> None:
        file = _SegmentFile(path, KIND)
        self.path, self.damaged = path, file.damaged
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self.damaged(os.strerror(error.errno or 0)) from None
        weakref.finalize(self, os.close, handle)
        os.posix_fadvise(
            handle, 0, 0, os.POSIX_FADV_RANDOM
        )  # no read-ahead: a look-up needs one page
        self._handle = handle
        self.disk_bytes = os.fstat(handle).st_size
        self._describe(file)

    @classmethod
    def write(cls, path: Path, tables: Iterable[PostingList], **note: Any) -> Self:
        """Write the postings of each table, in any order, durably; return the open segment."""
        with SegmentWriter(path, note) as writer:
            for keys, numbers in tables:
                keys, numbers = sort_postings(keys, numbers)
                buckets = int(np.count_nonzero(keys[1:] != keys[:-1])) + 1
                writer.add_table([(keys, numbers)], buckets)
            writer.close()
        return cls(path)

    def _describe(self, file: BlockReader) -> None:
        """Read what stays in memory; raise FormatError unless it fits the pages of the file."""
        last = len(file) - 1
        try:
            self.note: dict[str, Any] = file.header["note"]
            self._probes = int(file.header["probes"])
            described, self._lasts, self.sizes = (
                file.read(last, name) for name in ("tables", "lasts", "sizes")
            )
            self._postings, self.table_buckets, blocks = described.T
            self._pages, self._blocks = _starts(-(-self._postings // ROOM)), _starts(blocks)
            self.tables, of_pages = len(described), last - len(described)
            self._start = file.place(0, "pages") if of_pages else 0
            words = sum(file.shape(block, "pages")[0] for block in range(of_pages))
            whole = words == WORDS * len(self._lasts) == WORDS * self._pages[-1]
            self._filter = np.empty(self._blocks[-1] * BLOCK_WORDS, np.uint64)
            for table, place in enumerate(self._blocks[:-1] * BLOCK_WORDS):
                part = file.read(of_pages + table, "filter")
                self._filter[place : place + len(part)] = part
                whole &= len(part) == blocks[table] * BLOCK_WORDS > 0
        except (KeyError, IndexError, TypeError, ValueError):
            raise self.damaged("its description") from None
        if not whole:
            raise self.damaged("its parts don't fit together")

    @property
    def postings(self) -> int:
        return int(self._postings.sum())

    @property
    def buckets(self) -> int:
        return int(self.table_buckets.sum())

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._filter.nbytes + self._lasts.nbytes + self.sizes.nbytes

    def find(self, keys: Keys, dead: Dead, limit: int, first: int = 0) -> CellPostings:
        """Return the first `limit` living documents of each bucket; see `Segments.find`.

        `keys` has a row for each query, and a column for each table from the `first` one on.
        """
        count = keys.shape[1]
        if first + count > self.tables:
            raise ParameterError(f"{self.path} has {self.tables} tables, not {first + count}")
        keys, pages = np.ascontiguousarray(keys), self._pages[first : first + count + 1]
        cells, places = kernels.cold_pages(
            self._filter,
            self._blocks[first : first + count + 1],
            self._probes,
            self._lasts,
            pages,
            keys,
        )
        if not len(cells):
            return NOTHING
        tables, rows = np.divmod(cells, len(keys))
        cell_keys, ends = keys[rows, tables], pages[tables + 1]
        parts = [slice(at, at + AT_ONCE) for at in range(0, len(cells), AT_ONCE)]
        return join_cells(
            [
                found
                for part in parts
                for found in self._read_buckets(
                    cells[part], cell_keys[part], places[part], ends[part], dead, limit
                )
            ]
        )

    def _read_buckets(
        self, cells: Integers, keys: Keys, pages: Integers, ends: Integers, dead: Dead, limit: int
    ) -> Iterator[CellPostings]:
        """Yield the postings on these pages, and on the next ones while a bucket continues."""
        room = np.full(len(cells), limit)
        while len(cells):
            rows: dict[int, int] = {}  # a page that several cells need is read once
            which = [rows.setdefault(page, len(rows)) for page in pages.tolist()]
            read = self._read(rows, 1)
            counts, numbers, goes_on = kernels.cold_take(
                read, read.view(np.uint32), np.array(which), keys, room, dead
            )
            yield np.repeat(cells, counts), numbers
            goes_on &= pages + 1 < ends
            room = (room - counts)[goes_on]
            cells, keys, ends = cells[goes_on], keys[goes_on], ends[goes_on]
            pages = pages[goes_on] + 1

    def walk(self, table: int) -> Iterator[PostingList]:
        """Yield all postings of a table, in order, STRIDE pages at a time."""
        remaining = int(self._postings[table])
        end = int(self._pages[table + 1])
        for first in range(int(self._pages[table]), end, STRIDE):
            read = self._read([first], min(STRIDE, end - first))
            keys = read[:, KEYS : KEYS + ROOM].reshape(-1)[:remaining]
            numbers = read.view(np.uint32)[:, 2 * (KEYS + ROOM) :].reshape(-1)[:remaining]
            remaining -= len(keys)
            yield keys, numbers

    def verify(self) -> None:
        """Read every page; raise FormatError if one is damaged."""
        for table in range(self.tables):
            for _ in self.walk(table):
                pass

    def _read(self, firsts: Collection[int], count: int) -> NDArray[np.uint64]:
        """Read and check `count` pages from each of `firsts` on."""
        read = np.empty((len(firsts) * count, WORDS), np.uint64)
        bytes_read = read.reshape(-1).view(np.uint8).data
        at = 0
        for first in firsts:
            self._fill(bytes_read[at : at + count * PAGE], self._start + first * PAGE)
            for page in range(first, first + count):
                content = bytes_read[at : at + PAGE]
                if page_sum(content, page) != CHECKSUM.unpack_from(content)[0]:
                    raise self.damaged(f"page {page}")
                at += PAGE
        return read

    def _fill(self, into: memoryview, at: int) -> None:
        try:
            while into:
                got = os.preadv(self._handle, [into], at)
                if got == 0:
                    raise self.damaged("too short")
                into, at = into[got:], at + got
        except OSError as error:
            raise self.damaged(os.strerror(error.errno or 0)) from None


def join_cells(parts: Sequence[CellPostings]) -> CellPostings:
    """Concatenate the postings of several look-ups."""
    parts = [part for part in parts if len(part[0])]
    if len(parts) < 2:
        return parts[0] if parts else NOTHING
    return np.concatenate([cells for cells, _ in parts]), np.concatenate([n for _, n in parts])


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where parts of these sizes start, and the end."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
