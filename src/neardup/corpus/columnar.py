"""Read the record batches of a Parquet or Arrow file, in pieces that fit into memory.

Decoding is several times cheaper than shingling and sketching, so the parent process decodes for
its workers and no large row group is decoded twice. This module checks for damage that PyArrow does
not notice: fewer rows than the metadata states, Arrow offsets outside of their buffers, an Arrow
stream that ends between two batches (its writer was killed).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from neardup.corpus.fields import top_level
from neardup.corpus.inputs import InputFile
from neardup.corpus.streams import Meter, name_read_errors
from neardup.errors import InputError

_MAX_ROWS = 4096  # a dictionary makes rows look small in the file
_BUFFER = 1 << 20
_BINARY = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"

Choose = Callable[[pa.Schema], list[str]]
"""Returns the columns to read, or the fields inside of them: `doc.text`."""


def read_batches(
    file: InputFile,
    size: int,
    choose: Choose = lambda schema: schema.names,
    meter: Meter | None = None,
    groups: tuple[int, int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows in order, about `size` bytes at a time.

    Args:
        file: The file.
        size: The approximate number of bytes of a batch.
        choose: Returns what to read, from the schema; called once.
        meter: Where the stored bytes that were read are counted.
        groups: The row groups of a Parquet file to read, from and to; by default all.
    """
    meter = meter or Meter()
    if file.format == "parquet":
        yield from _parquet(file, size, choose, meter, groups)
        return
    with _opened(file) as source:
        read = _arrow_file if file.format == "arrow" else _arrow_stream
        for batch, end in read(file, source, choose):
            _check_layout(batch)
            yield from _slices(batch, size, meter, end)


def open_parquet(file: InputFile) -> pq.ParquetFile:
    """Open a Parquet file with a buffer, so that a column chunk need not fit into memory."""
    return pq.ParquetFile(
        _opened(file),
        buffer_size=_BUFFER,
        pre_buffer=False,  # which would read all column chunks at once
        page_checksum_verification=True,
    )


def count_parquet_rows(file: InputFile, groups: tuple[int, int] | None = None) -> int:
    """Return the number of rows of a Parquet file, as it states it.

    Args:
        file: The file.
        groups: The row groups to count, from and to; by default all.
    """
    with name_read_errors(file), open_parquet(file) as parquet:
        layout = parquet.metadata
        wanted = range(*(groups or (0, layout.num_row_groups)))
        return sum(layout.row_group(number).num_rows for number in wanted)


def arrow_schema(file: InputFile) -> pa.Schema:
    """Return the schema of an Arrow file or stream, with its metadata."""
    with _opened(file) as source:
        read = pa.ipc.open_file if file.format == "arrow" else pa.ipc.open_stream
        return read(source).schema


def _opened(file: InputFile) -> pa.OSFile:
    return pa.OSFile(os.fsencode(file.path))


def row_group_sizes(file: InputFile) -> list[int]:
    """Return the approximate number of stored bytes of each row group of a Parquet file."""
    with name_read_errors(file), open_parquet(file) as parquet:
        layout = parquet.metadata
        groups = [layout.row_group(number) for number in range(layout.num_row_groups)]
        weight = max(sum(group.total_byte_size for group in groups), 1)
        stored = file.path.stat().st_size
        return [stored * group.total_byte_size // weight for group in groups]


def _parquet(
    file: InputFile, size: int, choose: Choose, meter: Meter, part: tuple[int, int] | None
) -> Iterator[pa.RecordBatch]:
    stored = file.path.stat().st_size
    with open_parquet(file) as parquet:
        names = choose(parquet.schema_arrow)
        layout = parquet.metadata
        wanted = range(*(part or (0, layout.num_row_groups)))
        groups = [layout.row_group(number) for number in wanted]
        weight = sum(group.total_byte_size for group in groups)
        expected = sum(group.num_rows for group in groups) if part else layout.num_rows
        rows = max(1, min(_MAX_ROWS, size * expected // max(weight, 1)))
        count = 0
        for batch in parquet.iter_batches(
            rows, row_groups=list(wanted), columns=names, use_threads=False
        ):
            count += batch.num_rows
            meter.at = stored * count // max(layout.num_rows, count)
            yield batch
    if count != expected:
        raise InputError(
            f"{file.name}: {count} of {expected} rows could be read: download or copy it again"
        )


Placed = Iterator[tuple[pa.RecordBatch, int]]
"""Batches, each with the number of stored bytes up to its end."""


def _arrow_file(_: InputFile, source: pa.NativeFile, choose: Choose) -> Placed:
    schema = pa.ipc.open_file(source).schema
    reader = pa.ipc.open_file(source, options=_only(schema, choose))
    count = reader.num_record_batches
    for number in range(count):
        yield reader.get_batch(number), source.size() * (number + 1) // count


def _arrow_stream(file: InputFile, source: pa.NativeFile, choose: Choose) -> Placed:
    schema = pa.ipc.open_stream(source).schema
    source.seek(0)
    for batch in pa.ipc.open_stream(source, options=_only(schema, choose)):
        yield batch, source.tell()
    end = source.tell()
    source.seek(max(0, end - len(_END_OF_STREAM)))
    if source.read() != _END_OF_STREAM:
        raise InputError(
            f"{file.name}: truncated or corrupt arrow-stream data (no end-of-stream mark, or "
            "bytes after it): download or copy it again"
        )


def _only(schema: pa.Schema, choose: Choose) -> pa.ipc.IpcReadOptions:
    wanted = set(top_level(choose(schema), schema.names))
    places = [place for place, name in enumerate(schema.names) if name in wanted]
    return pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)


def _check_layout(batch: pa.RecordBatch) -> None:
    """Raise `ArrowInvalid` if an offset or index is outside of its buffer, which would crash."""
    for column in batch.columns:
        _check_column(column)


def _check_column(column: pa.Array) -> None:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise
        # Invalid UTF-8 rejects single rows, later. It ended the check, so repeat it as bytes.
        if pa.types.is_struct(column.type):
            column.validate()
            for place in range(column.type.num_fields):
                _check_column(column.field(place))
        else:
            _as_bytes(column).validate(full=True)


def _as_bytes(column: pa.Array) -> pa.Array:
    """Return a string column as binary, for which any bytes are valid."""
    if pa.types.is_dictionary(column.type):
        words = _as_bytes(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, words, safe=False)
    return column.view(_BINARY[column.type]) if column.type in _BINARY else column


def _slices(batch: pa.RecordBatch, size: int, meter: Meter, end: int) -> Iterator[pa.RecordBatch]:
    rows = max(1, batch.num_rows * size // max(batch.nbytes, 1))
    begin = meter.at
    for start in range(0, batch.num_rows, rows):
        piece = batch.slice(start, rows)
        meter.at = begin + (end - begin) * (start + piece.num_rows) // batch.num_rows
        yield piece
