"""Convert the columns of an Arrow table to documents.

Used for Parquet files, Arrow files and DataFrames. Arrow's string columns need not be valid UTF-8
(the Parquet reader does not check it): the whole column is validated at once, and single rows only
if that fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from neardup.corpus.dates import convert_dates, convert_values
from neardup.corpus.documents import (
    LONGEST,
    TEXT,
    TEXT_IS_NULL,
    TOKENS,
    TOO_LONG,
    Columns,
    Documents,
    as_plain,
    blank_rows,
    empty_strings,
    keep_column,
    make_strings,
    render_column,
)
from neardup.corpus.encodings import INVALID
from neardup.corpus.fields import (
    LIST,
    MISSING,
    folder_columns,
    folder_value,
    is_in_list,
    join_columns,
    list_table_fields,
    parts_of,
    split_names,
    take_field,
    to_number,
)
from neardup.corpus.inputs import InputFile
from neardup.corpus.vectors import ConvertedVectors, add_vectors, convert_column
from neardup.errors import ColumnError, InputError, UsageError

_TIMESTAMP = pa.timestamp("us")
_IN_ROWS = {"text", "vectors"}
"""The options whose values no folder states."""


@dataclass(frozen=True)
class Source:
    """A table, for error messages.

    Attributes:
        name: The name of the table.
        option: How its user writes an option: "--{}" on the command line, "{}=" in Python.
        file: The file that it comes from, whose folders are columns too.
    """

    name: str
    option: str = "--{}"
    file: InputFile | None = None

    @classmethod
    def of(cls, file: InputFile) -> Source:
        """Return the source of a file's documents."""
        return cls(file.name, file=file)

    def name_option(self, option: str) -> str:
        """Return an option as its user writes it.

        >>> Source("x").name_option("merge-rows"), Source("x", "{}=").name_option("merge-rows")
        ('--merge-rows', 'merge_rows=')
        """
        is_flag = self.option.startswith("-")
        return self.option.format(option if is_flag else option.replace("-", "_"))

    def value(self, name: str) -> Any:
        """Return what the file's folders state under a name; MISSING if they don't."""
        return MISSING if self.file is None else folder_value(self.file, name)


def resolve_columns(columns: Columns, names: Sequence[str], source: Source) -> Columns:
    """Return the columns with `id` decided; raise an error if one is missing.

    Of several columns for the text, a file needs one: others may have the rest, which
    `column_check` makes sure of.

    Args:
        columns: The columns that are asked for.
        names: The fields that exist: columns, and fields inside of them; only columns if texts
            are rewritten.
        source: Where.
    """
    if columns.id is None and "id" in names:
        columns = replace(columns, id="id")
    several = "," in columns.text and columns.text not in names
    if columns.tokens and several:
        raise UsageError("token ids of several columns can't be joined: choose one of them")
    if columns.rewritten and (several or ("." in columns.text and columns.text not in names)):
        raise UsageError(
            f"{source.name} has no column {columns.text!r}, and texts inside of others or in "
            f"several columns can't be shortened: choose one with {source.name_option('text')}, "
            "or use --unit document"
        )
    for option in columns.asked():
        parts = parts_of(columns, option, names)
        if option == "text" and several and source.file is None:
            parts = split_names(columns.text)
        for name in parts:
            if names.count(name) > 1:
                raise UsageError(f"{source.name} has two columns {name!r}: rename one of them")
            if is_in_list(name, names):
                raise _missing(name, option, names, source, columns)
            stated = MISSING if option in _IN_ROWS else source.value(name)
            if name not in names and stated is MISSING:
                raise _missing(name, option, names, source, columns)
    return columns


