"""Read the documents of a JSON Lines file.

Every line is one document, valid or not; only blank lines (white space) are none. A kernel parses
common lines. If it is not sure of one, orjson parses all lines of the block one by one; lines that
orjson refuses are parsed by the standard library, because a lone surrogate in another field, or
1e999, is valid JSON and no reason to reject a text.
"""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from neardup import kernels
from neardup.corpus.columns import Source, disagreement, keep_values, resolve_columns, wrong_type
from neardup.corpus.documents import (
    LONGEST,
    TOO_LONG,
    Columns,
    Documents,
    blank_rows,
    empty_strings,
    kind_of,
    render_column,
    string_column,
    text_column,
)
from neardup.corpus.encodings import INVALID
from neardup.corpus.fields import (
    MISSING,
    fill_values,
    list_record_fields,
    look_up,
    look_up_texts,
    missing_reason,
)
from neardup.corpus.format_table import BOM
from neardup.corpus.vectors import add_vectors, convert_values
from neardup.errors import UsageError

Record = dict[str, Any]
LineBounds = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]


class _RefusedError(Exception):
    """A line without a record; the message is the reason."""


def is_blank(line: bytes) -> bool:
    """Return whether a line is blank, and so no document."""
    return not line or line.isspace()


def find_line_bounds(data: bytes, first: bool) -> LineBounds:
    """Return where lines begin and end (with their newline), and which of them are documents."""
    letters = np.frombuffer(data, np.uint8)
    ends = kernels.line_ends(letters)
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    is_document = np.ones(len(ends), bool)
    # Only a line that begins with white space or a byte order mark can be blank.
    for line in np.flatnonzero((letters[starts] <= ord(" ")) | (letters[starts] == BOM[0])):
        content = data[starts[line] : ends[line]]
        if first and line == 0:
            content = content.removeprefix(BOM)
        is_document[line] = not is_blank(content)
    return starts, ends, is_document


def select_lines(data: bytes, first: bool, rows: npt.NDArray[np.int64]) -> tuple[bytes, int]:
    """Return the lines of the documents in `rows`, and the number of all documents."""
    if first:
        data = data.removeprefix(BOM)
    starts, ends, is_document = find_line_bounds(data, first)
    count = int(np.count_nonzero(is_document))
    if len(rows) and rows[-1] >= count:
        return b"", count
    lines = np.flatnonzero(is_document)[rows]
    sizes = ends[lines] - starts[lines]
    chosen = np.empty(sizes.sum(), np.uint8)
    kernels.copy_rows(np.frombuffer(data, np.uint8), starts[lines], sizes, chosen)
    return chosen.tobytes(), count


def parse_lines(data: bytes, first: bool, columns: Columns, source: Source) -> Documents:
    """Return the documents of whole lines; `first` if the file begins with them."""
    if first:
        data = data.removeprefix(BOM)
    if (documents := _parse_common(data, first, columns, source)) is not None:
        return documents
    lines = [line for line in data.split(b"\n") if line and not line.isspace()]
    records, rejected = load_records(lines, len(data) > LONGEST)
    if first and len(rejected) < len(lines):
        _refuse_outer_object(records, columns, source)
        resolve_columns(columns, list_record_fields(records, columns), source)
    texts, reasons = _texts(records, columns)
    if first and len(reasons) == len(records) and not columns.textless:
        usable = [record for row, record in enumerate(records) if row not in rejected]
        _refuse_wrong_type(usable, columns, source)
    keep = None
    if columns.keep is not None:
        stated = _values(records, columns.keep, source, ranks=not columns.dates)
        keep = keep_values(stated, columns)

    def rendered(name: str) -> Any:
        return _rendered(lines, records, name, source)

    within = None if columns.within is None else rendered(columns.within)
    distinct = tuple(map(rendered, columns.distinguish))
    sources = None if columns.source is None else rendered(columns.source)
    # Only an option makes the value of a folder an id.
    ids = rendered(columns.id) if columns.id else _rendered(lines, records, "id", Source(""))
    reasons = dict(sorted((reasons | rejected).items()))
    if columns.textless:
        texts = blank_rows(texts, rejected)
    documents = Documents(texts, ids, keep, within, reasons, distinct, sources)
    if columns.vector_column is None:
        return documents
    vectors = convert_values(_find_values(records, columns.vector_column), columns.dimension)
    return add_vectors(documents, vectors)


def _refuse_outer_object(records: list[Record], columns: Columns, source: Source) -> None:
    """Raise `UsageError` if the only record has the records, in a list, instead of a text."""
    if len(records) != 1 or columns.content in records[0]:
        return
    for name, value in records[0].items():
        has_objects = isinstance(value, list) and value and isinstance(value[0], dict)
        if has_objects and columns.content in value[0]:
            raise UsageError(
                f"{source.name}: one object, whose list {name[:60]!r} has the records: use "
                f"--records {shlex.quote(name[:60])}"
            )


