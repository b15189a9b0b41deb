"""Write the kept rows of all inputs to one file.

Lines of JSONL files and of files with one text a line and records of CSV files are copied byte for
byte into a file of the same format; CSV files must have the same header, which is written once.
Parquet and Arrow files are joined by columns: a column that a file does not have is null, and
numbers of different types get one type that holds all of them. Other formats are converted:

    to JSONL           JSON; Parquet, Arrow; CSV, every value as a string; texts as {"id", "text"}
    to Parquet, Arrow  JSON, where a field must have one type in all rows; CSV; texts

What has no such form (bytes in JSON; in Parquet a field with numbers and strings, or an integer of
JSON beyond signed 64 bits) is refused, never changed. Two things change: NaN and the infinities,
which JSON does not have, become null there, and a fraction in JSON becomes the nearest double.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from neardup.corpus import columnar
from neardup.corpus.annotations import Annotate, annotate_schema
from neardup.corpus.conversion import (
    ANOTHER_OUTPUT,
    COLUMNAR,
    DELIMITED,
    JoinedSchema,
    as_json,
    conform,
    cure,
    json_lines,
    parsed_lines,
    read_batches,
    read_header,
    read_schema,
    stored_schema,
    structs,
)
from neardup.corpus.format_table import BOM, COMPRESSION_OF_ENDING, JSON, formats_of_ending
from neardup.corpus.inputs import InputFile
from neardup.corpus.rows import Advance, Edit, Mask, Rows
from neardup.corpus.streams import name_read_errors
from neardup.corpus.write import (
    column_codecs,
    group_batches,
    kept_lines,
    kept_records,
    name_errors,
    open_sink,
    replacing,
)
from neardup.errors import InputError, UsageError

JOINABLE = frozenset({"jsonl", "json", "lines", *DELIMITED, *COLUMNAR})
"""Formats in which one file can have the rows of several."""
_MOST_ROWS = 1 << 20


def format_of_name(name: str) -> tuple[str | None, str | None]:
    """Return the format and the compression of a file to write, by its ending; None for each.

    A file called .json is an array: other programs expect that of it.

    >>> format_of_name("clean.jsonl.gz"), format_of_name("clean.json"), format_of_name("clean")
    (('jsonl', 'gzip'), ('json', None), (None, None))
    """
    stem, ending = os.path.splitext(name.lower())
    compression = COMPRESSION_OF_ENDING.get(ending)
    if compression is not None:
        ending = os.path.splitext(stem)[1]
    if ending == ".json":
        return "json", compression
    rows = [row.name for row in formats_of_ending(ending) if not row.variant_of]
    return (rows[0], compression) if rows else (None, None)


@dataclass(frozen=True)
class KeptFile:
    """The one file for the kept rows of all inputs: its name, format and compression."""

    name: str
    format: str
    compression: str | None = None

    def check(self, inputs: Iterable[InputFile]) -> None:
        """Refuse inputs whose rows can't be in this file, as far as their schemas tell.

        Files that can't be read are left to the run, which reports or skips them.
        """
        first: tuple[InputFile, list[str]] | None = None
        schemas = JoinedSchema()
        for file in inputs:
            if file.format not in _READABLE[self.format]:
                raise UsageError(
                    f"{file.name} is {file.format}, whose rows can't be written as {self.format} "
                    f"({self.name}): {cure(self.format)}"
                )
            with suppress(InputError):
                if self.format in DELIMITED and (header := read_header(file)):
                    first = first or (file, header)
                    if header != first[1]:
                        raise _other_columns(file, first[0])
                elif file.format in COLUMNAR:
                    schema = stored_schema(file)
                    schemas.add(file, schema if self.format in COLUMNAR else as_json(file, schema))


@dataclass(frozen=True)
class KeptRows:
    """The rows of a file that are kept, the new texts of some of them, and new columns."""

    file: InputFile
    keep: Mask
    edit: Edit | None = None
    annotate: Annotate | None = None


def write_one_file(
    sources: Sequence[KeptRows],
    target: KeptFile,
    destination: Path,
    advance: Advance = lambda _: None,
    workers: int = 1,
) -> None:
    """Write the kept rows of all sources, in order.

    Args:
        sources: The files to read, with their kept rows.
        target: The format and the compression to write.
        destination: The path of the new file.
        advance: Called with the number of rows that were read.
        workers: The number of threads that parse JSONL.
    """
    with replacing(destination) as beside:
        _WRITERS[target.format](_Joined(sources, advance, workers), target, beside)


@dataclass(frozen=True)
class _Joined:
    """The kept rows of all files, as lines, records or batches."""

    sources: Sequence[KeptRows]
    advance: Advance
    workers: int

    def __iter__(self) -> Iterator[Rows]:
        """Yield the rows of each file; before the next one, all of them must have been taken."""
        for source in self.sources:
            rows = self.rows(source, self.advance)
            yield rows
            rows.check_end()

    def rows(self, source: KeptRows, advance: Advance) -> Rows:
        return Rows(source.file, source.keep, advance, self.workers, source.edit, source.annotate)


def _write_lines(joined: _Joined, target: KeptFile, beside: Path) -> None:
    lines_of = kept_lines if target.format == "lines" else json_lines
    with open_sink(target.compression, beside) as sink:
        _copy(sink, (name_errors(rows.file, lines_of(rows)) for rows in joined))


def _write_array(joined: _Joined, target: KeptFile, beside: Path) -> None:
    """Write the records as an array of JSON, each on a line of its own."""
    with open_sink(target.compression, beside) as sink:
        before = b"[\n"
        for rows in joined:
            for block in name_errors(rows.file, json_lines(rows)):
                lines = (line.strip() for line in block.removeprefix(BOM).split(b"\n"))
                for line in filter(None, lines):
                    sink.write(before + line)
                    before = b",\n"
        sink.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def _write_records(joined: _Joined, target: KeptFile, beside: Path) -> None:
    with open_sink(target.compression, beside) as sink:
        _copy(sink, _records_with_one_header(joined))


def _records_with_one_header(joined: _Joined) -> Iterator[Iterator[bytes]]:
    first: tuple[InputFile, list[str]] | None = None
    for rows in joined:
        header = read_header(rows.file)
        if first is not None and header and header != first[1]:
            raise _other_columns(rows.file, first[0])
        yield name_errors(rows.file, kept_records(rows, header=first is None))
        if header:
            first = first or (rows.file, header)


def _copy(sink: Any, files: Iterable[Iterator[bytes]]) -> None:
    """Write the blocks of all files, each of which begins on a line of its own."""
    is_empty, ends_line = True, True
    for blocks in files:
        begins = True
        for block in filter(None, blocks):
            if begins and not is_empty:
                block = block.removeprefix(BOM)
                if not ends_line:
                    sink.write(b"\n")
            sink.write(block)
            begins = is_empty = False
            ends_line = block.endswith(b"\n")


def _write_columns(joined: _Joined, target: KeptFile, beside: Path) -> None:
    schema = _join_schemas(joined)
    with pa.OSFile(os.fsencode(beside), "wb") as sink:
        if target.format == "parquet":
            codecs, most = _layout(joined.sources, schema)
            with (
                _name_unstorable(target),
                pq.ParquetWriter(sink, schema, compression=codecs) as writer,
            ):
                for table in group_batches(_conformed(joined, schema), schema, most):
                    writer.write_table(table, row_group_size=max(1, table.num_rows))
            return
        new = pa.ipc.new_file if target.format == "arrow" else pa.ipc.new_stream
        packing = "lz4" if target.name.endswith(".feather") else None
        options = pa.ipc.IpcWriteOptions(compression=packing)
        with new(sink, schema, options=options) as stream:
            for batch in _conformed(joined, schema):
                stream.write_batch(batch)


@contextmanager
def _name_unstorable(target: KeptFile) -> Iterator[None]:
    """Turn the error for a type that Parquet can't store into one with a cure."""
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        why = str(error).split(". ")[0][:120]
        raise UsageError(
            f"{target.name}: not every column can be stored in Parquet ({why}): {cure('parquet')}"
        ) from None


