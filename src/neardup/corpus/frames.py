"""Read documents from Python objects, and give tables back as them.

Lists of strings, lists of dicts, pandas, Polars, PyArrow, Hugging Face datasets, and anything
with the Arrow stream interface. Only the required columns are converted, one batch at a time, so
that a large table is not copied as a whole. No DataFrame library is imported: the object's own
library is loaded already.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neardup.corpus.annotations import refuse_columns
from neardup.corpus.columns import (
    Source,
    convert_table,
    decode_strings,
    keep_values,
    resolve_columns,
)
from neardup.corpus.documents import TEXT, Columns, Documents, render_column, text_column
from neardup.corpus.fields import (
    MISSING,
    join_columns,
    join_values,
    list_record_fields,
    list_table_fields,
    look_up,
    look_up_texts,
    missing_reason,
    needed_fields,
    parts_of,
    take_field,
    top_level,
)
from neardup.corpus.rows import filter_batch, filter_column
from neardup.corpus.vector_files import VectorFile, VectorRows, attach_all
from neardup.corpus.vectors import (
    add_vectors,
    alike,
    bare_documents,
    convert_matrix,
    convert_values,
    with_dimension,
)
from neardup.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_BATCH_BYTES = 16 << 20
_FIRST_ROWS, _MAX_ROWS = 256, 1 << 16
_LONGEST_PATH = 4096


class ArrowTable(Protocol):
    """A table with the Arrow stream interface: pandas, Polars, PyArrow, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class LazyTable(Protocol):
    """A table that is not computed yet: a Polars LazyFrame."""

    def collect_schema(self) -> Any: ...
    def collect(self) -> Any: ...


DocumentData: TypeAlias = ArrowTable | LazyTable | Iterable[Any]
"""What holds documents: a table, or strings, dicts or lists of token ids one after the other."""

Cut = Callable[[int, int, Columns], Documents]
"""Converts the rows from, to, of resolved columns; fewer rows if the data ends before."""


def read_data(data: Any, columns: Columns, rows: VectorRows | None = None) -> Iterator[Documents]:
    """Yield the documents of `data`, in order, in batches of about 16 MB.

    A single column (a list of strings, a Series, an Arrow array, a matrix) contains the texts, or
    without texts the vectors; of a table, `columns` names the columns to read. Ids keep the type of
    their column. If no vector is usable, that is an error.

    Args:
        data: What holds the documents.
        columns: The columns to read.
        rows: The vectors of the documents, if they are not in a column; by default they are in the
            .npy file that `columns.vectors` names, if it names one.
    """
    _refuse(data)
    if columns.vectors is None and rows is None:
        return _read(data, columns)
    if rows is None and columns.vector_column is None:
        rows = VectorFile.open(columns.vectors or "")
    if rows is None:
        return alike(_read(data, columns), columns)
    others = _read(data, replace(columns, vectors=None))
    return alike(attach_all(others, rows, columns), columns)


def _read(data: Any, columns: Columns) -> Iterator[Documents]:
    source = Source(f"this {type(data).__name__}", "{}=")
    if _is(data, "polars", "LazyFrame"):
        data = _select_lazily(data, columns, source).collect()
    if _is(data, "pandas", "DataFrame"):
        return _pandas(data, columns, source)
    if _is(data, "pandas", "Series", "Index"):
        data = data.to_frame(columns.content)
        return _pandas(data, _only_text(columns, source), source)
    if _is(data, "datasets", "Dataset"):
        return _hugging_face(data, columns, source)
    if _is(data, "datasets", "IterableDataset"):
        return _tables(data.with_format("arrow").iter(_FIRST_ROWS), columns, source)
    if isinstance(data, (pa.Array, pa.ChunkedArray)) or _is(data, "polars", "Series"):
        table = pa.Table.from_pydict({columns.content: pa.chunked_array(data)})
        return _tables(table.to_batches(), _only_text(columns, source), source)
    if hasattr(data, "__arrow_c_stream__"):
        return _tables(pa.RecordBatchReader.from_stream(data), columns, source)
    if isinstance(data, pa.RecordBatch):
        return _tables([data], columns, source)
    if columns.textless and isinstance(data, np.ndarray) and data.ndim == 2:
        return _matrix(data, columns, source)
    return _objects(iter(data), columns, source)


def require_rereadable(data: object) -> None:
    """Raise `UsageError` for data that can be read only once."""
    if isinstance(data, (Iterator, pa.RecordBatchReader)):
        raise UsageError(
            f"this {type(data).__name__} can be read only once, and counting reads the "
            "documents before they are compared: pass a list or a table"
        )


def _is(data: object, library: str, *names: str) -> bool:
    """Return whether `data` is an instance of these classes of a library, without importing it."""
    module = sys.modules.get(library)
    kinds = tuple(getattr(module, name) for name in names if hasattr(module, name))
    return isinstance(data, kinds)


