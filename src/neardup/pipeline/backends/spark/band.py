"""Find copies and buckets: keys are shuffled with ranks, and equal keys make a bucket.

A row of the bucket table has its members in ascending order, as bytes of uint32. A very large
bucket is in several rows, so that no task holds it as a whole: `piece` numbers them from 1.

When all keys fit into one task, that task finds copies and buckets as the in-memory engine does:
one query instead of six, each of which costs Spark half a second whatever it moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup.cluster import find_identical
from neardup.lsh.buckets import group_by_key
from neardup.pipeline.backends.spark.arrow import (
    Batches,
    StageTables,
    make_batch,
    pack_rows,
    read_numbers,
    read_rows,
    run_in_arrow,
)
from neardup.pipeline.backends.spark.bitmap import Bitmap, collect_bitmap
from neardup.pipeline.backends.spark.rank import find_copies
from neardup.text.arrays import Ragged

Integers = NDArray[np.int64]
FirstMembers = dict[tuple[int, int], NDArray[np.uint32]]
"""By band and key: the first members of buckets that are in several rows."""


@dataclass(frozen=True)
class BandKeys:
    """In a task: make a row for each band's key of each document that is no copy."""

    copies: Broadcast[Bitmap]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ranks = read_numbers(batch, "rank")
            chosen = np.flatnonzero(~self.copies.value.has(ranks))
            if len(chosen):
                keys = read_rows(batch.column("keys"), np.int64).data.reshape(len(ranks), -1)[
                    chosen
                ]
                bands = keys.shape[1]
                yield make_batch(
                    band=np.tile(np.arange(bands, dtype=np.int32), len(chosen)),
                    key=keys.reshape(-1),
                    rank=np.repeat(ranks[chosen].astype(np.int32), bands),
                )