def _layout(sources: Sequence[KeptRows], schema: pa.Schema) -> tuple[dict[str, str] | str, int]:
    """Return the codecs and the rows of a row group: of the first file, if it has the schema."""
    first = sources[0].file if sources else None
    if first is None or first.format != "parquet":
        return "snappy", _MOST_ROWS
    with name_read_errors(first), columnar.open_parquet(first) as parquet:
        layout = parquet.metadata
        groups = layout.num_row_groups
        most = -(-layout.num_rows // groups) if groups else 1
        same = parquet.schema_arrow.equals(schema)
        return (column_codecs(layout), most) if same else ("snappy", max(most, 1))


def _conformed(joined: _Joined, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for rows in joined:
        for batch in read_batches(rows, schema):
            yield conform(rows.file, batch, schema)


def _join_schemas(joined: _Joined) -> pa.Schema:
    found = JoinedSchema()
    for source in joined.sources:
        plain = replace(source, annotate=None)
        if source.file.format not in JSON:
            found.add(source.file, read_schema(source.file))
            continue
        for records in parsed_lines(joined.rows(plain, lambda _: None)):
            found.add(source.file, pa.schema(list(structs(source.file, records).type)))
    schema = pa.schema([]) if found.schema is None else found.schema
    is_annotated = joined.sources and joined.sources[0].annotate is not None
    return annotate_schema(joined.sources[0].file, schema) if is_annotated else schema


def _other_columns(file: InputFile, first: InputFile) -> UsageError:
    return UsageError(
        f"{file.name} and {first.name} have different headers: {ANOTHER_OUTPUT}, or write .jsonl"
    )


_DOCUMENTS = frozenset({"lines", "text", "warc", "tar", "zip"})
"""Formats whose rows are converted as documents: their ids and texts."""
_EVERYTHING = frozenset({*JSON, *_DOCUMENTS, *COLUMNAR, *DELIMITED})
_READABLE = {
    **dict.fromkeys(JSON, _EVERYTHING),
    **dict.fromkeys(COLUMNAR, _EVERYTHING),
    **{name: frozenset({name}) for name in ("lines", *DELIMITED)},
}
"""Format of the file -> formats whose rows it can have."""
_WRITERS: dict[str, Callable[[_Joined, KeptFile, Path], None]] = {
    **dict.fromkeys(("jsonl", "lines"), _write_lines),
    "json": _write_array,
    **dict.fromkeys(DELIMITED, _write_records),
    **dict.fromkeys(COLUMNAR, _write_columns),
}
