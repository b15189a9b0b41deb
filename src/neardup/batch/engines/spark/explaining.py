"""The tables of OUT that say what became of every document, and some to look at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

from neardup.batch import samples
from neardup.batch.ending import Told
from neardup.batch.engines.spark import writing
from neardup.batch.engines.spark.failures import in_plain_words
from neardup.batch.engines.spark.files import Files
from neardup.batch.engines.spark.writing import write_table
from neardup.batch.places import Places
from neardup.corpus.values import strings
from neardup.formats import tables

Integers = NDArray[np.int64]
Example = tuple[int, int, float]


@dataclass(frozen=True)
class Explaining:
    """What the tables are made of.

    documents  all rows of the inputs: number, rank, id, where they are, reason
    removed    (number, id, witness, witness_id, similarity, exact), both by number
    new        the number of the first document that is not of an earlier corpus
    """

    folder: Path
    source: Files
    documents: DataFrame
    removed: DataFrame
    places: Broadcast[Places]
    new: int

    def told(self) -> Told:
        """Write all tables; and what they say, for the record and for a terminal."""
        self._write(self.removed, "removed.parquet", tables.REMOVED, writing.removed_rows)
        by_witness = self.removed.groupBy(sql.col("witness").alias("number"))
        clusters = by_witness.agg(
            sql.first("witness_id").alias("id"), (sql.count("*") + 1).alias("size")
        )
        self._write(clusters, "clusters.parquet", tables.CLUSTERS, writing.cluster_rows)
        rejected = self.documents.where(
            sql.col("reason").isNotNull() & (sql.col("number") >= self.new)
        )
        rejected = rejected.select("number", "id", "reason")
        self._write(rejected, "rejected.parquet", tables.REJECTED, writing.rejected_rows)
        reasons = {
            row["reason"]: row["count"] for row in rejected.groupBy("reason").count().collect()
        }
        top = clusters.orderBy(sql.desc("size"), "number").limit(samples.CLUSTERS).collect()
        largest = [(row["number"], row["size"] - 1) for row in top]
        chosen = self._chosen([kept for kept, _ in largest])
        shown = self._examples()
        known = self._known(largest, chosen, shown)
        samples.write_samples(self.folder, known, largest, chosen)
        return Told(Counter(reasons), samples.named(known, largest), samples.examples(known, shown))

    def _write(self, frame: DataFrame, name: str, schema: pa.Schema, rows: writing.Rows) -> None:
        write_table(frame, "number", self.folder / name, schema, rows, self.places)

    def _chosen(self, kept: list[int]) -> dict[int, list[tuple[float, int]]]:
        """Of some clusters: the copies that are the least similar."""
        by = Window.partitionBy("witness").orderBy("similarity", "number")
        some = self.removed.where(sql.col("witness").isin(kept)).withColumn(
            "at", sql.row_number().over(by)
        )
        found: dict[int, list[tuple[float, int]]] = {one: [] for one in kept}
        for row in some.where(sql.col("at") <= samples.COPIES).orderBy("witness", "at").collect():
            found[row["witness"]].append((row["similarity"], row["number"]))
        return found

    def _examples(self) -> list[Example]:
        """Removed documents to show, near-copies if there are any."""
        for wanted in ("similarity < 1.0", "similarity >= 1.0"):
            rows = self.removed.where(wanted).orderBy("number").limit(samples.SHOWN).collect()
            if rows:
                return [(row["number"], row["witness"], row["similarity"]) for row in rows]
        return []

    def _known(
        self, largest: list[tuple[int, int]], chosen: dict[int, list[tuple[float, int]]],
        shown: list[Example],
    ) -> Collected:  # fmt: skip
        texts = {kept for kept, _ in largest} | {d for some in chosen.values() for _, d in some}
        every = texts | {d for one in shown for d in one[:2]}
        names = self.named(every)
        wanted = self.documents.where(sql.col("number").isin(sorted(texts)))
        wanted = wanted.withColumn("doc", sql.col("number").cast("int"))
        with in_plain_words("reading"):
            read = self.source.texts(wanted).collect() if texts else []
        return Collected(self.places.value, names, {row["doc"]: row["text"] for row in read})

    def named(self, numbers: set[int]) -> dict[int, str | None]:
        """The own ids of a few documents."""
        rows = self.documents.where(sql.col("number").isin(sorted(numbers))).select("number", "id")
        return {row["number"]: row["id"] for row in rows.collect()} if numbers else {}


@dataclass(frozen=True)
class Collected:
    """What is known of a few documents."""

    places: Places
    ids: dict[int, str | None]
    read: dict[int, str]

    def place(self, documents: Integers) -> tuple[pa.Array, pa.Array]:
        return self.places.of(documents)

    def names(self, documents: Integers) -> pa.Array:
        return self.places.named(strings([self.ids.get(d) for d in documents.tolist()]), documents)

    def texts(self, documents: Integers) -> pa.Array:
        return strings([self.read.get(document) for document in documents.tolist()])
