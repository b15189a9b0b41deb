"""Make the report of a run over a DataFrame: one task makes the page from all tables.

A report reads the folder of a run over files; the task makes such a folder for itself. Documents of
a DataFrame are not in files, so their ids take the place of file names.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, DataType

from neardup.corpus.documents import make_strings
from neardup.formats import tables
from neardup.formats.tables import TableWriter, write_json
from neardup.pipeline.backends.spark.arrow import Batches, make_batch, narrow_strings, run_in_arrow
from neardup.pipeline.backends.spark.dataframes import DataFrameOutcome
from neardup.pipeline.backends.spark.failures import translate_spark_errors
from neardup.pipeline.backends.spark.inputs import DataFrameInput, Parse
from neardup.pipeline.output import RUN_FILE
from neardup.pipeline.stages.tables import SAMPLED_CLUSTERS, SAMPLED_COPIES, SHOWN_ROWS, cut_text

SCHEMAS = {"clusters": tables.CLUSTERS, "rejected": tables.REJECTED, "removed": tables.REMOVED}
Sample = tuple[str, str, float, str | None]
"""A document of a large cluster: the cluster's name, its own, its similarity and its text."""


def format_ids(column: Column, kind: DataType) -> Column:
    """Return ids as readable strings."""
    shown = sql.lower(sql.hex(column)) if isinstance(kind, BinaryType) else column.cast("string")
    return sql.coalesce(shown, sql.lit(""))


class DataFrameReport:
    """The tables of an outcome with readable ids, and the page, clusters and examples of them."""

    def __init__(self, outcome: DataFrameOutcome, rows: DataFrameInput) -> None:
        self._outcome, self._input = outcome, rows
        self._kind = rows.id_type
        self._removed = self._named(outcome.removed, "id", "witness")
        self._clusters = self._named(outcome.clusters(), "id")
        self._top = self._clusters.orderBy(sql.desc("size"), "id").limit(SAMPLED_CLUSTERS).collect()

    def _named(self, frame: DataFrame, *ids: str) -> DataFrame:
        return frame.withColumns({id: format_ids(sql.col(id), self._kind) for id in ids})

    def largest(self) -> list[tuple[str, int]]:
        """Return the kept documents with the most copies, and the numbers of copies."""
        return [(row["id"], row["size"] - 1) for row in self._top[:SHOWN_ROWS]]

    def examples(self) -> list[tuple[str, str, float]]:
        """Return a few removed documents with their witnesses, near-copies if there are any."""
        for wanted in ("similarity < 1.0", "similarity >= 1.0"):
            rows = self._removed.where(wanted).orderBy("id").limit(SHOWN_ROWS).collect()
            if rows:
                return [(row["id"], row["witness"], row["similarity"]) for row in rows]
        return []

    def report(self, finish: Callable[[Path], object], name: str) -> bytes:
        """Return the page `name` that `finish` makes in a run's folder."""
        rejected = self._named(self._outcome.rejected, "id")
        parts = {"clusters": self._clusters, "rejected": rejected, "removed": self._removed}
        one, other, last = (
            frame.withColumn("table", sql.lit(table)) for table, frame in parts.items()
        )
        every = one.unionByName(other, True).unionByName(last, True)
        ordered = every.repartition(1).sortWithinPartitions("table", "id")
        page = MakePage(self._outcome.record, self._samples(), finish, name)
        with translate_spark_errors("making the report"):
            made = run_in_arrow(ordered, page, "page binary").collect()
        if made:
            return bytes(made[0]["page"])
        (batch,) = page(())  # no row, no task
        return bytes(batch.column(0)[0].as_py())

    def _samples(self) -> list[Sample]:
        """Return the kept document and the least similar copies of each of the largest clusters."""
        kept = [row["id"] for row in self._top]
        place = sql.row_number().over(Window.partitionBy("witness").orderBy("similarity", "id"))
        placed = self._removed.where(sql.col("witness").isin(kept)).withColumn("at", place)
        copies = placed.where(sql.col("at") <= SAMPLED_COPIES).orderBy("at").collect()
        rows = [(id, id, 1.0) for id in kept]
        rows += [(row["witness"], row["id"], row["similarity"]) for row in copies]
        texts = self._texts({id for _, id, _ in rows})
        rows.sort(key=lambda row: kept.index(row[0]))
        return [(*row, texts.get(row[1])) for row in rows]

    def _texts(self, ids: set[str]) -> dict[str, str]:
        """Return the beginnings of the texts of new documents."""
        new = self._input
        keyed = self._named(self._outcome.documents.withColumn("key", new.key), "id")
        keys = keyed.where(sql.col("id").isin(sorted(ids))).select("key").collect()
        rows = new.read().where(new.key.isin([row["key"] for row in keys]))
        kind = self._kind.simpleString()
        shown = run_in_arrow(rows, CutTexts(new.parse), f"id {kind}, text string")
        with translate_spark_errors("reading texts"):
            return dict(self._named(shown, "id").collect()) if ids else {}


