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
READ_GAP = 1 << 14
"""Rows of a file with at most this many bytes between them are read at once."""

Integers = NDArray[np.int64]


def sort_bags(rows: Ragged) -> Ragged:
    """Sort each row in place."""
    kernels.sort_short(rows.data, rows.offsets, SHORT_ROW)
    for row in np.flatnonzero(rows.sizes > SHORT_ROW).tolist():
        rows.data[rows.offsets[row] : rows.offsets[row + 1]].sort()
    return rows


def sort_sets(rows: Ragged) -> Ragged:
    """Sort each row in place, and drop repeats."""
    sort_bags(rows)
    offsets = kernels.unique_sorted(rows.data, rows.offsets)
    return Ragged(rows.data[: offsets[-1]], offsets)


class SetWriter:
    """Writes the sets of a shard's candidates, or their signatures, to a file."""

    def __init__(self, path: Path, key: str) -> None:
        self._file = BlockWriter(path, SETS_KIND, shared=True, key=key)
        self._places: list[Integers] = []
        self._rows: list[Ragged] = []
        self._held = 0

    def add(self, places: Integers, rows: Ragged) -> None:
        """Add the sets of documents, which are at `places` in the shard, in ascending order."""
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
        """Remove the unfinished file."""
        self._file.__exit__(None, None, None)

    def _flush(self) -> None:
        data = np.concatenate([rows.data for rows in self._rows]).view(np.uint8)
        itemsize = self._rows[0].data.itemsize
        sizes = np.concatenate([rows.sizes for rows in self._rows]) * itemsize
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
    """Reads the sets of candidates by document number.

    files   one for each shard
    starts  the number of each shard's first document
    dtype   the type of a set's members
    """

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
        """Return the documents that have a set, in ascending order."""
        parts = [file.read(block, "places") + origin for file, block, origin in self._blocks()]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def _blocks(self) -> Iterator[tuple[BlockReader, int, int]]:
        for file, origin in zip(self._files, self._starts.tolist(), strict=False):
            for block in range(len(file)):
                yield file, block, origin

    def gather(self, documents: Integers) -> Ragged:
        """Read the sets of documents, which are in ascending order."""
        batches = list(self._locate(documents))
        sizes = np.concatenate([np.empty(0, np.int64), *(batch.sizes for batch in batches)])
        if len(sizes) != len(documents):
            raise FormatError("a candidate has no set: run again with another output")
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        out = np.empty(offsets[-1], np.uint8)
        firsts = np.cumsum([0, *(len(batch.sizes) for batch in batches)])
        begins, ends = offsets[firsts[:-1]].tolist(), offsets[firsts[1:]].tolist()

        def read(work: tuple[SetRows, int, int]) -> None:
            batch, begin, end = work
            batch.read(out[begin:end])

        for _ in map_in_order(zip(batches, begins, ends, strict=True), read, self._workers):
            pass
        return Ragged(out.view(self._dtype), offsets // np.dtype(self._dtype).itemsize)

    def _locate(self, documents: Integers) -> Iterator[SetRows]:
        """Yield where the sets of documents are, block by block."""
        for file, block, origin in self._blocks():
            stored = file.read(block, "places") + origin
            begin, end = np.searchsorted(documents, [stored[0], stored[-1] + 1])
            if begin < end:
                yield SetRows.of(file, block, np.searchsorted(stored, documents[begin:end]))


@dataclass(frozen=True)
class SetRows:
    """Rows of a block: where they begin in its data, their sizes in bytes, their checksums."""

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
        """Read the rows into `out`, one after the other, and verify the checksum of each."""
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
            rows = slice(first, last + 1)
            kernels.copy_rows(span, self.starts[rows] - begin, self.sizes[rows], target)
        if not np.array_equal(kernels.hash_rows(out, offsets, np.uint64(0)), self.sums):
            raise self.file.damaged("checksum of a set")

    def _close_together(self) -> Iterator[tuple[int, int]]:
        """Yield the first and the last of rows that are close enough to be read at once."""
        cuts = np.flatnonzero(self.starts[1:] - (self.starts + self.sizes)[:-1] > READ_GAP)
        firsts = np.concatenate([[0], cuts + 1]).tolist()
        lasts = np.concatenate([cuts, [len(self.starts) - 1]]).tolist()
        yield from zip(firsts, lasts, strict=True)
