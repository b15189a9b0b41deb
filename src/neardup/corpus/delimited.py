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
from itertools import chain

import pyarrow as pa

from neardup.corpus.columns import Source, resolve_columns
from neardup.corpus.dialects import DELIMITERS, LIKELY_DELIMITERS, is_header, show_delimiter
from neardup.corpus.documents import (
    LONGEST,
    TEXT,
    Columns,
    Documents,
    make_strings,
    mixed_keep_error,
)
from neardup.corpus.encodings import INVALID, UTF8, has_undecodable
from neardup.corpus.fields import needed_fields, parts_of
from neardup.corpus.format_table import BOM
from neardup.corpus.inputs import InputFile
from neardup.corpus.streams import Meter, read_line_blocks
from neardup.errors import ColumnError, InputError, UsageError
from neardup.formatting import format_count

_BOM = BOM.decode("latin-1")
_BLOCK = 1 << 18
_MAX_ROWS = 1 << 14

Batch = tuple[pa.RecordBatch, dict[int, str]]


def split_records(
    file: InputFile, lines: list[str] | None = None, meter: Meter | None = None
) -> Iterator[list[str]]:
    """Yield the fields of every record, the header, if any, first; blank lines are no records.

    Args:
        file: The file.
        lines: A list that contains the lines of the current record until the next one is
            requested: joined and encoded as Latin-1, they are its bytes.
        meter: Where the stored bytes that were read are counted.
    """
    csv.field_size_limit(LONGEST)  # bounds the field after a quote that is never closed
    source = _read_lines(file, lines, meter)
    quote = file.dialect.quote
    reader = csv.reader(
        source,
        delimiter=delimiter_of(file),
        quotechar=quote,
        quoting=csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL,
        strict=True,
    )
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
            f"{file.format.upper()} ({error}): is a quote missing or not doubled? If "
            "quotes are part of the text, use --quote none"
        ) from None


def _read_lines(file: InputFile, lines: list[str] | None, meter: Meter | None) -> Iterator[str]:
    for number, block in enumerate(read_line_blocks(file, _BLOCK, meter)):
        for line in block.splitlines(keepends=True):
            text = line.decode("latin-1")
            if lines is not None:
                lines.append(text)
            # To the csv module, a quote after a byte order mark does not open a field.
            yield text.removeprefix(_BOM) if number == 0 else text


def split_rows(
    file: InputFile, meter: Meter | None = None
) -> tuple[list[str], Iterator[list[str]]]:
    """Return the names of the columns, none for an empty file, and the fields of every row."""
    records = split_records(file, meter=meter)
    first = next(records, [])
    has_header = file.dialect.header or not first
    return name_columns(file, first), records if has_header else chain([first], records)


def parse_records(
    file: InputFile, columns: Columns, size: int, meter: Meter | None = None
) -> Iterator[Batch]:
    """Yield tables of the required columns, of about `size` bytes, and their rejected rows."""
    if columns.tokens:
        raise UsageError(f"{file.name}: CSV has no lists: token ids need JSONL, Parquet or Arrow")
    header, rows = split_rows(file, meter)
    if not header:
        return
    try:
        columns = resolve_columns(columns, header, Source.of(file))
    except ColumnError as error:
        raise explain_header(file, header, error) if file.dialect.header else error from None
    first, *others = map(header.index, parts_of(columns, "text", header) or header[:1])
    fields: list[list[str]] = []
    rejected: dict[int, str] = {}
    length = 0
    for row in rows:
        if len(row) != len(header):
            other = "the header" if file.dialect.header else "the first row"
            rejected[len(fields)] = f"row has {len(row)} fields, {other} has {len(header)}"
            row = [""] * len(header)
        elif file.encoding != UTF8 and any(map(has_undecodable, row)):
            rejected[len(fields)] = INVALID
            row = [""] * len(header)
        fields.append(row)
        length += len(row[first])
        for place in others:
            length += len(row[place])
        if length >= size or len(fields) == _MAX_ROWS:
            yield _table(fields, header, columns), rejected
            fields, rejected, length = [], {}, 0
    if fields:
        yield _table(fields, header, columns), rejected


def _table(rows: list[list[str]], header: list[str], columns: Columns) -> pa.RecordBatch:
    texts = parts_of(columns, "text", header)

    def column(name: str) -> pa.Array:
        place = header.index(name)
        cells = [row[place].encode("latin-1") for row in rows]
        # A text may be empty; in other columns an empty cell is a missing value.
        return make_strings(cells if name in texts else [cell or None for cell in cells])

    names = needed_fields(columns, header)
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


def delimiter_of(file: InputFile) -> str:
    """Return the character between the fields of a file."""
    return file.dialect.delimiter or DELIMITERS[file.format]


def name_columns(file: InputFile, first: list[str]) -> list[str]:
    """Return the names of the columns, for the first record of a file."""
    if file.dialect.header:
        return decode_header(first)
    return [str(number) for number in range(1, len(first) + 1)]


def explain_header(file: InputFile, header: list[str], error: ColumnError) -> UsageError:
    """Return the error for a header without a column that is asked for, with the likely cure.

    Without a header, the names would be a line of a document: they are shown only if all of them
    look like names.
    """
    own = delimiter_of(file)
    line = own.join(header)
    others = {
        other: [name.strip(" \"'") for name in line.split(other)]
        for other in LIKELY_DELIMITERS
        if other != own
    }
    for other, names in others.items():
        if error.wanted in names:
            return UsageError(
                f"{file.name} has a column {error.wanted!r} only if its columns are separated by "
                f"{show_delimiter(other)}, not {show_delimiter(own)}: use "
                f"--delimiter {show_delimiter(other)}"
            )
    if is_header(header):
        return error
    for other, names in others.items():
        if len(header) == 1 < len(names) and is_header(names):
            return UsageError(
                f"{file.name} has no column {error.wanted!r}; separated by "
                f"{show_delimiter(other)}, not {show_delimiter(own)}, its columns are "
                f"{', '.join(names)}: use --delimiter {show_delimiter(other)}, and choose one with "
                f"{error.option}"
            )
    return UsageError(
        f"{file.name} has no column {error.wanted!r}, and its first line, of "
        f"{format_count(len(header), 'column')}, does not look like a header: without one, use "
        "--no-header and the number of a column, such as --text 1"
    )


def decode_header(fields: list[str]) -> list[str]:
    """Return the names of the columns."""
    return [field.encode("latin-1").decode("utf-8", "backslashreplace") for field in fields]
