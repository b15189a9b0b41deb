"""Find what an option names: a column, a field inside of others, several columns, a folder.

    text              the column of that name, whatever signs are in it; else
    doc.text          the field `text` inside of the column `doc`
    title,body        both, joined by a blank line; for texts only
    lang              the value of the folder lang=de, through which the path of the file leads
    folder:1          the name of the first folder below the input folder
    mtime, path       of a file that is one document: when it was last changed, and its path

A table or a record has the first of these that it can have. Fields inside of lists are listed as
`pages[].text`, to be shown in messages: a document can't have several values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from neardup.corpus.documents import TEXT, Columns, is_null, render
from neardup.corpus.inputs import InputFile
from neardup.corpus.streams import name_read_errors
from neardup.corpus.urls import is_url
from neardup.errors import UsageError

JOINT: Final = "\n\n"
"""Between the parts of a text that comes from several columns."""
MISSING: Final = object()
LIST: Final = "[]"
FILE_COLUMNS: Final = ("mtime", "path")
"""What is known of a file that is one document, as columns."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_FOLDER = re.compile(r"folder:([1-9]\d{0,3})", re.ASCII)
_DEEPEST, _SAMPLED = 8, 1000


def parts_of(columns: Columns, option: str, names: Sequence[str]) -> list[str]:
    """Return the names that an option stands for; several if it asks for a text of several.

    Of several, those that exist; all of them if none does. None for the text if none is read.

    Args:
        columns: The columns that are asked for.
        option: The option, a key of `columns.asked()` or "text".
        names: The fields that exist.
    """
    name = columns.asked().get(option)
    if name is None:
        return []
    if option != "text" or name in names or "," not in name:
        return [name]
    parts = split_names(name)
    return [part for part in parts if part in names] or parts


def split_names(name: str) -> list[str]:
    """Return the single names of several columns.

    >>> split_names("title, body")
    ['title', 'body']
    """
    return [part.strip() for part in name.split(",")]


def needed_fields(columns: Columns, names: Sequence[str]) -> list[str]:
    """Return the fields that must be read, each once; the values of folders are not read.

    If none must be, it is the first one: rows without columns could not be counted.
    """
    parts = (part for option in columns.asked() for part in parts_of(columns, option, names))
    return list(dict.fromkeys(part for part in parts if part in names)) or list(names[:1])


def top_level(fields: Iterable[str], names: Sequence[str]) -> list[str]:
    """Return the columns, with these names, that contain the fields."""
    return list(dict.fromkeys(f if f in names else f.partition(".")[0] for f in fields))


def look_up(record: Mapping[str, Any], name: str) -> Any:
    """Return a field of a record, MISSING if it has none of that name.

    >>> look_up({"doc": {"text": "a"}}, "doc.text")
    'a'
    >>> look_up({"doc": {"text": "a"}, "doc.text": "b"}, "doc.text")
    'b'
    """
    if name in record:
        return record[name]
    head, dot, rest = name.partition(".")
    inner = record.get(head) if dot else None
    return look_up(inner, rest) if isinstance(inner, dict) else MISSING


def look_up_texts(records: Sequence[Mapping[str, Any]], columns: Columns) -> list[Any]:
    """Return the text of each record, joined if it comes from several fields; MISSING without."""
    name = columns.text
    if columns.rewritten:
        return [record.get(name, MISSING) for record in records]
    values = [look_up(record, name) for record in records]
    if "," not in name:
        return values
    parts = split_names(name)
    return [
        join_values([look_up(record, part) for part in parts]) if value is MISSING else value
        for record, value in zip(records, values, strict=True)
    ]


def join_values(parts: Sequence[Any]) -> Any:
    r"""Return the text that consists of these parts, without those that are missing or empty.

    >>> join_values(["A title", None, "and a body"])
    'A title\n\nand a body'

    Without any, it is MISSING or None. A part that is no string is returned, to be refused as text.
    """
    if all(isinstance(part, str) and part for part in parts):
        return JOINT.join(parts)
    present = [part for part in parts if part is not MISSING and not is_null(part)]
    if not present:
        return MISSING if all(part is MISSING for part in parts) else None
    for part in present:
        if not isinstance(part, str):
            return part
    return JOINT.join(filter(None, present))


def missing_reason(columns: Columns) -> str:
    """Return why a record without its text is rejected."""
    return f"no field {columns.text!r}"


def join_columns(parts: Sequence[pa.Array]) -> pa.Array:
    """Return the texts of several large_string columns; null where all are null."""
    empty, joint = pa.scalar("", TEXT), pa.scalar(JOINT, TEXT)
    texts, absent = pc.fill_null(parts[0], empty), parts[0].is_null()
    # Two by two: with null_handling="skip", PyArrow 26 loses rows in which all are null.
    for part in parts[1:]:
        more = pc.fill_null(part, empty)
        joined = pc.binary_join_element_wise(texts, more, joint)
        begun = pc.if_else(pc.equal(more, empty), texts, joined)
        texts = pc.if_else(pc.equal(texts, empty), more, begun)
        absent = pc.and_(absent, part.is_null())
    return pc.if_else(absent, pa.scalar(None, TEXT), texts)


