"""By which value of a column is a document kept? Files may disagree about its type.

So there is a column for each kind of type, and one for the type itself. When all files are read, it
is known which types there are, and what orders them: as `corpus.documents.concat_keep` does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from neardup.corpus.documents import mixed_keep, strings
from neardup.errors import UsageError
from neardup.formats.tables import column

KEEP = {
    "keep_type": "string",
    "keep_int": "long",
    "keep_unsigned": "long",
    "keep_decimal": "decimal(38,18)",
    "keep_real": "double",
    "keep_nanos": "long",
    "keep_micros": "long",
    "keep_text": "string",
}
"""Unsigned numbers are stored so that their order is that of signed ones."""
OF_TYPE = {
    "int64": "keep_int",
    "uint64": "keep_unsigned",
    "double": "keep_real",
    "timestamp[ns]": "keep_nanos",
    "timestamp[us]": "keep_micros",
    "large_string": "keep_text",
}
"""The column of a type; decimals are all others."""
NUMBERS = {"keep_int", "keep_unsigned", "keep_decimal", "keep_real"}
TIMES = {"keep_nanos", "keep_micros"}
SIGN = np.uint64(1 << 63)
ARROW = {name: pa.int64() for name in KEEP} | {
    "keep_type": pa.string(),
    "keep_decimal": pa.decimal128(38, 18),
    "keep_real": pa.float64(),
    "keep_text": pa.string(),
}


def keep_columns(values: pa.Array | None, count: int) -> dict[str, Any]:
    """In a task: the keep values of some documents, in the column of their type.

    Numbers are doubles besides, and times microseconds, in case that files disagree.
    """
    found = {name: pa.nulls(count, kind) for name, kind in ARROW.items()}
    if values is None or pa.types.is_null(values.type):
        return found
    name = _column_of(str(values.type))
    if name in NUMBERS:
        found["keep_real"] = values.cast(pa.float64(), safe=False)
    if name in TIMES:
        found["keep_micros"] = values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    found[name] = _exactly(values, name)
    found["keep_type"] = strings([str(values.type)] * count).cast(pa.string())
    return found


def _column_of(kind: str) -> str:
    return OF_TYPE.get(kind, "keep_decimal")


def _exactly(values: pa.Array, name: str) -> pa.Array:
    if name == "keep_unsigned":
        flipped = column(values.fill_null(0).to_numpy() ^ SIGN).view(pa.int64())
        return pc.if_else(values.is_valid(), flipped, pa.nulls(len(values), pa.int64()))
    try:
        return values.cast(ARROW[name])
    except pa.ArrowInvalid:
        raise UsageError(
            f"the keep column is {values.type}, and Spark has room for 20 digits before the point "
            "and 18 behind it: cast it, or use --engine local"
        ) from None


def keep_value(sketches: DataFrame) -> Column:
    """What documents are ordered by; what is no number comes last, and zero has no sign."""
    rows = sketches.select("keep_type").distinct().collect()
    name = ordering({row["keep_type"] for row in rows} - {None})
    if name != "keep_real":
        return sql.col(name)
    value = sql.col(name) + sql.lit(0.0)
    return sql.when(~sql.isnan(value), value)


def ordering(kinds: set[str]) -> str:
    """The column by which values of these types are ordered."""
    names = set(map(_column_of, kinds))
    if len(kinds) <= 1:
        return names.pop() if names else "keep_int"
    if names <= NUMBERS:
        return "keep_real"
    if names <= TIMES:
        return "keep_micros"
    raise mixed_keep(kinds)
