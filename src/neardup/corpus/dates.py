"""Convert a column of dates, in any of the forms that people store them, to timestamps.

`reference.dates.parse_date` is the definition, and converts values one by one. Columns of one form
are converted as a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neardup.corpus.documents import TEXT, make_booleans
from neardup.reference.dates import SCALES, parse_date

DATES = pa.timestamp("us")
"""The type of dates: microseconds since 1970, in UTC."""


def convert_dates(column: pa.Array) -> pa.Array:
    """Return a column as dates; values that are none become null.

    The column has strings as large_string, if it has strings.
    """
    kind, is_ = column.type, pa.types
    if is_.is_timestamp(kind) or is_.is_date(kind):
        return _convert_timestamps(column)
    dates = None
    if is_.is_signed_integer(kind):
        dates = _convert_integers(column)
    elif kind == TEXT:
        dates = _convert_iso(column)
    return convert_values(column.to_pylist()) if dates is None else dates


def convert_values(values: list[Any]) -> pa.Array:
    """Return Python values as dates, null where one is no date."""
    known: dict[Any, int | None] = {}

    def convert(value: Any) -> int | None:
        if isinstance(value, np.generic):
            value = _plain(value)
        if not isinstance(value, str):
            return parse_date(value) if value == value else None  # NaN, and NaT of pandas
        if value not in known:
            known[value] = parse_date(value)
        return known[value]

    found = [convert(value) for value in values]
    numbers = np.array([0 if number is None else number for number in found], np.int64)
    return _column(numbers, np.array([number is not None for number in found], bool))


def _plain(value: np.generic) -> Any:
    """Return a value of NumPy as one of Python; nanoseconds would become a number."""
    return (value.astype("datetime64[us]") if isinstance(value, np.datetime64) else value).item()


def _convert_timestamps(column: pa.Array) -> pa.Array:
    """Return timestamps or dates as DATES; a zone is dropped, since the instants are in UTC."""
    if not pa.types.is_timestamp(column.type) or column.type.unit != "ns":
        return column.cast(DATES, safe=False)
    # A cast divides towards zero; dates before 1970 must not become later ones.
    numbers = np.floor_divide(_numbers(column), 1000)
    return _column(numbers, _present(column))


def _convert_iso(column: pa.Array) -> pa.Array | None:
    """Return the dates of strings that all have, or all lack, a zone; None for others."""
    for kind in (DATES, pa.timestamp("us", "UTC")):
        try:
            return column.cast(kind).cast(DATES)
        except pa.ArrowInvalid:
            continue
    return None


def _convert_integers(column: pa.Array) -> pa.Array | None:
    """Return the dates of numbers that are all in one unit, as `SCALES` tells them; else None."""
    numbers, present = _numbers(column), _present(column)
    size, least = np.abs(numbers.astype(np.float64)), 0
    for limit, microseconds in SCALES:
        if (((size >= least) & (size < limit)) | ~present).all():
            return _column(numbers * microseconds, present)
        least = limit
    return None


def _numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    return numbers


def _present(column: pa.Array) -> npt.NDArray[np.bool_]:
    present: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return present


def _column(numbers: npt.NDArray[np.int64], present: npt.NDArray[np.bool_]) -> pa.Array:
    """Return microseconds as dates, null where not `present`."""
    bits = make_booleans(present).buffers()[1]
    return pa.Array.from_buffers(DATES, len(numbers), [bits, pa.py_buffer(numbers)])
