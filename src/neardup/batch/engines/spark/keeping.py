"""By which value of a column is a document kept? Files may disagree about its type.

So there is a column for each kind, null but in one; when all files are read, it is known which
kinds there are, and how to order them: as `corpus.documents.concat_keep` does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from neardup.corpus.documents import mixed_keep
from neardup.errors import UsageError
from neardup.formats.tables import column

KEEP = {
    "keep_int": "long", "keep_real": "double", "keep_unsigned": "long",
    "keep_decimal": "decimal(38,18)", "keep_micros": "long", "keep_nanos": "long",
    "keep_text": "string",
}  # fmt: skip
"""Unsigned numbers are stored so that their order is that of signed ones."""
NUMBERS = ("keep_int", "keep_real", "keep_unsigned", "keep_decimal")
TIMES = ("keep_micros", "keep_nanos")
SIGN = np.uint64(1 << 63)
ARROW = {name: pa.int64() for name in KEEP} | {
    "keep_real": pa.float64(), "keep_decimal": pa.decimal128(38, 18), "keep_text": pa.string(),
}  # fmt: skip


def keep_columns(values: pa.Array | None, count: int) -> dict[str, Any]:
    """In a task: the keep values of some documents in the column of their kind."""
    found = {name: pa.nulls(count, kind) for name, kind in ARROW.items()}
    if values is None or pa.types.is_null(values.type):
        return found
    kind, is_ = values.type, pa.types
    if kind == pa.uint64():
        flipped = column(values.fill_null(0).to_numpy() ^ SIGN).view(pa.int64())
        nothing = pa.nulls(count, pa.int64())
        found["keep_unsigned"] = pc.if_else(values.is_valid(), flipped, nothing)
    elif is_.is_integer(kind):
        found["keep_int"] = values
    elif is_.is_floating(kind):
        found["keep_real"] = values
    elif is_.is_decimal(kind):
        found["keep_decimal"] = _decimals(values)
    elif is_.is_timestamp(kind):
        name = "keep_nanos" if kind.unit == "ns" else "keep_micros"
        found[name] = values.view(pa.int64())
    else:
        found["keep_text"] = values.cast(pa.string())
    return found


def _decimals(values: pa.Array) -> pa.Array:
    try:
        return values.cast(ARROW["keep_decimal"])
    except pa.ArrowInvalid:
        raise UsageError(
            f"the keep column is {values.type}, and Spark has room for 20 digits before the point "
            "and 18 behind it: cast it, or use --engine local"
        ) from None


def keep_value(sketches: DataFrame) -> Column:
    """What documents are ordered by; numbers of several kinds as doubles."""
    counted = sketches.agg(*(sql.count(name).alias(name) for name in KEEP)).collect()[0]
    there = [name for name in KEEP if counted[name]]
    if len(there) <= 1:
        return _number(there[0]) if there == ["keep_real"] else sql.col((there or ["keep_int"])[0])
    if set(there) <= set(NUMBERS):
        return sql.coalesce(*map(_number, there))
    if set(there) == set(TIMES):
        return sql.coalesce("keep_micros", sql.expr("keep_nanos div 1000"))
    raise mixed_keep(name.removeprefix("keep_") for name in there)


def _number(name: str) -> Column:
    """As a double; what is no number comes last, and zero has no sign."""
    if name == "keep_unsigned":
        return sql.col(name).cast("double") + sql.lit(2.0**63)
    value = sql.col(name).cast("double") + sql.lit(0.0)
    return sql.when(~sql.isnan(value), value)
