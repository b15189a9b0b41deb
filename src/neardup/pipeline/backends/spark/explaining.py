"""The tables of OUT that say what became of every document, and some to look at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup.corpus.documents import strings
from neardup.formats import tables
from neardup.pipeline import samples
from neardup.pipeline.backends.spark import rows
from neardup.pipeline.backends.spark.failures import in_plain_words
from neardup.pipeline.backends.spark.files import Files
from neardup.pipeline.backends.spark.writing import Rows, write_table
from neardup.pipeline.ending import Told
from neardup.pipeline.places import Places

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Explaining:
    """What the tables are made of.

    documents  all rows of the inputs: number, rank, id, where they are, reason
    removed    (number, id, witness, witness_id, similarity, exact), both by number
    new        the number of the first document that is not of an earlier corpus
    rejected   how many new documents are
    """

    folder: Path
    source: Files
    documents: DataFrame
    removed: DataFrame | pa.Table
    places: Broadcast[Places]
    new: int
    rejected: int

    def told(self) -> tuple[int, Told]:
        """Write all tables: how many documents are removed, and what else the tables say."""
        removed = self._write(
            self.removed, ["number"], "removed.parquet", tables.REMOVED, rows.Removed()
        )
        by = ["witness", "similarity", "number"]
        largest = self._write(
            self.removed, by, "clusters.parquet", tables.CLUSTERS, rows.Clusters()
        )
        reasons = self._write(
            self._rejected(), ["number"], "rejected.parquet", tables.REJECTED, rows.Rejected()
        )
        self._write_samples(largest)
        shown = [(one["name"], one["copies"]) for one in largest[: samples.SHOWN]]
        examples = [(name, witness, similar) for name, witness, similar in removed["examples"]]
        return removed["count"], Told(Counter(reasons), shown, examples)

    def _rejected(self) -> DataFrame | pa.Table:
        columns = ["number", "id", "reason"]
        if not self.rejected:
            return pa.table({name: [] for name in columns})
        rejected = self.documents.where(f"reason IS NOT NULL AND number >= {self.new}")
        return rejected.select(columns)

    def _write(
        self, frame: DataFrame | pa.Table, by: list[str], name: str, schema: pa.Schema, made: Rows
    ) -> Any:
        return write_table(frame, by, self.folder / name, schema, made, self.places)

    def _write_samples(self, largest: list[dict[str, Any]]) -> None:
        """samples.parquet: the largest clusters, with texts, which are read again."""
        names = {one["kept"]: one["name"] for one in largest}
        names |= {number: name for one in largest for _, number, name in one["some"]}
        wanted = self.documents.where(sql.col("number").isin(sorted(names)))
        wanted = wanted.withColumn("doc", sql.col("number").cast("int"))
        with in_plain_words("reading texts"):
            read = self.source.texts(wanted).collect() if names else []
        known = Known(self.places.value, names, {row["doc"]: row["text"] for row in read})
        samples.write_samples(
            self.folder,
            known,
            [(one["kept"], one["copies"]) for one in largest],
            {
                one["kept"]: [(similar, number) for similar, number, _ in one["some"]]
                for one in largest
            },
        )


@dataclass(frozen=True)
class Known:
    """What is known of a few documents."""

    at: Places
    named: dict[int, str]
    read: dict[int, str]

    def place(self, documents: Integers) -> tuple[pa.Array, pa.Array]:
        return self.at.of(documents)

    def names(self, documents: Integers) -> pa.Array:
        return strings([self.named[document] for document in documents.tolist()])

    def texts(self, documents: Integers) -> pa.Array:
        return strings([self.read.get(document) for document in documents.tolist()])
