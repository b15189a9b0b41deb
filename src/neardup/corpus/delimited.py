"""Read the records of a CSV or TSV file: their bounds, and their fields.

The csv module parses them, in strict mode, from lines as `open(newline="")` yields them. They are
decoded as Latin-1: each byte is one character, so no byte is lost, and the UTF-8 of fields is
validated as in all other tables. A misplaced quote is an error of the file, not of a row: after it
the start of the next record is unknown.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from neardup.corpus.columns import Source, resolve_columns
from neardup.corpus.documents import (
    LONGEST,
    TEXT,
    Columns,
    Documents,
    make_strings,
    mixed_keep_error,
)
from neardup.corpus.format_table import BOM
from neardup.corpus.inputs import InputFile
from neardup.corpus.streams import Meter, read_line_blocks
from neardup.errors import InputError, UsageError

_BOM = BOM.decode("latin-1")
_BLOCK = 1 << 18
_MAX_ROWS = 1 << 14
DELIMITERS = {"csv": ",", "tsv": "\t"}

Batch = tuple[pa.RecordBatch, dict[int, str]]


def split_records(
    file: InputFile, lines: list[str] | None = None, meter: Meter | None = None
) -> Iterator[list[str]]:
    """Yield the fields of every record, the header first; blank lines are no records.

    Args:
        file: The file.
        lines: A list that contains the lines of the current record until the next one is
            requested: joined and encoded as Latin-1, they are its bytes.
        meter: Where the stored bytes that were read are counted.
    """
    csv.field_size_limit(LONGEST)  # bounds the field after a quote that is never closed
    source = _read_lines(file, lines, meter)
    reader = csv.reader(source, delimiter=DELIMITERS[file.format], strict=True)
    before = 0
    try:
        for fields in reader:
            if fields:
                yield fields
            before = reader.line_num
            if lines is not None:
                lines.clear()
    except csv.Error as error:
        raise InputError(
            f"{file.name}: the record that begins in line {before + 1} is not "
            f"{file.format.upper()} ({error}): is a quote missing or not doubled?"
        ) from None


def _read_lines(file: InputFile, lines: list[str] | None, meter: Meter | None) -> Iterator[str]:
    for number, block in enumerate(read_line_blocks(file, _BLOCK, meter)):
        for line in block.splitlines(keepends=True):
            text = line.decode("latin-1")
            if lines is not None:
                lines.append(text)
            # To the csv module, a quote after a byte order mark does not open a field.
            yield text.removeprefix(_BOM) if number == 0 else text


def parse_records(
    file: InputFile, columns: Columns, size: int, meter: Meter | None = None
) -> Iterator[Batch]:
    """Yield tables of the required columns, of about `size` bytes, and their rejected rows."""
    if columns.tokens:
        raise UsageError(f"{file.name}: CSV has no lists: token ids need JSONL, Parquet or Arrow")
    rows = split_records(file, meter=meter)
    header = decode_header(next(rows, []))
    if not header:
        return
    columns = resolve_columns(columns, header, Source(file.name))
    text = header.index(columns.text)
    fields: list[list[str]] = []
    rejected: dict[int, str] = {}
    length = 0
    for row in rows:
        if len(row) != len(header):
            rejected[len(fields)] = f"row has {len(row)} fields, the header has {len(header)}"
            row = [""] * len(header)
        fields.append(row)
        length += len(row[text])
        if length >= size or len(fields) == _MAX_ROWS:
            yield _table(fields, header, columns), rejected
            fields, rejected, length = [], {}, 0
    if fields:
        yield _table(fields, header, columns), rejected


def _table(rows: list[list[str]], header: list[str], columns: Columns) -> pa.RecordBatch:
    def column(name: str) -> pa.Array:
        place = header.index(name)
        cells = [row[place].encode("latin-1") for row in rows]
        # A text may be empty; in other columns an empty cell is a missing value.
        return make_strings(cells if name == columns.text else [cell or None for cell in cells])

    names = dict.fromkeys(columns.asked().values())
    return pa.RecordBatch.from_pydict({name: column(name) for name in names})


def infer_types(documents: Documents) -> Documents:
    """Return the documents with numbers as keep values, if all cells of the column are numbers."""
    if documents.keep is None or documents.keep.type != TEXT:
        return documents
    return replace(documents, keep=_numbers_or_strings(documents.keep))


def _numbers_or_strings(cells: pa.Array) -> pa.Array:
    values = cells.to_pylist()
    numbers = [_number(value) for value in values]
    has_strings = cells.null_count < numbers.count(None)
    if has_strings and numbers.count(None) < len(numbers):
        raise mixed_keep_error(("numbers", "strings"))
    return cells if has_strings else pa.array(numbers)


def _number(value: str | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def decode_header(fields: list[str]) -> list[str]:
    """Return the names of the columns."""
    return [field.encode("latin-1").decode("utf-8", "backslashreplace") for field in fields]
