"""Saved sketches as Parquet files that any engine can read: a row a document, a file a shard.

The file's metadata has all that a file of blocks has besides its columns:

    neardup.sketches   version of this layout, 1
    neardup.spec       the specification, as canonical JSON; neardup.fingerprint is its fingerprint
    neardup.key        the key of the sketch file
    neardup.notes      the notes of all blocks and of the file, as JSON
    neardup.checksum   XXH3-64 of these values, each with a U+000A behind it

A block is a row group. Pages have checksums, which are verified when they are read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from neardup.errors import FormatError
from neardup.formats.blocks import MADE_ANEW, BlockReader, BlockWriter, Fields
from neardup.formats.tables import to_arrow, write_error
from neardup.framing import checksum
from neardup.pipeline.sketch_files import (
    KEYS,
    PACKED,
    SKETCHES_KIND,
    SLOTS,
    pack_column,
    unpack_column,
)
from neardup.pipeline.stage_files import StageFiles

VERSION: Final = "1"
COPIES_FOLDER: Final = "copies"
ENDING: Final = ".parquet"
STATED: Final = ("sketches", "spec", "fingerprint", "key", "notes")
ROWS: Final = (SLOTS, PACKED, KEYS, "content")
"""Columns of a block with several numbers a document, which are lists in a table."""
COLUMNS: Final = (
    KEYS,
    PACKED,
    SLOTS,
    "content",
    "lengths",
    "apart",
    "distinct",
    "vetoing",
    "rejected",
    "ids",
    "keep",
    "sources",
)
"""The columns of a block, in the order in which they are written."""
ARROW: Final = ("ids", "keep", "sources")
"""Columns of a block that are Arrow columns as bytes."""
REQUIRED: Final = {"id", "rejected", "content", "length"}
"""The columns that every table has, as neardup reads it."""
TYPES: Final = {
    SLOTS: (pa.uint32(), pa.uint64()),
    PACKED: (pa.uint8(),),
    "lengths": (pa.int64(),),
}
"""The types of numbers of a column, where they are not of 64 bits without a sign."""
AT_ONCE: Final = 4_096
"""Lists that are read at once: Arrow needs several times their bytes."""
NAMES: Final = {"ids": "id", "lengths": "length", "sources": "source"}
"""Column of a block -> column of a table, where they differ."""

Array = NDArray[Any]


def table_beside(path: Path) -> Path:
    """Return the Parquet file that has the same sketches as a sketch file."""
    return path.with_name(path.name + ENDING)


def write_sketch_table(
    file: BlockReader, path: Path, kept: NDArray[np.bool_], names: pa.Array, rows: NDArray[np.int64]
) -> None:
    """Write the sketches of a shard as Parquet.

    Args:
        file: The sketch file of the shard.
        path: The Parquet file, which gets its name when it is complete.
        kept: For each document of the shard whether it was kept.
        names: The name of each document's file.
        rows: The number of each document's row there.
    """
    beside = path.with_name(f".{path.name}.tmp")
    tables = _tables(file, kept, names, rows)
    first = next(tables, pa.table({}))
    schema = first.schema.with_metadata(_metadata(file))
    texts = [name for name in ("file", "id", "rejected", "source") if name in schema.names]
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with (
            os.fdopen(handle, "wb") as sink,
            pq.ParquetWriter(
                sink,
                schema,
                use_dictionary=[name for name in texts if name != "id"],
                compression=dict.fromkeys(texts, "zstd"),  # hashes can't be compressed
                write_page_checksum=True,
            ) as writer,
        ):
            for table in chain([first] if len(file) else [], tables):
                writer.write_table(table.cast(schema), row_group_size=max(len(table), 1))
        beside.replace(path)
    except OSError as error:
        raise write_error(path, error) from None
    finally:
        beside.unlink(missing_ok=True)


def _metadata(file: BlockReader) -> dict[str, str]:
    notes = {"blocks": [file.note_of(block) for block in range(len(file))], "file": file.note}
    values = {
        "sketches": VERSION,
        "spec": file.header["spec"],
        "fingerprint": file.header["fingerprint"],
        "key": file.header["key"],
        "notes": json.dumps(notes),
    }
    values["checksum"] = _checksum_of(values)
    return {f"neardup.{name}": value for name, value in values.items()}


def _checksum_of(values: dict[str, str]) -> str:
    lines = "".join(values[name] + "\n" for name in STATED)
    return f"{checksum(lines.encode()):016x}"


def _tables(
    file: BlockReader, kept: NDArray[np.bool_], names: pa.Array, rows: NDArray[np.int64]
) -> Iterator[pa.Table]:
    """Yield the rows of each block."""
    types = {unpack_column(file.read(block, "ids")).type for block in range(len(file))}
    of_ids = types.pop() if len(types) == 1 else pa.large_string()
    start = 0
    for block in range(len(file)):
        count = file.shape(block, "lengths")[0]
        here = slice(start, start + count)
        columns = {
            "file": names.slice(start, count),
            "row": to_arrow(rows[here]),
            "id": unpack_column(file.read(block, "ids")).cast(of_ids),
            "kept": to_arrow(kept[here]),
            "rejected": _reasons(file, block),
        }
        for name in (one for one in COLUMNS if one not in ("ids", "rejected")):
            if file.has(block, name):
                columns[NAMES.get(name, name)] = _to_column(name, file.read(block, name))
        yield pa.table(columns)
        start += count


def _to_column(name: str, values: Array) -> pa.Array:
    if name in ARROW:
        return unpack_column(values)
    if name not in ROWS:
        return to_arrow(values)
    flat = to_arrow(np.ascontiguousarray(values.T).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, len(values))


def _reasons(file: BlockReader, block: int) -> pa.Array:
    """Return why each document was rejected; null if it was not."""
    codes = file.read(block, "rejected").astype(np.int64)
    reasons = pa.array([None, *file.note_of(block)["reasons"]], pa.large_string())
    return reasons.take(to_arrow(codes))


class SketchTable(BlockReader):
    """Reads sketches from a Parquet file as those of a file of blocks are read, column by column.

    Raises `FormatError` if the file is damaged.

    Args:
        path: The path of the file.
        cure: What helps if it is damaged.
    """

    def __init__(self, path: Path, cure: str) -> None:
        self.path, self._cure = path, cure
        with self._readable("its description"):
            described = self._open().metadata
            values = described.metadata or {}
            stated = {name: values[f"neardup.{name}".encode()].decode() for name in STATED}
            if stated["sketches"] != VERSION:
                raise FormatError(
                    f"{path} has version {stated['sketches']} of the layout, this neardup reads "
                    f"{VERSION}: use the neardup that wrote it, or make it again"
                )
            if values[b"neardup.checksum"].decode() != _checksum_of(stated):
                raise self.damaged("checksum of its description")
            notes = json.loads(stated.pop("notes"))
            self.header: dict[str, Any] = Fields(stated, path, cure)
            self.note: dict[str, Any] = Fields(notes["file"], path, cure)
            self._notes: list[dict[str, Any]] = notes["blocks"]
            self._rows = [described.row_group(n).num_rows for n in range(described.num_row_groups)]
            self._names = set(described.schema.to_arrow_schema().names)
        if len(self._rows) != len(self._notes):
            raise self.damaged("its row groups")
        if self._notes and (missing := REQUIRED - self._names):
            raise self.damaged(f"it lacks {', '.join(sorted(missing))}")

    def __len__(self) -> int:
        return len(self._notes)

    def note_of(self, block: int) -> dict[str, Any]:
        """Return the note that a block was written with."""
        return Fields(self._notes[block], self.path, self._cure)

    def has(self, block: int, name: str) -> bool:  # noqa: ARG002  # all blocks have the same
        """Return whether a block has this column."""
        return NAMES.get(name, name) in self._names

    def shape(self, block: int, name: str) -> tuple[int, ...]:
        """Return the shape of a column."""
        return (self._rows[block],) if name not in ROWS else self.read(block, name).shape

    def read(self, block: int, name: str, rows: slice | None = None) -> Array:
        """Return a column, or rows of a two-dimensional one; `FormatError` if it is damaged."""
        if not self.has(block, name):
            raise self.damaged(f"block {block} has no {name}")
        with self._readable(f"{name}, block {block}"):
            if name in ROWS:
                columns = self._read_lists(block, name)
                return columns if rows is None else np.ascontiguousarray(columns[rows])
            group = self._open().read_row_group(
                block, columns=[NAMES.get(name, name)], use_threads=False
            )
            column = group.column(0).combine_chunks()
            if isinstance(column, pa.ChunkedArray):
                column = pa.concat_arrays(column.chunks)
            if name in ARROW:
                return pack_column(column)
            if name == "rejected":
                codes = {reason: code for code, reason in enumerate(self._codes(block))}
                return np.array([codes[reason] for reason in column.to_pylist()], np.uint32)
            return self._numbers(column, name)

    def _read_lists(self, block: int, name: str) -> Array:
        """Return a column of lists as columns of numbers, a few thousand documents at a time."""
        out = np.empty((0, 0))
        begin = 0
        batches = self._open().iter_batches(AT_ONCE, [block], [name], use_threads=False)
        for batch in batches:
            lists = batch.column(0)
            flat = self._numbers(lists.flatten(), name).reshape(len(lists), -1)
            if not begin:
                out = np.empty((flat.shape[1], self._rows[block]), flat.dtype)
            out[:, begin : begin + len(lists)] = flat.T
            begin += len(lists)
        return out

    def _numbers(self, column: pa.Array, name: str) -> Array:
        if column.null_count or column.type not in TYPES.get(name, (pa.uint64(),)):
            raise self.damaged(f"{name} has other values than such a column")
        values: Array = column.to_numpy(zero_copy_only=False)
        return values

    def _codes(self, block: int) -> list[str | None]:
        return [None, *self._notes[block]["reasons"]]

    def verify(self) -> None:
        """Read all columns; `FormatError` if one is damaged."""
        for block in range(len(self)):
            with self._readable(f"block {block}"):
                self._open().read_row_group(block, use_threads=False)

    def damaged(self, why: str) -> FormatError:
        """Return the error for a file that is not as it was written."""
        return FormatError(f"{self.path} is damaged ({why}): {self._cure}")

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.path, page_checksum_verification=True)

    @contextmanager
    def _readable(self, what: str) -> Iterator[None]:
        """Say of a file that Arrow can't read that it is damaged."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException, LookupError, ValueError, TypeError) as error:
            raise self.damaged(f"{what}: {str(error).splitlines()[0]}") from None


