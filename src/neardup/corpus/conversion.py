"""Convert kept rows to another format: to JSON lines, or to record batches of a joined schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import orjson
import pyarrow as pa

from neardup.corpus import columnar, delimited
from neardup.corpus.annotations import annotate_records, annotate_schema
from neardup.corpus.dialects import DELIMITERS
from neardup.corpus.documents import Columns
from neardup.corpus.format_table import BOM, JSON
from neardup.corpus.inputs import InputFile
from neardup.corpus.jsonl import load_records
from neardup.corpus.read import parse_chunk, read_chunks
from neardup.corpus.rows import Rows, edit_batch, filter_batch
from neardup.corpus.streams import name_read_errors
from neardup.corpus.write import kept_batches, kept_lines
from neardup.errors import InputError, UsageError

COLUMNAR = frozenset({"parquet", "arrow", "arrow-stream"})
DELIMITED = frozenset(DELIMITERS)
ANOTHER_OUTPUT = (
    "choose a folder (a name without an ending) for the output, with a file for each input"
)
_BATCH_RECORDS = 1024
_MANY_DIGITS = re.compile(rb"[0-9]{19}")
"""What integers beyond signed 64 bits have, and few other lines."""
_TEXT_SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string())])


def conform(file: InputFile, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the columns and types of the schema; absent columns are null."""
    if batch.schema.equals(schema):
        return batch.replace_schema_metadata(schema.metadata)
    columns = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        if place < 0:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        try:
            columns.append(batch.column(place).cast(field.type))
        except pa.ArrowException:
            raise mixed(file, field.name, str(field.type)) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class JoinedSchema:
    """The columns of all files: one type each, which holds the values of every file."""

    def __init__(self) -> None:
        self.schema: pa.Schema | None = None

    def add(self, file: InputFile, schema: pa.Schema) -> None:
        """Add the columns of a file; `UsageError` if the types of one don't go together."""
        if self.schema is None:
            self.schema = schema
        elif not self.schema.equals(schema):
            both = [self.schema.remove_metadata(), schema.remove_metadata()]
            for one in both:
                _refuse_repeated_names(file, one)
            try:
                self.schema = pa.unify_schemas(both, promote_options="permissive")
            except pa.ArrowException:
                before, now = ({field.name: field.type for field in one} for one in both)
                name = next(name for name in now if now[name] != before.get(name, now[name]))
                raise mixed(file, name, f"{before[name]} and {now[name]}") from None


def read_schema(file: InputFile) -> pa.Schema:
    """Return the columns of a file that is not JSON."""
    if file.format in COLUMNAR:
        return stored_schema(file)
    if file.format in DELIMITED:
        schema = pa.schema([(name, pa.string()) for name in read_header(file)])
        _refuse_repeated_names(file, schema)
        return schema
    return _TEXT_SCHEMA


def stored_schema(file: InputFile) -> pa.Schema:
    with name_read_errors(file):
        if file.format != "parquet":
            return columnar.arrow_schema(file)
        with columnar.open_parquet(file) as parquet:
            return parquet.schema_arrow


def read_header(file: InputFile) -> list[str]:
    with name_read_errors(file):
        return delimited.split_rows(file)[0]


