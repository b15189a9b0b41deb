"""The tables of OUT of a run on Spark: removed, clusters, rejected, pairs, samples.

Removed documents get their input numbers and ids instead of ranks. A query costs Spark half a
second, however few rows it moves, so small results are joined on the driver with NumPy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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
from neardup.pipeline.backends.spark.arrow import Batches, read_numbers, run_in_arrow
from neardup.pipeline.backends.spark.bitmap import Bitmap
from neardup.pipeline.backends.spark.decide import SparkDecision
from neardup.pipeline.backends.spark.failures import translate_spark_errors
from neardup.pipeline.backends.spark.sketch import SketchedFiles
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

Integers = NDArray[np.int64]


class PlainRows:
    """Rows without a summary, complete with each batch."""

    def end(self, _: RowPlaces) -> dict[str, Any] | None:
        return None

    def summary(self) -> Any:
        return None


@dataclass
class RemovedRows(PlainRows):
    """removed.parquet, in input order. The summary has the count and examples.

    new         the number of the first document that is not of an earlier corpus
    by_earlier  removed documents whose witness comes before it
    """

    new: int = 0
    count: int = 0
    by_earlier: int = 0
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
        self.by_earlier += int(np.count_nonzero(witness < self.new))
        for listed, chosen in ((self.near, similarity < 1.0), (self.other, similarity >= 1.0)):
            for at in np.flatnonzero(chosen)[: SHOWN_ROWS - len(listed)].tolist():
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
        return {
            "count": self.count,
            "by_earlier": self.by_earlier,
            "examples": self.near or self.other,
        }


@dataclass
class ClusterRows:
    """clusters.parquet, made of removed documents by witness, the least similar first.

    The summary lists the largest: kept document, name, number of copies, and the similarity, number
    and name of a few copies.
    """

    largest: list[dict[str, Any]] = field(default_factory=list)
    _open: pa.RecordBatch | None = None
    """The first rows of the last cluster so far, which may continue in the next batch."""
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
        """Return the columns of the clusters that begin at `starts` in a batch."""
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
    """rejected.parquet, in input order. The summary counts the reasons."""

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


@dataclass(frozen=True)
class OutTables:
    """The data of which the tables are made.

    documents  all rows of the inputs: number, rank, id, columns of their place, reason
    removed    (number, id, witness, witness_id, similarity, exact), both by number
    new        the number of the first document that is not of an earlier corpus
    rejected   the number of rejected new documents
    """

    folder: Path
    source: FileSource
    documents: DataFrame
    removed: DataFrame | pa.Table
    places: Broadcast[RowPlaces]
    new: int
    rejected: int

    def write(self) -> tuple[int, TableSummary]:
        """Write all tables; return the number of removed documents, and a summary."""
        removed = self._write(
            self.removed, ["number"], "removed.parquet", tables.REMOVED, RemovedRows(self.new)
        )
        by = ["witness", "similarity", "number"]
        largest = self._write(self.removed, by, "clusters.parquet", tables.CLUSTERS, ClusterRows())
        reasons = self._write(
            self._rejected(), ["number"], "rejected.parquet", tables.REJECTED, RejectedRows()
        )
        self._write_samples(largest)
        shown = [(one["name"], one["copies"]) for one in largest[:SHOWN_ROWS]]
        examples = [(name, witness, similar) for name, witness, similar in removed["examples"]]
        summary = TableSummary(Counter(reasons), shown, examples, removed["by_earlier"])
        return removed["count"], summary

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
        """Write samples.parquet: the largest clusters, with texts, which are read again."""
        names = {one["kept"]: one["name"] for one in largest}
        names |= {number: name for one in largest for _, number, name in one["some"]}
        wanted = self.documents.where(sql.col("number").isin(sorted(names)))
        wanted = wanted.withColumn("doc", sql.col("number").cast("int"))
        with translate_spark_errors("reading texts"):
            read = self.source.texts(wanted).collect() if names else []
        known = SampleLookup(self.places.value, names, {row["doc"]: row["text"] for row in read})
        write_samples(
            self.folder / "samples.parquet",
            known,
            [(one["kept"], one["copies"]) for one in largest],
            {
                one["kept"]: [(similar, number) for similar, number, _ in one["some"]]
                for one in largest
            },
        )


@dataclass(frozen=True)
class SampleLookup:
    """Places, names and texts of the sampled documents."""

    at: RowPlaces
    named: dict[int, str]
    read: dict[int, str]

    def place(self, documents: Integers) -> tuple[pa.Array, pa.Array]:
        return self.at.of(documents)

    def names(self, documents: Integers) -> pa.Array:
        return make_strings([self.named[document] for document in documents.tolist()])

    def texts(self, documents: Integers) -> pa.Array:
        return make_strings([self.read.get(document) for document in documents.tolist()])


# -- names of removed documents ------------------------------------------------------------------


def name_removed(
    decided: SparkDecision, documents: DataFrame, read: SketchedFiles, nameless: bool
) -> DataFrame | pa.Table:
    """Return (number, id, witness, witness_id, similarity, exact) of removed new documents.

    Args:
        nameless: Whether documents have no id, and their ranks are their numbers.
    """
    if decided.few is not None:
        return _name_on_driver(decided, decided.few, documents, read, nameless)
    removed = decided.removed.where(sql.col("rank") >= read.new)  # earlier ones come first
    if nameless:
        none = sql.lit(None).cast("string")
        return removed.select(
            sql.col("rank").alias("number"),
            none.alias("id"),
            "witness",
            none.alias("witness_id"),
            "similarity",
            "exact",
        )
    named = documents.select("rank", "number", "id")
    by = named.select(
        sql.col("rank").alias("witness"),
        sql.col("number").alias("by"),
        sql.col("id").alias("witness_id"),
    )
    return (
        removed.join(named, "rank")
        .join(by, "witness")
        .select("number", "id", sql.col("by").alias("witness"), "witness_id", "similarity", "exact")
    )


def _name_on_driver(
    decided: SparkDecision,
    near: pa.Table,
    documents: DataFrame,
    read: SketchedFiles,
    nameless: bool,
) -> pa.Table:
    """Return the same on the driver, for a run without an earlier corpus."""
    rank, witness, similarity, exact = _join_copies(decided, near)
    if nameless:
        none = pa.nulls(len(rank), pa.string())
        number, by, id, witness_id = rank, witness, none, none
    else:
        bits = Bitmap.of(np.concatenate([rank, witness]), read.count)
        names = _read_names(documents, bits)
        ranks = read_numbers(names, "rank")
        at, of_witness = (np.searchsorted(ranks, wanted) for wanted in (rank, witness))
        known, ids = read_numbers(names, "number"), names.column("id")
        number, by = known[at], known[of_witness]
        id, witness_id = ids.take(to_arrow(at)), ids.take(to_arrow(of_witness))
    return pa.table(
        {
            "number": number,
            "id": id,
            "witness": by,
            "witness_id": witness_id,
            "similarity": similarity,
            "exact": exact,
        }
    )


def _join_copies(
    decided: SparkDecision, near: pa.Table
) -> tuple[Integers, Integers, NDArray[np.float64], NDArray[np.bool_]]:
    """Return rank, witness, similarity and exact of all removed documents.

    The same on the driver as `decide.join_copies`.
    """
    candidates = decided.candidates.value.numbers
    near = near.sort_by("doc")
    judged, theirs = (
        candidates(read_numbers(near, "doc")),
        candidates(read_numbers(near, "witness")),
    )
    similarity = near.column("similarity").to_numpy()
    twins = decided.copies.toArrow()
    leader, rank = read_numbers(twins, "leader"), read_numbers(twins, "rank")
    removed = np.isin(leader, judged)
    at = np.searchsorted(judged, leader[removed])
    witness, of_copies, exact = leader, np.ones(len(leader)), np.ones(len(leader), bool)
    witness[removed], of_copies[removed], exact[removed] = theirs[at], similarity[at], decided.exact
    return (
        np.concatenate([judged, rank]),
        np.concatenate([theirs, witness]),
        np.concatenate([similarity, of_copies]),
        np.concatenate([np.full(len(judged), decided.exact), exact]),
    )


def _read_names(documents: DataFrame, wanted: Bitmap) -> pa.Table:
    """Return (rank, number, id) of the documents with these ranks, in rank order."""
    named = documents.select("rank", "number", "id")
    asked = SelectRanks(documents.sparkSession.sparkContext.broadcast(wanted))
    return run_in_arrow(named, asked, named.schema).toArrow().combine_chunks().sort_by("rank")


@dataclass(frozen=True)
class SelectRanks:
    """In a task: select the documents whose ranks are in a set."""

    wanted: Broadcast[Bitmap]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(to_arrow(self.wanted.value.has(read_numbers(batch, "rank"))))
