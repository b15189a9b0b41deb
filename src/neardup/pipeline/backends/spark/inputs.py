"""The input of a run on Spark: rows of a DataFrame, or lines of JSON.

Lines are parsed in tasks, as the local engine parses them, so that they are rejected for the same
reasons. Their ids are strings, as in the tables of a local run.

As a source of documents, rows stay where they are and are read twice. Sketched documents are found
again by their ids; if the second reading gives another text for a candidate, that is an error.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DatetimeType,
    NumericType,
    StringType,
    StructType,
)

from neardup.corpus.columns import Source as Called
from neardup.corpus.columns import convert_table, resolve_columns
from neardup.corpus.documents import Columns, Documents
from neardup.corpus.fields import JOINT, LIST, parts_of
from neardup.corpus.frames import paced, read_data
from neardup.corpus.jsonl import parse_lines
from neardup.errors import InputError, UsageError
from neardup.pipeline.backends.spark.arrow import (
    Batches,
    StageTables,
    make_batch,
    narrow_strings,
    pack_rows,
    read_numbers,
    run_in_arrow,
)
from neardup.pipeline.backends.spark.bitmap import Bitmap, collect_bitmap, select_candidates
from neardup.pipeline.backends.spark.failures import encode_error, translate_spark_errors
from neardup.pipeline.backends.spark.sources import LocatedDocuments
from neardup.pipeline.set_files import sort_bags, sort_sets
from neardup.sketcher import Sketcher

CHECKED_LINES = 1000
"""Lines that are checked before the work begins: each field must be in one of them."""

Parse = Callable[[pa.RecordBatch], Iterator[Documents]]
"""In a task: the documents of a batch of `DataFrameInput.read`, in its order."""


@dataclass(frozen=True)
class DataFrameInput:
    """A user's DataFrame, and the columns of it that are used.

    `called` names the DataFrame and its options in messages.
    """

    frame: DataFrame
    columns: Columns
    called: Called = field(default_factory=lambda: Called("this DataFrame", "{}="))

    def __post_init__(self) -> None:
        names = self.frame.columns
        inner = [name for name in _list_inner_fields(self.frame.schema) if name not in names]
        columns = resolve_columns(self.columns, [*names, *inner], self.called)
        if columns.id is None:
            raise UsageError(
                "rows that Spark reads have no order: give a column of unique ids with "
                f"{self.called.option.format('id')}"
            )
        object.__setattr__(self, "columns", columns)
        # Refuse what can't be text or can't be ranked, before a task does.
        table = self.read().limit(0).toArrow()
        named = {name: table.column(option) for option, name in columns.asked().items()}
        convert_table(pa.Table.from_pydict(named), columns, self.called)

    @property
    def id_type(self) -> DataType:
        return self._type(self.columns.id or "")

    @property
    def where(self) -> dict[str, str]:
        """The columns of `read` that the table of sketches has too, and their types."""
        keep = self.columns.keep
        # Dates are converted in tasks, into the columns of `rank.KEEP_COLUMNS`.
        ranked = (
            {} if keep is None or self.columns.dates else {"keep": self._type(keep).simpleString()}
        )
        return {"earlier": "boolean"} | ranked

    @property
    def key(self) -> Column:
        """A hash by which rows of `read` are matched to rows of the table of sketches."""
        return sql.xxhash64("id")

    @property
    def parse(self) -> Parse:
        return ParseRows(
            Columns(
                "text",
                "id",
                keep="keep" if self.columns.dates else None,
                dates=self.columns.dates,
                within=self.columns.within and "within",
                tokens=self.columns.tokens,
            )
        )

    def read(self, earlier: bool = False) -> DataFrame:
        """Return (earlier, id, text, within, keep), of these the columns that are used."""
        asked = self.columns.asked()
        named = [
            (self._text() if option == "text" else self._column(name)).alias(option)
            for option, name in asked.items()
        ]
        return self._numbered().select(sql.lit(earlier).alias("earlier"), *named)

    def with_ids(self) -> DataFrame:
        """Return the rows unchanged, with columns named by position, and `id`."""
        return self._numbered().withColumn("id", self._column(self.columns.id or ""))

    def _numbered(self) -> DataFrame:
        """Return the frame with columns named by position: the user's names may need quotes."""
        return self.frame.toDF(*(f"c{place}" for place in range(len(self.frame.columns))))

    def _column(self, name: str) -> Column:
        return self._find(name)[0]

    def _type(self, name: str) -> DataType:
        return self._find(name)[1]

    def _find(self, name: str) -> tuple[Column, DataType]:
        """Return a column, or a field inside of structs, and its type."""
        names = self.frame.columns
        head = name if name in names else name.partition(".")[0]
        place, rest = names.index(head), name[len(head) + 1 :]
        column, kind = sql.col(f"c{place}"), self.frame.schema.fields[place].dataType
        while rest and isinstance(kind, StructType):
            head = rest if rest in kind.names else rest.partition(".")[0]
            column, kind = column.getField(head), kind[head].dataType
            rest = rest[len(head) + 1 :]
        return column, kind

    def _text(self) -> Column:
        """Return the texts; those of several columns joined, as `corpus.fields` does."""
        names = parts_of(self.columns, "text", self.frame.columns)
        if len(names) == 1:
            return self._column(names[0])
        for name in names:
            if not isinstance(kind := self._type(name), StringType):
                raise UsageError(
                    f"{self.called.name}: column {name!r} is {kind.simpleString()}, not text: "
                    f"choose another with {self.called.option.format('text')}"
                )
        parts = [self._column(name) for name in names]
        joined = sql.concat_ws(JOINT, *(sql.when(part != "", part) for part in parts))
        return sql.when(sql.coalesce(*parts).isNotNull(), joined)