def read_batches(rows: Rows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the kept rows of a file as record batches, of the file's own columns."""
    if rows.file.format in COLUMNAR:
        yield from kept_batches(rows)
    elif rows.file.format in JSON:
        for records in parsed_lines(rows):
            yield pa.RecordBatch.from_struct_array(structs(rows.file, records, schema))
    else:
        for records in _parsed_records(rows):
            schema = read_schema(rows.file)
            if rows.annotate is not None:
                schema = annotate_schema(rows.file, schema)
            fields = pa.struct(list(schema))
            yield pa.RecordBatch.from_struct_array(pa.array(records, fields))


def structs(
    file: InputFile, records: list[dict[str, Any]], schema: pa.Schema | None = None
) -> pa.StructArray:
    """Return JSON objects as Arrow structs, with the fields of the schema if it is given."""
    try:
        return pa.array(records, None if schema is None else pa.struct(list(schema)))
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        # Arrow's message quotes the value: it is not shown.
        what = "a lone surrogate" if isinstance(error, UnicodeError) else "values of several types"
        raise UsageError(
            f"{file.name}: a field has {what}, and a column has one type: {cure('parquet')}"
        ) from None


def parsed_lines(rows: Rows) -> Iterator[list[dict[str, Any]]]:
    with name_read_errors(rows.file):
        for block in filter(None, kept_lines(rows)):
            lines = [line for line in block.removeprefix(BOM).split(b"\n") if line]
            if _MANY_DIGITS.search(block):
                _refuse_long_integers(rows.file, lines)
            yield load_records(lines, False)[0]


def _refuse_long_integers(file: InputFile, lines: list[bytes]) -> None:
    """Raise `UsageError` if a line has an integer that Arrow would refuse, or get as a double."""

    def check(digits: str) -> None:
        # int() refuses more than 4,300 digits.
        if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
            raise UsageError(
                f"{file.name}: a field has an integer beyond signed 64 bits, which no column has: "
                f"{cure('parquet')}"
            )

    for line in filter(_MANY_DIGITS.search, lines):
        with suppress(RecursionError, ValueError):
            json.loads(line, parse_int=check)


def _parsed_records(rows: Rows) -> Iterator[list[dict[str, Any]]]:
    """Yield the kept rows of CSV and text files as dictionaries of strings."""
    for records in _unannotated_records(rows):
        if rows.annotate is None:
            yield records
        else:
            yield annotate_records(rows.file, records, rows.annotations())


def _unannotated_records(rows: Rows) -> Iterator[list[dict[str, Any]]]:
    if rows.file.format not in DELIMITED:
        yield from _documents(rows)
        return
    if rows.edit is not None:
        raise UsageError(
            f"{rows.file.name}: CSV with cut texts can't be converted: write a file of its own "
            "format, or a folder"
        )
    header, records = delimited.split_rows(rows.file)
    for batch in _batched(records, rows):
        try:
            values = [[cell.encode("latin-1").decode() for cell in record] for record in batch]
        except UnicodeDecodeError:
            raise InputError(
                f"{rows.file.name}: a kept row has invalid UTF-8, which {_NEEDS_UTF8}"
            ) from None
        yield [dict(zip(header, record, strict=True)) for record in values]


_NEEDS_UTF8 = "can't be converted: write a file of its own format"


def _batched(records: Iterable[list[str]], rows: Rows) -> Iterator[list[list[str]]]:
    """Yield kept records in batches."""
    batch: list[list[str]] = []
    for record in records:
        if rows.take(1)[0]:
            batch.append(record)
        if len(batch) == _BATCH_RECORDS:
            yield batch
            batch = []
    if batch:
        yield batch


def _documents(rows: Rows) -> Iterator[list[dict[str, Any]]]:
    """Yield the kept documents of a file without columns: their ids and texts."""
    name = "text" if rows.edit is None else rows.edit.columns.text
    for chunk in read_chunks(rows.file, Columns()):
        documents = parse_chunk(chunk, Columns())
        batch = pa.RecordBatch.from_arrays([documents.ids, documents.texts], ["id", name])
        if rows.edit is not None:
            batch = edit_batch(batch, rows.next, rows.edit, rows.file.name)
        kept = filter_batch(batch, rows.take(batch.num_rows))
        yield kept.rename_columns(["id", "text"]).to_pylist()


def json_lines(rows: Rows) -> Iterator[bytes]:
    """Yield the kept rows of a file as JSON lines; those of JSON Lines byte for byte."""
    if rows.file.format == "json":
        for block in kept_lines(rows):
            lines = map(bytes.strip, block.removeprefix(BOM).split(b"\n"))
            yield b"".join([line + b"\n" for line in lines if line])
    elif rows.file.format in JSON:
        yield from kept_lines(rows)
    elif rows.file.format in COLUMNAR:
        schema = as_json(rows.file, stored_schema(rows.file))
        if rows.annotate is not None:
            schema = annotate_schema(rows.file, schema)
        for batch in kept_batches(rows):
            yield _dump(conform(rows.file, batch, schema).to_pylist())
    else:
        for records in _parsed_records(rows):
            yield _dump(records)


def _dump(records: list[dict[str, Any]]) -> bytes:
    return b"".join([orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records])


def as_json(file: InputFile, schema: pa.Schema) -> pa.Schema:
    """Return the schema with types that JSON has: dates and decimals are strings."""
    _refuse_repeated_names(file, schema)
    fields = []
    for field in schema:
        kind = _json_type(field.type)
        if kind is None:
            raise UsageError(
                f"{file.name}: column {field.name!r} is {field.type}, which JSON does not have: "
                f"{cure('jsonl')}"
            )
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def _json_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type as whose values these are written to JSON; None if there is none."""
    types = pa.types
    if types.is_dictionary(kind):
        return _json_type(kind.value_type)
    if types.is_struct(kind):
        inner = {field.name: _json_type(field.type) for field in kind}
        complete = len(inner) == kind.num_fields and None not in inner.values()
        return pa.struct(list(inner.items())) if complete else None
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        item = _json_type(kind.value_type)
        return None if item is None else pa.large_list(item)
    if types.is_temporal(kind) and not types.is_duration(kind):
        return pa.string()
    if types.is_decimal(kind):
        return pa.string()
    if types.is_large_string(kind) or types.is_string(kind) or types.is_string_view(kind):
        return pa.large_string()
    plain = (types.is_null, types.is_boolean, types.is_integer, types.is_floating)
    return kind if any(test(kind) for test in plain) else None


def _refuse_repeated_names(file: InputFile, schema: pa.Schema) -> None:
    names = schema.names
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"{file.name}: two columns have the name {repeated!r}: {ANOTHER_OUTPUT}")


def mixed(file: InputFile, column: str, types: str) -> UsageError:
    return UsageError(
        f"{file.name}: column {column!r} has another type than before ({types}), and a column of "
        f"one file has one type: {ANOTHER_OUTPUT}"
    )


def cure(format: str) -> str:
    """Advise another output than one file of this format."""
    other = {"jsonl": ".parquet", "parquet": ".jsonl"}.get(format, ".jsonl")
    return f"write {other} instead, or {ANOTHER_OUTPUT}"
