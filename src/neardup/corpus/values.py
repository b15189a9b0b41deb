"""How do Python values become Arrow columns, and why may a value not be a text?

Used for what JSON and Python objects hold. Each function has a fast way for columns of one
type, and a careful one that looks at every value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Number
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from neardup.corpus.documents import LONGEST, TOO_LONG, mixed_keep

TEXT = pa.large_string()
TOKENS = pa.large_list(pa.int64())
_NONE = type(None)
_RENDERING = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def strings(values: Sequence[str | bytes | None]) -> pa.Array:
    """A large_string column; bytes are taken unseen, a lone surrogate is a UnicodeEncodeError.

    As fast as pa.array, which imports pandas (0.4 s, 40 MB) wherever it is installed.
    """
    present = None
    try:
        parts = list(map(str.encode, values))  # type: ignore[arg-type]
    except TypeError:  # None or bytes are among them
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
    """A large_string column of valid UTF-8 that is there already; null where not present."""
    bits = None if present is None else _bits(present)
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(TEXT, len(offsets) - 1, buffers)


def booleans(mask: npt.NDArray[np.bool_]) -> pa.Array:
    """The mask as an Arrow column, for the same reason."""
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, _bits(mask)])


def _bits(mask: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def text_column(values: list[Any], tokens: bool) -> tuple[pa.Array, dict[int, str]]:
    """The documents' texts (or token ids), and why some rows have none."""
    array = _all_good(values, tokens)
    if array is not None and array.nbytes <= LONGEST:
        return array, {}
    refuse = _no_tokens if tokens else _no_text
    rejected = {row: why for row, value in enumerate(values) if (why := refuse(value))}
    good = [None if row in rejected else value for row, value in enumerate(values)]
    return (pa.array(good, TOKENS) if tokens else strings(good)), rejected


def _all_good(values: list[Any], tokens: bool) -> pa.Array | None:
    """The column if every row is fine, without a look at each; None says: look."""
    try:
        if not tokens:
            return strings(values) if set(map(type, values)) <= {str} else None
        # Asked for int64, PyArrow would round 1.5 to 1: so it has to find out the type.
        array = pa.array(values)
        whole = pa.types.is_list(array.type) and pa.types.is_integer(array.type.value_type)
        complete = whole and not array.null_count and not array.values.null_count
        return array.cast(TOKENS) if complete else None
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        return None


def _no_text(value: object) -> str | None:
    if not isinstance(value, str):
        return "text is null" if _is_null(value) else f"text is {_kind(value)}, not a string"
    if not _encodes(value):
        return "a lone surrogate escape"
    # Four bytes a character at most; only giants are measured.
    if len(value) > LONGEST // 4 and len(value.encode()) > LONGEST:
        return TOO_LONG
    return None


def _no_tokens(value: object) -> str | None:
    if not isinstance(value, (list, tuple, np.ndarray)):
        if _is_null(value):
            return "text is null"
        return f"text is {_kind(value)}, not a list of token ids"
    if len(value) > LONGEST // 8:
        return TOO_LONG
    for token in value:
        if not isinstance(token, Integral) or isinstance(token, bool):
            return f"a token id is {'null' if _is_null(token) else _kind(token)}"
        if not -(1 << 63) <= int(token) < 1 << 63:
            return "a token id is beyond 64 bits"
    return None


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _kind(value: object) -> str:
    """What a value is, in JSON's words; only the type is told, never the value."""
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


def rendered_column(values: list[Any]) -> pa.Array:
    """Ids, or values to compare within, as large_string: strings as they are, others as JSON."""
    kinds = set(map(type, values))
    if kinds <= {int, _NONE}:
        values = [None if value is None else str(value) for value in values]
    elif not kinds <= {str, _NONE}:
        values = [render(value) for value in values]
    try:
        return strings(values)
    except UnicodeEncodeError:
        return strings([v if v is None or _encodes(v) else None for v in values])


def render(value: Any) -> str | None:
    """One value as a string."""
    if value is None or isinstance(value, str):
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
    """Values to rank by; lists and objects have no order and count as missing."""
    scalars = [None if isinstance(value, (list, dict)) else value for value in values]
    kinds = set(map(type, scalars)) - {_NONE}
    if kinds <= {bool, int, float}:
        return _numbers(scalars, kinds)
    if kinds == {str}:
        return rendered_column(scalars)
    if str in kinds and kinds & {bool, int, float}:
        raise mixed_keep(("numbers", "strings"))
    try:
        return pa.array(scalars)
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        raise mixed_keep(kind.__name__ for kind in kinds) from None


def _numbers(values: list[Any], kinds: set[type]) -> pa.Array:
    if float not in kinds:
        try:
            return pa.array([None if value is None else int(value) for value in values], pa.int64())
        except OverflowError:
            pass
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


def _encodes(text: str) -> bool:
    """Whether the text is Unicode: a lone surrogate is not."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