@dataclass
class BucketGrouping:
    """In a task: group batches sorted by key, band and rank into buckets of two or more.

    new    the first rank of a new document; a bucket without one is dropped
    piece  a row has about this many members at most
    """

    new: int
    piece: int
    _held: list[Integers] = field(default_factory=list)
    _whose: tuple[int, int] | None = None
    _number: int = 0

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if len(batch):
                yield from self._batch(batch)
        yield from self._end()

    def _batch(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        band, key, rank = (read_numbers(batch, name) for name in ("band", "key", "rank"))
        begins = np.flatnonzero((np.diff(band) != 0) | (np.diff(key) != 0)) + 1
        starts = np.concatenate([[0], begins, [len(rank)]])
        if self._whose is not None and self._whose != (band[0], key[0]):
            yield from self._end()
        first, last = int(starts[1]), int(starts[-2])
        if first < len(rank):
            self._add(band[0], key[0], rank[:first])
            yield from self._end()
            yield from self._whole(band, key, rank, starts[1:-1])
        self._add(band[last], key[last], rank[last:])
        yield from self._pieces()

    def _whole(
        self, band: Integers, key: Integers, rank: Integers, starts: Integers
    ) -> Iterator[pa.RecordBatch]:
        """Yield the buckets that begin and end inside a batch."""
        sizes = np.diff(starts)
        good = np.flatnonzero(sizes >= 2)
        good = good[rank[starts[1:][good] - 1] >= self.new]
        if len(good):
            rows = Ragged(rank.astype(np.uint32), starts).take(good)
            at = starts[good]
            yield _bucket_rows(band[at], key[at], sizes[good], rows)

    def _add(self, band: int, key: int, ranks: Integers) -> None:
        self._whose = int(band), int(key)
        self._held.append(ranks)

    def _pieces(self) -> Iterator[pa.RecordBatch]:
        """Yield the pieces that are complete of a bucket that may continue."""
        each = self.piece
        if sum(map(len, self._held)) > 2 * each:
            members = np.concatenate(self._held)
            count = len(members) // each * each - each
            for start in range(0, count, each):
                self._number += 1
                yield self._piece(members[start : start + each])
            self._held = [members[count:]]

    def _end(self) -> Iterator[pa.RecordBatch]:
        members = np.concatenate([np.empty(0, np.int64), *self._held])
        self._number += self._number > 0
        if len(members) >= 2 and members[-1] >= self.new:
            yield self._piece(members)
        self._held, self._whose, self._number = [], None, 0

    def _piece(self, members: Integers) -> pa.RecordBatch:
        band, key = self._whose or (0, 0)
        rows = Ragged(members.astype(np.uint32), np.array([0, len(members)]))
        size = np.array([len(members)])
        return _bucket_rows(np.array([band]), np.array([key]), size, rows, self._number)


def _bucket_rows(
    band: Integers, key: Integers, size: Integers, members: Ragged, piece: int = 0
) -> pa.RecordBatch:
    pieces = np.full(len(band), piece, np.int32)
    return make_batch(
        band=band.astype(np.int32), key=key, piece=pieces, size=size, members=pack_rows(members)
    )


BUCKET_SCHEMA = "band int, key long, piece int, size long, members binary"


def find_buckets(
    documents: DataFrame, copies: Broadcast[Bitmap], grouping: BucketGrouping
) -> DataFrame:
    """Return the buckets of two documents or more, with ranks as members."""
    keys = run_in_arrow(
        documents.select("rank", "keys"), BandKeys(copies), "band int, key long, rank int"
    )
    sorted_keys = keys.repartition("band", "key").sortWithinPartitions("key", "band", "rank")
    return run_in_arrow(sorted_keys, grouping, BUCKET_SCHEMA)


def read_members(batch: pa.RecordBatch) -> Integers:
    """Return all members of a batch of buckets."""
    return read_rows(batch.column("members"), np.uint32).data.astype(np.int64)


def collect_first_members(pieces: DataFrame, most: int) -> FirstMembers:
    """Collect the first `most` members of buckets from (band, key, members) of their pieces."""
    parts: dict[tuple[int, int], list[NDArray[np.uint32]]] = {}
    for row in pieces.collect():
        members = np.frombuffer(row["members"], np.uint32)
        parts.setdefault((row["band"], row["key"]), []).append(members)
    return {bucket: np.sort(np.concatenate(part))[:most] for bucket, part in parts.items()}


def iterate_buckets(batch: pa.RecordBatch, firsts: FirstMembers) -> Iterator[tuple[Ragged, int]]:
    """Yield the buckets of a batch, and the member at which to begin.

    The members that `firsts` has of a bucket are put before each later piece of it.
    """
    rows, piece = read_rows(batch.column("members"), np.uint32), read_numbers(batch, "piece")
    pieces = np.flatnonzero(piece)
    yield (rows.take(np.flatnonzero(piece == 0)) if len(pieces) else rows), 0
    band, key = read_numbers(batch, "band"), read_numbers(batch, "key")
    for row in pieces.tolist():
        members = rows.data[rows.offsets[row] : rows.offsets[row + 1]]
        first = firsts[int(band[row]), int(key[row])]
        before = first[first < members[0]]
        whole = np.concatenate([before, members])
        yield Ragged(whole, np.array([0, len(whole)])), len(before)


def renumber_buckets(buckets: DataFrame, candidates: Broadcast[Bitmap]) -> DataFrame:
    """Return the buckets with the numbers of candidates instead of ranks."""

    def numbered(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = read_rows(batch.column("members"), np.uint32)
            places = candidates.value.places(rows.data.astype(np.int64)).astype(np.uint32)
            others = [batch.column(name) for name in ("band", "key", "piece", "size")]
            arrays = [*others, pack_rows(Ragged(places, rows.offsets))]
            yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    return run_in_arrow(buckets, numbered, BUCKET_SCHEMA)


StageContext = Callable[[str], AbstractContextManager[Any]]
"""Runs a `with` block as the stage of a name: its times are recorded, progress is shown."""

COPY_ROW, BUCKET_ROW, TOTAL_ROW = range(3)
"""The kinds of rows in the table of one task: a copy, a bucket, or the totals."""
ONE_TASK_SCHEMA = (
    "kind int, leader long, rank long, band int, key long, piece int, size long, members binary, "
    "doubles binary, candidates binary, buckets long, largest long"
)
ROWS_PER_BATCH = 1 << 13


@dataclass(frozen=True)
class BucketTotals:
    """The number of buckets, the members of the largest and of all, whether any is in pieces."""

    buckets: int
    largest: int
    members: int
    pieces: bool

    @classmethod
    def of(cls, buckets: DataFrame) -> BucketTotals:
        (row,) = buckets.agg(
            sql.count("size").alias("count"),
            sql.max("size").alias("largest"),
            sql.sum("size").alias("members"),
            sql.max("piece").alias("pieces"),
        ).collect()
        return cls(row["count"], row["largest"] or 0, row["members"] or 0, bool(row["pieces"]))


@dataclass(frozen=True)
class CopiesAndBuckets:
    """The copies (leader, rank), the buckets by candidate number, and both as sets of ranks."""

    copies: DataFrame
    buckets: DataFrame
    doubles: Bitmap
    candidates: Bitmap
    sums: BucketTotals


def find_by_shuffles(
    work: StageTables,
    stage: StageContext,
    documents: DataFrame,
    count: int,
    grouping: BucketGrouping,
) -> CopiesAndBuckets:
    """Find copies and buckets of any number of documents, by shuffles."""
    send = work.spark.sparkContext.broadcast
    with stage("collapsing"):
        twins = work.store(find_copies(documents), "copies")
        doubles = collect_bitmap(twins, lambda batch: read_numbers(batch, "rank"), count)
    with stage("banding"):
        by_rank = work.store(find_buckets(documents, send(doubles), grouping), "buckets")
        candidates = collect_bitmap(by_rank.select("members"), read_members, count)
        buckets = work.store(renumber_buckets(by_rank, send(candidates)), "numbered")
    return CopiesAndBuckets(twins, buckets, doubles, candidates, BucketTotals.of(buckets))


def find_in_one_task(
    work: StageTables, stage: StageContext, documents: DataFrame, count: int
) -> CopiesAndBuckets:
    """Find copies and buckets of documents whose keys fit into one task."""
    needed = documents.select("rank", "c0", "c1", "keys").coalesce(1)
    with stage("banding"):
        met = work.store(run_in_arrow(needed, FindCopiesAndBuckets(count), ONE_TASK_SCHEMA), "met")
        totals = met.where(f"kind = {TOTAL_ROW}").collect()
    buckets = met.where(f"kind = {BUCKET_ROW}").select("band", "key", "piece", "size", "members")
    twins = met.where(f"kind = {COPY_ROW}").select("leader", "rank")
    if not totals:  # no row, no task
        return CopiesAndBuckets(
            twins, buckets, Bitmap.none(count), Bitmap.none(count), BucketTotals(0, 0, 0, False)
        )
    (row,) = totals
    doubles, candidates = (
        Bitmap(count, np.frombuffer(row[name], np.uint8).copy())
        for name in ("doubles", "candidates")
    )
    sums = BucketTotals(row["buckets"], row["largest"], row["size"], False)
    return CopiesAndBuckets(twins, buckets, doubles, candidates, sums)


@dataclass(frozen=True)
class FindCopiesAndBuckets:
    """In a task: find the copies and buckets of all documents, both as bitmaps, and totals."""

    count: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        parts = [_read_columns(batch) for batch in batches if len(batch)]
        if not parts:
            return
        rank, content, keys = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(rank)
        leader = find_identical(content, order)
        twins = order[leader[order] != order]
        yield from _pad_rows(COPY_ROW, leader=rank[leader[twins]], rank=rank[twins])
        unique = order[leader[order] == order]
        grouped = group_by_key(keys, unique)
        members, starts = grouped.members()
        places = Ragged(members.astype(np.uint32), starts)
        yield from _pad_rows(
            BUCKET_ROW,
            band=grouped.band_of.astype(np.int32),
            key=grouped.key_of.view(np.int64),
            piece=np.zeros(len(grouped.sizes), np.int32),
            size=grouped.sizes,
            members=pack_rows(places),
        )
        candidates = rank[unique[grouped.documents]]
        largest = grouped.sizes.max(initial=0)
        yield from _pad_rows(
            TOTAL_ROW,
            doubles=self._bits(rank[twins]),
            candidates=self._bits(candidates),
            buckets=np.array([len(grouped.sizes)]),
            largest=np.array([largest], np.int64),
            size=np.array([len(members)]),
        )

    def _bits(self, ranks: NDArray[np.int64]) -> list[bytes]:
        return [Bitmap.of(ranks, self.count).data.tobytes()]


def _read_columns(batch: pa.RecordBatch) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rank = read_numbers(batch, "rank")
    content = np.stack([read_numbers(batch, "c0"), read_numbers(batch, "c1")], axis=1).view(
        np.uint64
    )
    return rank, content, read_rows(batch.column("keys"), np.uint64).data.reshape(len(rank), -1)


def _pad_rows(kind: int, **columns: Any) -> Iterator[pa.RecordBatch]:
    """Yield rows of one kind, with nulls in the columns of the other kinds."""
    made = make_batch(**columns)
    for start in range(0, len(made), ROWS_PER_BATCH):
        rows = made.slice(start, ROWS_PER_BATCH)
        own = {name: rows.column(name) for name in columns}
        every = {
            name: own.get(name, pa.nulls(len(rows), type_))
            for name, type_ in ONE_TASK_TYPES.items()
        }
        yield make_batch(**every | {"kind": np.full(len(rows), kind, np.int32)})


_ARROW = {"int": pa.int32(), "long": pa.int64(), "binary": pa.binary()}
ONE_TASK_TYPES = {
    name: _ARROW[kind] for name, kind in (one.split() for one in ONE_TASK_SCHEMA.split(", "))
}
