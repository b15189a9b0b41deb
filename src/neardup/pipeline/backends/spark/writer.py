"""Write the tables and kept files of OUT in tasks, exactly as a local run writes them.

A table is one file, in input order, written by one task that sorts it; kept files are written by a
task each. A file gets its final name when Spark has accepted the task that wrote it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark import Broadcast, TaskContext
from pyspark.sql import DataFrame, SparkSession

from neardup.corpus.inputs import InputFile
from neardup.corpus.write import write_kept
from neardup.formats.tables import TableWriter
from neardup.pipeline.backends.spark.arrow import Batches, make_batch, read_numbers, run_in_arrow
from neardup.pipeline.backends.spark.bitmap import Bitmap
from neardup.pipeline.backends.spark.failures import translate_spark_errors
from neardup.pipeline.catalogue import RowPlaces
from neardup.pipeline.output import discard


class TableRows(Protocol):
    """In a task: turn batches of rows into columns of a table; then give a summary, as JSON."""

    def __call__(self, batch: pa.RecordBatch, places: RowPlaces) -> dict[str, Any]: ...
    def end(self, places: RowPlaces, /) -> dict[str, Any] | None:
        """Return the remaining rows, after the last batch."""

    def summary(self) -> Any: ...


@dataclass(frozen=True)
class WriteTable:
    """In a task: write all rows to one file."""

    path: str
    schema: pa.Schema
    rows: TableRows
    places: Broadcast[RowPlaces]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        beside = f"{self.path}.{_attempt_id()}"
        _write_rows(batches, Path(beside), self.schema, self.rows, self.places.value)
        yield make_batch(
            path=pa.array([beside]), summary=pa.array([json.dumps(self.rows.summary())])
        )


def _write_rows(
    batches: Batches, path: Path, schema: pa.Schema, rows: TableRows, places: RowPlaces
) -> None:
    with TableWriter(path, schema) as table:
        for batch in batches:
            table.add(rows(batch, places))
        if last := rows.end(places):
            table.add(last)


def _attempt_id() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.taskAttemptId()


def write_table(
    frame: DataFrame | pa.Table,
    by: Sequence[str],
    path: Path,
    schema: pa.Schema,
    rows: TableRows,
    places: Broadcast[RowPlaces],
) -> Any:
    """Write a table sorted by the columns `by`; return the summary of its rows."""
    if isinstance(frame, pa.Table):
        kept = frame.combine_chunks().sort_by([(name, "ascending") for name in by])
        _write_rows(kept.to_batches(), path, schema, rows, places.value)
        return rows.summary()
    ordered = frame.repartition(1).sortWithinPartitions(*by)
    write = WriteTable(str(path), schema, rows, places)
    with translate_spark_errors("writing"):
        made = run_in_arrow(ordered, write, "path string, summary string").collect()
    if not made:  # no row, no task
        _write_rows([], path, schema, rows, places.value)
        return rows.summary()
    os.replace(made[0]["path"], path)
    return json.loads(made[0]["summary"])


@dataclass(frozen=True)
class WriteKept:
    """In a task: write inputs again, without the rows that are dropped."""

    folder: str
    files: Broadcast[list[InputFile]]
    places: Broadcast[RowPlaces]
    dropped: Broadcast[Bitmap]
    first: int
    """The number of the first file that is not of an earlier corpus."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in read_numbers(batch, "id").tolist():
                file = self.files.value[number]
                start, end = self.places.value.starts[self.first + number :][:2].tolist()
                keep = ~self.dropped.value.slice(start, end)
                path = Path(self.folder, str(_attempt_id()), file.kept_name)
                write_kept(file, keep, path)
                yield make_batch(
                    number=np.array([number]),
                    attempt=np.array([_attempt_id()]),
                    written=np.array([path.exists()]),  # a text file that is removed is not
                )


def write_kept_files(
    spark: SparkSession, folder: Path, files: list[InputFile], write: WriteKept
) -> None:
    """Write kept/: a task for each input."""
    discard(Path(write.folder))  # of a run that was stopped
    tasks = spark.range(0, len(files), 1, max(len(files), 1))
    with translate_spark_errors("writing"):
        made = run_in_arrow(tasks, write, "number long, attempt long, written boolean").collect()
    for one in made:
        file = files[one["number"]]
        written = Path(write.folder, str(one["attempt"]), file.kept_name)
        if one["written"]:
            (folder / file.kept_name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(written, folder / file.kept_name)
