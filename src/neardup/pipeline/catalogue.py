"""Locate rows in the input files, and name documents by their own id or by file:row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from neardup.corpus.documents import make_strings
from neardup.corpus.inputs import InputFile
from neardup.corpus.shards import Shard
from neardup.formats.tables import to_arrow
from neardup.pipeline.merge_rows import DocumentRows
from neardup.pipeline.sketch_files import Sketches
from neardup.pipeline.stored_shards import StoredShard


@dataclass(frozen=True)
class RowPlaces:
    """The names of the files; the number of each file's first row, and the count of all rows.

    `stored` has for a store among the files, by its place, the numbers of its documents there.
    """

    files: pa.Array
    starts: Integers
    stored: dict[int, Integers] = field(default_factory=dict)

    def of(self, rows: Integers) -> tuple[pa.Array, pa.Array]:
        """Return for each row the name of its file, and its number in the file."""
        file = np.searchsorted(self.starts, rows, side="right") - 1
        row = rows - self.starts[file]
        for place, numbers in self.stored.items():
            row[file == place] = numbers[row[file == place]]
        return self.files.take(to_arrow(file)), to_arrow(row)

    def name_documents(self, own: pa.Array, rows: Integers) -> pa.Array:
        """Return the names of documents: their own ids, or file:row where `own` is null."""
        own = own.cast(pa.large_string())
        if own.null_count == 0:
            return own
        files, places = (part.to_pylist() for part in self.of(rows))
        names = [f"{file}:{row}" for file, row in zip(files, places, strict=True)]
        return pc.coalesce(own, make_strings(names))


def list_files(
    shards: Iterable[Shard], rows: Iterable[Iterable[int]], earlier: int
) -> tuple[list[InputFile], Integers, int]:
    """Return the files of all shards, the number of each file's first row and of all rows, and the
    index of the first file of shard number `earlier`.

    `rows` has for each shard the number of rows of each of its files.
    """
    files: list[InputFile] = []
    counts: list[int] = []
    new = 0
    for number, (shard, file_rows) in enumerate(zip(shards, rows, strict=True)):
        new = len(files) if number == earlier else new
        for file, count in zip(shard.files, file_rows, strict=True):
            if len(files) > new and files[-1] == file:
                counts[-1] += count  # the next part of a large file
            else:
                files.append(file)
                counts.append(count)
    return files, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), new


Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Catalogue:
    """The rows of all files in input order, and the documents that they belong to.

    starts  the number of each file's first row, and of all rows
    new     index of the first file that is not of an earlier corpus
    parts   with --merge-rows: the rows of each document
    """

    sketches: Sketches
    files: list[InputFile]
    starts: Integers
    new: int
    parts: DocumentRows | None = None

    @classmethod
    def of(cls, sketches: Sketches, parts: DocumentRows | None = None) -> Catalogue:
        """Make the catalogue of all rows that were sketched."""
        rows = (file.note["rows"] for file in sketches.files)
        files, starts, new = list_files(sketches.shards, rows, sketches.earlier)
        return cls(sketches, files, starts, new, parts)

    @cached_property
    def places(self) -> RowPlaces:
        """The file and the number in it of each row."""
        stored = {
            self.files.index(shard.files[0]): shard.numbers
            for shard in self.sketches.shards
            if isinstance(shard, StoredShard)
        }
        return RowPlaces(make_strings([file.name for file in self.files]), self.starts, stored)

    def place(self, documents: Integers) -> tuple[pa.Array, pa.Array]:
        """Return the file name and the row number of each document's first row."""
        return self.places.of(self.first_rows(documents))

    def names(self, documents: Integers) -> pa.Array:
        """Return the name of each document: its own id, or file:row."""
        rows = self.first_rows(documents)
        distinct, positions = np.unique(rows, return_inverse=True)
        # Not by pa.chunked_array or pa.array, which import pandas for nothing.
        own = pa.concat_arrays([make_strings([]), *self._ids(distinct)]).take(
            to_arrow(positions.reshape(-1))
        )
        return self.places.name_documents(own, rows)

    def first_rows(self, documents: Integers) -> Integers:
        """Return the first row of each document."""
        return documents if self.parts is None else self.parts.first_rows(documents)

    def documents_of(self, rows: Integers) -> Integers:
        """Return the document that each row belongs to."""
        return rows if self.parts is None else self.parts.document[rows].astype(np.int64)

    def rows_kept(self, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return for each row whether its document is kept."""
        return kept if self.parts is None else kept[self.parts.document]

    def _ids(self, rows: Integers) -> Iterator[pa.Array]:
        """Yield the ids of rows, which are in ascending order, block by block."""
        for block in self.sketches.blocks:
            begin, end = np.searchsorted(rows, [block.start, block.end])
            if begin < end:
                yield block.arrow("ids").take(to_arrow(rows[begin:end] - block.start))
