"""Large sets of numbers as bitmaps, made by many tasks and broadcast to all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from neardup.pipeline.backends.spark.arrow import (
    Batches,
    group_in_arrow,
    make_batch,
    read_rows,
    run_in_arrow,
)

Integers = NDArray[np.int64]
SLICE = 1 << 22
"""Numbers of which one task makes the bits: half a megabyte."""


@dataclass(frozen=True)
class Bitmap:
    """A set of numbers below `size`. Bytes are of eight numbers, the lowest bit first."""

    size: int
    data: NDArray[np.uint8]

    @classmethod
    def none(cls, size: int) -> Bitmap:
        return cls(size, np.zeros((size + 63) // 64 * 8, np.uint8))

    @classmethod
    def of(cls, numbers: Integers, size: int) -> Bitmap:
        marks = np.zeros((size + 63) // 64 * 64, np.uint8)
        marks[numbers] = 1
        return cls(size, np.packbits(marks, bitorder="little"))

    def has(self, numbers: Integers) -> NDArray[np.bool_]:
        """Which of these numbers are in it."""
        found: NDArray[np.bool_] = (self.data[numbers >> 3] >> (numbers & 7) & 1).astype(bool)
        return found

    def __or__(self, other: Bitmap) -> Bitmap:
        return Bitmap(self.size, self.data | other.data)

    def __len__(self) -> int:
        return int(np.bitwise_count(self.data).sum())

    @cached_property
    def _before(self) -> NDArray[np.int64]:
        """How many are in it before each word of 64 bits."""
        counts = np.bitwise_count(self.data.view(np.uint64)).astype(np.int64)
        before: NDArray[np.int64] = np.cumsum(counts) - counts
        return before

    def places(self, numbers: Integers) -> Integers:
        """How many smaller numbers are in it: a dense numbering of those that are."""
        word = numbers >> 6
        below = (np.uint64(1) << (numbers & 63).astype(np.uint64)) - np.uint64(1)
        inside = np.bitwise_count(self.data.view(np.uint64)[word] & below)
        places: Integers = self._before[word] + inside
        return places

    def numbers(self, places: Integers) -> Integers:
        """The numbers with these places: the inverse of `places`, for a few."""
        word = np.searchsorted(self._before, places, side="right") - 1
        bits = np.unpackbits(self.data.reshape(-1, 8)[word], axis=1, bitorder="little")
        inside = np.cumsum(bits, axis=1) > (places - self._before[word])[:, None]
        found: Integers = word * 64 + np.argmax(inside, axis=1)
        return found

    def count_below(self, number: int) -> int:
        """How many of it are smaller than a number."""
        return int(self.places(np.array([number]))[0]) if number < self.size else len(self)

    def slice(self, start: int, end: int) -> NDArray[np.bool_]:
        """Of the numbers from `start` to `end`: which are in it."""
        first = start >> 3
        bits = np.unpackbits(self.data[first : (end + 7) >> 3], bitorder="little")
        return bits[start - 8 * first : end - 8 * first].astype(bool)

    def __getstate__(self) -> tuple[int, NDArray[np.uint8]]:
        return self.size, self.data  # what can be made again is not sent

    def __setstate__(self, state: tuple[int, NDArray[np.uint8]]) -> None:
        object.__setattr__(self, "size", state[0])
        object.__setattr__(self, "data", state[1])


def collect_bitmap(
    frame: DataFrame | pa.Table, numbers: Callable[[pa.RecordBatch], Integers], size: int
) -> Bitmap:
    """All numbers that a function finds in the batches of a frame, or of a table."""
    if isinstance(frame, pa.Table):
        found = [np.empty(0, np.int64), *map(numbers, frame.to_batches())]
        return Bitmap.of(np.concatenate(found), size)

    def sliced(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = np.unique(numbers(batch))
            slices = found // SLICE
            starts = np.flatnonzero(np.diff(slices, prepend=-1))
            lows = (found % SLICE).astype(np.uint32)
            ends = np.append(starts[1:], len(found))
            yield make_batch(
                slice=slices[starts].astype(np.int32),
                lows=[lows[a:b].tobytes() for a, b in zip(starts, ends, strict=True)],
            )

    def packed(table: pa.Table) -> pa.Table:
        marks = np.zeros(SLICE, np.uint8)
        for batch in table.to_batches():
            marks[read_rows(batch.column("lows"), np.uint32).data] = 1
        number = table.column("slice")[0].as_py()
        data = np.packbits(marks, bitorder="little").tobytes()
        return pa.Table.from_batches([make_batch(slice=np.array([number], np.int32), data=[data])])

    sent = run_in_arrow(frame, sliced, "slice int, lows binary")
    collected = group_in_arrow(sent, "slice", packed, "slice int, data binary").toArrow()
    bits = Bitmap.none(size)
    for number, data in zip(*(column.to_pylist() for column in collected.columns), strict=True):
        start = number * SLICE // 8
        here = np.frombuffer(data, np.uint8)[: len(bits.data) - start]
        bits.data[start : start + len(here)] = here
    return bits