def _refuse(data: object) -> None:
    """Raise `UsageError` for objects that are no sequence of documents."""
    name = type(data).__name__
    if isinstance(data, (str, bytes, os.PathLike)):
        raise UsageError("pass a list of texts, or files to neardup.dedup_files")
    if isinstance(data, (set, frozenset)):
        raise UsageError("a set has no order, so no copy is the first: pass a list")
    if _is(data, "datasets", "DatasetDict", "IterableDatasetDict"):
        raise UsageError(f"a {name} has several splits: pass one of them, as in data['train']")
    if isinstance(data, Mapping):
        raise UsageError("a dict is not a sequence of documents: pass a list or a table")
    is_lazy = _is(data, "polars", "LazyFrame")
    if not isinstance(data, Iterable) and not hasattr(data, "__arrow_c_stream__") and not is_lazy:
        raise UsageError(f"{name} holds no documents: pass a list of texts or a table")


def _only_text(columns: Columns, source: Source) -> Columns:
    """Return the columns of data that is a single column; `ColumnError` if others are asked for."""
    return resolve_columns(columns, [columns.content], source)


def _needed(columns: Columns) -> list[str]:
    return list(dict.fromkeys(columns.asked().values()))


def _choose(columns: Columns, schema: pa.Schema, source: Source) -> tuple[Columns, list[str]]:
    """Return the resolved columns, and the names of the columns of a table that they are in."""
    fields = list_table_fields(schema, columns)
    chosen = resolve_columns(columns, fields, source)
    return chosen, top_level(needed_fields(chosen, fields), schema.names)


def _select_lazily(data: Any, columns: Columns, source: Source) -> Any:
    names = data.collect_schema().names()
    needed = set(_needed(columns))
    if needed and needed <= set(names):
        return data.select(_needed(resolve_columns(columns, names, source)))
    return data.select(_choose(columns, data.head(0).collect().to_arrow().schema, source)[1])


def paced(total: int, cut: Cut, columns: Columns) -> Generator[Documents, None, Columns]:
    """Yield batches of about 16 MB, whose rows are estimated from the size of the batch before.

    Returns the columns with the dimension of the vectors, once one is usable.

    Args:
        total: The number of rows, or more if it is not known: an empty batch ends the data.
        cut: Converts a range of rows.
        columns: The columns.
    """
    start, rows = 0, _FIRST_ROWS
    while start < total:
        batch = cut(start, min(start + rows, total), columns)
        if not len(batch):
            break
        yield batch
        if columns.vectors is not None and columns.dimension is None:
            columns = with_dimension(columns, batch)
        start += len(batch)
        fit = rows * _BATCH_BYTES // max(1, batch.nbytes)
        rows = max(1, min(fit, 4 * rows, _MAX_ROWS))
    return columns


def _tables(tables: Iterable[Any], columns: Columns, source: Source) -> Iterator[Documents]:
    for table in tables:
        chosen, names = _choose(columns, table.schema, source)
        needed = table.select(names)

        def cut(start: int, end: int, chosen: Columns, needed: Any = needed) -> Documents:
            return convert_table(needed.slice(start, end - start), chosen, source)

        found = yield from paced(needed.num_rows, cut, chosen)
        columns = replace(columns, dimension=found.dimension)


def _hugging_face(data: Any, columns: Columns, source: Source) -> Iterator[Documents]:
    chosen, names = _choose(columns, data.features.arrow_schema, source)
    # Not data.data: after select or shuffle, the rows are a selection of that table.
    rows = data.select_columns(names).with_format("arrow")
    return paced(
        len(data),
        lambda start, end, chosen: convert_table(rows[start:end], chosen, source),
        chosen,
    )


def _matrix(
    data: npt.NDArray[Any], columns: Columns, source: Source
) -> Generator[Documents, None, Columns]:
    if data.dtype.kind not in "fiu":
        raise UsageError(f"{source.name} has {data.dtype}, not numbers: convert it to float32")

    def cut(start: int, end: int, chosen: Columns) -> Documents:
        return bare_documents(convert_matrix(data[start:end], chosen.dimension))

    return paced(len(data), cut, _only_text(columns, source))


def _pandas(data: Any, columns: Columns, source: Source) -> Iterator[Documents]:
    names = [str(name) for name in data.columns]

    def read(start: int, end: int, name: str) -> Any:
        values = data.iloc[start:end, names.index(name)]
        return values.tolist() if values.dtype == object else pa.array(values, from_pandas=True)

    fields = names
    if not set(_needed(columns)) <= set(names):
        fields = _list_inner_fields(names, lambda name: read(0, _FIRST_ROWS, name))

    def cut(start: int, end: int, chosen: Columns) -> Documents:
        def column(name: str) -> Any:
            if name in names:
                return read(start, end, name)
            if name == chosen.text and name not in fields:
                return _join([column(part) for part in parts_of(chosen, "text", fields)])
            if not name:
                return pa.nulls(end - start)
            head, _, rest = name.partition(".")
            return _inside(read(start, end, head), rest)

        return _from_columns(column, chosen, source)

    return paced(len(data), cut, resolve_columns(columns, fields, source))


