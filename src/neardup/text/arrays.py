"""Rows of different lengths in the form that kernels use: one flat array and int64 offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from neardup import kernels


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths; row i is data[offsets[i] : offsets[i + 1]]."""

    data: NDArray[Any]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The length of each row."""
        return np.diff(self.offsets)

    def take(self, rows: NDArray[np.int64]) -> Ragged:
        """Return a copy of the named rows, in the order of `rows`."""
        each = self.data.itemsize
        sizes = self.sizes[rows]
        out = np.empty(sizes.sum(), self.data.dtype)
        kernels.copy_rows(
            self.data.view(np.uint8), self.offsets[rows] * each, sizes * each, out.view(np.uint8)
        )
        return Ragged(out, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def view_strings(array: pa.Array) -> Ragged:
    """Return the bytes of a large_string column, without a copy; nulls are empty."""
    if array.null_count:
        array = array.fill_null("")
    _, offsets, data = array.buffers()
    if not len(array):
        return Ragged(np.empty(0, np.uint8), np.zeros(1, np.int64))
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return Ragged(np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), ends)


def view_integers(array: pa.Array) -> Ragged:
    """Return the values of a large_list<int64> column; null lists are empty."""
    sizes = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    values = array.flatten().to_numpy(zero_copy_only=False)
    return Ragged(values, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
