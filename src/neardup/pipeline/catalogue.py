"""Locate rows in the input files, and name documents by their own id or by file:row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class RowPlaces:
    """The files' names, and the number of each one's first row, and of all rows."""

    files: pa.Array
    starts: Integers

    def of(self, rows: Integers) -> tuple[pa.Array, pa.Array]:
        """The file's name and the place in it of each row."""
        file = np.searchsorted(self.starts, rows, side="right") - 1
        return self.files.take(to_arrow(file)), to_arrow(rows - self.starts[file])

    def name_documents(self, own: pa.Array, rows: Integers) -> pa.Array:
        """The ids of documents: their own, or file:row."""
        own = own.cast(pa.large_string())
        if own.null_count == 0:
            return own
        files, places = (part.to_pylist() for part in self.of(rows))
        names = [f"{file}:{row}" for file, row in zip(files, places, strict=True)]
        return pc.coalesce(own, make_strings(names))


def list_files(
    shards: Iterable[Shard], rows: Iterable[Iterable[int]], earlier: int
) -> tuple[list[InputFile], Integers, int]:
    """The files of some shards, the first row of each and the number of all rows; and which is the
    first file of shard `earlier`. `rows` says how many each file of each shard has."""
    files: list[InputFile] = []
    counts: list[int] = []
    new = 0
    for number, (shard, of_files) in enumerate(zip(shards, rows, strict=True)):
        new = len(files) if number == earlier else new
        for file, count in zip(shard.files, of_files, strict=True):
            if len(files) > new and files[-1] == file:
                counts[-1] += count  # the next part of a large one
            else:
                files.append(file)
                counts.append(count)
    return files, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), new


Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Catalogue:
    """The rows of all files, file by file, in input order; and which documents they are.

    starts  the number of each file's first row, and of all rows
    new     the first file that is not of an earlier corpus
    parts   if documents have several rows: which
    """

    sketches: Sketches
    files: list[InputFile]
    starts: Integers
    new: int
    parts: DocumentRows | None = None

    @classmethod
    def of(cls, sketches: Sketches, parts: DocumentRows | None = None) -> Catalogue:
        rows = (file.note["rows"] for file in sketches.files)
        files, starts, new = list_files(sketches.shards, rows, sketches.earlier)
        return cls(sketches, files, starts, new, parts)

    @cached_property
    def places(self) -> RowPlaces:
        """Where each row is."""
        return RowPlaces(make_strings([file.name for file in self.files]), self.starts)

    def place(self, documents: Integers) -> tuple[pa.Array, pa.Array]:
        """The file's name and the row in it of each document, of its first row."""
        return self.places.of(self.first_rows(documents))

    def names(self, documents: Integers) -> pa.Array:
        """The id of each document: its own, or file:row."""
        rows = self.first_rows(documents)
        wanted, back = np.unique(rows, return_inverse=True)
        # Without pa.chunked_array and pa.array, which import pandas for nothing.
        own = pa.concat_arrays([make_strings([]), *self._ids(wanted)]).take(
            to_arrow(back.reshape(-1))
        )
        return self.places.name_documents(own, rows)

    def first_rows(self, documents: Integers) -> Integers:
        return documents if self.parts is None else self.parts.first_rows(documents)

    def rows_kept(self, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which rows stay, if these documents do."""
        return kept if self.parts is None else kept[self.parts.document]

    def _ids(self, documents: Integers) -> Iterator[pa.Array]:
        """The ids of some documents in ascending order, block by block."""
        for block in self.sketches.blocks:
            begin, end = np.searchsorted(documents, [block.start, block.end])
            if begin < end:
                yield block.arrow("ids").take(to_arrow(documents[begin:end] - block.start))
