"""Ids of DataFrames: as strings and back, and what must be true of them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, DataType, DecimalType, FractionalType, TimestampType

from neardup.errors import UsageError


def require_ids(missing: int, ids: DataFrame | None) -> None:
    """Raise UsageError unless every usable document has an id, and every id is unique.

    Args:
        missing: The number of usable documents without an id.
        ids: The ids of all documents; None if several rows may have one.
    """
    if missing:
        raise UsageError(
            f"{missing:,} rows have no id: give each row a unique id, or filter them out"
        )
    if ids is None:
        return
    shared = ids.where("id IS NOT NULL").groupBy("id").count().where("count > 1")
    for row in shared.orderBy("id").limit(1).collect():
        raise UsageError(
            f"{row['count']:,} rows have the id {row['id']!r}, and there may be more such "
            "ids: make them unique"
        )


def require_separate_ids(ids: DataFrame, others: DataFrame) -> None:
    """Raise UsageError if an id is both in the documents and in the earlier ones."""
    for row in ids.where("id IS NOT NULL").join(others, "id").limit(1).collect():
        raise UsageError(
            f"the id {row['id']} is in the documents and in `against`, and there may be more such "
            "ids: make them unique"
        )


def ids_to_strings(ids: Column, kind: DataType) -> Column:
    """Return ids as strings from which `strings_to_ids` restores them."""
    if isinstance(kind, BinaryType):
        return sql.lower(sql.hex(ids))
    if isinstance(kind, FractionalType) and not isinstance(kind, DecimalType):
        # Spark joins 0.0 with -0.0.
        ids = sql.when(ids == 0, sql.lit(0.0).cast(kind)).otherwise(ids)
    # Twice a year a local time is ambiguous.
    return (sql.unix_micros(ids) if isinstance(kind, TimestampType) else ids).cast("string")


def strings_to_ids(names: Column, kind: DataType) -> Column:
    """Return the ids of `ids_to_strings`; null for strings that it does not make."""
    if isinstance(kind, BinaryType):
        return sql.unhex(names)
    if isinstance(kind, TimestampType):
        return sql.timestamp_micros(names.try_cast("long"))
    return names.try_cast(kind)
