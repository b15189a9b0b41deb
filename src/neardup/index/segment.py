"""A segment: postings in an immutable file, found through a filter and one page of 4 KB.

    blocks of pages   each page: XXH3-64 of the rest, seeded with the page's number; how many
                      postings; 340 keys (64 bits), ascending; 340 numbers (32 bits), ascending
                      where keys are equal. The last page of a table may have fewer.
    a block a table   filter, a Bloom filter of the table's keys
    the last block    tables (postings, buckets, blocks of the filter), lasts (the last key of each
                      page), sizes (table, size, how many buckets have it)

A posting says that a document, by its number, is in the bucket of a key; each of several tables
has its own. All but the pages stays in memory, about 1.3 bytes a posting: a key that is not there
costs a look into the filter, and one in a hundred a page.
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
"""Of a page: its size, the places of the count and of the keys, how many postings it holds."""
BLOCK_PAGES = 1 << 10
RATE = 0.01
"""Of keys that are not there, the share that costs a page: 9.9 bits a key."""
NO_LIMIT = 2**62

Listed = tuple[Keys, Numbers]
"""Listed, as a key and a number each."""


def sort_postings(keys: Keys, numbers: Numbers) -> Listed:
    """Listed by key and number, each once.

    Those of a key are mostly in order already: sorting by both takes three times as long.
    """
    order = np.argsort(keys, kind="stable")
    sorted_keys, sorted_numbers = keys[order], numbers[order]
    equal = sorted_keys[1:] == sorted_keys[:-1]
    if (equal & (sorted_numbers[1:] < sorted_numbers[:-1])).any():
        order = np.lexsort((numbers, keys))
        sorted_numbers = numbers[order]
    repeated = equal & (sorted_numbers[1:] == sorted_numbers[:-1])
    if repeated.any():
        fresh = np.concatenate([[True], ~repeated])
        return sorted_keys[fresh], sorted_numbers[fresh]
    return sorted_keys, sorted_numbers


class SegmentWriter:
    """A segment that is being written, table by table; it takes its name when it is closed."""

    def __init__(self, path: Path, note: dict[str, Any]) -> None:
        self._probes = BloomShape.of(1, RATE).probes
        self._file = BlockWriter(path, KIND, probes=self._probes, note=note)
        self._pages = 0
        self._tables: list[tuple[int, int, int]] = []
        self._lasts: list[Keys] = []
        self._filters: list[NDArray[np.uint64]] = []
        self._sizes: list[tuple[int, int, int]] = []

    def add_table(self, pieces: Iterable[Listed], buckets: int) -> None:
        """A table's postings in order, piece by piece; with at most so many buckets."""
        bits = np.zeros(BloomShape.of(max(buckets, 1), RATE).blocks * 8, np.uint64)
        sizes = _Sizes()
        held: list[Listed] = []
        waiting = postings = 0
        for keys, numbers in pieces:
            kernels.bloom_insert(bits, self._probes, sizes.add(keys), np.uint64(0), NO_LIMIT)
            held.append((keys, numbers))
            waiting, postings = waiting + len(keys), postings + len(keys)
            if waiting >= BLOCK_PAGES * ROOM:
                held = [self._write(held, waiting // ROOM * ROOM)]
                waiting = len(held[0][0])
        if waiting:
            self._write(held, waiting)
        counted = sizes.counted()
        self._sizes += [(len(self._tables), size, count) for size, count in counted]
        self._tables.append((postings, sum(count for _, count in counted), len(bits) // 8))
        self._filters.append(bits)

    def _write(self, held: list[Listed], count: int) -> Listed:
        """Write the first postings of those that are held; returns the rest."""
        keys, numbers = (np.concatenate(part) for part in zip(*held, strict=True))
        pages = pack_pages(keys[:count], numbers[:count], self._pages)
        self._file.add({"pages": pages.reshape(-1)})
        self._pages += len(pages)
        self._lasts.append(keys[:count][np.append(np.arange(ROOM, count, ROOM), count) - 1])
        return keys[count:], numbers[count:]

    def close(self) -> None:
        """Complete the file; it is on the disk when this returns."""
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
    """Listed as pages, of which the first one has this number in the file."""
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
    """The checksum of a page, by its number too: in another one's place it is wrong."""
    return xxhash.xxh3_64_intdigest(page[CHECKSUM.size :], number)


class _Sizes:
    """How many buckets of each size there are, from sorted keys that come in pieces."""

    def __init__(self) -> None:
        self._counted: Counter[int] = Counter()
        self._key: int | None = None
        self._open = 0

    def add(self, keys: Keys) -> Keys:
        """Count the buckets of a piece, of which the last one may go on; returns their keys."""
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
        if self._open:
            self._counted[self._open] += 1
            self._open = 0
        return sorted(self._counted.items())


PAGE = WORDS * 8
BLOCK_WORDS = 8
"""Of a block of the filter."""
AT_ONCE = 1 << 10
"""Pages that a look-up holds at a time: 4 MB."""
STRIDE = 1 << 7
"""Pages that are read together when all are read."""

Found = tuple[Integers, Numbers]
"""Numbers, and for each the cell that asked: table * rows + row. In any order."""
NOTHING: Final[Found] = np.empty(0, np.int64), np.empty(0, np.uint32)


class _SegmentFile(BlockReader):
    def damaged(self, why: str) -> FormatError:
        return FormatError(
            f"{self.path} is damaged ({why}): delete it and open the index again, "
            "it is built again from the stored documents"
        )


class Segment:
    """Listed on disk. Any number of threads may ask, also when the file has lost its name."""

    def __init__(self, path: Path) -> None:
        file = _SegmentFile(path, KIND)
        self.path, self.damaged = path, file.damaged
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self.damaged(os.strerror(error.errno or 0)) from None
        weakref.finalize(self, os.close, handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)  # a page is all that is wanted
        self._handle = handle
        self.disk_bytes = os.fstat(handle).st_size
        self._describe(file)

    @classmethod
    def write(cls, path: Path, tables: Iterable[Listed], **note: Any) -> Self:
        """A segment of each table's postings, in any order; on the disk when this returns."""
        with SegmentWriter(path, note) as writer:
            for keys, numbers in tables:
                keys, numbers = sort_postings(keys, numbers)
                buckets = int(np.count_nonzero(keys[1:] != keys[:-1])) + 1
                writer.add_table([(keys, numbers)], buckets)
            writer.close()
        return cls(path)

    def _describe(self, file: BlockReader) -> None:
        """Take in what stays in memory; an error unless it describes the pages that are there."""
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
            held = sum(file.shape(block, "pages")[0] for block in range(of_pages))
            whole = held == WORDS * len(self._lasts) == WORDS * self._pages[-1]
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

    def find(self, keys: Keys, dead: Dead, limit: int, first: int = 0) -> Found:
        """The first `limit` living documents of each bucket.

        `keys` has a row for each who asks, and a column for each table from the `first` one on.
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
        asked, ends = keys[rows, tables], pages[tables + 1]
        parts = [slice(at, at + AT_ONCE) for at in range(0, len(cells), AT_ONCE)]
        return join_found(
            [
                found
                for part in parts
                for found in self._take(
                    cells[part], asked[part], places[part], ends[part], dead, limit
                )
            ]
        )

    def _take(
        self, cells: Integers, keys: Keys, pages: Integers, ends: Integers, dead: Dead, limit: int
    ) -> Iterator[Found]:
        """What is on these pages, and on the next ones as long as a bucket goes on."""
        room = np.full(len(cells), limit)
        while len(cells):
            rows: dict[int, int] = {}  # a page that several ask for is read once
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

    def walk(self, table: int) -> Iterator[Listed]:
        """All postings of a table, in order, some pages at a time."""
        left = int(self._postings[table])
        end = int(self._pages[table + 1])
        for first in range(int(self._pages[table]), end, STRIDE):
            read = self._read([first], min(STRIDE, end - first))
            keys = read[:, KEYS : KEYS + ROOM].reshape(-1)[:left]
            numbers = read.view(np.uint32)[:, 2 * (KEYS + ROOM) :].reshape(-1)[:left]
            left -= len(keys)
            yield keys, numbers

    def verify(self) -> None:
        """Read every page; an error if one is not what was written."""
        for table in range(self.tables):
            for _ in self.walk(table):
                pass

    def _read(self, firsts: Collection[int], count: int) -> NDArray[np.uint64]:
        """Pages, checked: from each of these on so many."""
        read = np.empty((len(firsts) * count, WORDS), np.uint64)
        bytes_read = read.reshape(-1).view(np.uint8).data
        at = 0
        for first in firsts:
            self._fill(bytes_read[at : at + count * PAGE], self._start + first * PAGE)
            for page in range(first, first + count):
                found = bytes_read[at : at + PAGE]
                if page_sum(found, page) != CHECKSUM.unpack_from(found)[0]:
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


def join_found(found: Sequence[Found]) -> Found:
    """What was found in several places."""
    found = [one for one in found if len(one[0])]
    if len(found) < 2:
        return found[0] if found else NOTHING
    return np.concatenate([cells for cells, _ in found]), np.concatenate([n for _, n in found])


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
