"""What is given to a run on Spark: the rows of a DataFrame, or lines of JSON.

Lines are parsed in tasks, as the local engine parses them, so that they are rejected for the same
reasons. Their ids are strings, as in the tables of a local run.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StringType

from neardup.corpus.columns import Source as Called
from neardup.corpus.columns import documents, resolve
from neardup.corpus.documents import Columns, Documents
from neardup.corpus.frames import from_data, paced
from neardup.corpus.jsonl import parse_lines
from neardup.errors import UsageError
from neardup.pipeline.backends.spark.failures import in_plain_words
from neardup.pipeline.backends.spark.making import narrow
from neardup.pipeline.backends.spark.tables import Batches, batch_of, run_in_arrow

FIRST = 1000
"""So many lines are looked at before the work begins: each field must be in one of them."""

Parse = Callable[[pa.RecordBatch], Iterator[Documents]]
"""In a task: the documents of a batch of `Given.read`, in its order."""


@dataclass(frozen=True)
class Given:
    """A user's DataFrame, and which of its columns say what."""

    frame: DataFrame
    columns: Columns
    called: Called = field(default_factory=lambda: Called("this DataFrame", "{}="))

    def __post_init__(self) -> None:
        columns = resolve(self.columns, self.frame.columns, self.called)
        if columns.id is None:
            raise UsageError(
                "rows that Spark reads have no numbers: say with "
                f"{self.called.option.format('id')} which column names them"
            )
        object.__setattr__(self, "columns", columns)
        # Refuse what can't be text or can't be ranked, before a task does.
        table = self.read().limit(0).toArrow()
        named = {name: table.column(option) for option, name in columns.asked().items()}
        documents(pa.Table.from_pydict(named), columns, self.called)

    @property
    def id_type(self) -> DataType:
        return self._type(self.columns.id or "")

    @property
    def where(self) -> dict[str, str]:
        """The columns of `read` that the table of sketches has too, and their types."""
        keep = self.columns.keep
        ranked = {} if keep is None else {"keep": self._type(keep).simpleString()}
        return {"earlier": "boolean"} | ranked

    @property
    def key(self) -> Column:
        """A number that tells most rows apart, of columns that `read` and the sketches have."""
        return sql.xxhash64("id")

    @property
    def parse(self) -> Parse:
        within = self.columns.within and "within"
        return Cells(Columns("text", "id", within=within, tokens=self.columns.tokens))

    def read(self, earlier: bool = False) -> DataFrame:
        """(earlier, id, text, within, keep), as far as they are asked for."""
        asked = self.columns.asked()
        named = [self._column(name).alias(option) for option, name in asked.items()]
        return self._numbered().select(sql.lit(earlier).alias("earlier"), *named)

    def named(self) -> DataFrame:
        """The rows as they are, with the places of columns as names, and `id`."""
        return self._numbered().withColumn("id", self._column(self.columns.id or ""))

    def _numbered(self) -> DataFrame:
        """Names of the user may need quotes."""
        return self.frame.toDF(*(f"c{place}" for place in range(len(self.frame.columns))))

    def _column(self, name: str) -> Column:
        return sql.col(f"c{self.frame.columns.index(name)}")

    def _type(self, name: str) -> DataType:
        return self.frame.schema.fields[self.frame.columns.index(name)].dataType


@dataclass(frozen=True)
class Lines(Given):
    """Lines of JSON, in a frame with one column, and which of their fields say what."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", replace(self.columns, id=self.columns.id or "id"))
        written = sql.btrim(self._line, sql.lit(string.whitespace)) != ""
        object.__setattr__(self, "frame", self.frame.where(written))
        look = Looking(self.columns, self.called.name)
        with in_plain_words("reading the inputs"):
            run_in_arrow(self.read().limit(FIRST), look, "there boolean").count()

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
        return Parsing(self.columns)

    @property
    def _line(self) -> Column:
        return sql.col(self.frame.columns[0])

    def read(self, earlier: bool = False) -> DataFrame:
        """(earlier, key, text), where the text is the whole line."""
        key = sql.xxhash64(self._line).alias("key")
        return self.frame.select(sql.lit(earlier).alias("earlier"), key, self._line.alias("text"))

    def named(self) -> DataFrame:
        return run_in_arrow(self.read(), Naming(self.parse), "c0 string, id string")


@dataclass(frozen=True)
class Cells:
    """In a task: the documents of some rows."""

    columns: Columns

    def __call__(self, batch: pa.RecordBatch) -> Iterator[Documents]:
        return from_data(batch, self.columns)


@dataclass(frozen=True)
class Parsing:
    """In a task: the documents of some lines, none of which is blank."""

    columns: Columns

    def __call__(self, batch: pa.RecordBatch) -> Iterator[Documents]:
        lines = batch.column("text")
        # All of a batch are from the same files.
        earlier = len(batch) and batch.column("earlier")[0].as_py()
        columns = self.columns.plain if earlier else self.columns

        def cut(start: int, end: int) -> Documents:
            return parse_lines(_joined(lines.slice(start, end - start)), False, columns, "")

        return paced(len(lines), cut)


@dataclass(frozen=True)
class Naming:
    """In a task: lines and their ids."""

    parse: Parse

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            start = 0
            for some in self.parse(batch):
                lines = batch.column("text").slice(start, len(some))
                yield batch_of(c0=lines, id=narrow(some.ids))
                start += len(some)


@dataclass(frozen=True)
class Looking:
    """In a task: an error if the first lines have none of the fields that are asked for."""

    columns: Columns
    name: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            parse_lines(_joined(batch.column("text")), True, self.columns, self.name)
        yield from ()


def _joined(lines: pa.Array) -> bytes:
    return b"\n".join(lines.cast(pa.binary()).to_pylist())
