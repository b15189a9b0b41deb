"""Where is a row, and what is its document called, if files are read one after the other?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from neardup.corpus.documents import strings
from neardup.corpus.inputs import InputFile
from neardup.corpus.shards import Shard
from neardup.formats.tables import column

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Places:
    """The files' names, and the number of each one's first row, and of all rows."""

    files: pa.Array
    starts: Integers

    def of(self, rows: Integers) -> tuple[pa.Array, pa.Array]:
        """The file's name and the place in it of each row."""
        file = np.searchsorted(self.starts, rows, side="right") - 1
        return self.files.take(column(file)), column(rows - self.starts[file])

    def named(self, own: pa.Array, rows: Integers) -> pa.Array:
        """The ids of documents: their own, or file:row."""
        own = own.cast(pa.large_string())
        if own.null_count == 0:
            return own
        files, places = (part.to_pylist() for part in self.of(rows))
        names = [f"{file}:{row}" for file, row in zip(files, places, strict=True)]
        return pc.coalesce(own, strings(names))


def listed(
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