def _missing(
    name: str, option: str, names: Sequence[str], source: Source, columns: Columns
) -> UsageError:
    """Return the error for a column that does not exist, or that is inside of a list."""
    flag = columns.vectors_option if option == "vectors" else option.partition(":")[0]
    flag = source.name_option(flag)
    for other in names:
        if is_in_list(other, names) and other.replace(LIST, "") == name.replace(LIST, ""):
            return UsageError(
                f"{source.name}: {name!r} is inside of a list ({other}), and a document has one "
                f"value: make a row of each item, or choose another column with {flag}"
            )
    possible = [other for other in names if not is_in_list(other, names)]
    if option not in _IN_ROWS and source.file is not None:
        possible += [key for key in folder_columns(source.file) if key not in possible]
    near = [other for other in possible if other.lower().rpartition(".")[2] == name.lower()]
    near = near or get_close_matches(name, possible, 1)
    existing = [other[:60] for other in possible[:50]]
    return ColumnError(name, existing, source.name, flag, near[0][:60] if near else None)


def convert_table(table: pa.RecordBatch | pa.Table, columns: Columns, source: Source) -> Documents:
    """Return the table's rows as documents; `columns` are resolved. Ids keep their type."""
    fields = list_table_fields(table.schema, columns)
    texts, rejected = _convert_texts(table, columns, source, fields)

    def values(name: str, ranks: bool = False) -> pa.Array:
        return _values(table, name, source, fields, ranks)

    def labels(name: str) -> pa.Array:
        column, stated = values(name), source.value(name)
        # Numbers that agree may be written otherwise: 1 in the folder month=01.
        return column if stated is MISSING else make_strings([stated] * table.num_rows)

    ids = make_strings([None] * len(texts)) if columns.id is None else labels(columns.id)
    keep = None
    if columns.keep is not None:
        convert = to_dates if columns.dates else to_rankable
        keep = convert(values(columns.keep, not columns.dates), source, columns.keep)
    within = None if columns.within is None else to_strings(labels(columns.within))
    distinct = tuple(to_strings(labels(name)) for name in columns.distinguish)
    sources = None if columns.source is None else to_strings(labels(columns.source))
    rejected = dict(sorted(rejected.items()))
    documents = Documents(texts, ids, keep, within, rejected, distinct, sources)
    if columns.vector_column is None:
        return documents
    return add_vectors(documents, _convert_vectors(table, columns, source))


def _convert_texts(
    table: pa.RecordBatch | pa.Table, columns: Columns, source: Source, fields: Sequence[str]
) -> tuple[pa.Array, dict[int, str]]:
    """Return the texts, or token ids, and the reason of each rejected row."""
    if columns.textless:
        return empty_strings(table.num_rows), {}
    read = _token_column if columns.tokens else _text_column
    names = parts_of(columns, "text", fields)
    parts = [read(_column(table, name), source, name) for name in names]
    if len(parts) == 1:
        return parts[0]
    invalid = {
        row: why for _, reasons in parts for row, why in reasons.items() if why != TEXT_IS_NULL
    }
    texts = join_columns([part for part, _ in parts])
    rejected = dict.fromkeys(_true_rows(texts.is_null()), TEXT_IS_NULL) | invalid
    return _reject_long(blank_rows(texts, set(invalid)), pc.binary_length, LONGEST, rejected)


def _convert_vectors(
    table: pa.RecordBatch | pa.Table, columns: Columns, source: Source
) -> ConvertedVectors:
    name = columns.vector_column or ""
    column = take_field(table, name)
    vectors = convert_column(column, columns.dimension)
    if vectors is None:
        need = "lists of numbers"
        raise wrong_type(source, columns.vectors_option, name, column.type, need)
    return vectors


def _values(
    table: pa.RecordBatch | pa.Table, name: str, source: Source, fields: Sequence[str], ranks: bool
) -> pa.Array:
    """Return a column, with the value that the file's folders state where it has none.

    Args:
        table: The table.
        name: The column.
        source: Where the table comes from.
        fields: The fields of the table.
        ranks: Whether it ranks documents, so that a folder's value that is a number counts as one.
    """
    stated = source.value(name)
    if stated is MISSING:
        return _column(table, name)
    if name not in fields:
        if ranks:
            return keep_column([to_number(stated)] * table.num_rows)
        return make_strings([stated] * table.num_rows)
    column = decode_strings(_column(table, name))
    known = column.drop_null()
    try:
        expected = pa.scalar(stated, TEXT).cast(column.type)
        agrees = pc.all(pc.equal(known, expected), min_count=0).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        expected, agrees = pa.scalar(None, column.type), not len(known)
    if stated is None:
        agrees = not len(known)
    if not agrees:
        raise disagreement(source, name, stated)
    return pc.fill_null(column, expected) if expected.is_valid else column


