"""`Documents`, a batch of documents, and the conversion of Python values to its Arrow columns.

Values come from JSON and from Python objects. Each conversion has a fast path for columns of one
type, and a slow one that checks every value.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Integral, Number
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from neardup.errors import ParameterError

LONGEST = 1 << 30
"""A line or a text with more bytes than this is rejected: one document must fit into memory."""

TOO_LONG = "longer than 1 GiB"
TEXT_IS_NULL = "text is null"


MERGE_ROWS: Final = "merge-rows"
"""The option that names the column of ids whose rows are one document."""
MATRIX_ENDING: Final = ".npy"


@dataclass(frozen=True)
class Columns:
    """The columns to read, as options name them: `fields` has the rules.

    Attributes:
        text: The column of the texts, or several with commas.
        id: The column of the ids; None for "id" if there is such a column, else file:row.
        keep: The column that ranks documents, if any.
        within: The column whose value similar documents must share, if any.
        tokens: Whether the texts are lists of token ids.
        dates: Whether the keep column has dates, in any form.
        id_option: The name of the option for `id`, for messages.
        distinguish: The columns whose values two documents must share to be similar, besides
            `within`; what they keep apart is listed.
        numbers: Whether two documents must share all numbers of their texts to be similar.
        source: The column by whose values removed documents are counted, if any.
        rewritten: Whether texts are written again: they must be in one column of that name.
        vectors: The column of the vectors, if any; or an .npy file (its name ends so) whose rows
            belong to the documents of all inputs, in their order.
        dimension: How many numbers a vector has; None if the first usable vector tells.
        textless: Whether documents are their vectors: no text is read, `text` says nothing.
        vectors_option: The name of the option for `vectors`, for messages.
    """

    text: str = "text"
    id: str | None = None
    keep: str | None = None
    within: str | None = None
    tokens: bool = False
    dates: bool = False
    id_option: str = "id"
    distinguish: tuple[str, ...] = ()
    numbers: bool = False
    rewritten: bool = False
    source: str | None = None
    vectors: str | None = None
    dimension: int | None = None
    textless: bool = False
    vectors_option: str = "vectors"

    def __post_init__(self) -> None:
        object.__setattr__(self, "distinguish", tuple(self.distinguish))  # JSON has only lists

    @property
    def distinguishes(self) -> bool:
        """Whether columns or numbers keep documents apart."""
        return self.numbers or bool(self.distinguish)

    @property
    def merges_rows(self) -> bool:
        """Whether rows with the same id are one document."""
        return self.id_option == MERGE_ROWS

    @property
    def stated(self) -> dict[str, Any]:
        """The fields by name, for files and their keys; those that are rarely used if they are."""
        rare = {
            "distinguish": list(self.distinguish),
            "numbers": self.numbers,
            "dates": self.dates,
            "rewritten": self.rewritten,
            "source": self.source,
            "vectors": self.vectors,
            "dimension": self.dimension,
            "textless": self.textless,
            "vectors_option": self.vectors_option if self.vectors else None,
        }
        return {
            name: value
            for name, value in (asdict(self) | rare).items()
            if value or name not in rare
        }

    @property
    def vector_column(self) -> str | None:
        """The column of the vectors, None if there are none or if they are in a file beside."""
        return None if (self.vectors or "").endswith(MATRIX_ENDING) else self.vectors

    @property
    def content(self) -> str:
        """The column of what is compared: the texts, or without texts the vectors."""
        return self.vector_column or "" if self.textless else self.text

    @property
    def plain(self) -> Columns:
        """The columns without those that only new documents need."""
        return replace(self, keep=None, source=None)

    def asked(self) -> dict[str, str]:
        """Return option -> column, for the columns that must exist.

        An option with several columns has an entry for each: `distinguish:0`, `distinguish:1`.
        """
        named = {
            "text": None if self.textless else self.text,
            "vectors": self.vector_column,
            self.id_option: self.id,
            "keep": self.keep,
            "within": self.within,
            "source": self.source,
            **{f"distinguish:{place}": name for place, name in enumerate(self.distinguish)},
        }
        return {option: name for option, name in named.items() if name is not None}


def join_names(names: str | Sequence[str]) -> str:
    """Return the columns of a text as one name, as on the command line: title,body."""
    if isinstance(names, str):
        return names
    names = [str(name) for name in names]
    if not names or (len(names) > 1 and any("," in name for name in names)):
        raise ParameterError(
            "text needs one or more names of columns, and of several none with a comma: rename it"
        )
    return ",".join(names)


@dataclass
class Documents:
    """Consecutive documents of one source, in order; row i of every column is document i.

    Attributes:
        texts: large_string, or large_list<int64> for token ids; null exactly where rejected. Empty
            strings where no text is read.
        ids: large_string, null without an id; from tables of the type of their column, from lists
            of dicts a list of the values themselves.
        keep: int64, double, large_string or timestamp[us]; null where missing; None if not asked
            for.
        within: large_string, null where missing; None if not asked for.
        rejected: Row in this batch -> reason, in row order; a reason never quotes the document.
        distinct: For each column of `distinguish` the values, as in `within`.
        sources: The sources, as in `within`.
        vectors: A row for each document, zeros where rejected; it may be read-only. Without
            columns if the dimension is not known yet. None if not asked for.
    """

    texts: pa.Array
    ids: pa.Array | list[Any]
    keep: pa.Array | None
    within: pa.Array | None
    rejected: dict[int, str]
    distinct: tuple[pa.Array, ...] = ()
    sources: pa.Array | None = None
    vectors: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def nbytes(self) -> int:
        """The size of the texts and vectors, in bytes."""
        size = 0 if self.vectors is None else self.vectors.nbytes
        return size + int(self.texts.nbytes)

    def take(self, rows: npt.NDArray[np.int64]) -> Documents:
        """Return the documents in these rows; for documents that come from files."""
        places = pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)])
        columns = {
            name: None if (column := getattr(self, name)) is None else column.take(places)
            for name in ("texts", "ids", "keep", "within", "sources")
        }
        place_of = {row: place for place, row in enumerate(rows.tolist())}
        rejected = {
            place_of[row]: reason for row, reason in self.rejected.items() if row in place_of
        }
        distinct = tuple(column.take(places) for column in self.distinct)
        vectors = None if self.vectors is None else self.vectors[rows]
        return Documents(**columns, rejected=rejected, distinct=distinct, vectors=vectors)


def concat_keep(arrays: Iterable[pa.Array]) -> pa.Array:
    """Return the keep values of all batches as one array.

    Integers and doubles become doubles; nulls take any type. Raises `ParameterError` if the types
    have no common order.
    """
    arrays = list(arrays)
    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    if len(kinds) > 1 and all(map(_is_number, kinds)):
        kinds = {pa.float64()}
    if len(kinds) > 1 and all(map(pa.types.is_timestamp, kinds)):
        kinds = {pa.timestamp("us")}
    if len(kinds) > 1:
        raise mixed_keep_error(str(kind) for kind in kinds)
    kind = kinds.pop() if kinds else pa.null()
    # safe=False: integers beyond 2**53 may round, as they do in any comparison with a double.
    cast = [array.cast(kind, safe=False) for array in arrays]
    return pa.concat_arrays(cast) if cast else pa.nulls(0)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def mixed_keep_error(kinds: Iterable[str]) -> ParameterError:
    """Return the error for a keep column whose values have no common order."""
    both = " and ".join(sorted(kinds))
    return ParameterError(
        f"the keep column contains {both}, which have no common order: "
        "keep by a column of one type, or by first or longest"
    )


TEXT = pa.large_string()
TOKENS = pa.large_list(pa.int64())
_NONE = type(None)
_RENDERING = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def make_strings(values: Sequence[str | bytes | None]) -> pa.Array:
    """Return a large_string column; bytes are not validated.

    Raises `UnicodeEncodeError` for a lone surrogate.

    As fast as pa.array, which imports pandas (0.4 s, 40 MB) wherever it is installed.
    """
    present = None
    try:
        parts = list(map(str.encode, values))  # type: ignore[arg-type]
    except TypeError:  # there are None or bytes
        parts = [value.encode() if isinstance(value, str) else value or b"" for value in values]
        present = _bits(np.fromiter((value is not None for value in values), bool, len(values)))
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=offsets[1:])
    buffers = [present, pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(TEXT, len(parts), buffers)


def string_column(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    present: npt.NDArray[np.bool_] | None = None,
) -> pa.Array:
    """Return a large_string column over existing valid UTF-8; null where not `present`."""
    bits = None if present is None else _bits(present)
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(TEXT, len(offsets) - 1, buffers)


def make_booleans(mask: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the mask as an Arrow column, without pa.array, which imports pandas."""
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, _bits(mask)])


