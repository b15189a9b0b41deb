"""The tables and kept files of OUT, exactly as a local run writes them, by tasks.

A table is one file, in input order, written by one task that sorts it; kept files are written by a
task each. What a task has written gets its name when the task is known to be the one that counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import Broadcast, TaskContext
from pyspark.sql import DataFrame, SparkSession

from neardup.batch.engines.spark.bits import Bits
from neardup.batch.engines.spark.failures import in_plain_words
from neardup.batch.engines.spark.tables import Batches, batch_of, numbers, run_in_arrow
from neardup.batch.places import Places
from neardup.corpus.inputs import InputFile
from neardup.corpus.write import write_kept
from neardup.formats.tables import TableWriter

Rows = Callable[[pa.RecordBatch, Places], dict[str, Any]]
"""The columns of a table, of a batch of rows."""


@dataclass(frozen=True)
class WriteTable:
    """In a task: all rows to one file."""

    path: str
    schema: pa.Schema
    rows: Rows
    places: Broadcast[Places]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        beside = f"{self.path}.{_attempt()}"
        with TableWriter(Path(beside), self.schema) as table:
            for batch in batches:
                table.add(self.rows(batch, self.places.value))
        yield batch_of(path=pa.array([beside]))


def _attempt() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.taskAttemptId()


def write_table(
    frame: DataFrame, by: str, path: Path, schema: pa.Schema, rows: Rows,
    places: Broadcast[Places],
) -> None:  # fmt: skip
    """A table, sorted by a column."""
    ordered = frame.repartition(1).sortWithinPartitions(by)
    written = run_in_arrow(ordered, WriteTable(str(path), schema, rows, places), "path string")
    with in_plain_words("writing"):
        made = written.collect()
    if not made:  # no row, no task
        with TableWriter(path, schema):
            return
    os.replace(made[0]["path"], path)


def removed_rows(batch: pa.RecordBatch, places: Places) -> dict[str, Any]:
    """The columns of removed.parquet."""
    number, witness = numbers(batch, "number"), numbers(batch, "witness")
    file, row = places.of(number)
    witness_file, witness_row = places.of(witness)
    return {
        "id": places.named(batch.column("id"), number), "file": file, "row": row,
        "witness": places.named(batch.column("witness_id"), witness),
        "witness_file": witness_file, "witness_row": witness_row,
        "similarity": batch.column("similarity"), "exact": batch.column("exact"),
        "cluster": witness,
    }  # fmt: skip


def cluster_rows(batch: pa.RecordBatch, places: Places) -> dict[str, Any]:
    """The columns of clusters.parquet."""
    number = numbers(batch, "number")
    file, row = places.of(number)
    return {"cluster": number, "id": places.named(batch.column("id"), number), "file": file,
            "row": row, "size": numbers(batch, "size")}  # fmt: skip


def rejected_rows(batch: pa.RecordBatch, places: Places) -> dict[str, Any]:
    """The columns of rejected.parquet."""
    number = numbers(batch, "number")
    file, row = places.of(number)
    return {"id": places.named(batch.column("id"), number), "file": file, "row": row,
            "reason": batch.column("reason").cast(pa.large_string())}  # fmt: skip


def pair_rows(batch: pa.RecordBatch, places: Places) -> dict[str, Any]:
    """The columns of pairs.parquet."""
    a, b = numbers(batch, "a"), numbers(batch, "b")
    return {"a": places.named(batch.column("a_id"), a), "b": places.named(batch.column("b_id"), b),
            "similarity": batch.column("similarity")}  # fmt: skip


@dataclass(frozen=True)
class WriteKept:
    """In a task: some inputs again, without the rows that go."""

    folder: str
    files: Broadcast[list[InputFile]]
    places: Broadcast[Places]
    gone: Broadcast[Bits]
    first: int
    """The number of the first file that is not of an earlier corpus."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in numbers(batch, "id").tolist():
                file = self.files.value[number]
                start, end = self.places.value.starts[self.first + number :][:2].tolist()
                keep = ~self.gone.value.among(start, end)
                name = f"{_attempt()}/{file.kept_name}"
                write_kept(file, keep, Path(self.folder) / name)
                yield batch_of(number=np.array([number]), attempt=np.array([_attempt()]))


def write_files(
    spark: SparkSession, folder: Path, files: list[InputFile], write: WriteKept
) -> None:
    """kept/: each input by a task of its own."""
    tasks = spark.range(0, len(files), 1, max(len(files), 1))
    with in_plain_words("writing"):
        made = run_in_arrow(tasks, write, "number long, attempt long").collect()
    for one in made:
        file = files[one["number"]]
        written = Path(write.folder) / str(one["attempt"]) / file.kept_name
        if written.exists():  # a text that is not kept is not
            (folder / file.kept_name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(written, folder / file.kept_name)
