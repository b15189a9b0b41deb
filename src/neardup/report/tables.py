"""What is in a run's tables that is worth showing? Read so that memory does not grow with rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from neardup.errors import FormatError

Row = dict[str, Any]

BATCH: Final = 1 << 16
MAY_BE_NULL: Final = {"text"}


class Table:
    """A Parquet table of a run, read a batch at a time and only the columns that are needed."""

    def __init__(self, path: Path, schema: pa.Schema, rows: int | None = None) -> None:
        self._path = path
        with self._reading():
            # Opened by bytes: a folder's name need not be UTF-8.
            self._file = pq.ParquetFile(pa.OSFile(os.fsencode(path), "rb"))
            columns, there = self._file.schema_arrow, self._file.metadata.num_rows
        if any(field not in columns for field in schema):
            raise self._damaged("its columns are not those of such a table")
        if rows is not None and rows != there:
            raise self._damaged(f"it has {there:,} rows, run.json says {rows:,}")

    def numbers(self, column: str) -> Iterator[NDArray[Any]]:
        """A column of numbers, in order, a batch at a time."""
        for group, _, _ in self._groups():
            for batch in self._batches(group, BATCH, [column]):
                if batch.column(0).null_count:
                    raise self._damaged("a value is missing")
                # Not to_numpy: it imports pandas wherever that is installed.
                yield np.from_dlpack(batch.column(0))

    def first(self, count: int) -> list[Row]:
        """The first rows."""
        return list(islice(self.each(), count))

    def each(self) -> Iterator[Row]:
        """The rows one by one: they may be large."""
        for group, _, _ in self._groups():
            for batch in self._batches(group, 1):
                yield self._row(batch, 0)

    def at(self, positions: Sequence[int]) -> list[Row]:
        """The rows at these positions, in their order."""
        found: dict[int, Row] = {}
        for group, start, stop in self._groups():
            here = [position for position in positions if start <= position < stop]
            for batch in self._batches(group, BATCH) if here else ():
                stop = start + len(batch)
                found |= {p: self._row(batch, p - start) for p in here if start <= p < stop}
                start = stop
        return [found[position] for position in positions]

    def _batches(
        self, group: int, size: int, columns: list[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        # One row group a call: of several, PyArrow reads all ahead.
        with self._reading():
            yield from self._file.iter_batches(
                size, row_groups=[group], columns=columns, use_threads=False
            )

    def _row(self, batch: pa.RecordBatch, place: int) -> Row:
        with self._reading():
            row: Row = batch.slice(place, 1).to_pylist()[0]
        if any(value is None for name, value in row.items() if name not in MAY_BE_NULL):
            raise self._damaged("a value is missing")
        return row

    def _groups(self) -> Iterator[tuple[int, int, int]]:
        """Each row group with the positions where it begins and ends."""
        start = 0
        for group in range(self._file.num_row_groups):
            stop = start + self._file.metadata.row_group(group).num_rows
            yield group, start, stop
            start = stop

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise self._damaged("it is missing") from None
        except (OSError, pa.ArrowException, BufferError, UnicodeDecodeError) as error:
            raise self._damaged(type(error).__name__) from None

    def _damaged(self, why: str) -> FormatError:
        return FormatError(f"{self._path} is damaged ({why}): run neardup dedup again")


# Hundredths, each with its lower edge; exactly 1 has the last bin for itself.
SIMILARITIES: Final = np.append(np.arange(101) / 100, np.nextafter(1.0, 2.0))


def similarity_counts(batches: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    """How many values are in each bin of `SIMILARITIES`."""
    total = np.zeros(len(SIMILARITIES) - 1, np.int64)
    for values in batches:
        total += np.histogram(values, SIMILARITIES)[0]
    return total


def size_counts(batches: Iterable[NDArray[Any]]) -> dict[tuple[int, int], int]:
    """How many clusters have 2 documents, 3 to 4, 5 to 8, and so on, up to the largest."""
    total = np.zeros(65, np.int64)
    for sizes in batches:
        total += np.bincount(np.frexp(sizes - 1)[1], minlength=len(total))
    last = int(np.flatnonzero(total).max(initial=0))
    return {((1 << n - 1) + 1, 1 << n): int(total[n]) for n in range(1, last + 1)}


def smallest(batches: Iterable[NDArray[Any]], count: int) -> list[int]:
    """The positions of the smallest values, in order; the first ones where values are equal."""
    best, places, start = np.empty(0), np.empty(0, np.int64), 0
    for values in batches:
        # Of equal values the earlier one wins, so only smaller ones can matter once it is full.
        near = np.flatnonzero(values < best[-1]) if len(best) == count else np.arange(len(values))
        best, places = np.append(best, values[near]), np.append(places, near + start)
        order = np.argsort(best, kind="stable")[:count]
        best, places, start = best[order], places[order], start + len(values)
    return [int(place) for place in places]
