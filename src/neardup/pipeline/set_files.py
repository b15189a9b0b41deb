"""Files of candidates' sets (sorted shingles, or signatures), read by document number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import FormatError
from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.runtime import map_in_order
from neardup.text.arrays import Ragged

SETS_KIND = "sets"
SET_BLOCK_BYTES = 4 << 20
SHORT_ROW = 48
"""Rows up to this length are sorted faster by insertion."""
READ_GAP = 1 << 16
"""Rows so close to each other in a file are read at once."""

Integers = NDArray[np.int64]


def sort_bags(rows: Ragged) -> Ragged:
    """Each row sorted."""
    kernels.sort_short(rows.data, rows.offsets, SHORT_ROW)
    for row in np.flatnonzero(rows.sizes > SHORT_ROW).tolist():
        rows.data[rows.offsets[row] : rows.offsets[row + 1]].sort()
    return rows


def sort_sets(rows: Ragged) -> Ragged:
    """Each row sorted, without repeats."""
    sort_bags(rows)
    offsets = kernels.unique_sorted(rows.data, rows.offsets)
    return Ragged(rows.data[: offsets[-1]], offsets)


class SetWriter:
    """The sets of a shard's candidates, or whatever rows of equal width stand for them."""

    def __init__(self, path: Path, key: str) -> None:
        self._file = BlockWriter(path, SETS_KIND, key=key)
        self._places: list[Integers] = []
        self._rows: list[Ragged] = []
        self._held = 0

    def add(self, places: Integers, rows: Ragged) -> None:
        self._places.append(places)
        self._rows.append(rows)
        self._held += rows.data.nbytes
        if self._held >= SET_BLOCK_BYTES:
            self._flush()

    def close(self) -> None:
        if self._places:
            self._flush()
        self._file.close()

    def abandon(self) -> None:
        self._file.__exit__(None, None, None)

    def _flush(self) -> None:
        data = np.concatenate([rows.data for rows in self._rows]).view(np.uint8)
        each = self._rows[0].data.itemsize
        sizes = np.concatenate([rows.sizes for rows in self._rows]) * each
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._file.add(
            {
                "places": np.concatenate(self._places),
                "ends": ends,
                "sums": kernels.hash_rows(data, ends, np.uint64(0)),
                "data": data,
            }
        )
        self._places, self._rows, self._held = [], [], 0


class CandidateSets:
    """All candidates' sets, by the document's number. `starts` are those of the shards."""

    def __init__(
        self, files: list[BlockReader], starts: Integers, dtype: type, workers: int = 1
    ) -> None:
        self._files, self._starts, self._dtype = files, starts, dtype
        self._workers = workers

    def __len__(self) -> int:
        return sum(file.shape(block, "places")[0] for file, block, _ in self._blocks())

    @property
    def size(self) -> int:
        """Bytes of all sets."""
        return sum(file.shape(block, "data")[0] for file, block, _ in self._blocks())

    def documents(self) -> Integers:
        """All documents that have a set, ascending."""
        parts = [file.read(block, "places") + origin for file, block, origin in self._blocks()]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def _blocks(self) -> Iterator[tuple[BlockReader, int, int]]:
        for file, origin in zip(self._files, self._starts.tolist(), strict=False):
            for block in range(len(file)):
                yield file, block, origin

    def gather(self, documents: Integers) -> Ragged:
        """The sets of some documents, which are in ascending order."""
        found = list(self._found(documents))
        sizes = np.concatenate([np.empty(0, np.int64), *(some.sizes for some in found)])
        if len(sizes) != len(documents):
            raise FormatError("a candidate has no set: run again with another output")
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        out = np.empty(offsets[-1], np.uint8)
        firsts = np.cumsum([0, *(len(some.sizes) for some in found)])
        work = zip(found, offsets[firsts[:-1]].tolist(), offsets[firsts[1:]].tolist(), strict=True)
        for _ in map_in_order(work, lambda one: one[0].read(out[one[1] : one[2]]), self._workers):
            pass
        return Ragged(out.view(self._dtype), offsets // np.dtype(self._dtype).itemsize)

    def _found(self, documents: Integers) -> Iterator[SetRows]:
        """Where the documents' sets are, block by block."""
        for file, block, origin in self._blocks():
            there = file.read(block, "places") + origin
            begin, end = np.searchsorted(documents, [there[0], there[-1] + 1])
            if begin < end:
                yield SetRows.of(file, block, np.searchsorted(there, documents[begin:end]))


@dataclass(frozen=True)
class SetRows:
    """Some rows of a block: where they begin in its data, how long they are, their checksums."""

    file: BlockReader
    block: int
    starts: Integers
    sizes: Integers
    sums: NDArray[np.uint64]

    @classmethod
    def of(cls, file: BlockReader, block: int, rows: Integers) -> SetRows:
        ends, sums = file.read(block, "ends"), file.read(block, "sums")
        return cls(file, block, ends[rows], ends[rows + 1] - ends[rows], sums[rows])

    def read(self, out: NDArray[np.uint8]) -> None:
        """The rows, one after the other; each is checked."""
        offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        origin = self.file.place(self.block, "data")
        for first, last in self._close_together():
            begin, end = int(self.starts[first]), int(self.starts[last] + self.sizes[last])
            target = out[offsets[first] : offsets[last + 1]]
            if end - begin == len(target):
                self.file.fill(target.data, origin + begin)
                continue
            span = np.empty(end - begin, np.uint8)
            self.file.fill(span.data, origin + begin)
            here = slice(first, last + 1)
            kernels.copy_rows(span, self.starts[here] - begin, self.sizes[here], target)
        if not np.array_equal(kernels.hash_rows(out, offsets, np.uint64(0)), self.sums):
            raise self.file.damaged("checksum of a set")

    def _close_together(self) -> Iterator[tuple[int, int]]:
        """First and last of the rows that are worth reading at once."""
        cuts = np.flatnonzero(self.starts[1:] - (self.starts + self.sizes)[:-1] > READ_GAP)
        firsts = np.concatenate([[0], cuts + 1]).tolist()
        lasts = np.concatenate([cuts, [len(self.starts) - 1]]).tolist()
        yield from zip(firsts, lasts, strict=True)
