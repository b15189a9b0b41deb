"""Write the kept rows of a file, in the same format and with the same compression.

Lines, records of JSON and CSV, and text files are copied byte for byte. Parquet and Arrow files
keep their schema and metadata, the codec of every Parquet column and the number of rows in a row
group; compression levels and encodings are not recorded in a file, so they are PyArrow's defaults.
Rows may get new texts. The file is written under a temporary name beside its destination and
renamed at the end, so that an incomplete file never has the final name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from neardup.corpus import columnar, delimited, tar_members, warc_copy, zip_members
from neardup.corpus.annotations import (
    ANNOTATIONS,
    Annotate,
    DelimitedNotes,
    annotate_batch,
    annotate_lines,
    annotate_schema,
)
from neardup.corpus.documents import Columns
from neardup.corpus.encodings import UTF8, from_utf8
from neardup.corpus.format_table import BOM, JSON
from neardup.corpus.inputs import InputFile
from neardup.corpus.json_records import kept_json
from neardup.corpus.jsonl import LineBounds, find_line_bounds
from neardup.corpus.packing import pack
from neardup.corpus.read import Chunk, read_chunks, stored_bytes
from neardup.corpus.rows import (
    Advance,
    Edit,
    Mask,
    Rows,
    edit_batch,
    edit_lines,
    edit_plain_lines,
    edit_records,
    edit_text,
    filter_batch,
)
from neardup.corpus.streams import (
    name_read_errors,
    open_unbuffered,
    read_decoded,
    read_decompressed,
)
from neardup.errors import OutputError
from neardup.runtime import map_in_order

_BATCH = 8 << 20
_ROW_GROUP = 64 << 20


def write_parquet(rows: Rows, beside: Path) -> None:
    file = rows.file
    with name_read_errors(file), columnar.open_parquet(file) as parquet:
        schema, layout = parquet.schema_arrow, parquet.metadata
        codecs = column_codecs(layout)
    if rows.annotate is not None:
        schema = annotate_schema(file, schema)
        if isinstance(codecs, dict):
            codecs |= dict.fromkeys(ANNOTATIONS.names, "SNAPPY")
    groups = layout.num_row_groups
    most = -(-layout.num_rows // groups) if groups else 1
    with (
        pa.OSFile(os.fsencode(beside), "wb") as sink,
        pq.ParquetWriter(sink, schema, compression=codecs) as writer,
    ):
        for table in group_batches(kept_batches(rows), schema, most):
            writer.write_table(table, row_group_size=max(1, table.num_rows))


def column_codecs(layout: pq.FileMetaData) -> dict[str, str] | str:
    """Return the codec of every column in the first row group."""
    if not layout.num_row_groups:
        return "snappy"
    group = layout.row_group(0)
    columns = map(group.column, range(group.num_columns))
    names = {column.path_in_schema: column.compression for column in columns}
    return {path: "NONE" if name == "UNCOMPRESSED" else name for path, name in names.items()}


def group_batches(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, most: int
) -> Iterator[pa.Table]:
    """Yield row groups of `most` rows, the size in the input, or fewer if they are large."""
    group: list[pa.RecordBatch] = []
    rows = weight = 0
    for batch in batches:
        group.append(batch)
        rows, weight = rows + batch.num_rows, weight + batch.nbytes
        if rows >= most or weight >= _ROW_GROUP:
            yield pa.Table.from_batches(group, schema)
            group, rows, weight = [], 0, 0
    if group:
        yield pa.Table.from_batches(group, schema)


def write_arrow(rows: Rows, beside: Path) -> None:
    file = rows.file
    with name_read_errors(file):
        schema = columnar.arrow_schema(file)
    if rows.annotate is not None:
        schema = annotate_schema(file, schema)
    new = pa.ipc.new_file if file.format == "arrow" else pa.ipc.new_stream
    # Feather's own writer compresses with LZ4; the others don't.
    packing = "lz4" if file.path.suffix.lower() == ".feather" else None
    options = pa.ipc.IpcWriteOptions(compression=packing)
    with (
        pa.OSFile(os.fsencode(beside), "wb") as sink,
        new(sink, schema, options=options) as writer,
    ):
        for batch in kept_batches(rows):
            writer.write_batch(batch)


def kept_batches(rows: Rows) -> Iterator[pa.RecordBatch]:
    """Yield the kept rows of a Parquet or Arrow file, with edited texts."""
    with name_read_errors(rows.file):
        for batch in columnar.read_batches(rows.file, _BATCH):
            if rows.edit is not None:
                batch = edit_batch(batch, rows.next, rows.edit, rows.file.name)
            kept = filter_batch(batch, rows.take(batch.num_rows))
            if not kept.num_rows:
                continue
            yield kept if rows.annotate is None else annotate_batch(kept, rows.annotations())


_BLOCK = 1 << 20
_BATCH_LINES = 4096
_MARK_BYTES = 64


def write_kept(
    file: InputFile,
    keep: Mask,
    destination: Path,
    advance: Advance = lambda _: None,
    workers: int = 1,
    edit: Edit | None = None,
    annotate: Annotate | None = None,
) -> None:
    """Write the rows of `file` where `keep` is true to `destination`.

    A file without kept rows becomes an empty file of its format (CSV: only the header); a text
    file that is not kept is not written.

    Args:
        file: The file to read.
        keep: Whether each row is kept.
        destination: The path of the new file.
        advance: Called with the number of rows that were written.
        workers: The number of threads that parse JSONL.
        edit: New texts for rows; by default none.
        annotate: Returns new columns for kept rows; by default none.
    """
    if file.row.is_document and not keep.all():
        advance(1)
        return
    rows = Rows(file, keep, advance, workers, edit, annotate)
    with replacing(destination) as beside:
        WRITERS[file.format](rows, beside)
        rows.check_end()


@contextmanager
def replacing(destination: Path) -> Iterator[Path]:
    """Yield a temporary path that is renamed to the destination at the end, or removed on error."""
    begins = os.fsdecode(os.fsencode(destination.name)[:200])  # a name has at most 255 bytes
    beside = destination.with_name(f".{begins}.{token_hex(4)}.tmp")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield beside
            beside.replace(destination)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except (OSError, pa.ArrowException) as error:
        number = getattr(error, "errno", None)
        why = os.strerror(number) if number else str(error)[:120]
        raise OutputError(
            f"{destination}: cannot be written ({why}): make room, or choose another output folder"
        ) from None


@contextmanager
def open_sink(compression: str | None, beside: Path) -> Iterator[IO[bytes] | pa.NativeFile]:
    """Open a file to write bytes to, which are compressed unless `compression` is None."""
    # Buffered: a raw file may write fewer bytes than asked, and PyArrow does not check.
    with open(beside, "wb") as raw:
        if compression is None:
            yield raw
        else:
            with pack(raw, compression) as packed:
                yield packed


def name_errors(file: InputFile, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the blocks; errors while they are read become an `InputError` with the file's name."""
    with name_read_errors(file):
        yield from blocks


