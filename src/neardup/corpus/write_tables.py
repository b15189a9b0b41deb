"""How are the kept rows of a Parquet or Arrow file written, so that it stays the same kind of file?

Schema and metadata, the codec of every Parquet column and the number of rows in a row group are
those of the source; compression levels and encodings are not recorded in a file, so they are
PyArrow's defaults.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from neardup.corpus import columnar
from neardup.corpus.edit import edit_batch
from neardup.corpus.rows import Rows, filtered
from neardup.corpus.source import reading

_BATCH = 8 << 20
_ROW_GROUP = 64 << 20


def write_parquet(rows: Rows, beside: Path) -> None:
    file = rows.file
    with reading(file), columnar.open_parquet(file) as parquet:
        schema, layout = parquet.schema_arrow, parquet.metadata
        codecs = _codecs(layout)
    groups = layout.num_row_groups
    most = -(-layout.num_rows // groups) if groups else 1
    with (
        pa.OSFile(os.fsencode(beside), "wb") as sink,
        pq.ParquetWriter(sink, schema, compression=codecs) as writer,
    ):
        for table in _grouped(_kept_batches(rows), schema, most):
            writer.write_table(table, row_group_size=max(1, table.num_rows))


def _codecs(layout: pq.FileMetaData) -> dict[str, str] | str:
    """The codec of every column, as the first row group has it."""
    if not layout.num_row_groups:
        return "snappy"
    group = layout.row_group(0)
    columns = map(group.column, range(group.num_columns))
    names = {column.path_in_schema: column.compression for column in columns}
    return {path: "NONE" if name == "UNCOMPRESSED" else name for path, name in names.items()}


def _grouped(batches: Iterator[pa.RecordBatch], schema: pa.Schema, most: int) -> Iterator[pa.Table]:
    """Row groups with as many rows as those that came in, as far as memory allows."""
    held: list[pa.RecordBatch] = []
    rows = weight = 0
    for batch in batches:
        held.append(batch)
        rows, weight = rows + batch.num_rows, weight + batch.nbytes
        if rows >= most or weight >= _ROW_GROUP:
            yield pa.Table.from_batches(held, schema)
            held, rows, weight = [], 0, 0
    if held:
        yield pa.Table.from_batches(held, schema)


def write_arrow(rows: Rows, beside: Path) -> None:
    file = rows.file
    with reading(file):
        schema = columnar.arrow_schema(file)
    new = pa.ipc.new_file if file.format == "arrow" else pa.ipc.new_stream
    # Feather's own writer compresses with LZ4; the others don't.
    packing = "lz4" if file.path.suffix.lower() == ".feather" else None
    options = pa.ipc.IpcWriteOptions(compression=packing)
    with (
        pa.OSFile(os.fsencode(beside), "wb") as sink,
        new(sink, schema, options=options) as writer,
    ):
        for batch in _kept_batches(rows):
            writer.write_batch(batch)


def _kept_batches(rows: Rows) -> Iterator[pa.RecordBatch]:
    with reading(rows.file):
        for batch in columnar.batches(rows.file, _BATCH):
            if rows.edit is not None:
                batch = edit_batch(batch, rows.next, rows.edit, rows.file.name)
            kept = filtered(batch, rows.take(batch.num_rows))
            if kept.num_rows:
                yield kept
