"""Cut the inputs into shards, pieces of work that are independent of each other.

A shard is a group of small files, or a part of a large one: a byte range of an uncompressed JSONL
file, row groups of a Parquet file. The cuts depend only on the files and on the size of a shard.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate

from neardup.corpus.columnar import count_parquet_rows, row_group_sizes
from neardup.corpus.documents import Columns
from neardup.corpus.format_table import BYTE_RANGES
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import CHUNK, Chunk, chunks_of, count_rows, read_chunks
from neardup.corpus.streams import changed_error, name_read_errors
from neardup.corpus.vector_files import RowsBeside, VectorFile
from neardup.errors import InputError

SHARD = 64 << 20
_MAX_FILES = 4096

Stamp = tuple[int, int]
"""The size of a file, and the time of its last change in nanoseconds."""


@dataclass(frozen=True)
class Reading:
    """How files are read: the columns, and the approximate bytes of a chunk and of a shard."""

    columns: Columns
    chunk: int = CHUNK
    shard: int = SHARD


@dataclass(frozen=True)
class Shard:
    """Whole files, or `part` of one file: a range of bytes (JSONL) or of row groups (Parquet)."""

    files: tuple[InputFile, ...]
    stamps: tuple[Stamp, ...]
    reading: Reading
    part: tuple[int, int] | None = None
    beside: RowsBeside | None = None
    """Where the vectors of its documents are, if they are in a file of their own."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield the shard's records in chunks for the workers."""
        columns, size = self.reading.columns, self.reading.chunk
        if self.part is None:
            chunks = chunks_of(self.files, columns, size)
        else:
            chunks = read_chunks(self.files[0], columns, size, self.part)
        return chunks if self.beside is None else place_chunks(chunks, self.beside)

    def count(self) -> int:
        """Return the number of its documents, also of those that will be rejected."""
        if len(self.files) == 1 and self.files[0].format == "parquet":
            return count_parquet_rows(self.files[0], self.part)
        reading = replace(self.reading, columns=Columns(textless=True))
        return sum(map(count_rows, replace(self, reading=reading, beside=None).chunks()))

    def check(self) -> None:
        """Raise `InputError` if a file has changed since the shard was cut."""
        for file, stamp in zip(self.files, self.stamps, strict=True):
            if read_stamp(file) != stamp:
                raise changed_error(file)

    @property
    def stored(self) -> int:
        """The approximate number of stored bytes of the shard."""
        if self.part is None:
            return sum(size for size, _ in self.stamps)
        if self.files[0].row.cut_by == BYTE_RANGES:
            return self.part[1] - self.part[0]
        return sum(row_group_sizes(self.files[0])[slice(*self.part)])

    def rest_from(self, offset: int) -> Shard:
        """Return the rest of the shard from about a stored byte on.

        It begins with a line, a row group or a file; with the file that has the byte, if that can
        be read only from its beginning. Vectors beside are left out: which document is the first
        is not known.
        """
        if self.beside is not None:
            return replace(self, beside=None).rest_from(offset)
        if self.part is not None:
            if self.files[0].row.cut_by == BYTE_RANGES:
                return replace(self, part=(self.part[0] + offset, self.part[1]))
            sizes = row_group_sizes(self.files[0])[slice(*self.part)]
            return replace(self, part=(self.part[0] + _place(sizes, offset), self.part[1]))
        at = _place([size for size, _ in self.stamps], offset)
        file, stamp = self.files[at], self.stamps[at]
        inside = offset - sum(size for size, _ in self.stamps[:at])
        if inside and file.can_be_cut:
            if file.row.cut_by == BYTE_RANGES:
                return Shard((file,), (stamp,), self.reading, (inside, stamp[0]))
            sizes = row_group_sizes(file)
            return Shard((file,), (stamp,), self.reading, (_place(sizes, inside), len(sizes)))
        return Shard(self.files[at:], self.stamps[at:], self.reading)

    @property
    def name(self) -> str:
        """The file and the part of it, for messages."""
        first = self.files[0].name
        if self.part is not None:
            return f"{first}, {self.files[0].row.cut_by} {self.part[0]} to {self.part[1]}"
        return first if len(self.files) == 1 else f"{first} and {len(self.files) - 1} more"


def place_chunks(chunks: Iterable[Chunk], beside: RowsBeside) -> Iterator[Chunk]:
    """Yield consecutive chunks with the places of their vectors.

    Args:
        chunks: The chunks.
        beside: The place of the first one's vectors.
    """
    for chunk in chunks:
        yield replace(chunk, beside=beside)
        beside = replace(beside, start=beside.start + count_rows(chunk))


def place_shards(shards: Sequence[Shard], counts: Sequence[int], file: VectorFile) -> list[Shard]:
    """Return the shards with the places of their vectors, whose rows are in the same order.

    Args:
        shards: The shards.
        counts: The number of documents of each.
        file: The vectors of all their documents.
    """
    starts = accumulate(counts, initial=0)
    return [
        replace(shard, beside=RowsBeside(file, start))
        for shard, start in zip(shards, starts, strict=False)
    ]


def _place(sizes: list[int], offset: int) -> int:
    """Return which of consecutive pieces of these sizes has a byte; the last one beyond the end."""
    ends = list(accumulate(sizes))
    return min(bisect_right(ends, offset), max(len(ends) - 1, 0))


def read_stamp(file: InputFile) -> Stamp:
    """Return the file's size and the time of its last change."""
    with name_read_errors(file):
        status = os.stat(file.path)
    return status.st_size, status.st_mtime_ns


def cut_shards(
    files: Iterable[InputFile], reading: Reading, without: Collection[str] = ()
) -> list[Shard]:
    """Return the shards of all files, in order.

    Args:
        files: The input files.
        reading: How they are read.
        without: Names of files to leave out; the cuts between the others do not change.
    """
    size = reading.shard
    shards: list[Shard] = []
    small: list[tuple[InputFile, Stamp]] = []
    total = count = 0

    def flush() -> None:
        nonlocal total, count
        if small:
            group, stamps = zip(*small, strict=True)
            shards.append(Shard(group, stamps, reading))
        small.clear()
        total = count = 0

    for file in files:
        left_out = file.name in without
        stamp = _stamp_or_zero(file) if left_out else read_stamp(file)
        if total + stamp[0] > size or count == _MAX_FILES:
            flush()
        if stamp[0] <= size:
            total, count = total + stamp[0], count + 1
            small += [] if left_out else [(file, stamp)]
        elif not left_out:
            parts = _parts(file, stamp[0], size)
            shards.extend(Shard((file,), (stamp,), reading, part) for part in parts)
    flush()
    return shards


def _stamp_or_zero(file: InputFile) -> Stamp:
    """Return the stamp of a file, zeros if it can't be read."""
    with suppress(InputError):
        return read_stamp(file)
    return 0, 0


def _parts(file: InputFile, stored: int, size: int) -> Iterator[tuple[int, int] | None]:
    if file.row.cut_by == BYTE_RANGES and file.can_be_cut:
        yield from ((start, min(start + size, stored)) for start in range(0, stored, size))
    elif file.can_be_cut:
        yield from _grouped(row_group_sizes(file), size)
    else:
        yield None  # can be read only from the beginning


def _grouped(sizes: list[int], size: int) -> Iterator[tuple[int, int]]:
    first = total = 0
    for number, stored in enumerate(sizes):
        total += stored
        if total >= size:
            yield first, number + 1
            first, total = number + 1, 0
    if first < len(sizes) or not sizes:
        yield first, len(sizes)
