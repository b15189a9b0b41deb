"""Everything that is left, in one task: the pass of the in-memory engine.

The answer is unique, so it does not matter who finds it. One task is quicker as soon as the
buckets and the sets of all candidates fit into it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup import cluster
from neardup.errors import FormatError
from neardup.lsh.buckets import Buckets
from neardup.options import Options
from neardup.pipeline.backends.spark.comparing import held, verifier
from neardup.pipeline.backends.spark.tables import batch_of, cogrouped_in_arrow, flat, numbers

SCHEMA = "doc int, witness int, similarity double, compared long"


@dataclass(frozen=True)
class Finish:
    """In a task: all buckets and sets to the removed documents and their witnesses.

    The first row has no document: it says how many pairs were compared.
    """

    candidates: int
    options: Options
    weights: NDArray[np.uint32] | None = None

    def __call__(self, buckets: pa.Table, sets: pa.Table) -> pa.Table:
        docs, rows = held(sets, self.options)
        if len(docs) != self.candidates:
            raise FormatError("a candidate has no set: run again with another output")
        grouped = grouping(buckets, len(docs), self.options.tables.count)
        judge = verifier(rows, self.options, self.weights)
        kept = (
            cluster.stars(grouped, judge, self.options.limit)
            if self.options.cluster == "stars"
            else cluster.components(grouped, judge)
        )
        gone = np.flatnonzero(kept.witness >= 0)
        return pa.Table.from_batches(
            [
                batch_of(
                    doc=np.append(-1, gone).astype(np.int32),
                    witness=np.append(-1, kept.witness[gone]).astype(np.int32),
                    similarity=np.append(0.0, kept.similarity[gone]),
                    compared=np.append(kept.compared, np.zeros(len(gone))).astype(np.int64),
                )
            ]
        )


def grouping(table: pa.Table, documents: int, bands: int) -> Buckets:
    """Rows of buckets as the in-memory engine has them."""
    found = np.full((documents, bands), -1, np.int64)
    sizes: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    band_of, key_of, count = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    for batch in table.to_batches():
        rows = flat(batch.column("members"), np.uint32)
        band = numbers(batch, "band")
        number = np.arange(count, count + len(batch))
        found[rows.data, np.repeat(band, rows.sizes)] = np.repeat(number, rows.sizes)
        sizes.append(rows.sizes)
        band_of.append(band)
        key_of.append(numbers(batch, "key"))
        count += len(batch)
    return Buckets(
        np.arange(documents),
        found,
        np.concatenate(sizes),
        np.concatenate(band_of),
        np.concatenate(key_of).view(np.uint64),
    )


def finished(buckets: DataFrame, sets: DataFrame, finish: Finish) -> DataFrame:
    """The removed candidates with their witnesses, found in one task."""
    left = buckets.coalesce(1).select(sql.lit(0).alias("p"), "band", "key", "members")
    right = sets.coalesce(1).select(sql.lit(0).alias("p"), "doc", "data")
    return cogrouped_in_arrow((left, "p"), (right, "p"), finish, SCHEMA)
