"""Vectors beside documents: row i of an .npy file belongs to document i of all inputs, in order.

The file is read, a range of rows at a time, so that it is never in memory as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import Columns, Documents, blank_rows, empty_strings
from neardup.corpus.vectors import MOST_NUMBERS, add_vectors, convert_matrix, with_dimension
from neardup.errors import InputError, UsageError

DAMAGED: Final = (
    *(ValueError, TypeError, OverflowError, MemoryError, RecursionError),
    *(EOFError, SyntaxError, BadZipFile),
)
"""What NumPy raises for a file that is no .npy file, or one with a header of nonsense."""
EMBEDDED_FILE: Final = "embedded.npy"
"""The name of a file, in a work folder, of vectors that a function made."""
_NEAR: Final = 1 << 12
"""Rows with at most so many bytes between them are read together."""
_AT_ONCE: Final = 1 << 24


@dataclass(frozen=True)
class VectorFile:
    """The rows of an .npy file, read as those of an array: by a slice, or by ascending numbers.

    Attributes:
        path: The file.
        kind: The type of its numbers.
        shape: How many rows it has, and how many numbers a row.
        offset: Where in the file the first row begins.
        stamp: The size of the file, and the time of its last change in nanoseconds.
    """

    path: Path
    kind: np.dtype[Any]
    shape: tuple[int, int]
    offset: int
    stamp: tuple[int, int]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> VectorFile:
        """Read the header of a file; raise `InputError` if it is not one of a matrix of numbers.

        Args:
            path: The file.
        """
        path = Path(path)
        try:
            status = path.stat()
            with np.errstate(over="ignore"):
                matrix = np.load(path, mmap_mode="r", allow_pickle=False)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}: check the path") from None
        except DAMAGED:
            raise _not_a_matrix(path, "damaged, or of another format") from None
        if not isinstance(matrix, np.memmap):
            raise _not_a_matrix(path, "an archive of arrays")
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiu" or matrix.dtype.itemsize > 8:
            raise _not_a_matrix(path, f"{matrix.dtype} of shape {matrix.shape}")
        if not matrix.flags.c_contiguous:
            raise _not_a_matrix(path, "stored by columns")
        if not matrix.shape[1]:
            raise _not_a_matrix(path, "rows without numbers")
        if matrix.shape[1] > MOST_NUMBERS:
            raise _not_a_matrix(path, f"rows of more than {MOST_NUMBERS:,} numbers")
        if matrix.offset + matrix.nbytes != status.st_size:
            raise _not_a_matrix(path, "with more bytes than its header states")
        stamp = status.st_size, status.st_mtime_ns
        return cls(path, matrix.dtype, matrix.shape, matrix.offset, stamp)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        if isinstance(rows, slice):
            first, end, _ = rows.indices(len(self))
            ranges = [(first, max(first, end))]
            return self._read(ranges)[0]
        if not len(rows):
            return self._read([(0, 0)])[0]
        near = max(_NEAR // max(self._row_size, 1), 1)
        groups = np.split(rows, np.flatnonzero(np.diff(rows) > near) + 1)
        found = self._read([(int(group[0]), int(group[-1]) + 1) for group in groups])
        parts = [one[group - group[0]] for one, group in zip(found, groups, strict=True)]
        return np.concatenate(parts)

    @property
    def _row_size(self) -> int:
        return self.kind.itemsize * self.shape[1]

    def _read(self, ranges: list[tuple[int, int]]) -> list[NDArray[Any]]:
        """Return ranges of rows; raise `InputError` if the file has changed since it was opened.

        Rows are read, not mapped: where a mapped file is cut off meanwhile, the process is killed.
        """
        try:
            handle = os.open(self.path, os.O_RDONLY)
            try:
                self._check(os.fstat(handle))
                found = [self._read_range(handle, first, end) for first, end in ranges]
                self._check(os.fstat(handle))
                return found
            finally:
                os.close(handle)
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror or error}: check the path") from None

    def _check(self, status: os.stat_result) -> None:
        if (status.st_size, status.st_mtime_ns) != self.stamp:
            raise self._changed()

    def _changed(self) -> InputError:
        return InputError(f"{self.path} has changed during the run: run it again")

    def _read_range(self, handle: int, first: int, end: int) -> NDArray[Any]:
        rows = np.empty((end - first, self.shape[1]), self.kind)
        room, done = rows.reshape(-1).view(np.uint8), 0
        while done < len(room):
            at = self.offset + first * self._row_size + done
            read = os.preadv(handle, [room.data[done : done + _AT_ONCE]], at)
            if not read:
                raise self._changed()
            done += read
        return rows

    def check_count(self, count: int) -> None:
        """Raise `InputError` unless there is a row for each document.

        Args:
            count: The number of documents of all inputs.
        """
        if count != len(self):
            raise InputError(
                f"{self.path} has {len(self):,} vectors for {count:,} documents: it needs a row "
                "for each document of all inputs, in their order, also for those without a text"
            )


class VectorWriter:
    """Writes an .npy file row by row, which gets its name when it is closed.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._beside = path, path.with_name(f".{path.name}.tmp")
        self._count = self._dimension = 0
        handle = os.open(self._beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file = os.fdopen(handle, "wb")

    def add(self, rows: NDArray[np.float32]) -> None:
        """Write more rows; those without numbers become zeros.

        Args:
            rows: The rows: all of one dimension, or of none.
        """
        if rows.shape[1] and not self._dimension:
            self._dimension = rows.shape[1]
            self._write_header()
            self._write_zeros(self._count)
        if rows.shape[1]:
            self._file.write(rows.astype("<f4", copy=False).tobytes())
        else:
            self._write_zeros(len(rows))
        self._count += len(rows)

    def close(self) -> None:
        """Complete the file; without any vector, its rows have one number."""
        if not self._dimension:
            self._dimension = 1
            self._write_header()
            self._write_zeros(self._count)
        self._file.seek(0)
        self._write_header()
        self._file.close()
        self._beside.replace(self._path)

    def _write_zeros(self, count: int) -> None:
        zeros = bytes(4 * self._dimension)
        for _ in range(count if self._dimension else 0):
            self._file.write(zeros)

    def _write_header(self) -> None:
        # NumPy leaves room for any number of rows.
        header = {
            "descr": "<f4",
            "fortran_order": False,
            "shape": (self._count, self._dimension),
        }
        np.lib.format.write_array_header_1_0(self._file, header)


VectorRows: TypeAlias = NDArray[Any] | VectorFile
"""A matrix with a row for each document."""


def _not_a_matrix(path: Path, what: str) -> InputError:
    return InputError(
        f"{path}: not a matrix of numbers ({what}): save one by "
        "numpy.save(path, numpy.ascontiguousarray(vectors, 'float32'))"
    )


def attach_rows(documents: Documents, rows: NDArray[Any], columns: Columns) -> Documents:
    """Return documents with the vectors of these rows; those that have none are rejected.

    Args:
        documents: The documents.
        rows: A row for each of them.
        columns: The columns that were asked for.
    """
    if columns.textless:
        texts = blank_rows(empty_strings(len(documents)), documents.rejected)
        documents = replace(documents, texts=texts)
    return add_vectors(documents, convert_matrix(rows, columns.dimension))


@dataclass(frozen=True)
class RowsBeside:
    """Where the vectors of consecutive documents are.

    Attributes:
        file: The file.
        start: The row of the first document.
    """

    file: VectorFile
    start: int

    @property
    def stated(self) -> list[Any]:
        """What the vectors of documents depend on, for the keys of files that are made of them."""
        return [os.fsencode(self.file.path.absolute()).hex(), self.file.stamp, self.start]

    def attach(
        self, documents: Documents, columns: Columns, rows: NDArray[np.int64] | None = None
    ) -> Documents:
        """Return documents with their vectors.

        Args:
            documents: The documents.
            columns: The columns that were asked for.
            rows: Which of the consecutive documents they are, ascending; by default all.
        """
        if rows is None:
            found = self.file[self.start : self.start + len(documents)]
        else:
            found = self.file[self.start + rows]
        return attach_rows(documents, found, columns)


def attach_all(
    batches: Iterator[Documents], rows: VectorRows, columns: Columns
) -> Iterator[Documents]:
    """Yield the documents with their vectors; an error unless there is a row for each.

    Args:
        batches: All documents, in order.
        rows: Their vectors.
        columns: The columns that were asked for.
    """
    start = 0
    for batch in batches:
        end = start + len(batch)
        if end <= len(rows):
            batch = attach_rows(batch, rows[start:end], columns)
            columns = with_dimension(columns, batch)
            yield batch
        start = end
    if isinstance(rows, VectorFile):
        rows.check_count(start)
    elif start != len(rows):
        raise UsageError(
            f"{len(rows):,} vectors for {start:,} documents: pass a row for each document"
        )
