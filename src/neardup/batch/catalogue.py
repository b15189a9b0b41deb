"""Where does each document come from, and what is it called?"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from neardup.corpus.inputs import InputFile
from neardup.corpus.read import Chunk
from neardup.corpus.values import strings
from neardup.formats.tables import TEXT, column

Integers = NDArray[np.int64]


@dataclass
class Catalogue:
    """The documents of all files, file by file, in input order."""

    files: list[InputFile]
    rows: list[int] = field(default_factory=list)
    ids: list[pa.Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = [0] * len(self.files)
        self._number = {file.path: place for place, file in enumerate(self.files)}

    def add(self, chunk: Chunk, ids: pa.Array) -> None:
        """Take in the ids of the next chunk; of several files, each is one document."""
        self.ids.append(ids)
        each = len(ids) if len(chunk.files) == 1 else 1
        for file in chunk.files:
            self.rows[self._number[file.path]] += each

    @property
    def starts(self) -> Integers:
        """The number of each file's first document, and of all documents."""
        return np.concatenate([[0], np.cumsum(self.rows)]).astype(np.int64)

    def place(self, documents: Integers) -> tuple[pa.Array, pa.Array]:
        """The file's name and the row in it of each document."""
        starts = self.starts
        file = np.searchsorted(starts, documents, side="right") - 1
        names = strings([file.name for file in self.files])
        return names.take(column(file)), column(documents - starts[file])

    def names(self, documents: Integers) -> pa.Array:
        """The id of each document: its own, or file:row."""
        own = pa.chunked_array(self.ids, TEXT).take(column(documents)).combine_chunks()
        if own.null_count == 0:
            return own
        files, rows = (part.to_pylist() for part in self.place(documents))
        places = [f"{file}:{row}" for file, row in zip(files, rows, strict=True)]
        return pc.coalesce(own, strings(places))
