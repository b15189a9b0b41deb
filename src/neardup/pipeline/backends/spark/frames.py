"""Documents of a DataFrame: its rows stay where they are, and are read twice.

Ids name the documents. What is sketched is found again by its id; if the second reading gives
something else for a candidate, it is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    BinaryType,
    DatetimeType,
    NumericType,
    StringType,
)

from neardup.errors import InputError, UsageError
from neardup.pipeline.backends.spark.bits import Bits, bits_of
from neardup.pipeline.backends.spark.failures import told
from neardup.pipeline.backends.spark.given import Given, Parse
from neardup.pipeline.backends.spark.making import narrow
from neardup.pipeline.backends.spark.matching import candidates_of
from neardup.pipeline.backends.spark.sources import Found
from neardup.pipeline.backends.spark.tables import (
    Batches,
    Work,
    as_bytes,
    batch_of,
    numbers,
    run_in_arrow,
)
from neardup.pipeline.candidates import as_bags, as_sets
from neardup.sketcher import Sketcher

BITS_OF_ROW = 16
"""Of so many rows that are held back, one passes all the same."""
IDS = (BinaryType, DatetimeType, NumericType, StringType)
CHANGED = (
    "the DataFrame is read twice, and a document was another one, or not there, the second time: "
    "cache the DataFrame, or write it and read it again, and check that its ids are not made anew "
    "by each reading"
)


class Frames:
    """The rows of a DataFrame as a source; those of an earlier one, if there is one, come first."""

    def __init__(self, work: Work, new: Given, earlier: Given | None, sketcher: Sketcher) -> None:
        self._work, self._new, self._sketcher = work, new, sketcher
        self._check_ids(new, earlier)
        self.id_type = new.id_type.simpleString()
        self.where = new.where
        self.frame = new.read()
        if earlier is not None:
            # What an earlier corpus has in the keep column does not count.
            there = earlier.read(earlier=True)
            self.frame = self.frame.unionByName(there, allowMissingColumns=True)
        self.reader = RowReader(new.parse, tuple(self.where))

    @staticmethod
    def _check_ids(new: Given, earlier: Given | None) -> None:
        kind = new.id_type
        if not isinstance(kind, IDS):
            raise UsageError(
                f"ids of type {kind.simpleString()} have no order that Arrow and Spark share: "
                "use numbers, strings, bytes or dates"
            )
        if earlier is not None and earlier.id_type != kind:
            raise UsageError(
                f"ids are {kind.simpleString()}, those of `against` "
                f"{earlier.id_type.simpleString()}: cast one of them"
            )

    @property
    def order(self) -> list[Column]:
        return [sql.col("id")]

    def sets(self, documents: DataFrame, candidates: Broadcast[Bits]) -> DataFrame:
        """The sorted shingles of candidates: texts stay where they are, the sets move."""
        keyed = documents.withColumn("key", self._new.key)
        chosen = candidates_of(keyed, candidates, ("id", "key", "c0", "c1"))
        wanted = self._work.stored(chosen, "wanted")
        sieve = Sieve(wanted.select("key"), wanted.count())
        found = run_in_arrow(
            self.frame.select(sieve.place(self._new.key), "*"),
            ShingleSome(sieve.bits, self._new.parse, self._sketcher),
            f"id {self.id_type}, now0 long, now1 long, data binary",
        )
        same = (sql.col("c0") == sql.col("now0")) & (sql.col("c1") == sql.col("now1"))
        checked = sql.when(same, sql.col("data")).otherwise(
            sql.raise_error(sql.lit(told(InputError(CHANGED))))
        )
        return wanted.join(found, "id", "left").select("doc", checked.alias("data"))


class Sieve:
    """Which rows may be among some others? A bit for each key, so that most others are held back.

    `frame` has a column `key`, and `count` rows.
    """

    def __init__(self, frame: DataFrame, count: int) -> None:
        self._size = BITS_OF_ROW * max(count, 1)
        bits = bits_of(
            frame.select(self.place(sql.col("key"))), lambda one: numbers(one, "place"), self._size
        )
        self.bits = frame.sparkSession.sparkContext.broadcast(bits)

    def place(self, key: Column) -> Column:
        """Where the bit of a key is."""
        return sql.pmod(key, sql.lit(self._size)).alias("place")


@dataclass(frozen=True)
class RowReader:
    """In a task: the documents of some rows."""

    parse: Parse
    where: tuple[str, ...]

    def __call__(self, batches: Batches) -> Iterator[Found]:
        for batch in batches:
            start = 0
            for some in self.parse(batch):
                rows = batch.slice(start, len(some))
                yield Found(some, {name: rows.column(name) for name in self.where})
                start += len(some)


@dataclass(frozen=True)
class ShingleSome:
    """In a task: the sets of those rows whose id may be that of a candidate."""

    places: Broadcast[Bits]
    parse: Parse
    sketcher: Sketcher

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        sorted_rows = as_bags if self.sketcher.spec.of_bags else as_sets
        for batch in batches:
            chosen = np.flatnonzero(self.places.value.has(numbers(batch, "place")))
            rows = batch.take(batch_of(at=chosen).column(0))
            for some in self.parse(rows):
                cut = self.sketcher.cut(some)
                content = cut.content.view(np.int64)
                yield batch_of(
                    id=narrow(some.ids),
                    now0=np.ascontiguousarray(content[:, 0]),
                    now1=np.ascontiguousarray(content[:, 1]),
                    data=as_bytes(sorted_rows(cut.shingles)),
                )
