"""What is compared: candidates are numbered, and their sets of shingles, or signatures, fetched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame

from neardup.batch.engines.spark.bits import Bits
from neardup.batch.engines.spark.sources import Source
from neardup.batch.engines.spark.tables import Batches, batch_of, numbers, run_in_arrow
from neardup.options import Options


def candidates(documents: DataFrame, bits: Broadcast[Bits], columns: dict[str, str]) -> DataFrame:
    """The documents that are in a bucket with others: some columns, and `doc`, their number."""
    schema = ", ".join(f"{name} {kind}" for name, kind in columns.items()) + ", doc int"
    return run_in_arrow(documents.select("rank", *columns), Chosen(bits), schema)


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
            yield batch_of(**dict(zip(rows.schema.names[1:], rows.columns[1:], strict=True)),
                           doc=doc)  # fmt: skip


def sets(
    documents: DataFrame, source: Source, bits: Broadcast[Bits], options: Options
) -> DataFrame:
    """What is compared of each candidate: (doc, data)."""
    if options.verify != "exact":
        return candidates(documents, bits, {"slots": "binary"}).selectExpr("doc", "slots AS data")
    columns = source.where | {"id": source.id_type, "c0": "long", "c1": "long"}
    return source.sets(candidates(documents, bits, columns))