def list_record_fields(records: Sequence[Any], columns: Columns) -> list[str]:
    """Return the names of the fields of records, and of those inside of them if one is needed."""
    rows = [record for record in records if isinstance(record, dict)]
    names = dict.fromkeys(str(name) for record in rows for name in record)
    if columns.rewritten or set(columns.asked().values()) <= names.keys():
        return list(names)
    inner = (name for record in rows[:_SAMPLED] for name in _inside(record, "", _DEEPEST))
    return list(names | dict.fromkeys(inner))


def _inside(value: Any, prefix: str, depth: int) -> Iterable[str]:
    """Yield the names of the fields inside of the fields of a record, or of the items of a list."""
    if not depth:
        return
    if isinstance(value, (list, tuple)):
        for item in value[:1]:
            yield from _inside(item, prefix + LIST, depth)
    elif isinstance(value, dict):
        for key, field in value.items():
            name = f"{prefix}.{key}" if prefix else str(key)
            if prefix:
                yield name
            yield from _inside(field, name, depth - 1)


def list_table_fields(schema: pa.Schema, columns: Columns) -> list[str]:
    """Return the names of the columns of a table, and of fields inside of them if one is needed."""
    names = list(schema.names)
    if columns.rewritten or set(columns.asked().values()) <= set(names):
        return names
    inner = (name for field in schema for name in _inside_type(field.type, field.name, _DEEPEST))
    return names + [name for name in dict.fromkeys(inner) if name not in names]


def _inside_type(kind: pa.DataType, prefix: str, depth: int) -> Iterable[str]:
    if not depth:
        return
    if pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            name = f"{prefix}.{kind.field(place).name}"
            yield name
            yield from _inside_type(kind.field(place).type, name, depth - 1)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _inside_type(kind.value_type, prefix + LIST, depth - 1)


def is_in_list(name: str, names: Sequence[str]) -> bool:
    """Return whether a name, one of `names`, is that of fields inside of a list.

    >>> is_in_list("pages[].text", ["pages", "pages[].text"]), is_in_list("a[]", ["a[]"])
    (True, False)
    """
    return f"{LIST}." in name and name[: name.index(LIST)] in names


def take_field(table: pa.RecordBatch | pa.Table, name: str) -> pa.Array | pa.ChunkedArray:
    """Return a column, or a field inside of structs: null where one of these is null."""
    if name in table.schema.names:
        return table.column(name)
    head, _, rest = name.partition(".")
    return _take_inner(table.column(head), rest)


def _take_inner(column: Any, name: str) -> Any:
    names = [column.type.field(place).name for place in range(column.type.num_fields)]
    if name in names:
        return pc.struct_field(column, [names.index(name)])
    head, _, rest = name.partition(".")
    return _take_inner(pc.struct_field(column, [names.index(head)]), rest)


def folder_value(file: InputFile, name: str) -> Any:
    """Return what a file and its path state under a name: a string or None; else MISSING."""
    if level := _FOLDER.fullmatch(name):
        if file.folders is None:
            raise UsageError(
                f"{file.name} was given itself, so that it is in no folder of the input: give the "
                f"folder that contains it, or leave out {name}"
            )
        place = int(level[1]) - 1
        return file.folders[place] if place < len(file.folders) else None
    for folder in reversed(file.name.split("/")[:-1]):
        key, sign, value = folder.partition("=")
        if sign and unquote(key, errors="backslashreplace") == name:
            return None if value == _NULL_FOLDER else unquote(value, errors="backslashreplace")
    return file_value(file, name)


def file_value(file: InputFile, name: str) -> Any:
    """Return what a file that is one document has under a name: its time or its path; or MISSING.

    A file that was fetched from a URL has none: the time would be that of its copy.
    """
    if name not in FILE_COLUMNS or not file.row.is_document or is_url(file.name):
        return MISSING
    if name == "path":
        return file.kept_name.encode("utf-8", "backslashreplace").decode()
    with name_read_errors(file):
        changed = os.stat(file.path).st_mtime_ns // 1000
    # As text, and of one length, so that max: and min: compare it as newest: and oldest: do.
    return (_EPOCH + timedelta(microseconds=changed)).isoformat(timespec="microseconds")


def folder_columns(file: InputFile) -> list[str]:
    """Return the columns that the path of a file states: lang of lang=de."""
    folders = (folder.partition("=") for folder in file.name.split("/")[:-1])
    return [unquote(key, errors="backslashreplace") for key, sign, _ in folders if key and sign]


def to_number(stated: str | None) -> float | str | None:
    """Return the value of a folder as a number, if it is one."""
    try:
        return None if stated is None else float(stated)
    except ValueError:
        return stated


def fill_values(values: list[Any], stated: str | None, ranks: bool) -> list[Any] | None:
    """Return Python values, with what a folder states where one is null; None if another differs.

    Args:
        values: The values.
        stated: The value of the folder.
        ranks: Whether the values rank documents, so that a number counts as one.
    """
    number = to_number(stated)
    for value in values:
        if not is_null(value) and render(value) != stated and value != number:
            return None
    has_strings = any(isinstance(value, str) for value in values)
    fill = number if ranks and not has_strings else stated
    return [fill if is_null(value) else value for value in values]
