"""Where does each document come from, and what is it called?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from neardup.batch.parts import Parts
from neardup.batch.sketches import Sketches
from neardup.corpus.inputs import InputFile
from neardup.corpus.values import strings
from neardup.formats.tables import column

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
    parts: Parts | None = None

    @classmethod
    def of(cls, sketches: Sketches, parts: Parts | None = None) -> Catalogue:
        files: list[InputFile] = []
        counts: list[int] = []
        new = 0
        for number, (shard, sketched) in enumerate(
            zip(sketches.shards, sketches.files, strict=True)
        ):
            new = len(files) if number == sketches.earlier else new
            for file, rows in zip(shard.files, sketched.note["rows"], strict=True):
                if len(files) > new and files[-1] == file:
                    counts[-1] += rows  # the next part of a large one
                else:
                    files.append(file)
                    counts.append(rows)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(sketches, files, starts, new, parts)

    def place(self, documents: Integers) -> tuple[pa.Array, pa.Array]:
        """The file's name and the row in it of each document, of its first row."""
        documents = self.first_rows(documents)
        file = np.searchsorted(self.starts, documents, side="right") - 1
        names = strings([file.name for file in self.files])
        return names.take(column(file)), column(documents - self.starts[file])

    def names(self, documents: Integers) -> pa.Array:
        """The id of each document: its own, or file:row."""
        wanted, back = np.unique(self.first_rows(documents), return_inverse=True)
        # Without pa.chunked_array and pa.array, which import pandas for nothing.
        own = pa.concat_arrays([strings([]), *self._ids(wanted)]).take(column(back.reshape(-1)))
        if own.null_count == 0:
            return own
        files, rows = (part.to_pylist() for part in self.place(documents))
        places = [f"{file}:{row}" for file, row in zip(files, rows, strict=True)]
        return pc.coalesce(own, strings(places))

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
                yield block.arrow("ids").take(column(documents[begin:end] - block.start))