def _list_inner_fields(names: list[str], read: Callable[[str], Any]) -> list[str]:
    """Return the names of the columns of a table, and of the fields inside of them."""
    found = dict.fromkeys(names)
    for name in names:
        values = read(name)
        if isinstance(values, list):
            records = [{name: value} for value in values]
            found |= dict.fromkeys(list_record_fields(records, Columns(name + ".")))
        else:
            schema = pa.schema([(name, values.type)])
            found |= dict.fromkeys(list_table_fields(schema, Columns(name + ".")))
    return list(found)


def _inside(values: Any, name: str) -> Any:
    """Return a field inside of the values of a column: Python dicts, or Arrow structs."""
    if isinstance(values, list):
        found = [look_up(value, name) if isinstance(value, dict) else None for value in values]
        return [None if value is MISSING else value for value in found]
    return take_field(pa.RecordBatch.from_arrays([values], ["c"]), f"c.{name}")


def _join(parts: list[Any]) -> Any:
    """Return the texts of several columns: Arrow arrays, or lists of any Python objects."""
    arrays = [decode_strings(part) for part in parts if not isinstance(part, list)]
    if [array.type for array in arrays] == [TEXT] * len(parts):
        return join_columns(arrays)
    rows = (part if isinstance(part, list) else part.to_pylist() for part in parts)
    return [join_values(values) for values in zip(*rows, strict=True)]


def _objects(items: Iterator[Any], columns: Columns, source: Source) -> Iterator[Documents]:
    """Yield the documents of strings or token lists, or of dicts if the first item is one."""
    head = list(islice(items, _FIRST_ROWS))
    items = chain(head, items)
    _warn_of_paths(head)
    if not isinstance(next((item for item in head if item is not None), None), dict):
        chosen = _only_text(columns, source)
        return paced(
            sys.maxsize,
            lambda start, end, chosen: _from_columns(
                lambda _: list(islice(items, end - start)), chosen, source
            ),
            chosen,
        )
    chosen = resolve_columns(columns, list_record_fields(head, columns), source)
    return paced(
        sys.maxsize,
        lambda start, end, chosen: _from_dicts(list(islice(items, end - start)), chosen, source),
        chosen,
    )


def _warn_of_paths(head: list[Any]) -> None:
    """Warn if the first items are all names of existing files; refuse objects that are paths."""
    if any(isinstance(item, os.PathLike) for item in head):
        raise UsageError("a path is not a text: pass texts, or files to neardup.dedup_files")
    if head and all(map(_is_file, head)):
        warnings.warn(
            "these texts are the names of files, and the names are compared: for what is in the "
            "files use neardup.dedup_files",
            stacklevel=4,
        )


def _is_file(item: Any) -> bool:
    return isinstance(item, str) and len(item) <= _LONGEST_PATH and os.path.isfile(item)


def _from_dicts(items: list[Any], columns: Columns, source: Source) -> Documents:
    rows = [item if isinstance(item, dict) else {} for item in items]
    texts = [] if columns.textless else look_up_texts(rows, columns)

    def column(name: str) -> list[Any]:
        is_text = name == columns.text and not columns.textless
        found = texts if is_text else [look_up(row, name) for row in rows]
        return [None if value is MISSING else value for value in found]

    documents = _from_columns(column, columns, source)
    missing = {row: missing_reason(columns) for row, value in enumerate(texts) if value is MISSING}
    foreign = {
        row: "not a dict, as others are" for row, item in enumerate(items) if item is not rows[row]
    }
    rejected = documents.rejected | missing | foreign
    return replace(documents, rejected=dict(sorted(rejected.items())))


def _from_columns(column: Callable[[str], Any], columns: Columns, source: Source) -> Documents:
    """Return the documents of columns that are Arrow arrays or lists of any Python objects."""
    names = _needed(columns) or [""]  # any column, by which rows are counted
    values = {name: column(name) for name in names}
    own_ids = values.get(columns.id) if columns.id else None
    reasons: dict[int, str] = {}
    vectors = None
    for name in names:
        if not isinstance(values[name], list):
            continue
        if name == columns.vector_column:
            vectors = convert_values(values[name], columns.dimension)
            values[name] = pa.nulls(len(values[name]))  # it may be the only column
        elif name == columns.text and not columns.textless:
            values[name], reasons = text_column(values[name], columns.tokens)
        elif name == columns.keep:
            values[name] = keep_values(values[name], columns)
        else:
            values[name] = render_column(values[name])
    read = columns if vectors is None else replace(columns, vectors=None)
    documents = convert_table(pa.Table.from_pydict(values), read, source)
    # Ids that are Python objects keep their types, even in a column of mixed types.
    ids = own_ids if isinstance(own_ids, list) else documents.ids
    documents = replace(documents, ids=ids, rejected=documents.rejected | reasons)
    return documents if vectors is None else add_vectors(documents, vectors)


