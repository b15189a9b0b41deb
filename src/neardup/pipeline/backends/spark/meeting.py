"""Who is identical to whom, and who shares a bucket: by shuffles, or in one task where all fits.

One task does what the in-memory engine does, in one query instead of six, each of which costs
Spark half a second whatever it moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup.cluster import identical
from neardup.lsh.buckets import group
from neardup.pipeline.backends.spark import banding, copies
from neardup.pipeline.backends.spark.banding import Grouping, members_of
from neardup.pipeline.backends.spark.bits import Bits, bits_of
from neardup.pipeline.backends.spark.tables import (
    Batches,
    Work,
    as_bytes,
    batch_of,
    flat,
    numbers,
    run_in_arrow,
)
from neardup.text.arrays import Ragged

Stage = Callable[[str], AbstractContextManager[Any]]
"""Tells of a stage, while it runs."""

COPY, BUCKETS, ALL = range(3)
"""What a row of the table of one task is: copies, buckets, or what there is to say of all."""
SCHEMA = (
    "kind int, leader long, rank long, band int, key long, piece int, size long, members binary, "
    "doubles binary, candidates binary, buckets long, largest long"
)
ROWS = 1 << 13


@dataclass(frozen=True)
class Sums:
    """How many buckets there are, members of the largest one and of all, whether some are in
    several rows."""

    buckets: int
    largest: int
    members: int
    pieces: bool

    @classmethod
    def of(cls, buckets: DataFrame) -> Sums:
        (row,) = buckets.agg(
            sql.count("size").alias("count"),
            sql.max("size").alias("largest"),
            sql.sum("size").alias("members"),
            sql.max("piece").alias("pieces"),
        ).collect()
        return cls(row["count"], row["largest"] or 0, row["members"] or 0, bool(row["pieces"]))


@dataclass(frozen=True)
class Met:
    """Copies as (leader, rank), buckets by the numbers of candidates; both as sets of ranks too."""

    copies: DataFrame
    buckets: DataFrame
    doubles: Bits
    candidates: Bits
    sums: Sums


def by_shuffles(
    work: Work, stage: Stage, documents: DataFrame, count: int, grouping: Grouping
) -> Met:
    """However many documents there are."""
    send = work.spark.sparkContext.broadcast
    with stage("collapsing"):
        twins = work.stored(copies.copies(documents), "copies")
        doubles = bits_of(twins, lambda batch: numbers(batch, "rank"), count)
    with stage("banding"):
        found = work.stored(banding.buckets(documents, send(doubles), grouping), "buckets")
        candidates = bits_of(found.select("members"), members_of, count)
        buckets = work.stored(banding.renumbered(found, send(candidates)), "numbered")
    return Met(twins, buckets, doubles, candidates, Sums.of(buckets))


def in_one_task(work: Work, stage: Stage, documents: DataFrame, count: int) -> Met:
    """Of documents whose keys fit into a task."""
    needed = documents.select("rank", "c0", "c1", "keys").coalesce(1)
    with stage("banding"):
        met = work.stored(run_in_arrow(needed, Meet(count), SCHEMA), "met")
        told = met.where(f"kind = {ALL}").collect()
    buckets = met.where(f"kind = {BUCKETS}").select("band", "key", "piece", "size", "members")
    twins = met.where(f"kind = {COPY}").select("leader", "rank")
    if not told:  # no row, no task
        return Met(twins, buckets, Bits.none(count), Bits.none(count), Sums(0, 0, 0, False))
    (row,) = told
    doubles, candidates = (
        Bits(count, np.frombuffer(row[name], np.uint8).copy()) for name in ("doubles", "candidates")
    )
    sums = Sums(row["buckets"], row["largest"], row["size"], False)
    return Met(twins, buckets, doubles, candidates, sums)


@dataclass(frozen=True)
class Meet:
    """In a task: all documents to copies and buckets; both as bitmaps, and how many there are."""

    count: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        parts = [_columns(batch) for batch in batches if len(batch)]
        if not parts:
            return
        rank, content, keys = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(rank)
        leader = identical(content, order)
        twins = order[leader[order] != order]
        yield from _rows(COPY, leader=rank[leader[twins]], rank=rank[twins])
        unique = order[leader[order] == order]
        found = group(keys, unique)
        members, starts = found.members()
        places = Ragged(members.astype(np.uint32), starts)
        yield from _rows(
            BUCKETS,
            band=found.band_of.astype(np.int32),
            key=found.key_of.view(np.int64),
            piece=np.zeros(len(found.sizes), np.int32),
            size=found.sizes,
            members=as_bytes(places),
        )
        candidates = rank[unique[found.documents]]
        largest = found.sizes.max(initial=0)
        yield from _rows(
            ALL,
            doubles=self._bits(rank[twins]),
            candidates=self._bits(candidates),
            buckets=np.array([len(found.sizes)]),
            largest=np.array([largest], np.int64),
            size=np.array([len(members)]),
        )

    def _bits(self, ranks: NDArray[np.int64]) -> list[bytes]:
        return [Bits.of(ranks, self.count).data.tobytes()]


def _columns(batch: pa.RecordBatch) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rank = numbers(batch, "rank")
    content = np.stack([numbers(batch, "c0"), numbers(batch, "c1")], axis=1).view(np.uint64)
    return rank, content, flat(batch.column("keys"), np.uint64).data.reshape(len(rank), -1)


def _rows(kind: int, **columns: Any) -> Iterator[pa.RecordBatch]:
    """Rows of one kind, null in the columns of others."""
    made = batch_of(**columns)
    for start in range(0, len(made), ROWS):
        some = made.slice(start, ROWS)
        found = {name: some.column(name) for name in columns}
        every = {name: found.get(name, pa.nulls(len(some), type_)) for name, type_ in TYPES.items()}
        yield batch_of(**every | {"kind": np.full(len(some), kind, np.int32)})


_ARROW = {"int": pa.int32(), "long": pa.int64(), "binary": pa.binary()}
TYPES = {name: _ARROW[kind] for name, kind in (one.split() for one in SCHEMA.split(", "))}