def _write_lines(rows: Rows, beside: Path) -> None:
    _write_blocks(rows.file, kept_lines(rows), beside)


def _write_json(rows: Rows, beside: Path) -> None:
    _write_blocks(rows.file, kept_json(rows), beside)


def _write_blocks(file: InputFile, blocks: Iterator[bytes], beside: Path) -> None:
    """Write blocks of UTF-8 in the encoding and with the compression of the file."""
    if file.encoding != UTF8:
        blocks = _encode(file, blocks)
    with open_sink(file.compression, beside) as sink:
        for block in name_errors(file, blocks):
            sink.write(block)


def _encode(file: InputFile, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the blocks in the file's encoding, after a byte order mark if the file has one."""
    if next(read_decoded(file, _MARK_BYTES), b"").startswith(BOM):
        yield from_utf8(BOM, file.encoding, is_json=False)
    is_json = file.format in JSON
    for number, block in enumerate(filter(None, blocks)):
        text = block if number else block.removeprefix(BOM)
        yield from_utf8(text, file.encoding, is_json)


def kept_lines(rows: Rows) -> Iterator[bytes]:
    """Yield the kept lines of the file in blocks, as they are stored but for edited texts."""
    for data, bounds in _all_lines(rows):
        view = memoryview(data)
        kept = b"".join([view[start:end] for start, end in _kept_runs(bounds, rows)])
        if rows.annotate is not None and kept:
            kept = annotate_lines(rows.file, kept, rows.annotations())
        yield kept


def _all_lines(rows: Rows) -> Iterator[tuple[bytes, LineBounds]]:
    """Yield the lines of the file in blocks, with the new texts of `rows.edit`."""
    blocks = map_in_order(read_chunks(rows.file, Columns()), _lines, rows.workers)
    if rows.edit is None:
        return (lines for _, lines in blocks)
    edited = map_in_order(_numbered(blocks), partial(_edited, rows.edit), rows.workers)
    return (lines for _, lines in edited)


def _numbered(
    blocks: Iterator[tuple[Chunk, tuple[bytes, LineBounds]]],
) -> Iterator[tuple[Chunk, bytes, LineBounds, int]]:
    """Yield each block with the row of its first line."""
    row = 0
    for chunk, (data, bounds) in blocks:
        yield chunk, data, bounds, row
        row += int(bounds[2].sum())


def _edited(edit: Edit, lines: tuple[Chunk, bytes, LineBounds, int]) -> tuple[bytes, LineBounds]:
    chunk, data, bounds, row = lines
    file = chunk.files[0]
    if file.format == "lines":
        fresh = edit_plain_lines(data, bounds, chunk.first, row, edit)
    else:
        fresh = edit_lines(data, bounds, chunk.first, row, edit, file.name)
    return fresh, bounds if fresh is data else find_line_bounds(fresh, chunk.first)


def _lines(chunk: Chunk) -> tuple[bytes, LineBounds]:
    with name_read_errors(chunk.files[0]):
        data = stored_bytes(chunk)
    return data, find_line_bounds(data, chunk.first)


def _kept_runs(bounds: LineBounds, rows: Rows) -> list[tuple[int, int]]:
    """Return (start, end) of each run of consecutive kept lines."""
    starts, ends, is_document = bounds
    kept = np.zeros(len(ends) + 2, bool)
    kept[1:-1][is_document] = rows.take(int(is_document.sum()))
    edges = np.flatnonzero(kept[1:] != kept[:-1])
    return list(zip(starts[edges[0::2]].tolist(), ends[edges[1::2] - 1].tolist(), strict=True))


def _write_delimited(rows: Rows, beside: Path) -> None:
    _write_blocks(rows.file, kept_records(rows), beside)


def kept_records(rows: Rows, header: bool = True) -> Iterator[bytes]:
    """Yield the header and the kept records in blocks, as they are stored but for edited texts.

    `header` is whether the header is included.
    """
    batch: list[str] = []
    lines: list[str] = []
    ends: list[int] = []
    notes = None if rows.annotate is None else DelimitedNotes(rows.file)

    def flush() -> bytes:
        if notes is not None:
            notes.extend(batch, ends, rows.annotations())
        data = "".join(batch).encode("latin-1")
        batch.clear()
        ends.clear()
        return data

    records = delimited.split_records(rows.file, lines)
    if rows.edit is not None:
        records = edit_records(records, lines, rows.edit, rows.file)
    for number, fields in enumerate(records):
        is_header = number == 0 and rows.file.dialect.header
        if notes is not None and is_header:
            notes.extend_header(lines, fields)
        if header if is_header else rows.take(1)[0]:
            batch.extend(lines)
            if notes is not None and not is_header:
                ends.append(len(batch) - 1)
        if len(batch) >= _BATCH_LINES:
            yield flush()
    yield flush()


def _write_web(rows: Rows, beside: Path) -> None:
    if rows.file.compression == "gzip":
        with open_sink(None, beside) as sink:
            members = warc_copy.copy_members(rows, _stored(rows.file))
            for part in name_errors(rows.file, members):
                sink.write(part)
    else:
        with open_sink(rows.file.compression, beside) as sink:
            for part in name_errors(rows.file, warc_copy.copy_records(rows)):
                sink.write(part)


def _write_tar(rows: Rows, beside: Path) -> None:
    with open_sink(rows.file.compression, beside) as sink:
        for part in name_errors(rows.file, tar_members.copy_members(rows)):
            sink.write(part)


def _write_text(rows: Rows, beside: Path) -> None:
    rows.take(1)
    if rows.edit is not None and rows.edit.changed[0]:
        with name_read_errors(rows.file):
            stored = b"".join(read_decompressed(rows.file, _BLOCK))
            fresh = edit_text(stored, rows.edit, rows.file.encoding)
        with open_sink(rows.file.compression, beside) as sink:
            sink.write(fresh)
        return
    with open_sink(None, beside) as sink:
        for block in name_errors(rows.file, _stored(rows.file)):
            sink.write(block)


def _stored(file: InputFile) -> Iterator[bytes]:
    with open_unbuffered(file) as raw:
        while block := raw.read(_BLOCK):
            yield block


WRITERS: Final[dict[str, Callable[[Rows, Path], None]]] = {
    "jsonl": _write_lines,
    "json": _write_json,
    "lines": _write_lines,
    "csv": _write_delimited,
    "tsv": _write_delimited,
    "text": _write_text,
    "parquet": write_parquet,
    "arrow": write_arrow,
    "arrow-stream": write_arrow,
    "warc": _write_web,
    "tar": _write_tar,
    "zip": zip_members.write_zip,
}
"""Format -> what writes the kept rows."""
