"""Documents of a DataFrame: its rows stay where they are, and are read twice.

Ids name the documents. What is sketched is found again by its id; a second reading that gives
something else is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DatetimeType,
    NumericType,
    StringType,
)

from neardup.batch.candidates import as_bags, as_sets
from neardup.batch.engines.spark.bits import Bits, bits_of
from neardup.batch.engines.spark.failures import told
from neardup.batch.engines.spark.making import narrow
from neardup.batch.engines.spark.matching import candidates_of
from neardup.batch.engines.spark.sources import Found
from neardup.batch.engines.spark.tables import (
    Batches,
    Work,
    as_bytes,
    batch_of,
    numbers,
    run_in_arrow,
)
from neardup.corpus.documents import Columns
from neardup.corpus.frames import from_data
from neardup.corpus.tables import Source as Called
from neardup.corpus.tables import documents, resolve
from neardup.dedup import Sketcher
from neardup.errors import InputError, UsageError

BITS_OF_CANDIDATE = 16
"""Of so many rows that are no candidates, one is shingled all the same."""
IDS = (BinaryType, DatetimeType, NumericType, StringType)
CHANGED = (
    "the DataFrame is read twice, and a document was another one, or not there, the second time: "
    "cache the DataFrame, or write it and read it again, and check that its ids are not made anew "
    "by each reading"
)


@dataclass(frozen=True)
class Given:
    """A user's DataFrame, and which of its columns say what."""

    frame: DataFrame
    columns: Columns
    called: Called = field(default_factory=lambda: Called("this DataFrame", "{}="))

    def __post_init__(self) -> None:
        resolve(self.columns, self.frame.columns, self.called)

    def numbered(self) -> DataFrame:
        """With the places of columns as their names: those of the user may need quotes."""
        return self.frame.toDF(*(f"c{place}" for place in range(len(self.frame.columns))))

    def column(self, name: str) -> Column:
        """A column of `numbered`, by its own name."""
        return sql.col(f"c{self.frame.columns.index(name)}")

    def type_of(self, name: str) -> DataType:
        return self.frame.schema.fields[self.frame.columns.index(name)].dataType

    def read(self, earlier: bool) -> DataFrame:
        """(earlier, id, text, within, keep), as far as they are asked for."""
        asked = self.columns.asked()
        named = [self.column(name).alias(option) for option, name in asked.items()]
        return self.numbered().select(sql.lit(earlier).alias("earlier"), *named)


class Frames:
    """The rows of a DataFrame as a source; those of an earlier one, if there is one, come first."""

    def __init__(self, work: Work, new: Given, earlier: Given | None, sketcher: Sketcher) -> None:
        self._work, self._sketcher = work, sketcher
        self._check_ids(new, earlier)
        columns = new.columns
        self.id_type = new.type_of(columns.id or "").simpleString()
        self.where = {"earlier": "boolean"}
        self.frame = new.read(earlier=False)
        if columns.keep is not None:
            self.where["keep"] = new.type_of(columns.keep).simpleString()
        if earlier is not None:
            # What an earlier corpus has in the keep column does not count.
            there = earlier.read(earlier=True)
            self.frame = self.frame.unionByName(there, allowMissingColumns=True)
        self._columns = Columns(
            "text", "id", within=columns.within and "within", tokens=columns.tokens
        )
        self.reader = RowReader(self._columns, tuple(self.where))
        self._check_types(new)

    @staticmethod
    def _check_ids(new: Given, earlier: Given | None) -> None:
        kinds = [given.type_of(given.columns.id or "") for given in (new, earlier) if given]
        if not isinstance(kinds[0], IDS):
            raise UsageError(
                f"ids of type {kinds[0].simpleString()} have no order that Arrow and Spark share: "
                "use numbers, strings, bytes or dates"
            )
        if kinds[-1] != kinds[0]:
            raise UsageError(
                f"ids are {kinds[0].simpleString()}, those of `against` "
                f"{kinds[-1].simpleString()}: cast one of them"
            )

    def _check_types(self, given: Given) -> None:
        """Refuse what can't be text or can't be ranked, before a task does."""
        table = self.frame.limit(0).toArrow()
        named = {name: table.column(option) for option, name in given.columns.asked().items()}
        documents(pa.Table.from_pydict(named), given.columns, given.called)

    @property
    def order(self) -> list[Column]:
        return [sql.col("id")]

    def sets(self, documents: DataFrame, candidates: Broadcast[Bits]) -> DataFrame:
        """The sorted shingles of candidates: texts stay where they are, the sets move."""
        chosen = candidates_of(documents, candidates, ("id", "c0", "c1"))
        wanted = self._work.stored(chosen, "wanted")
        size = BITS_OF_CANDIDATE * max(wanted.count(), 1)
        place = sql.pmod(sql.xxhash64("id"), sql.lit(size)).alias("place")
        places = bits_of(wanted.select(place), lambda batch: numbers(batch, "place"), size)
        shingle = ShingleSome(
            self._work.spark.sparkContext.broadcast(places), self._columns, self._sketcher
        )
        found = run_in_arrow(
            self.frame.select(place, *self._columns.asked()), shingle,
            f"id {self.id_type}, now0 long, now1 long, data binary",
        )  # fmt: skip
        same = (sql.col("c0") == sql.col("now0")) & (sql.col("c1") == sql.col("now1"))
        checked = sql.when(same, sql.col("data")).otherwise(
            sql.raise_error(sql.lit(told(InputError(CHANGED))))
        )
        return wanted.join(found, "id", "left").select("doc", checked.alias("data"))


@dataclass(frozen=True)
class RowReader:
    """In a task: the documents of some rows."""

    columns: Columns
    where: tuple[str, ...]

    def __call__(self, batches: Batches) -> Iterator[Found]:
        for batch in batches:
            start = 0
            for some in from_data(batch, self.columns):
                rows = batch.slice(start, len(some))
                yield Found(some, {name: rows.column(name) for name in self.where})
                start += len(some)


@dataclass(frozen=True)
class ShingleSome:
    """In a task: the sets of those rows whose id may be that of a candidate."""

    places: Broadcast[Bits]
    columns: Columns
    sketcher: Sketcher

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        sorted_rows = as_bags if self.sketcher.spec.of_bags else as_sets
        for batch in batches:
            chosen = np.flatnonzero(self.places.value.has(numbers(batch, "place")))
            rows = batch.take(batch_of(at=chosen).column(0))
            for some in from_data(rows, self.columns):
                cut = self.sketcher.cut(some)
                content = cut.content.view(np.int64)
                yield batch_of(
                    id=narrow(some.ids), now0=np.ascontiguousarray(content[:, 0]),
                    now1=np.ascontiguousarray(content[:, 1]),
                    data=as_bytes(sorted_rows(cut.shingles)),
                )  # fmt: skip
