"""Convert vectors to one float32 matrix: from Arrow columns, Python lists, NumPy arrays.

A row that is no vector is rejected, with a reason, and is zeros in the matrix. Numbers of 64 bits
are rounded to float32, once and the same way wherever they come from; shorter ones are converted
exactly.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.documents import (
    Columns,
    Documents,
    blank_rows,
    empty_strings,
    is_null,
    make_strings,
)
from neardup.errors import UsageError

MOST_NUMBERS: Final = 1 << 16
"""The numbers of the longest vectors."""
VECTOR_IS_NULL: Final = "vector is null"
NO_NUMBERS: Final = "vector is not a list of numbers"
NOT_FINITE: Final = "vector has a NaN or an infinity"
ALL_ZEROS: Final = "vector is all zeros"

Matrix = NDArray[np.float32]


class ConvertedVectors(NamedTuple):
    """Vectors that were read.

    Args:
        matrix: A row for each, zeros where rejected; without columns if there is no usable vector
            and the dimension is not known.
        rejected: Row -> reason, in row order.
    """

    matrix: Matrix
    rejected: dict[int, str]


@dataclass(frozen=True)
class _Lists:
    """Lists of numbers of any lengths: row i is numbers[starts[i] : starts[i] + sizes[i]]."""

    numbers: NDArray[Any]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    rejected: dict[int, str]

    def find_dimension(self) -> int | None:
        """Return how many numbers the first usable row has, None if there is none."""
        for row in range(len(self.sizes)):
            if row not in self.rejected and _judge(self._row(row)) is None:
                return int(self.sizes[row])
        return None

    def fill(self, dimension: int) -> ConvertedVectors:
        """Return the rows that have so many numbers; the others are rejected."""
        reasons = dict(self.rejected)
        for row in np.flatnonzero(self.sizes != dimension).tolist():
            reasons.setdefault(row, _wrong_size(int(self.sizes[row]), dimension))
        block = to_float32(self._gather(dimension, reasons))
        with np.errstate(invalid="ignore"):
            finite = np.isfinite(block).all(axis=1)
        for row in np.flatnonzero(~finite).tolist():
            reasons.setdefault(row, NOT_FINITE)
        for row in np.flatnonzero(~block.any(axis=1)).tolist():
            reasons.setdefault(row, ALL_ZEROS)
        return ConvertedVectors(clear_rows(block, list(reasons)), dict(sorted(reasons.items())))

    def judge(self) -> ConvertedVectors:
        """Return the reasons for which no row is usable."""
        reasons = dict(self.rejected)
        for row in range(len(self.sizes)):
            if row not in reasons:
                reasons[row] = _judge(self._row(row)) or NO_NUMBERS
        return ConvertedVectors(
            np.zeros((len(self.sizes), 0), np.float32), dict(sorted(reasons.items()))
        )

    def _row(self, row: int) -> Matrix:
        start = self.starts[row]
        return to_float32(self.numbers[start : start + self.sizes[row]])

    def _gather(self, dimension: int, rejected: dict[int, str]) -> NDArray[Any]:
        """Return the rows as a matrix: without a copy if they follow one another."""
        count = len(self.sizes)
        even = self.starts[0] + np.arange(count) * dimension if count else self.starts
        end = int(even[-1]) + dimension if count else 0
        if np.array_equal(even, self.starts) and end <= len(self.numbers):
            start = int(even[0]) if count else 0
            return self.numbers[start:end].reshape(count, dimension)
        matrix = np.zeros((count, dimension), self.numbers.dtype)
        usable = np.ones(count, bool)
        usable[list(rejected)] = False
        if usable.any():
            windows = np.lib.stride_tricks.sliding_window_view(self.numbers, dimension)
            matrix[usable] = windows[self.starts[usable]]
        return matrix


def convert_column(
    column: pa.Array | pa.ChunkedArray, dimension: int | None = None
) -> ConvertedVectors | None:
    """Return the vectors of an Arrow column; None if its type is not one of lists of numbers.

    Args:
        column: Lists, lists of one size, or tensors.
        dimension: How many numbers a vector has; None if the first usable one tells.
    """
    if not _is_vectors(column.type):
        return None
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return _fill_all([_read_lists(chunk) for chunk in chunks], dimension)


def convert_values(values: Sequence[Any], dimension: int | None = None) -> ConvertedVectors:
    """Return the vectors of Python objects: lists, tuples, NumPy arrays and what converts to them.

    Args:
        values: The objects.
        dimension: How many numbers a vector has; None if the first usable one tells.
    """
    found = [_read_value(value) for value in values]
    rows = [_NONE if isinstance(row, str) else row for row in found]
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    numbers = np.concatenate([_NONE, *rows])
    rejected = {row: why for row, why in enumerate(found) if isinstance(why, str)}
    return _fill_all([_Lists(numbers, np.cumsum(sizes) - sizes, sizes, rejected)], dimension)


def convert_matrix(matrix: NDArray[Any], dimension: int | None = None) -> ConvertedVectors:
    """Return the rows of a matrix of numbers as vectors.

    Args:
        matrix: The matrix.
        dimension: How many numbers a vector has; None if the first usable one tells.
    """
    count, width = matrix.shape
    sizes = np.full(count, width, np.int64)
    numbers = np.ascontiguousarray(matrix).reshape(-1)
    return _fill_all([_Lists(numbers, np.arange(count) * width, sizes, {})], dimension)


def add_vectors(documents: Documents, vectors: ConvertedVectors) -> Documents:
    """Return documents with their vectors; those that have none are rejected.

    Args:
        documents: The documents, whose reasons for rejection come first.
        vectors: Their vectors.
    """
    rejected = vectors.rejected | documents.rejected
    return replace(
        documents,
        texts=blank_rows(documents.texts, vectors.rejected),
        vectors=clear_rows(vectors.matrix, list(documents.rejected)),
        rejected=dict(sorted(rejected.items())),
    )


def bare_documents(vectors: ConvertedVectors) -> Documents:
    """Return documents that are their vectors, without ids."""
    count = len(vectors.matrix)
    return add_vectors(
        Documents(empty_strings(count), make_strings([None] * count), None, None, {}), vectors
    )


def with_dimension(columns: Columns, documents: Documents) -> Columns:
    """Return the columns with the dimension of documents, if one of their vectors is usable."""
    width = 0 if documents.vectors is None else documents.vectors.shape[1]
    return replace(columns, dimension=width) if width else columns


def alike(batches: Iterable[Documents], columns: Columns) -> Iterator[Documents]:
    """Yield batches whose vectors have one dimension; an error if no vector is usable.

    Those before the first usable vector are held back until it is known.

    Args:
        batches: The documents; those after the first usable vector have its dimension.
        columns: The columns that they were read by.
    """
    held: list[Documents] = []
    reasons: Counter[str] = Counter()
    for batch in batches:
        found = with_dimension(columns, batch).dimension
        if found is None:
            held.append(batch)
            reasons.update(batch.rejected.values())
            continue
        for early in held:
            yield replace(early, vectors=np.zeros((len(early), found), np.float32))
        held.clear()
        yield batch
    if held:
        raise no_vector_error(reasons, columns)


def no_vector_error(reasons: Mapping[str, int], columns: Columns) -> UsageError:
    """Return the error for data in which no vector is usable.

    Args:
        reasons: How many documents were rejected, by reason.
        columns: The columns that were asked for.
    """
    common = max(reasons, key=reasons.__getitem__)
    return UsageError(
        f"no document has a vector in {columns.vectors!r} (of {sum(reasons.values()):,}, "
        f"{reasons[common]:,}: {common}): choose a column of lists of numbers"
    )


def clear_rows(matrix: Matrix, rows: Sequence[int]) -> Matrix:
    """Return a matrix with zeros in these rows: a copy, unless there are none."""
    if not rows:
        return matrix
    matrix = matrix.copy()
    matrix[rows] = 0
    return matrix


def _fill_all(parts: Sequence[_Lists], dimension: int | None) -> ConvertedVectors:
    """Return the rows of all parts, one after the other."""
    if dimension is None:
        dimension = next((size for part in parts if (size := part.find_dimension())), None)
    found = [part.judge() if dimension is None else part.fill(dimension) for part in parts]
    if len(found) == 1:
        return found[0]
    rejected: dict[int, str] = {}
    start = 0
    for part in found:
        rejected |= {start + row: why for row, why in part.rejected.items()}
        start += len(part.matrix)
    empty = np.zeros((0, dimension or 0), np.float32)
    return ConvertedVectors(np.concatenate([empty, *(part.matrix for part in found)]), rejected)


def _judge(row: Matrix) -> str | None:
    """Return why a list of numbers is no vector of any dimension, None if it is one."""
    if not len(row):
        return NO_NUMBERS
    if len(row) > MOST_NUMBERS:
        return f"vector has {len(row)} numbers, more than {MOST_NUMBERS}"
    if not np.isfinite(row).all():
        return NOT_FINITE
    return None if row.any() else ALL_ZEROS


def _wrong_size(size: int, dimension: int) -> str:
    return f"vector has {size} numbers, not {dimension}"


def to_float32(numbers: NDArray[Any]) -> Matrix:
    """Return numbers as float32, the only way in which they are rounded to it.

    Args:
        numbers: Floats or integers; those that are too large become infinite.
    """
    if numbers.dtype.kind in "iu" and numbers.dtype.itemsize == 8:
        # By way of float64, as numbers of JSON and of Python are, so that all round alike.
        numbers = numbers.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return numbers.astype(np.float32, copy=False)


def _is_vectors(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _is_vectors(kind.storage_type)
    types = pa.types
    if types.is_null(kind):
        return True
    # Not list_view: PyArrow 26 casts it to empty lists.
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return False
    inner = kind.value_type
    return bool(types.is_floating(inner) or types.is_integer(inner) or types.is_null(inner))


def _read_lists(chunk: pa.Array) -> _Lists:
    """Return the lists of a chunk, without a copy of their numbers."""
    while isinstance(chunk, pa.ExtensionArray):
        chunk = chunk.storage
    count, kind = len(chunk), chunk.type
    absent = np.flatnonzero(_mask(chunk.is_null())) if chunk.null_count else ()
    rejected = dict.fromkeys(map(int, absent), VECTOR_IS_NULL)
    if pa.types.is_null(kind):
        zeros = np.zeros(count, np.int64)
        return _Lists(_NONE, zeros, zeros, rejected)
    if pa.types.is_fixed_size_list(kind):
        starts = (chunk.offset + np.arange(count)) * kind.list_size
        sizes = np.full(count, kind.list_size, np.int64)
    else:
        offsets = chunk.offsets.to_numpy().astype(np.int64)
        starts, sizes = offsets[:-1], np.diff(offsets)
    values = chunk.values
    if values.null_count:
        before = np.concatenate([[0], np.cumsum(_mask(values.is_null()))])
        for row in np.flatnonzero(before[starts + sizes] > before[starts]).tolist():
            rejected.setdefault(row, NO_NUMBERS)
    return _Lists(_view_numbers(values), starts, sizes, rejected)


def _mask(column: pa.Array) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = column.to_numpy(zero_copy_only=False)
    return mask


def _view_numbers(values: pa.Array) -> NDArray[Any]:
    """Return the numbers of a column, any number where it is null."""
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.float32)
    data = values.buffers()[1]
    if data is None:
        return _NONE
    numbers: NDArray[Any] = np.frombuffer(data, values.type.to_pandas_dtype())
    return numbers[values.offset : values.offset + len(values)]


_NONE: Final[NDArray[np.float64]] = np.empty(0)


def _read_value(value: Any) -> NDArray[np.float64] | str:
    """Return the numbers of a Python object, or why it has none."""
    if not isinstance(value, (list, tuple)):
        if is_null(value):
            return VECTOR_IS_NULL
        if not hasattr(value, "__array__"):
            return NO_NUMBERS
        try:
            value = np.asarray(value)
        except (TypeError, ValueError, RuntimeError):
            return NO_NUMBERS
        if value.ndim != 1 or value.dtype.kind not in "fiuO":
            return NO_NUMBERS
        if value.dtype.kind != "O":
            doubles: NDArray[np.float64] = value.astype(np.float64)
            return doubles
        value = value.tolist()
    try:
        numbers = np.frombuffer(array("d", value)) if value else _NONE
    except (TypeError, ValueError):
        return NO_NUMBERS
    except OverflowError:
        return NOT_FINITE
    # Truth values become 0 and 1: only rows with these numbers need a look at their types.
    may_be_truth = bool(((numbers == 0) | (numbers == 1)).any())
    if may_be_truth and any(isinstance(number, (bool, np.bool_)) for number in value):
        return NO_NUMBERS
    return numbers