def add_folder_values(
    documents: Documents, files: Sequence[InputFile], columns: Columns
) -> Documents:
    """Return documents of files without columns, with the values that the files' folders state.

    Args:
        documents: The documents.
        files: The file of each, or one file.
        columns: The columns that are asked for; folders state all of them but the text.
    """
    rows = files if len(files) == len(documents) else [files[0]] * len(documents)

    def values(name: str) -> list[str | None]:
        return [folder_value(file, name) for file in rows]

    def strings(name: str) -> pa.Array:
        return make_strings(values(name))

    keep = None
    if columns.keep is not None:
        stated = values(columns.keep)
        keep = keep_values(stated if columns.dates else list(map(to_number, stated)), columns)
    return replace(
        documents,
        ids=documents.ids if columns.id is None else strings(columns.id),
        keep=keep,
        within=None if columns.within is None else strings(columns.within),
        distinct=tuple(map(strings, columns.distinguish)),
        sources=None if columns.source is None else strings(columns.source),
    )


def disagreement(source: Source, name: str, stated: str | None) -> InputError:
    """Return the error for a file whose column differs from what its folder states."""
    folder = f"{name}={'__HIVE_DEFAULT_PARTITION__' if stated is None else stated}"
    return InputError(
        f"{source.name}: a row has another value in its column {name!r} than the folder {folder}: "
        "move the file, rename the folder, or rename the column",
        source.name,
    )


