"""Identical documents collapse: who stands for whom?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from neardup.pipeline.backends.spark.tables import Batches, batch_of, numbers, run_in_arrow


def copies(documents: DataFrame) -> DataFrame:
    """Each copy's rank with that of the best identical document: (leader, rank)."""
    hashed = documents.select("c0", "c1", "rank").repartition("c0", "c1")
    return run_in_arrow(
        hashed.sortWithinPartitions("c0", "c1", "rank"), _copies, "leader long, rank long"
    )


def _copies(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Of batches sorted by hash and rank: all that come after one with the same hash."""
    last: tuple[int, int, int] | None = None
    for batch in batches:
        if not len(batch):
            continue
        first, second, rank = (numbers(batch, name) for name in ("c0", "c1", "rank"))
        begins = np.ones(len(batch), bool)
        begins[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        leader = rank[np.maximum.accumulate(np.where(begins, np.arange(len(batch)), 0))]
        if last is not None and last[:2] == (first[0], second[0]):
            end = int(np.append(np.flatnonzero(begins[1:]) + 1, len(batch))[0])
            leader[:end], begins[0] = last[2], False
        last = int(first[-1]), int(second[-1]), int(leader[-1])
        yield batch_of(leader=leader[~begins], rank=rank[~begins])