def empty_strings(count: int) -> pa.Array:
    """Return a large_string column of so many empty strings."""
    return string_column(np.empty(0, np.uint8), np.zeros(count + 1, np.int64))


def blank_rows(array: pa.Array, rows: Collection[int]) -> pa.Array:
    """Return the array with null in these rows."""
    if not rows:
        return array
    mask = np.zeros(len(array), bool)
    mask[list(rows)] = True
    return pc.if_else(make_booleans(mask), pa.scalar(None, array.type), array)


def _bits(mask: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def text_column(values: list[Any], tokens: bool) -> tuple[pa.Array, dict[int, str]]:
    """Return the column of texts or token ids, and the reason of each rejected row."""
    array = _convert_all(values, tokens)
    if array is not None and array.nbytes <= LONGEST:
        return array, {}
    refuse = _reject_tokens if tokens else _reject_text
    rejected = {row: why for row, value in enumerate(values) if (why := refuse(value))}
    valid = [None if row in rejected else value for row, value in enumerate(values)]
    return (pa.array(valid, TOKENS) if tokens else make_strings(valid)), rejected


def _convert_all(values: list[Any], tokens: bool) -> pa.Array | None:
    """Return the column if all rows are valid, without a loop over them; None if one may not be."""
    try:
        if not tokens:
            return make_strings(values) if set(map(type, values)) <= {str} else None
        # PyArrow infers the type: with int64 requested it would round 1.5 to 1.
        array = pa.array(values)
        whole = pa.types.is_list(array.type) and pa.types.is_integer(array.type.value_type)
        complete = whole and not array.null_count and not array.values.null_count
        return array.cast(TOKENS) if complete else None
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        return None


def _reject_text(value: object) -> str | None:
    """Return why a value is no text, None if it is one."""
    if not isinstance(value, str):
        return TEXT_IS_NULL if is_null(value) else f"text is {kind_of(value)}, not a string"
    if not _encodes(value):
        return "a lone surrogate escape"
    # A character has at most four bytes: only very long texts need to be encoded.
    if len(value) > LONGEST // 4 and len(value.encode()) > LONGEST:
        return TOO_LONG
    return None


def _reject_tokens(value: object) -> str | None:
    """Return why a value is no list of token ids, None if it is one."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        if is_null(value):
            return TEXT_IS_NULL
        return f"text is {kind_of(value)}, not a list of token ids"
    if len(value) > LONGEST // 8:
        return TOO_LONG
    for token in value:
        if not isinstance(token, Integral) or isinstance(token, bool):
            return f"a token id is {'null' if is_null(token) else kind_of(token)}"
        if not -(1 << 63) <= int(token) < 1 << 63:
            return "a token id is beyond 64 bits"
    return None


def is_null(value: object) -> bool:
    """Return whether a Python value stands for none: None, or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def kind_of(value: object) -> str:
    """Return the type of a value in the words of JSON, never the value itself."""
    for kinds, name in _KINDS:
        if isinstance(value, kinds):
            return name
    return f"a {type(value).__name__}"


_KINDS: Sequence[tuple[tuple[type, ...], str]] = (
    ((str,), "a string"),
    ((bool, np.bool_), "a boolean"),
    ((Number,), "a number"),
    ((list, tuple, np.ndarray), "a list"),
    ((dict,), "an object"),
    ((bytes, bytearray, memoryview), "binary"),
)


def render_column(values: list[Any]) -> pa.Array:
    """Return ids, or `within` values, as large_string: strings unchanged, other values as JSON."""
    kinds = set(map(type, values))
    if kinds <= {int, _NONE}:
        values = [None if value is None else str(value) for value in values]
    elif not kinds <= {str, _NONE}:
        values = [render(value) for value in values]
    try:
        return make_strings(values)
    except UnicodeEncodeError:
        return make_strings([v if v is None or _encodes(v) else None for v in values])


def render(value: Any) -> str | None:
    """Return one value as a string; None for None and NaN, which is how pandas has none."""
    if is_null(value):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # 1, 1.0 and 1e0 are one value
    try:
        return orjson.dumps(value, default=str, option=_RENDERING).decode().strip('"')
    except TypeError:  # integers beyond 64 bits, lone surrogates inside
        return str(value)


def keep_column(values: list[Any]) -> pa.Array:
    """Return the column of keep values; lists and objects have no order and count as missing."""
    scalars = [None if isinstance(value, (list, dict)) else value for value in values]
    kinds = set(map(type, scalars)) - {_NONE}
    if kinds <= {bool, int, float}:
        return _numbers(scalars, kinds)
    if kinds == {str}:
        return render_column(scalars)
    if str in kinds and kinds & {bool, int, float}:
        raise mixed_keep_error(("numbers", "strings"))
    try:
        return pa.array(scalars)
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        raise mixed_keep_error(kind.__name__ for kind in kinds) from None


def _numbers(values: list[Any], kinds: set[type]) -> pa.Array:
    if float not in kinds:
        try:
            return pa.array([None if value is None else int(value) for value in values], pa.int64())
        except OverflowError:
            pass
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


def _encodes(text: str) -> bool:
    """Return whether the text can be encoded: one with a lone surrogate can't."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
_VIEW = 16  # bytes


def as_plain(column: pa.Array) -> pa.Array:
    """Return a string_view column as large_string, binary_view as large_binary, others unchanged.

    PyArrow 26 casts by following the views of nulls as well. Their content is undefined in the
    format, so a file could crash the process: they are cleared first.
    """
    if column.type not in PLAIN:
        return column
    if column.null_count:
        column = _clear_nulls(column)
    return column.cast(PLAIN[column.type])


def _clear_nulls(column: pa.Array) -> pa.Array:
    """Return the column with an empty view for every null."""
    _, views, *data = column.buffers()
    end = (column.offset + len(column)) * _VIEW
    slots = np.frombuffer(views, np.uint8)[column.offset * _VIEW : end].reshape(-1, _VIEW).copy()
    valid = column.is_valid()
    present = np.frombuffer(valid.cast(pa.uint8()).buffers()[1], np.uint8)[: len(column)]
    slots[present == 0] = 0
    # is_valid() computes a new column, whose bits begin at 0, as those of the result do.
    buffers = [valid.buffers()[1], pa.py_buffer(slots), *data]
    return pa.Array.from_buffers(column.type, len(column), buffers)
