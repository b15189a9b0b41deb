"""New columns of the rows that are written: cluster, cluster_size, witness and similarity.

The bytes of records of JSON and CSV stay as they are: new fields are put behind the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from neardup.corpus.delimited import delimiter_of, name_columns
from neardup.corpus.inputs import InputFile
from neardup.errors import UsageError

ANNOTATIONS: Final = pa.schema(
    [
        ("cluster", pa.int64()),
        ("cluster_size", pa.int64()),
        ("witness", pa.large_string()),
        ("similarity", pa.float64()),
    ]
)
"""The new columns; the last two are null of rows that are kept."""
NAMES: Final[tuple[str, ...]] = tuple(ANNOTATIONS.names)

Annotate: TypeAlias = Callable[[npt.NDArray[np.int64]], pa.RecordBatch]
"""Returns the new columns of rows of a file, by their ascending numbers."""

_MAY_CLASH: Final = re.compile(rb'"(?:' + "|".join(NAMES).encode() + rb')"|\\u00')
"""What a record has that has one of the new fields already, however it is escaped."""


def refuse_columns(file: str, names: Iterable[Any]) -> None:
    """Raise `UsageError` if there is a column that has the name of a new one.

    Args:
        file: What has the columns, for the message.
        names: Their names.
    """
    for name in NAMES:
        if name in names:
            raise UsageError(
                f"{file} has a column {name!r} already, which --annotate adds: rename or drop it, "
                "or leave out --annotate"
            )


def annotate_lines(file: InputFile, block: bytes, notes: pa.RecordBatch) -> bytes:
    """Return lines of JSON with the new fields.

    Args:
        file: The file of the lines.
        block: The lines, none of them blank.
        notes: The new columns, a row for each line.
    """
    lines = block.split(b"\n")
    last = [] if lines[-1] else [lines.pop()]
    return b"\n".join([*annotate_objects(file, lines, notes), *last])


def annotate_objects(
    file: InputFile, records: Sequence[bytes], notes: pa.RecordBatch
) -> list[bytes]:
    """Return objects of JSON with the new fields, and the white space that is around them.

    Args:
        file: The file of the records.
        records: The objects.
        notes: The new columns, a row for each.
    """
    annotated = []
    for record, note in zip(records, notes.to_pylist(), strict=True):
        if _MAY_CLASH.search(record):
            refuse_columns(file.name, orjson.loads(record.removeprefix(b"\xef\xbb\xbf")))
        body = record.rstrip()
        # An object without a text was rejected, so that there is a field before these.
        fields = orjson.dumps(note)[1:]
        annotated.append(body[:-1] + b"," + fields + record[len(body) :])
    return annotated


class DelimitedNotes:
    """Puts the new fields behind those of records of a CSV or TSV file.

    Args:
        file: The file.
    """

    def __init__(self, file: InputFile) -> None:
        self._file, self._delimiter = file, delimiter_of(file)

    def extend_header(self, lines: list[str], fields: list[str]) -> None:
        """Add the names of the new columns to the header.

        Args:
            lines: The lines of the header.
            fields: Its fields.
        """
        refuse_columns(self._file.name, name_columns(self._file, fields))
        lines[-1] = self._append(lines[-1], NAMES)

    def extend(self, lines: list[str], ends: Sequence[int], notes: pa.RecordBatch) -> None:
        """Add the new fields to records.

        Args:
            lines: The lines of all records.
            ends: The place of the last line of each record.
            notes: The new columns, a row for each record.
        """
        for end, note in zip(ends, notes.to_pylist(), strict=True):
            lines[end] = self._append(lines[end], note.values())

    def _append(self, line: str, values: Iterable[Any]) -> str:
        cells = ("" if value is None else self._cell(str(value)) for value in values)
        body = line.rstrip("\r\n")
        return self._delimiter.join([body, *cells]) + line[len(body) :]

    def _cell(self, value: str) -> str:
        """Return a value as a field, in the bytes of Latin-1 as which lines are read."""
        quote = self._file.dialect.quote
        signs = (self._delimiter, "\r", "\n", *([] if quote is None else [quote]))
        if not any(sign in value for sign in signs):
            return value.encode().decode("latin-1")
        if quote is None:
            raise UsageError(
                f"{self._file.name}: the id of a witness has a delimiter or a line break, which "
                "needs quotes: leave out --quote none, or write .jsonl"
            )
        quoted = f"{quote}{value.replace(quote, 2 * quote)}{quote}"
        return quoted.encode().decode("latin-1")


def annotate_schema(file: InputFile, schema: pa.Schema) -> pa.Schema:
    """Return the columns of a file with the new ones.

    Args:
        file: The file.
        schema: Its columns.
    """
    refuse_columns(file.name, schema.names)
    for field in ANNOTATIONS:
        schema = schema.append(field)
    return schema


def annotate_batch(batch: pa.RecordBatch, notes: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with the new columns.

    Args:
        batch: The rows.
        notes: The new columns, a row for each.
    """
    schema = batch.schema
    for field in ANNOTATIONS:
        schema = schema.append(field)
    return pa.RecordBatch.from_arrays([*batch.columns, *notes.columns], schema=schema)


def annotate_records(
    file: InputFile, records: list[dict[str, Any]], notes: pa.RecordBatch
) -> list[dict[str, Any]]:
    """Return records of strings with the new fields.

    Args:
        file: The file of the records.
        records: Their fields by name.
        notes: The new columns, a row for each.
    """
    refuse_columns(file.name, records[0] if records else ())
    return [record | note for record, note in zip(records, notes.to_pylist(), strict=True)]
