"""What is compared: candidates are numbered, and their sets of shingles, or signatures, fetched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import IntegerType, StructField, StructType

from neardup.options import Options
from neardup.pipeline.backends.spark.bits import Bits
from neardup.pipeline.backends.spark.sources import Source
from neardup.pipeline.backends.spark.tables import Batches, batch_of, numbers, run_in_arrow


def candidates_of(documents: DataFrame, bits: Broadcast[Bits], columns: Sequence[str]) -> DataFrame:
    """The documents that are in a bucket with others: some columns, and `doc`, their number."""
    needed = documents.select("rank", *columns)
    schema = StructType([*needed.schema.fields[1:], StructField("doc", IntegerType())])
    return run_in_arrow(needed, Chosen(bits), schema)


@dataclass(frozen=True)
class Chosen:
    """In a task: the rows whose rank is in a set, with its place there instead of the rank."""

    bits: Broadcast[Bits]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ranks = numbers(batch, "rank")
            chosen = np.flatnonzero(self.bits.value.has(ranks))
            rows = batch.take(batch_of(at=chosen).column(0))
            doc = self.bits.value.places(ranks[chosen]).astype(np.int32)
            yield batch_of(
                **dict(zip(rows.schema.names[1:], rows.columns[1:], strict=True)), doc=doc
            )


def sets(
    documents: DataFrame, source: Source, bits: Broadcast[Bits], options: Options
) -> DataFrame:
    """What is compared of each candidate, and how many bytes that is: (doc, data, size)."""
    if options.verify == "exact":
        made = source.sets(documents, bits)
    else:
        made = candidates_of(documents, bits, ["slots"]).withColumnRenamed("slots", "data")
    return made.withColumn("size", sql.length("data"))