def _list_inner_fields(kind: DataType, prefix: str = "") -> Iterator[str]:
    """Yield the fields inside of the columns of a schema, as `corpus.fields` names them."""
    if isinstance(kind, ArrayType):
        yield from _list_inner_fields(kind.elementType, prefix + LIST)
    elif isinstance(kind, StructType):
        for field_ in kind.fields:
            name = f"{prefix}.{field_.name}" if prefix else field_.name
            if prefix:
                yield name
            yield from _list_inner_fields(field_.dataType, name)


@dataclass(frozen=True)
class JsonLinesInput(DataFrameInput):
    """Lines of JSON, in a frame with one column, and the fields of them that are used."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", replace(self.columns, id=self.columns.id or "id"))
        written = sql.btrim(self._line, sql.lit(string.whitespace)) != ""
        object.__setattr__(self, "frame", self.frame.where(written))
        look = CheckFields(self.columns, self.called.name)
        with translate_spark_errors("reading the inputs"):
            run_in_arrow(self.read().limit(CHECKED_LINES), look, "there boolean").count()

    @property
    def id_type(self) -> DataType:
        return StringType()

    @property
    def where(self) -> dict[str, str]:
        return {"earlier": "boolean", "key": "long"}

    @property
    def key(self) -> Column:
        return sql.col("key")

    @property
    def parse(self) -> Parse:
        return ParseLines(self.columns)

    @property
    def _line(self) -> Column:
        return sql.col(self.frame.columns[0])

    def read(self, earlier: bool = False) -> DataFrame:
        """Return (earlier, key, text), where the text is the whole line."""
        key = sql.xxhash64(self._line).alias("key")
        return self.frame.select(sql.lit(earlier).alias("earlier"), key, self._line.alias("text"))

    def with_ids(self) -> DataFrame:
        return run_in_arrow(self.read(), NameLines(self.parse), "c0 string, id string")


@dataclass(frozen=True)
class ParseRows:
    """In a task: parse the documents of a batch of rows."""

    columns: Columns

    def __call__(self, batch: pa.RecordBatch) -> Iterator[Documents]:
        return read_data(batch, self.columns)


@dataclass(frozen=True)
class ParseLines:
    """In a task: parse the documents of a batch of lines, none of which is blank."""

    columns: Columns

    def __call__(self, batch: pa.RecordBatch) -> Iterator[Documents]:
        lines = batch.column("text")
        # A batch has either new or earlier lines.
        earlier = len(batch) and batch.column("earlier")[0].as_py()
        columns = self.columns.plain if earlier else self.columns

        def cut(start: int, end: int) -> Documents:
            block = _join_lines(lines.slice(start, end - start))
            return parse_lines(block, False, columns, Called(""))

        return paced(len(lines), cut)


@dataclass(frozen=True)
class NameLines:
    """In a task: return lines with their ids."""

    parse: Parse

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            start = 0
            for documents in self.parse(batch):
                lines = batch.column("text").slice(start, len(documents))
                yield make_batch(c0=lines, id=narrow_strings(documents.ids))
                start += len(documents)


@dataclass(frozen=True)
class CheckFields:
    """In a task: raise an error if the first lines lack a field that is used."""

    columns: Columns
    name: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            parse_lines(_join_lines(batch.column("text")), True, self.columns, Called(self.name))
        yield from ()


def _join_lines(lines: pa.Array) -> bytes:
    return b"\n".join(lines.cast(pa.binary()).to_pylist())


BITS_PER_KEY = 16
"""Bits of the filter for each key: one of this many other rows passes it too."""
ID_TYPES = (BinaryType, DatetimeType, NumericType, StringType)
CHANGED = (
    "the DataFrame is read twice, and the second reading has another text for a document, or lacks "
    "it: cache the DataFrame, or write it and read it again, and check that its ids are not "
    "generated by each reading"
)


class DataFrameSource:
    """The rows of a DataFrame, and of an earlier one if there is one, as a source."""

    def __init__(
        self,
        work: StageTables,
        new: DataFrameInput,
        earlier: DataFrameInput | None,
        sketcher: Sketcher,
    ) -> None:
        self._work, self._new, self._sketcher = work, new, sketcher
        self._check_ids(new, earlier)
        self.id_type = new.id_type.simpleString()
        self.where = new.where
        self.frame = new.read()
        if earlier is not None:
            # The keep column of an earlier corpus is ignored.
            earlier_rows = earlier.read(earlier=True)
            self.frame = self.frame.unionByName(earlier_rows, allowMissingColumns=True)
        self.reader = RowReader(new.parse, tuple(self.where))

    @staticmethod
    def _check_ids(new: DataFrameInput, earlier: DataFrameInput | None) -> None:
        kind = new.id_type
        if not isinstance(kind, ID_TYPES):
            raise UsageError(
                f"ids of type {kind.simpleString()} are not supported: "
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

    def sets(self, documents: DataFrame, candidates: Broadcast[Bitmap]) -> DataFrame:
        """Make the sorted shingles of the candidates where their texts are, and shuffle these."""
        keyed = documents.withColumn("key", self._new.key)
        chosen = select_candidates(keyed, candidates, ("id", "key", "c0", "c1"))
        wanted = self._work.store(chosen, "wanted")
        sieve = KeyFilter(wanted.select("key"), wanted.count())
        sets = run_in_arrow(
            self.frame.select(sieve.place(self._new.key), "*"),
            ShingleRows(sieve.bits, self._new.parse, self._sketcher),
            f"id {self.id_type}, now0 long, now1 long, data binary",
        )
        same = (sql.col("c0") == sql.col("now0")) & (sql.col("c1") == sql.col("now1"))
        checked = sql.when(same, sql.col("data")).otherwise(
            sql.raise_error(sql.lit(encode_error(InputError(CHANGED))))
        )
        return wanted.join(sets, "id", "left").select("doc", checked.alias("data"))


class KeyFilter:
    """A Bloom filter with one hash: which rows may have one of the keys.

    Args:
        frame: The keys, in the column `key`.
        count: The number of its rows.
    """

    def __init__(self, frame: DataFrame, count: int) -> None:
        self._size = BITS_PER_KEY * max(count, 1)
        bits = collect_bitmap(
            frame.select(self.place(sql.col("key"))),
            lambda one: read_numbers(one, "place"),
            self._size,
        )
        self.bits = frame.sparkSession.sparkContext.broadcast(bits)

    def place(self, key: Column) -> Column:
        """Return the place of a key's bit."""
        return sql.pmod(key, sql.lit(self._size)).alias("place")


