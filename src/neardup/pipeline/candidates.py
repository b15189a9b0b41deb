"""What is compared: the shingles of documents that share a bucket, or their signatures.

Shingles are made again from the input, for these documents alone: they would take about as much
disk as all texts. A document that is not what it was when it was sketched is noticed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.corpus.read import Chunk, parse_some
from neardup.corpus.shards import Shard
from neardup.corpus.streams import changed
from neardup.errors import FormatError
from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.pipeline.sketches import Block, Sketches
from neardup.pipeline.storing import compared_of
from neardup.runtime import map_in_order
from neardup.sketcher import Sketcher
from neardup.text.arrays import Ragged

KIND = "sets"
BLOCK_BYTES = 4 << 20
SHORT = 48
"""Rows up to this length are sorted faster by insertion."""
NEAR = 1 << 16
"""Rows so close to each other in a file are read at once."""

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Wanted:
    """The candidates of a chunk: their rows in it, and in the shard; their content hashes."""

    chunk: Chunk
    size: int
    rows: Integers
    places: Integers
    content: NDArray[np.uint64]


def shingle_again(wanted: Wanted, shard: Shard, sketcher: Sketcher) -> Ragged:
    """The sorted sets, or bags, of a chunk's candidates."""
    documents = parse_some(wanted.chunk, shard.reading.columns, wanted.rows, wanted.size)
    cut = sketcher.cut(documents)
    different = (wanted.content != cut.content.T).any(axis=0)
    if different.any():
        files = wanted.chunk.files
        raise changed(files[wanted.rows[different][0]] if len(files) > 1 else files[0])
    return as_bags(cut.shingles) if sketcher.spec.of_bags else as_sets(cut.shingles)


def as_bags(rows: Ragged) -> Ragged:
    """Each row sorted."""
    kernels.sort_short(rows.data, rows.offsets, SHORT)
    for row in np.flatnonzero(rows.sizes > SHORT).tolist():
        rows.data[rows.offsets[row] : rows.offsets[row + 1]].sort()
    return rows


def as_sets(rows: Ragged) -> Ragged:
    """Each row sorted, without repeats."""
    as_bags(rows)
    offsets = kernels.unique_sorted(rows.data, rows.offsets)
    return Ragged(rows.data[: offsets[-1]], offsets)


def wanted_of(sketches: Sketches, shard: int, chosen: Integers) -> Iterator[Wanted]:
    """The chunks of a shard that hold any of the chosen documents (places in it, ascending)."""
    chunks = sketches.shards[shard].chunks()
    origin = int(sketches.starts[shard])
    for block in sketches.blocks_of(shard):
        start = block.start - origin
        content = block.column("content") if len(chosen) else None
        for count in block.chunks:
            chunk = next(chunks, None)
            if chunk is None:
                raise changed(sketches.shards[shard].files[-1])
            here = chosen[np.searchsorted(chosen, start) : np.searchsorted(chosen, start + count)]
            if len(here) and content is not None:
                in_block = here - (block.start - origin)
                yield Wanted(chunk, count, here - start, here, content[:, in_block])
            start += count


class SetWriter:
    """The sets of a shard's candidates, or whatever rows of equal width stand for them."""

    def __init__(self, path: Path, key: str) -> None:
        self._file = BlockWriter(path, KIND, key=key)
        self._places: list[Integers] = []
        self._rows: list[Ragged] = []
        self._held = 0

    def add(self, places: Integers, rows: Ragged) -> None:
        self._places.append(places)
        self._rows.append(rows)
        self._held += rows.data.nbytes
        if self._held >= BLOCK_BYTES:
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


def signature_rows(block: Block, chosen: Integers) -> Ragged:
    """The signatures of some documents of a block, one row each."""
    slots = np.ascontiguousarray(compared_of(block.file, block.number)[:, chosen].T)
    return Ragged(slots.reshape(-1), np.arange(len(slots) + 1, dtype=np.int64) * slots.shape[1])


class Sets:
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

    def _found(self, documents: Integers) -> Iterator[SomeRows]:
        """Where the documents' sets are, block by block."""
        for file, block, origin in self._blocks():
            there = file.read(block, "places") + origin
            begin, end = np.searchsorted(documents, [there[0], there[-1] + 1])
            if begin < end:
                yield SomeRows.of(file, block, np.searchsorted(there, documents[begin:end]))


@dataclass(frozen=True)
class SomeRows:
    """Some rows of a block: where they begin in its data, how long they are, their checksums."""

    file: BlockReader
    block: int
    starts: Integers
    sizes: Integers
    sums: NDArray[np.uint64]

    @classmethod
    def of(cls, file: BlockReader, block: int, rows: Integers) -> SomeRows:
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
        cuts = np.flatnonzero(self.starts[1:] - (self.starts + self.sizes)[:-1] > NEAR)
        firsts = np.concatenate([[0], cuts + 1]).tolist()
        lasts = np.concatenate([cuts, [len(self.starts) - 1]]).tolist()
        yield from zip(firsts, lasts, strict=True)
