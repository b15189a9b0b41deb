"""Where does each document come from, and what is it called?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.documents import strings
from neardup.corpus.inputs import InputFile
from neardup.formats.tables import column
from neardup.pipeline.parts import Parts
from neardup.pipeline.places import Places, listed
from neardup.pipeline.sketches import Sketches

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
        rows = (file.note["rows"] for file in sketches.files)
        files, starts, new = listed(sketches.shards, rows, sketches.earlier)
        return cls(sketches, files, starts, new, parts)

    @cached_property
    def places(self) -> Places:
        """Where each row is."""
        return Places(strings([file.name for file in self.files]), self.starts)

    def place(self, documents: Integers) -> tuple[pa.Array, pa.Array]:
        """The file's name and the row in it of each document, of its first row."""
        return self.places.of(self.first_rows(documents))

    def names(self, documents: Integers) -> pa.Array:
        """The id of each document: its own, or file:row."""
        rows = self.first_rows(documents)
        wanted, back = np.unique(rows, return_inverse=True)
        # Without pa.chunked_array and pa.array, which import pandas for nothing.
        own = pa.concat_arrays([strings([]), *self._ids(wanted)]).take(column(back.reshape(-1)))
        return self.places.named(own, rows)

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