@dataclass(frozen=True)
class RowReader:
    """In a task: read the documents of rows."""

    parse: Parse
    where: tuple[str, ...]

    def __call__(self, batches: Batches) -> Iterator[LocatedDocuments]:
        for batch in batches:
            start = 0
            for documents in self.parse(batch):
                rows = batch.slice(start, len(documents))
                yield LocatedDocuments(documents, {name: rows.column(name) for name in self.where})
                start += len(documents)


@dataclass(frozen=True)
class ShingleRows:
    """In a task: make the sets of the rows whose id may be that of a candidate."""

    places: Broadcast[Bitmap]
    parse: Parse
    sketcher: Sketcher

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        sorted_rows = sort_bags if self.sketcher.spec.of_bags else sort_sets
        for batch in batches:
            chosen = np.flatnonzero(self.places.value.has(read_numbers(batch, "place")))
            rows = batch.take(make_batch(at=chosen).column(0))
            for documents in self.parse(rows):
                cut = self.sketcher.cut(documents)
                content = cut.content.view(np.int64)
                yield make_batch(
                    id=narrow_strings(documents.ids),
                    now0=np.ascontiguousarray(content[:, 0]),
                    now1=np.ascontiguousarray(content[:, 1]),
                    data=pack_rows(sorted_rows(cut.shingles)),
                )
