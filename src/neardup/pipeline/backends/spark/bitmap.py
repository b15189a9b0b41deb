"""Large sets of ranks as bitmaps: made by many tasks, broadcast to all of them.

The bitmap of the candidates' ranks also numbers the candidates densely, in rank order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, StructField, StructType

from neardup.pipeline.backends.spark.arrow import (
    Batches,
    group_in_arrow,
    make_batch,
    read_numbers,
    read_rows,
    run_in_arrow,
)

Integers = NDArray[np.int64]
SLICE = 1 << 22
"""Numbers whose bits one task packs: half a megabyte."""


@dataclass(frozen=True)
class Bitmap:
    """A set of numbers below `size`: a bit each, the lowest bit of a byte first."""

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
        """Return which of these numbers are in the set."""
        members: NDArray[np.bool_] = (self.data[numbers >> 3] >> (numbers & 7) & 1).astype(bool)
        return members

    def __or__(self, other: Bitmap) -> Bitmap:
        return Bitmap(self.size, self.data | other.data)

    def __len__(self) -> int:
        return int(np.bitwise_count(self.data).sum())

    @cached_property
    def _before(self) -> NDArray[np.int64]:
        """The count of members before each word of 64 bits."""
        counts = np.bitwise_count(self.data.view(np.uint64)).astype(np.int64)
        before: NDArray[np.int64] = np.cumsum(counts) - counts
        return before

    def places(self, numbers: Integers) -> Integers:
        """Return how many members are smaller than each number: a dense numbering of members."""
        word = numbers >> 6
        below = (np.uint64(1) << (numbers & 63).astype(np.uint64)) - np.uint64(1)
        inside = np.bitwise_count(self.data.view(np.uint64)[word] & below)
        places: Integers = self._before[word] + inside
        return places

    def numbers(self, places: Integers) -> Integers:
        """Return the members with these places: the inverse of `places`. Slow for very many."""
        word = np.searchsorted(self._before, places, side="right") - 1
        bits = np.unpackbits(self.data.reshape(-1, 8)[word], axis=1, bitorder="little")
        inside = np.cumsum(bits, axis=1) > (places - self._before[word])[:, None]
        members: Integers = word * 64 + np.argmax(inside, axis=1)
        return members

    def count_below(self, number: int) -> int:
        """Return how many members are smaller than a number."""
        return int(self.places(np.array([number]))[0]) if number < self.size else len(self)

    def slice(self, start: int, end: int) -> NDArray[np.bool_]:
        """Return which of the numbers from `start` to before `end` are members."""
        first = start >> 3
        bits = np.unpackbits(self.data[first : (end + 7) >> 3], bitorder="little")
        return bits[start - 8 * first : end - 8 * first].astype(bool)

    def __getstate__(self) -> tuple[int, NDArray[np.uint8]]:
        return self.size, self.data  # without what is cached

    def __setstate__(self, state: tuple[int, NDArray[np.uint8]]) -> None:
        object.__setattr__(self, "size", state[0])
        object.__setattr__(self, "data", state[1])


def collect_bitmap(
    frame: DataFrame | pa.Table, numbers: Callable[[pa.RecordBatch], Integers], size: int
) -> Bitmap:
    """Return the set of all numbers that a function reads from the batches of a frame or table."""
    if isinstance(frame, pa.Table):
        parts = [np.empty(0, np.int64), *map(numbers, frame.to_batches())]
        return Bitmap.of(np.concatenate(parts), size)

    def sliced(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            distinct = np.unique(numbers(batch))
            slices = distinct // SLICE
            starts = np.flatnonzero(np.diff(slices, prepend=-1))
            lows = (distinct % SLICE).astype(np.uint32)
            ends = np.append(starts[1:], len(distinct))
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
        packed_slice = np.frombuffer(data, np.uint8)[: len(bits.data) - start]
        bits.data[start : start + len(packed_slice)] = packed_slice
    return bits


def select_candidates(
    documents: DataFrame, bits: Broadcast[Bitmap], columns: Sequence[str]
) -> DataFrame:
    """Return these columns of the candidates, and `doc`, their number, instead of the rank."""
    needed = documents.select("rank", *columns)
    schema = StructType([*needed.schema.fields[1:], StructField("doc", IntegerType())])
    return run_in_arrow(needed, NumberCandidates(bits), schema)


@dataclass(frozen=True)
class NumberCandidates:
    """In a task: the rows of candidates, with their number `doc` instead of their rank."""

    bits: Broadcast[Bitmap]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ranks = read_numbers(batch, "rank")
            chosen = np.flatnonzero(self.bits.value.has(ranks))
            rows = batch.take(make_batch(at=chosen).column(0))
            doc = self.bits.value.places(ranks[chosen]).astype(np.int32)
            yield make_batch(
                **dict(zip(rows.schema.names[1:], rows.columns[1:], strict=True)), doc=doc
            )


def translate_to_ranks(decided: DataFrame, candidates: Broadcast[Bitmap]) -> DataFrame:
    """Turn (doc, witness, similarity) by candidate number into (rank, witness, similarity)."""
    numbered = decided.select("doc", "witness", "similarity")
    return run_in_arrow(
        numbered, TranslateToRanks(candidates), "rank long, witness long, similarity double"
    )


@dataclass(frozen=True)
class TranslateToRanks:
    """In a task: replace the numbers of candidates by their ranks."""

    candidates: Broadcast[Bitmap]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        ranks = self.candidates.value.numbers
        for batch in batches:
            yield make_batch(
                rank=ranks(read_numbers(batch, "doc")),
                witness=ranks(read_numbers(batch, "witness")),
                similarity=batch.column("similarity"),
            )