def restore_sketches(table: Path, path: Path) -> None:
    """Write the sketch file again from which a Parquet file was made.

    Args:
        table: The Parquet file.
        path: The sketch file, which gets its name when it is complete.
    """
    _write_copy(SketchTable(table, MADE_ANEW), path)


def _write_copy(read: SketchTable, path: Path) -> None:
    header = {name: read.header[name] for name in ("fingerprint", "spec", "key")}
    with BlockWriter(path, SKETCHES_KIND, shared=True, **header) as writer:
        for block in range(len(read)):
            columns = {name: read.read(block, name) for name in COLUMNS if read.has(block, name)}
            writer.add(columns, **read.note_of(block))
        writer.close(**read.note)


def copy_tables(files: Sequence[BlockReader], folder: Path) -> list[BlockReader]:
    """Return sketch files in place of tables, whose slots can only be read all at once.

    Args:
        files: The sketches of an earlier corpus.
        folder: The work folder of the run that reads them.
    """
    if not any(isinstance(file, SketchTable) for file in files):
        return list(files)
    stage = StageFiles(folder / COPIES_FOLDER, SKETCHES_KIND)
    return [_copy(file, stage) if isinstance(file, SketchTable) else file for file in files]


def _copy(table: SketchTable, stage: StageFiles) -> BlockReader:
    key = str(table.header["key"])
    found = stage.find(key, key)
    if found is None:
        _write_copy(table, stage.path(key))
    return found or stage.open(key)