def _column(table: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    column = take_field(table, name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(column, pa.ChunkedArray):  # over 2 GiB, too long for one array of its type
        column = pa.chunked_array(map(decode_strings, column.chunks)).combine_chunks()
    return column


def decode_strings(column: pa.Array) -> pa.Array:
    """Return strings of every Arrow type as large_string, not validated; other types unchanged."""
    if pa.types.is_dictionary(column.type):
        words = decode_strings(column.dictionary)
        column = pa.DictionaryArray.from_arrays(column.indices, words).dictionary_decode()
    column = as_plain(column)
    return column.cast(TEXT) if column.type == pa.string() else column


def _text_column(column: pa.Array, source: Source, name: str) -> tuple[pa.Array, dict[int, str]]:
    texts = decode_strings(column)
    if pa.types.is_null(texts.type):
        texts = texts.cast(TEXT)
    if texts.type != TEXT:
        raise wrong_type(source, "text", name, column.type, "text")
    texts, invalid = blank_invalid_utf8(texts)
    rejected = dict.fromkeys(_true_rows(texts.is_null()), TEXT_IS_NULL)
    rejected |= dict.fromkeys(invalid, INVALID)
    return _reject_long(texts, pc.binary_length, LONGEST, rejected)


def _token_column(column: pa.Array, source: Source, name: str) -> tuple[pa.Array, dict[int, str]]:
    kind = column.type
    # Not list_view: PyArrow 26 casts it to empty lists.
    is_list = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    if not is_list or not pa.types.is_integer(kind.value_type):
        raise wrong_type(source, "text", name, kind, "lists of token ids")
    try:
        tokens = column.cast(TOKENS)
    except pa.ArrowInvalid:
        raise UsageError(
            f"{source.name}: column {name!r} has token ids beyond 63 bits: use smaller ones"
        ) from None
    rejected = dict.fromkeys(_true_rows(tokens.is_null()), TEXT_IS_NULL)
    parents = pc.list_parent_indices(tokens)
    is_null = pc.list_flatten(tokens).is_null()
    incomplete = set(pc.filter(parents, is_null).to_pylist())
    rejected |= dict.fromkeys(incomplete, "a token id is null")
    tokens = blank_rows(tokens, incomplete)
    return _reject_long(tokens, pc.list_value_length, LONGEST // 8, rejected)


def _reject_long(
    texts: pa.Array, measure: pc.Function, longest: int, rejected: dict[int, str]
) -> tuple[pa.Array, dict[int, str]]:
    """Return the texts and the rejected rows, with those longer than `longest` rejected."""
    if texts.nbytes <= LONGEST:
        return texts, rejected
    long = set(_true_rows(pc.fill_null(pc.greater(measure(texts), longest), False)))
    return blank_rows(texts, long), rejected | dict.fromkeys(long, TOO_LONG)


def blank_invalid_utf8(strings: pa.Array) -> tuple[pa.Array, set[int]]:
    """Return a large_string column with null where bytes are not UTF-8, and those rows."""
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        rows = enumerate(strings.cast(pa.large_binary()).to_pylist())
        invalid = {row for row, value in rows if value is not None and not _decodes(value)}
        return blank_rows(strings, invalid), invalid
    return strings, set()


def _decodes(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def to_strings(column: pa.Array) -> pa.Array:
    """Return any column as large_string, for ids and `within` values."""
    column = decode_strings(column)
    if column.type == TEXT:
        return blank_invalid_utf8(column)[0]
    simple = pa.types.is_primitive(column.type) and not pa.types.is_floating(column.type)
    if simple or pa.types.is_decimal(column.type):
        return column.cast(TEXT)
    return render_column(column.to_pylist())


def keep_values(values: list[Any], columns: Columns) -> pa.Array:
    """Return Python values to rank by as a column."""
    return convert_values(values) if columns.dates else keep_column(values)


def to_rankable(column: pa.Array, source: Source, name: str) -> pa.Array:
    """Return a column to rank by, as numbers, large_string or timestamps."""
    column, is_ = decode_strings(column), pa.types
    kind = column.type
    if kind == TEXT:
        return blank_invalid_utf8(column)[0]
    if is_.is_null(kind):
        return column
    if kind == pa.uint64() or is_.is_decimal(kind):
        return column  # unchanged: as doubles, large values would be ties
    if is_.is_floating(kind):
        return column.cast(pa.float64(), safe=False)
    if is_.is_integer(kind) or is_.is_boolean(kind) or is_.is_duration(kind) or is_.is_time64(kind):
        return column.cast(pa.int64())
    if is_.is_timestamp(kind) and kind.unit == "ns":
        return column.cast(pa.timestamp("ns"), safe=False)
    if is_.is_timestamp(kind) or is_.is_date(kind):
        return column.cast(_TIMESTAMP, safe=False)
    raise wrong_type(source, "keep", name, kind, "numbers, strings or dates")


def to_dates(column: pa.Array, source: Source, name: str) -> pa.Array:
    """Return a column of dates, in any form that `dates` converts, as timestamps."""
    column, is_ = decode_strings(column), pa.types
    kind = column.type
    if kind == TEXT:
        column = blank_invalid_utf8(column)[0]
    convertible = (
        *(is_.is_integer, is_.is_floating, is_.is_decimal),
        *(is_.is_timestamp, is_.is_date, is_.is_null),
    )
    if kind != TEXT and not any(check(kind) for check in convertible):
        raise wrong_type(source, "keep", name, kind, "dates")
    return convert_dates(column)


def wrong_type(source: Source, option: str, name: str, kind: object, need: str) -> UsageError:
    """Return the error for a column whose values can't be what an option needs."""
    choose = source.name_option(option)
    return UsageError(
        f"{source.name}: column {name!r} is {kind}, not {need}: choose another with {choose}"
    )


def _true_rows(mask: pa.Array) -> list[int]:
    rows: list[int] = pc.indices_nonzero(mask).to_pylist()
    return rows
