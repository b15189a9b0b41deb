"""JSON lines that Spark reads, as documents of a run."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StringType

from neardup.corpus.columns import Source
from neardup.corpus.documents import Columns
from neardup.corpus.jsonl import parse_lines
from neardup.pipeline.backends.spark_dataframes import (
    GLOB_CHARACTERS,
    LOCAL_SCHEME,
    RUN,
    DataFrameInput,
    DataFrameRun,
)
from neardup.pipeline.backends.spark_failures import tag_errors, translate_spark_errors
from neardup.pipeline.backends.spark_ids import require_ids

CHECKED_LINES = 1000
"""Lines that are checked before the work begins: each field must be in one of them."""


@dataclass(frozen=True)
class JsonLinesInput(DataFrameInput):
    """Lines of JSON, in a frame with one column, and the fields of them that are used."""

    format = "jsonl"

    def __post_init__(self) -> None:
        self.refuse_beside()
        object.__setattr__(self, "columns", replace(self.columns, id=self.columns.id or "id"))
        line = sql.col(self.frame.columns[0])
        written = sql.btrim(line, sql.lit(string.whitespace)) != ""
        object.__setattr__(self, "frame", self.frame.select(line.alias("line")).where(written))
        with translate_spark_errors("reading the inputs"):
            first = self.frame.limit(CHECKED_LINES).toArrow().column("line")
        parse_lines(_join_lines(first), True, self.columns, self.called)

    @property
    def id_type(self) -> DataType:
        return StringType()

    @property
    def written(self) -> Columns:
        return self.columns

    def write(self, folder: Path) -> None:
        """Write the lines, unchanged, to files in the order of their ids."""
        named = self._named()
        rows = named.repartitionByRange("id").sortWithinPartitions("id", "line")
        with translate_spark_errors("reading the documents"):
            rows.select("line").write.text(f"{LOCAL_SCHEME}{folder}", lineSep="\n")
            missing = named.where("usable AND id IS NULL").count()
            require_ids(missing, None if self.columns.merges_rows else named.select("id"))

    def ids(self, folder: Path) -> DataFrame:  # noqa: ARG002 (the lines have them)
        return self._named().select("id")

    def _named(self) -> DataFrame:
        return self.frame.mapInArrow(
            _NameLines(self.columns), "line string, id string, usable boolean"
        )

    def keep_rows(self, run: DataFrameRun) -> DataFrame:
        kept = LOCAL_SCHEME + GLOB_CHARACTERS.sub(r"\\\g<0>", str(run.folder / RUN / "kept"))
        lines = self.frame.sparkSession.read.text(kept, lineSep="\n", recursiveFileLookup=True)
        return lines.withColumnRenamed("value", "line")


class _NameLines:
    """In a task: return lines with their ids, and whether they can be documents."""

    def __init__(self, columns: Columns) -> None:
        # Also a line whose vector will be rejected needs an id: the dimension is not known yet.
        self._columns = replace(columns, vectors=None)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with tag_errors():
            for batch in batches:
                lines = batch.column("line")
                block = _join_lines(lines)
                documents = parse_lines(block, False, self._columns, Source(""))
                usable = [row not in documents.rejected for row in range(len(documents))]
                ids = pc.cast(documents.ids, pa.string())
                yield pa.RecordBatch.from_arrays(
                    [lines, ids, pa.array(usable)], names=["line", "id", "usable"]
                )


def _join_lines(lines: pa.Array | pa.ChunkedArray) -> bytes:
    return b"\n".join(lines.cast(pa.binary()).to_pylist())  # Spark does not check UTF-8
