"""Which rows stay? A keep list, used up while a file is read again; and its use on a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import InputFile
from neardup.corpus.source import changed
from neardup.corpus.values import booleans
from neardup.corpus.views import PLAIN, as_plain

Mask = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Advance = Callable[[int], None]  # told how many rows are done


@dataclass(frozen=True)
class Edit:
    """Another text for some of the rows that stay.

    changed   which rows
    columns   where the texts are
    rewrite   from such rows, in ascending order, and their texts to the new texts; from threads
    """

    changed: Mask
    columns: Columns
    rewrite: Callable[[Integers, pa.Array], pa.Array]


class Rows:
    """The keep list of a file, one entry a row, taken from its front. `next` is the first one."""

    def __init__(
        self, file: InputFile, keep: Mask, advance: Advance, workers: int, edit: Edit | None
    ) -> None:
        self.file, self.workers, self.edit = file, workers, edit
        self._keep, self.next, self._advance = keep, 0, advance

    def take(self, count: int) -> Mask:
        """Which of the next `count` rows to keep."""
        mask = self._keep[self.next : self.next + count]
        self.next += count
        if len(mask) < count:
            raise changed(self.file)
        self._advance(count)
        return mask

    def check_end(self) -> None:
        """All rows must have been taken."""
        if self.next != len(self._keep):
            raise changed(self.file)


def filtered(batch: pa.RecordBatch, keep: Mask) -> pa.RecordBatch:
    """The rows of the batch where `keep` is true."""
    columns = [filtered_column(column, keep) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def filtered_column(column: pa.Array, keep: Mask) -> pa.Array:
    """The same for one column, of any Arrow type."""
    if column.type in PLAIN:
        # PyArrow cannot filter views (apache/arrow#43010); this also leaves behind the bytes of
        # the rows that go.
        return filtered_column(as_plain(column), keep).cast(column.type)
    try:
        return column.filter(booleans(keep))
    except pa.ArrowNotImplementedError:  # views inside lists, run-end encoding
        edges = np.flatnonzero(np.diff(keep, prepend=False, append=False)).tolist()
        runs = [column.slice(a, b - a) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        return pa.concat_arrays(runs) if runs else column.slice(0, 0)
