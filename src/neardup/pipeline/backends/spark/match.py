"""Number the candidates, and fetch what is compared of them: shingles, or signatures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import IntegerType, StructField, StructType

from neardup.options import Options
from neardup.pipeline.backends.spark.arrow import Batches, make_batch, read_numbers, run_in_arrow
from neardup.pipeline.backends.spark.bitmap import Bitmap

if TYPE_CHECKING:
    from neardup.pipeline.backends.spark.sources import DocumentSource


def select_candidates(
    documents: DataFrame, bits: Broadcast[Bitmap], columns: Sequence[str]
) -> DataFrame:
    """The documents that are in a bucket with others: some columns, and `doc`, their number."""
    needed = documents.select("rank", *columns)
    schema = StructType([*needed.schema.fields[1:], StructField("doc", IntegerType())])
    return run_in_arrow(needed, NumberCandidates(bits), schema)


@dataclass(frozen=True)
class NumberCandidates:
    """In a task: the rows whose rank is in a set, with its place there instead of the rank."""

    bits: Broadcast[Bitmap]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ranks = read_numbers(batch, "rank")
            chosen = np.flatnonzero(self.bits.value.has(ranks))
            rows = batch.take(make_batch(at=chosen).column(0))
            doc = self.bits.value.places(ranks[chosen]).astype(np.int32)
            yield make_batch(
                **dict(zip(rows.schema.names[1:], rows.columns[1:], strict=True)), doc=doc
            )


def fetch_sets(
    documents: DataFrame, source: DocumentSource, bits: Broadcast[Bitmap], options: Options
) -> DataFrame:
    """What is compared of each candidate, and how many bytes that is: (doc, data, size)."""
    if options.verify == "exact":
        made = source.sets(documents, bits)
    else:
        made = select_candidates(documents, bits, ["slots"]).withColumnRenamed("slots", "data")
    return made.withColumn("size", sql.length("data"))


def translate_to_ranks(decided: DataFrame, candidates: Broadcast[Bitmap]) -> DataFrame:
    """The same (rank, witness, similarity) by ranks instead of the numbers of candidates."""
    some = decided.select("doc", "witness", "similarity")
    return run_in_arrow(
        some, TranslateToRanks(candidates), "rank long, witness long, similarity double"
    )


@dataclass(frozen=True)
class TranslateToRanks:
    """In a task: numbers of candidates to ranks."""

    candidates: Broadcast[Bitmap]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        ranks = self.candidates.value.numbers
        for batch in batches:
            yield make_batch(
                rank=ranks(read_numbers(batch, "doc")),
                witness=ranks(read_numbers(batch, "witness")),
                similarity=batch.column("similarity"),
            )
