"""Who stays, given all similar pairs? In rank order, by many tasks.

Pairs are in ranges of their document v. A task settles, in rank order, what depends on known
documents only; a byte for each candidate goes to all tasks of the next pass. When the pairs of
what is not settled fit into one task, one task settles the rest: chains are long, and it
knows everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup import kernels
from neardup.pipeline.backends.spark.failures import in_plain_words
from neardup.pipeline.backends.spark.tables import (
    Batches,
    batch_of,
    grouped_in_arrow,
    numbers,
    run_in_arrow,
)
from neardup.pipeline.rounds import split

Bytes = NDArray[np.uint8]
UNKNOWN, KEPT, REMOVED, GONE = range(4)


@dataclass(frozen=True)
class Settled:
    """By candidate: whether it is kept, else a bound for its witness; and how that went."""

    kept: NDArray[np.bool_]
    bound: Bytes
    passes: int
    edges: int


@dataclass(frozen=True)
class Settle:
    """In a task: the pairs of a range of documents to their statuses.

    known   the statuses of all candidates, None in the first pass
    width   candidates in a range; the last one ends at `count`
    """

    known: Broadcast[Bytes] | None
    count: int
    width: int
    shift: int

    def __call__(self, table: pa.Table) -> pa.Table:
        number = table.column("p")[0].as_py()
        start, end = number * self.width, min((number + 1) * self.width, self.count)
        pairs = np.sort(table.column("pair").to_numpy().view(np.uint64))
        if self.known is None:
            status = np.full(self.count, UNKNOWN, np.uint8)
            status[start:end] = KEPT
        else:
            status = self.known.value.copy()
        bound = np.zeros(self.count, np.uint8)
        left = kernels.settle(pairs, status, bound, self.shift)
        decided = np.unique((pairs >> np.uint64(32)).astype(np.int64))
        return pa.Table.from_batches(
            [
                batch_of(
                    docs=[decided.astype(np.uint32).tobytes()],
                    status=[status[decided].tobytes()],
                    bound=[bound[decided].tobytes()],
                    left=np.array([left]),
                )
            ]
        )


@dataclass(frozen=True)
class Unsettled:
    """In a task: the pairs of documents that are not settled yet."""

    known: Broadcast[Bytes]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            pairs = numbers(batch, "pair")
            status = self.known.value[pairs >> 32]
            yield batch_of(pair=pairs[(status == UNKNOWN) | (status == GONE)])


def settled(edges: DataFrame, count: int, width: int, shift: int, one_task: int) -> Settled:
    """Settle the similar pairs of a frame with a column `pair`, about `one_task` at once."""
    send = edges.sparkSession.sparkContext.broadcast
    status, bound = np.full(count, KEPT, np.uint8), np.zeros(count, np.uint8)
    total = left = edges.count()
    passes = 0
    while left:
        known = send(status.copy()) if passes else None
        wide = count if left <= one_task else width
        some = edges if known is None else run_in_arrow(edges, Unsettled(known), "pair long")
        settle = Settle(known, count, wide, shift)
        p = sql.floor(sql.shiftright("pair", 32) / sql.lit(wide)).cast("int").alias("p")
        schema = "docs binary, status binary, bound binary, left long"
        made = grouped_in_arrow(some.select(p, "pair"), "p", settle, schema)
        with in_plain_words("deciding"):
            rows = made.collect()
        if known is not None:
            known.destroy()
        for row in rows:
            docs = np.frombuffer(row["docs"], np.uint32)
            status[docs] = np.frombuffer(row["status"], np.uint8)
            bound[docs] = np.frombuffer(row["bound"], np.uint8)
        left = sum(row["left"] for row in rows)
        passes += 1
    return Settled(status == KEPT, bound, passes, total)


@dataclass(frozen=True)
class Witnesses:
    """In a task: of the similar pairs of some documents, the one with the best kept document."""

    kept: Broadcast[NDArray[np.bool_]]

    def __call__(self, table: pa.Table) -> pa.Table:
        table = table.combine_chunks()
        pairs = table.column("pair").to_numpy().view(np.uint64)
        order = np.argsort(pairs)
        left, right = split(pairs[order])
        good = np.flatnonzero(self.kept.value[left] & ~self.kept.value[right])
        first = good[np.flatnonzero(np.diff(right[good], prepend=-1))]
        return pa.Table.from_batches(
            [
                batch_of(
                    doc=right[first].astype(np.int32),
                    witness=left[first].astype(np.int32),
                    similarity=table.column("similarity").to_numpy()[order][first],
                )
            ]
        )