def take_rows(data: Any, positions: npt.NDArray[np.int64]) -> Any:
    """Return the documents at these ascending positions, as the type of `data`."""
    if isinstance(data, list):
        return [data[place] for place in positions.tolist()]
    if isinstance(data, tuple):
        return tuple(data[place] for place in positions.tolist())
    if _is(data, "pandas", "DataFrame", "Series"):
        return data.iloc[positions]
    if _is(data, "polars", "LazyFrame"):
        return data.collect()[positions].lazy()
    if isinstance(data, np.ndarray) or _is(data, "polars", "DataFrame", "Series"):
        return data[positions]
    if _is(data, "pandas", "Index"):
        return data[positions]
    if _is(data, "datasets", "Dataset"):
        return data.select(positions)
    if isinstance(data, (pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)):
        return _take_arrow(data, positions)
    if hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.RecordBatchReader):
        return _take_arrow(pa.table(data), positions)
    raise UsageError(
        f"this {type(data).__name__} has been read and cannot be read again: pass a list or a table"
    )


def add_columns(data: Any, columns: pa.Table) -> Any:
    """Return a table, or a list of dicts, with more columns, as the type that it has.

    Arrow data of every other type become a table.

    Args:
        data: The table.
        columns: The new columns, a row for each of its rows.
    """
    refuse_columns(f"this {type(data).__name__}", _column_names(data))
    if isinstance(data, (list, tuple)):
        rows = zip(data, columns.to_pylist(), strict=True)
        return type(data)(row | more for row, more in rows)
    if _is(data, "pandas", "DataFrame"):
        return data.assign(
            **{name: columns[name].to_pandas().array for name in columns.schema.names}
        )
    if _is(data, "polars", "DataFrame", "LazyFrame"):
        import polars as pl

        joined = data.lazy().collect().hstack(pl.DataFrame(columns))
        return joined.lazy() if isinstance(data, pl.LazyFrame) else joined
    if _is(data, "datasets", "Dataset"):
        for name in columns.schema.names:
            data = data.add_column(name, columns[name].to_pylist())
        return data
    table = pa.table(data)
    for name in columns.schema.names:
        table = table.append_column(name, columns[name])
    return table


def _column_names(data: Any) -> list[str]:
    """Return the names of the columns of a table; an error for what has no columns."""
    if isinstance(data, (list, tuple)) and all(isinstance(row, dict) for row in data):
        return list({name: None for row in data for name in row})
    if _is(data, "polars", "LazyFrame"):
        return list(data.collect_schema().names())
    names = getattr(data, "column_names", None)
    if names is None and not isinstance(data, pa.RecordBatch):
        names = getattr(data, "columns", None)
    if isinstance(data, pa.RecordBatch):
        names = data.schema.names
    if names is None:
        raise UsageError(
            f"this {type(data).__name__} has no columns: pass a table or a list of dicts to dedup "
            "and to annotate"
        )
    return [str(name) for name in names]


def _take_arrow(data: Any, positions: npt.NDArray[np.int64]) -> Any:
    keep = np.zeros(len(data), bool)
    keep[positions] = True
    if isinstance(data, pa.Array):
        return filter_column(data, keep)
    if isinstance(data, pa.RecordBatch):
        return filter_batch(data, keep)
    # One chunk at a time: all chunks of a column may be too long for one array.
    if isinstance(data, pa.ChunkedArray):
        ends = np.cumsum([len(chunk) for chunk in data.chunks])[:-1]
        parts = zip(data.chunks, np.split(keep, ends), strict=True) if data.num_chunks else ()
        return pa.chunked_array([filter_column(*part) for part in parts], data.type)
    columns = [_take_arrow(column, positions) for column in data.columns]
    return pa.Table.from_arrays(columns, schema=data.schema)


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a pandas DataFrame."""
    require_library("pandas")
    return table.to_pandas()


def to_polars(table: pa.Table) -> pl.DataFrame:
    """Return an Arrow table as a Polars DataFrame."""
    require_library("polars")
    import polars as pl

    return pl.DataFrame(table)


def require_library(name: str, package: str = "") -> None:
    """Raise `UsageError` with the cure if a library that neardup does not need is missing.

    Args:
        name: The name that is imported.
        package: The name that pip installs, if it is another.
    """
    if find_spec(name) is None:
        raise UsageError(f"{name} is not installed: pip install {package or name}")