def _refuse_wrong_type(records: list[Record], columns: Columns, source: Source) -> None:
    """Raise `UsageError` if several records have objects, lists or numbers instead of texts."""
    need, kinds = ("lists of token ids", list) if columns.tokens else ("text", str)
    values = look_up_texts(records, columns)
    absent = any(value is MISSING or value is None for value in values)
    if len(values) > 1 and not absent and not any(isinstance(value, kinds) for value in values):
        raise wrong_type(source, "text", columns.text, kind_of(values[0]), need)


def _parse_common(data: bytes, first: bool, columns: Columns, source: Source) -> Documents | None:
    """Return the documents if the kernel is sure of every line, else None."""
    text, id = columns.text.encode(), (columns.id or "id").encode()
    others = columns.keep or columns.within or columns.distinguish or columns.source
    if others or columns.vectors or columns.textless or columns.tokens:
        return None
    if len(data) > LONGEST or text == id:
        return None
    if columns.id and source.value(columns.id) is not MISSING:
        return None
    sure, texts, text_ends, ids, id_ends, has_id = kernels.read_records(
        *(np.frombuffer(part, np.uint8) for part in (data, text, id))
    )
    if not sure or (first and columns.id and not has_id.any()):
        return None
    if columns.id and ("." in columns.id and not has_id.all()):
        return None  # it may be inside of others
    present = None if has_id.all() else has_id
    return Documents(
        string_column(texts, text_ends), string_column(ids, id_ends, present), None, None, {}
    )


def load_records(lines: list[bytes], may_be_long: bool) -> tuple[list[Record], dict[int, str]]:
    """Return a record for each line, empty where it is rejected, and the reasons of those."""
    loads = orjson.loads
    try:
        records = [loads(line) for line in lines]
        if set(map(type, records)) <= {dict} and not may_be_long:
            return records, {}
    except orjson.JSONDecodeError:
        pass
    records, rejected = [], {}
    for row, line in enumerate(lines):
        try:
            records.append(_record(line))
        except _RefusedError as refused:
            records.append({})
            rejected[row] = str(refused)
    return records, rejected


def _record(line: bytes) -> Record:
    if len(line) > LONGEST:
        raise _RefusedError(TOO_LONG)
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        record = _parse_strictly(line)
    if not isinstance(record, dict):
        raise _RefusedError("JSON, but not an object")
    return record


def _parse_strictly(line: bytes) -> object:
    """Parse a line by the standard library; `_RefusedError` names what is wrong with it."""
    try:
        return json.loads(line.decode(), parse_int=_number, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise _RefusedError(INVALID) from None
    except RecursionError:
        raise _RefusedError("JSON nested too deeply") from None
    except ValueError:
        raise _RefusedError("not JSON") from None


def _number(digits: str) -> float:
    # As orjson does; int() refuses more than 4,300 digits.
    return int(digits) if len(digits) < 20 else float(digits)


def _no_constant(name: str) -> object:
    raise _RefusedError(f"not JSON: it has no {name}")


def _texts(records: list[Record], columns: Columns) -> tuple[Any, dict[int, str]]:
    if columns.textless:
        return empty_strings(len(records)), {}
    name = columns.text
    try:
        return text_column([record[name] for record in records], columns.tokens)
    except KeyError:
        values = look_up_texts(records, columns)
        absent = {row for row, value in enumerate(values) if value is MISSING}
        known = [None if value is MISSING else value for value in values]
        texts, reasons = text_column(known, columns.tokens)
        return texts, reasons | dict.fromkeys(absent, missing_reason(columns))


def _find_values(records: list[Record], name: str) -> list[Any]:
    """Return a field of all records, None where it is missing."""
    if "." in name:
        found = [look_up(record, name) for record in records]
        return [None if value is MISSING else value for value in found]
    return [record.get(name) for record in records]


def _values(records: list[Record], name: str, source: Source, *, ranks: bool = False) -> list[Any]:
    """Return a field of all records, None where it is missing; or what the file's folder states."""
    values = _find_values(records, name)
    stated = source.value(name)
    if stated is MISSING:
        return values
    filled = fill_values(values, stated, ranks)
    if filled is None:
        raise disagreement(source, name, stated)
    return filled


def _rendered(lines: list[bytes], records: list[Record], name: str, source: Source) -> Any:
    values = _values(records, name, source)
    if (stated := source.value(name)) is not MISSING:
        # Numbers that agree may be written otherwise: 1 in the folder month=01.
        return render_column([stated] * len(values))
    for row, value in enumerate(values):
        if isinstance(value, float) and abs(value) >= 2**53:
            # orjson made a double of an integer beyond 64 bits: the line still has its digits.
            with suppress(RecursionError, ValueError):
                values[row] = look_up(json.loads(lines[row], parse_int=str), name)
    return render_column(values)