@dataclass(frozen=True)
class CutTexts:
    """In a task: return ids, and the part of each text that is shown."""

    parse: Parse

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for documents in self.parse(batch):
                texts = [cut_text(text) for text in documents.texts.to_pylist()]
                yield make_batch(
                    id=narrow_strings(documents.ids), text=narrow_strings(make_strings(texts))
                )


@dataclass(frozen=True)
class MakePage:
    """In a task: write the rows of all tables, which are sorted by table, and make the page."""

    record: dict[str, Any]
    samples: list[Sample]
    finish: Callable[[Path], object]
    name: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        with tempfile.TemporaryDirectory(prefix="neardup-") as made:
            folder = Path(made)
            self._write(folder, batches)
            write_json(folder / RUN_FILE, self.record)
            self.finish(folder)
            page = (folder / self.name).read_bytes()
        yield make_batch(page=[page])

    def _write(self, folder: Path, batches: Batches) -> None:
        largest, count = {sample[0]: -1 for sample in self.samples}, 0
        with ExitStack() as stack:
            writers = {
                name: stack.enter_context(TableWriter(folder / f"{name}.parquet", schema))
                for name, schema in SCHEMAS.items()
            }
            for name, rows in _split_by_table(batches):
                if name == "clusters":
                    ids = enumerate(rows.column("id").to_pylist(), count)
                    largest |= {id: number for number, id in ids if id in largest}
                writers[name].add(_table_columns(name, rows, count))
                count += len(rows)
        self._write_samples(folder, largest)

    def _write_samples(self, folder: Path, clusters: dict[str, int]) -> None:
        ids = make_strings([id for _, id, _, _ in self.samples])
        with TableWriter(folder / "samples.parquet", tables.SAMPLES) as table:
            table.add(
                {
                    "cluster": np.array([clusters[one] for one, *_ in self.samples], np.int64),
                    "id": ids,
                    "file": ids,
                    "row": np.zeros(len(ids), np.int64),
                    "kept": np.array([one == id for one, id, _, _ in self.samples], bool),
                    "similarity": np.array([one[2] for one in self.samples], np.float64),
                    "text": make_strings([one[3] for one in self.samples]),
                }
            )


def _split_by_table(batches: Batches) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of each batch, split by table."""
    for batch in batches:
        table = np.array(batch.column("table").to_pylist())
        for name in SCHEMAS:
            if len(at := np.flatnonzero(table == name)):
                yield name, batch.slice(int(at[0]), len(at))


def _table_columns(name: str, rows: pa.RecordBatch, count: int) -> dict[str, Any]:
    """Return the columns of a table of a run over files, of which `count` rows are written."""
    ids, none = rows.column("id").cast(pa.large_string()), np.zeros(len(rows), np.int64)
    columns = {"id": ids, "file": ids, "row": none}
    if name == "clusters":
        numbers = np.arange(count, count + len(rows))
        return columns | {"cluster": numbers, "size": rows.column("size")}
    if name == "rejected":
        return columns | {"reason": rows.column("reason").cast(pa.large_string())}
    witness = rows.column("witness").cast(pa.large_string())
    return columns | {
        "witness": witness,
        "witness_file": witness,
        "witness_row": none,
        "cluster": none,
        "similarity": rows.column("similarity"),
        "exact": rows.column("exact"),
    }
