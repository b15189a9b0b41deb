"""The tables of OUT of a run on Spark: removed, clusters, rejected, pairs, samples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import nlargest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup.corpus.documents import make_strings
from neardup.formats import tables
from neardup.formats.tables import to_arrow
from neardup.pipeline.backends.spark.arrow import read_numbers
from neardup.pipeline.backends.spark.failures import translate_spark_errors
from neardup.pipeline.backends.spark.sources import FileSource
from neardup.pipeline.backends.spark.writer import TableRows, write_table
from neardup.pipeline.catalogue import RowPlaces
from neardup.pipeline.stages.tables import (
    SAMPLED_CLUSTERS,
    SAMPLED_COPIES,
    SHOWN_ROWS,
    TableSummary,
    write_samples,
)


class PlainRows:
    """Rows that tell nothing, and are complete with each batch."""

    def end(self, _: RowPlaces) -> dict[str, Any] | None:
        return None

    def summary(self) -> Any:
        return None


@dataclass
class RemovedRows(PlainRows):
    """removed.parquet, in input order. Tells how many there are, and some to show."""

    count: int = 0
    near: list[tuple[str, str, float]] = field(default_factory=list)
    other: list[tuple[str, str, float]] = field(default_factory=list)

    def __call__(self, batch: pa.RecordBatch, places: RowPlaces) -> dict[str, Any]:
        number, witness = read_numbers(batch, "number"), read_numbers(batch, "witness")
        file, row = places.of(number)
        witness_file, witness_row = places.of(witness)
        names = places.name_documents(batch.column("id"), number)
        witnesses = places.name_documents(batch.column("witness_id"), witness)
        similarity = batch.column("similarity").to_numpy()
        self.count += len(batch)
        for listed, here in ((self.near, similarity < 1.0), (self.other, similarity >= 1.0)):
            for at in np.flatnonzero(here)[: SHOWN_ROWS - len(listed)].tolist():
                listed.append((names[at].as_py(), witnesses[at].as_py(), float(similarity[at])))
        return {
            "id": names,
            "file": file,
            "row": row,
            "witness": witnesses,
            "witness_file": witness_file,
            "witness_row": witness_row,
            "similarity": similarity,
            "exact": batch.column("exact"),
            "cluster": witness,
        }

    def summary(self) -> Any:
        return {"count": self.count, "examples": self.near or self.other}


@dataclass
class ClusterRows:
    """clusters.parquet, of removed documents by witness, the least similar first.

    Tells of the largest: kept document, name, copies, and some of these: similarity, number, name.
    """

    largest: list[dict[str, Any]] = field(default_factory=list)
    _open: pa.RecordBatch | None = None
    """The last cluster so far, which may go on; its first rows are enough."""
    _copies: int = 0

    def __call__(self, batch: pa.RecordBatch, places: RowPlaces) -> dict[str, Any]:
        if self._open is not None:
            batch = pa.concat_batches([self._open, batch])
        witness = read_numbers(batch, "witness")
        starts = np.concatenate([[0], np.flatnonzero(np.diff(witness)) + 1, [len(batch)]])
        copies = np.diff(starts)
        copies[0] += self._copies
        last = int(starts[-2])
        self._open = batch.slice(last, SAMPLED_COPIES)
        self._copies = int(copies[-1]) - len(self._open)
        return self._rows(batch, starts[:-2], copies[:-1], places)

    def end(self, places: RowPlaces) -> dict[str, Any] | None:
        if self._open is None:
            return None
        copies = np.array([len(self._open) + self._copies])
        return self._rows(self._open, np.zeros(1, np.int64), copies, places)

    def _rows(
        self, batch: pa.RecordBatch, starts: Integers, copies: Integers, places: RowPlaces
    ) -> dict[str, Any]:
        """The rows of clusters that begin at some places in a batch."""
        kept = read_numbers(batch, "witness")[starts]
        file, row = places.of(kept)
        names = places.name_documents(batch.column("witness_id").take(to_arrow(starts)), kept)
        largest = np.lexsort((kept, -copies))[:SAMPLED_CLUSTERS]
        found = [
            {
                "kept": int(kept[at]),
                "name": names[at].as_py(),
                "copies": int(copies[at]),
                "some": _list_copies(
                    batch.slice(starts[at], min(copies[at], SAMPLED_COPIES)), places
                ),
            }
            for at in largest.tolist()
        ]
        every = [*self.largest, *found]
        self.largest = nlargest(SAMPLED_CLUSTERS, every, lambda one: (one["copies"], -one["kept"]))
        return {"cluster": kept, "id": names, "file": file, "row": row, "size": copies + 1}

    def summary(self) -> Any:
        return self.largest


def _list_copies(batch: pa.RecordBatch, places: RowPlaces) -> list[tuple[float, int, str]]:
    number = read_numbers(batch, "number")
    names = places.name_documents(batch.column("id"), number).to_pylist()
    similarity = batch.column("similarity").to_pylist()
    return list(zip(similarity, number.tolist(), names, strict=True))


@dataclass
class RejectedRows(PlainRows):
    """rejected.parquet, in input order. Tells how many there are for each reason."""

    reasons: Counter[str] = field(default_factory=Counter)

    def __call__(self, batch: pa.RecordBatch, places: RowPlaces) -> dict[str, Any]:
        number = read_numbers(batch, "number")
        file, row = places.of(number)
        reasons = batch.column("reason").cast(pa.large_string())
        self.reasons.update(reasons.to_pylist())
        return {
            "id": places.name_documents(batch.column("id"), number),
            "file": file,
            "row": row,
            "reason": reasons,
        }

    def summary(self) -> Any:
        return dict(self.reasons)


class PairRows(PlainRows):
    """pairs.parquet."""

    def __call__(self, batch: pa.RecordBatch, places: RowPlaces) -> dict[str, Any]:
        a, b = read_numbers(batch, "a"), read_numbers(batch, "b")
        return {
            "a": places.name_documents(batch.column("a_id"), a),
            "b": places.name_documents(batch.column("b_id"), b),
            "similarity": batch.column("similarity"),
        }


Integers = NDArray[np.int64]


@dataclass(frozen=True)
class OutTables:
    """What the tables are made of.

    documents  all rows of the inputs: number, rank, id, where they are, reason
    removed    (number, id, witness, witness_id, similarity, exact), both by number
    new        the number of the first document that is not of an earlier corpus
    rejected   how many new documents are
    """

    folder: Path
    source: FileSource
    documents: DataFrame
    removed: DataFrame | pa.Table
    places: Broadcast[RowPlaces]
    new: int
    rejected: int

    def write(self) -> tuple[int, TableSummary]:
        """Write all tables: how many documents are removed, and what else the tables say."""
        removed = self._write(
            self.removed, ["number"], "removed.parquet", tables.REMOVED, RemovedRows()
        )
        by = ["witness", "similarity", "number"]
        largest = self._write(self.removed, by, "clusters.parquet", tables.CLUSTERS, ClusterRows())
        reasons = self._write(
            self._rejected(), ["number"], "rejected.parquet", tables.REJECTED, RejectedRows()
        )
        self._write_samples(largest)
        shown = [(one["name"], one["copies"]) for one in largest[:SHOWN_ROWS]]
        examples = [(name, witness, similar) for name, witness, similar in removed["examples"]]
        return removed["count"], TableSummary(Counter(reasons), shown, examples)

    def _rejected(self) -> DataFrame | pa.Table:
        columns = ["number", "id", "reason"]
        if not self.rejected:
            return pa.table({name: [] for name in columns})
        rejected = self.documents.where(f"reason IS NOT NULL AND number >= {self.new}")
        return rejected.select(columns)

    def _write(
        self,
        frame: DataFrame | pa.Table,
        by: list[str],
        name: str,
        schema: pa.Schema,
        made: TableRows,
    ) -> Any:
        return write_table(frame, by, self.folder / name, schema, made, self.places)

    def _write_samples(self, largest: list[dict[str, Any]]) -> None:
        """samples.parquet: the largest clusters, with texts, which are read again."""
        names = {one["kept"]: one["name"] for one in largest}
        names |= {number: name for one in largest for _, number, name in one["some"]}
        wanted = self.documents.where(sql.col("number").isin(sorted(names)))
        wanted = wanted.withColumn("doc", sql.col("number").cast("int"))
        with translate_spark_errors("reading texts"):
            read = self.source.texts(wanted).collect() if names else []
        known = SampleLookup(self.places.value, names, {row["doc"]: row["text"] for row in read})
        write_samples(
            self.folder,
            known,
            [(one["kept"], one["copies"]) for one in largest],
            {
                one["kept"]: [(similar, number) for similar, number, _ in one["some"]]
                for one in largest
            },
        )


@dataclass(frozen=True)
class SampleLookup:
    """What is known of a few documents."""

    at: RowPlaces
    named: dict[int, str]
    read: dict[int, str]

    def place(self, documents: Integers) -> tuple[pa.Array, pa.Array]:
        return self.at.of(documents)

    def names(self, documents: Integers) -> pa.Array:
        return make_strings([self.named[document] for document in documents.tolist()])

    def texts(self, documents: Integers) -> pa.Array:
        return make_strings([self.read.get(document) for document in documents.tolist()])
