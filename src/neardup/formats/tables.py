"""The schemas of the tables of a finished run, and writers of Parquet, JSON and text files."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from neardup.errors import OutputError

TEXT, ROW = pa.large_string(), pa.int64()
GROUP_ROWS = 1 << 16

REMOVED = pa.schema(
    [
        ("id", TEXT),
        ("file", TEXT),
        ("row", ROW),
        ("witness", TEXT),
        ("witness_file", TEXT),
        ("witness_row", ROW),
        ("similarity", pa.float64()),
        ("exact", pa.bool_()),
        ("cluster", ROW),
    ]
)
# With --decisions: also those because of which a document is removed; null if there are none.
REMOVED_DECIDED = REMOVED.append(pa.field("decision", TEXT))
# With two signals: the cosine, and which of them removed a document; both numbers, where known.
SIGNALS = (pa.field("cosine", pa.float64()), pa.field("by", TEXT))
# The documents that decisions name; the witness and the similarity of removed ones; the decisions.
DECIDED = pa.schema(
    [
        ("id", TEXT),
        ("file", TEXT),
        ("row", ROW),
        ("outcome", TEXT),
        ("witness", TEXT),
        ("similarity", pa.float64()),
        ("decisions", TEXT),
    ]
)
# Kept documents that would be removed without --distinguish or --unless, with the witness that they
# would have; with --unless also the cosine.
VETOED = pa.schema([REMOVED.field(name) for name in REMOVED.names if name != "cluster"])
VETOED_WITH_COSINE = VETOED.append(SIGNALS[0])
CLUSTERS = pa.schema([("cluster", ROW), ("id", TEXT), ("file", TEXT), ("row", ROW), ("size", ROW)])
REJECTED = pa.schema([("id", TEXT), ("file", TEXT), ("row", ROW), ("reason", TEXT)])
# Paragraphs or lines removed from documents: their number, and their bytes with line breaks.
CUT = pa.schema([("id", TEXT), ("file", TEXT), ("row", ROW), ("units", ROW), ("bytes", ROW)])
# Texts of the largest clusters, the kept document first; null if a text can't be read again.
SAMPLES = pa.schema(
    [
        ("cluster", ROW),
        ("id", TEXT),
        ("file", TEXT),
        ("row", ROW),
        ("kept", pa.bool_()),
        ("similarity", pa.float64()),
        ("text", TEXT),
    ]
)
PAIRS = pa.schema([("a", TEXT), ("b", TEXT), ("similarity", pa.float64())])
PAIRS_WITH_COSINE = pa.schema([*PAIRS, ("cosine", pa.float64())])


def to_arrow(values: NDArray[Any] | pa.Array) -> pa.Array:
    """Return a NumPy array as an Arrow column; Arrow columns are returned unchanged.

    Without pa.array, which imports pandas if it is installed: 0.2 s and 40 MB.
    """
    if not isinstance(values, np.ndarray):
        return values
    if values.dtype == bool:
        packed = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(packed)])
    kind = pa.from_numpy_dtype(values.dtype)
    whole = np.ascontiguousarray(values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(whole)])


class TableWriter:
    """Writes a Parquet file, which exists under its name only when it is complete.

    The batches in which rows are added do not change the file.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path, self._schema = path, schema
        self._pending: list[pa.Table] = []
        self._rows = 0
        self._beside = path.with_name(f".{path.name}.tmp")

    def __enter__(self) -> Self:
        try:
            # Opened by bytes: a folder's name need not be UTF-8.
            self._sink = pa.OSFile(os.fsencode(self._beside), "wb")
        except OSError as error:
            raise write_error(self._path, error) from None
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression="zstd")
        return self

    def add(self, columns: dict[str, Any]) -> None:
        """Add rows; `columns` has an array for each column of the schema."""
        arrays = [to_arrow(columns[name]) for name in self._schema.names]
        self._pending.append(pa.Table.from_arrays(arrays, schema=self._schema))
        self._rows += len(self._pending[-1])
        if self._rows >= GROUP_ROWS:
            self._write(self._rows // GROUP_ROWS * GROUP_ROWS)

    def _write(self, count: int) -> None:
        """Write the first `count` pending rows, in row groups of the same size."""
        pending = pa.concat_tables(self._pending).combine_chunks()
        try:
            self._writer.write_table(pending.slice(0, count), row_group_size=GROUP_ROWS)
        except OSError as error:
            raise write_error(self._path, error) from None
        self._pending, self._rows = [pending.slice(count)], self._rows - count

    def __exit__(self, kind: object, error: object, at: object) -> None:
        try:
            with self._sink, self._writer:
                if error is None and self._rows:
                    self._write(self._rows)
            if error is None:
                self._beside.replace(self._path)
        except OSError as failed:
            if error is None:
                raise write_error(self._path, failed) from None
        finally:
            self._beside.unlink(missing_ok=True)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON file, which exists under its name only when it is complete."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if not _encodes(text):  # the name of a file that is not UTF-8
        text = json.dumps(value, indent=2)
    write_text(path, text + "\n")


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file, which exists under its name only when it is complete."""
    beside = path.with_name(f".{path.name}.tmp")
    try:
        beside.write_text(text, "utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise write_error(path, error) from None


def write_error(path: Path, error: OSError) -> OutputError:
    """Return the error for a file that can't be written, with the cure for a full disk."""
    why = os.strerror(error.errno) if error.errno else str(error)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    again = "free some space and run again to resume, or choose another output"
    cure = again if full else "choose another output"
    return OutputError(f"{path} can't be written ({why}): {cure}")
