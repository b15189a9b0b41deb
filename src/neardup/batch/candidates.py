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
from neardup.batch.sketches import Block, Sketches
from neardup.corpus.documents import Columns
from neardup.corpus.read import Chunk, parse
from neardup.corpus.source import changed
from neardup.dedup import Sketcher
from neardup.errors import FormatError
from neardup.formats.blocks import Reader, Writer
from neardup.formats.tables import column
from neardup.text.arrays import Ragged

KIND = "sets"
BLOCK_BYTES = 16 << 20
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


@dataclass(frozen=True)
class ShingleAgain:
    """What is done with the candidates of a chunk: sorted sets of their shingles."""

    columns: Columns
    sketcher: Sketcher

    def __call__(self, wanted: Wanted) -> Ragged:
        documents = parse(wanted.chunk, self.columns)
        if len(documents) != wanted.size:
            raise changed(wanted.chunk.files[0])
        cut = self.sketcher.cut(documents.take(column(wanted.rows)))
        if not np.array_equal(cut.content.T, wanted.content):
            raise changed(wanted.chunk.files[0])
        return as_sets(cut.shingles)


def as_sets(rows: Ragged) -> Ragged:
    """Each row sorted, without repeats."""
    kernels.sort_short(rows.data, rows.offsets, SHORT)
    for row in np.flatnonzero(rows.sizes > SHORT).tolist():
        rows.data[rows.offsets[row] : rows.offsets[row + 1]].sort()
    offsets = kernels.unique_sorted(rows.data, rows.offsets)
    return Ragged(rows.data[: offsets[-1]], offsets)


def wanted_of(
    sketches: Sketches, shard: int, chosen: Integers, columns: Columns, size: int
) -> Iterator[Wanted]:
    """The chunks of a shard that hold any of the chosen documents (places in it, ascending)."""
    chunks = sketches.shards[shard].chunks(columns, size)
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
        self._file = Writer(path, KIND, key=key)
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
        self._file.add({
            "places": np.concatenate(self._places), "ends": ends,
            "sums": kernels.row_sums(data, ends), "data": data,
        })  # fmt: skip
        self._places, self._rows, self._held = [], [], 0


def signature_rows(block: Block, chosen: Integers) -> Ragged:
    """The signatures of some documents of a block, one row each."""
    slots = np.ascontiguousarray(block.column("slots")[:, chosen].T)
    return Ragged(slots.reshape(-1), np.arange(len(slots) + 1, dtype=np.int64) * slots.shape[1])


class Sets:
    """All candidates' sets, by the document's number. `starts` are those of the shards."""

    def __init__(self, files: list[Reader], starts: Integers, dtype: type) -> None:
        self._files, self._starts, self._dtype = files, starts, dtype

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

    def _blocks(self) -> Iterator[tuple[Reader, int, int]]:
        for file, origin in zip(self._files, self._starts.tolist(), strict=False):
            for block in range(len(file)):
                yield file, block, origin

    def gather(self, documents: Integers) -> Ragged:
        """The sets of some documents, which are in ascending order."""
        parts: list[tuple[NDArray[np.uint8], Integers]] = []
        edges = np.searchsorted(documents, self._starts)
        for file, origin, start, end in zip(
            self._files, self._starts.tolist(), edges[:-1].tolist(), edges[1:].tolist(),
            strict=False,
        ):  # fmt: skip
            if start < end:
                parts += self._of_shard(file, documents[start:end] - origin)
        data = np.concatenate([data for data, _ in parts]) if parts else np.empty(0, np.uint8)
        sizes = np.concatenate([sizes for _, sizes in parts]) if parts else np.empty(0, np.int64)
        if len(sizes) != len(documents):
            raise FormatError("a candidate has no set: run again with another output")
        each = np.dtype(self._dtype).itemsize
        return Ragged(data.view(self._dtype), np.concatenate([[0], np.cumsum(sizes // each)]))

    def _of_shard(
        self, file: Reader, places: Integers
    ) -> Iterator[tuple[NDArray[np.uint8], Integers]]:
        for block in range(len(file)):
            there = file.read(block, "places")
            begin, end = np.searchsorted(places, [there[0], there[-1] + 1])
            if begin < end:
                yield _rows(file, block, np.searchsorted(there, places[begin:end]))


def _rows(file: Reader, block: int, rows: Integers) -> tuple[NDArray[np.uint8], Integers]:
    """Some rows of a block, as bytes, and their sizes; each is checked."""
    ends, sums = file.read(block, "ends"), file.read(block, "sums")
    starts, sizes = ends[rows], ends[rows + 1] - ends[rows]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    out = np.empty(offsets[-1], np.uint8)
    origin = file.place(block, "data")
    for first, last in _close_together(starts, starts + sizes):
        span = np.empty(int(starts[last] + sizes[last] - starts[first]), np.uint8)
        file.fill(span.data, origin + int(starts[first]))
        kernels.copy_rows(
            span, starts[first : last + 1] - starts[first], sizes[first : last + 1],
            out, int(offsets[first]),
        )  # fmt: skip
    if not np.array_equal(kernels.row_sums(out, offsets), sums[rows]):
        raise file.damaged("checksum of a set")
    return out, sizes


def _close_together(starts: Integers, ends: Integers) -> Iterator[tuple[int, int]]:
    """First and last of the rows that are worth reading at once."""
    cuts = np.flatnonzero(starts[1:] - ends[:-1] > NEAR)
    firsts = np.concatenate([[0], cuts + 1]).tolist()
    lasts = np.concatenate([cuts, [len(starts) - 1]]).tolist()
    yield from zip(firsts, lasts, strict=True)
