"""Which documents meet? Keys are shuffled with ranks, and equal ones are a bucket.

A row of the table of buckets has its members in ascending order, as bytes of uint32. A bucket with
very many is in several rows, so that no task holds it as a whole: `piece` numbers them from 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame

from neardup.pipeline.backends.spark.bits import Bits
from neardup.pipeline.backends.spark.tables import (
    Batches,
    as_bytes,
    batch_of,
    flat,
    numbers,
    run_in_arrow,
)
from neardup.text.arrays import Ragged

Integers = NDArray[np.int64]
Firsts = dict[tuple[int, int], NDArray[np.uint32]]
"""By band and key: some first members of buckets that are in several rows."""


@dataclass(frozen=True)
class Keys:
    """In a task: the keys of documents that are no copies, a row each."""

    copies: Broadcast[Bits]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ranks = numbers(batch, "rank")
            chosen = np.flatnonzero(~self.copies.value.has(ranks))
            if len(chosen):
                keys = flat(batch.column("keys"), np.int64).data.reshape(len(ranks), -1)[chosen]
                bands = keys.shape[1]
                yield batch_of(
                    band=np.tile(np.arange(bands, dtype=np.int32), len(chosen)),
                    key=keys.reshape(-1),
                    rank=np.repeat(ranks[chosen].astype(np.int32), bands),
                )


@dataclass
class Grouping:
    """In a task: batches sorted by key, band and rank to rows of buckets of two or more.

    `new` is the first rank of a new document: a bucket without one is left out. A row has about
    `piece` members at most.
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
        band, key, rank = (numbers(batch, name) for name in ("band", "key", "rank"))
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
        """The buckets that begin and end inside of a batch."""
        sizes = np.diff(starts)
        good = np.flatnonzero(sizes >= 2)
        good = good[rank[starts[1:][good] - 1] >= self.new]
        if len(good):
            rows = Ragged(rank.astype(np.uint32), starts).take(good)
            at = starts[good]
            yield _rows(band[at], key[at], sizes[good], rows)

    def _add(self, band: int, key: int, ranks: Integers) -> None:
        self._whose = int(band), int(key)
        self._held.append(ranks)

    def _pieces(self) -> Iterator[pa.RecordBatch]:
        """What can be given of a bucket that is not at its end yet."""
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
        return _rows(np.array([band]), np.array([key]), size, rows, self._number)


def _rows(
    band: Integers, key: Integers, size: Integers, members: Ragged, piece: int = 0
) -> pa.RecordBatch:
    pieces = np.full(len(band), piece, np.int32)
    return batch_of(
        band=band.astype(np.int32), key=key, piece=pieces, size=size, members=as_bytes(members)
    )


SCHEMA = "band int, key long, piece int, size long, members binary"


def buckets(documents: DataFrame, copies: Broadcast[Bits], grouping: Grouping) -> DataFrame:
    """The buckets of two documents or more, by rank."""
    keys = run_in_arrow(
        documents.select("rank", "keys"), Keys(copies), "band int, key long, rank int"
    )
    sorted_keys = keys.repartition("band", "key").sortWithinPartitions("key", "band", "rank")
    return run_in_arrow(sorted_keys, grouping, SCHEMA)


def members_of(batch: pa.RecordBatch) -> Integers:
    """All members of a batch of buckets."""
    return flat(batch.column("members"), np.uint32).data.astype(np.int64)


def firsts_of(pieces: DataFrame, most: int) -> Firsts:
    """The first members of buckets, of some (band, key, members) of each of their pieces."""
    found: dict[tuple[int, int], list[NDArray[np.uint32]]] = {}
    for row in pieces.collect():
        some = np.frombuffer(row["members"], np.uint32)
        found.setdefault((row["band"], row["key"]), []).append(some)
    return {where: np.sort(np.concatenate(some))[:most] for where, some in found.items()}


def rows_of(batch: pa.RecordBatch, firsts: Firsts) -> Iterator[tuple[Ragged, int]]:
    """The buckets of a batch, and at which member to begin: what `firsts` has of a bucket comes
    before each piece of it, once more."""
    rows, piece = flat(batch.column("members"), np.uint32), numbers(batch, "piece")
    pieces = np.flatnonzero(piece)
    yield (rows.take(np.flatnonzero(piece == 0)) if len(pieces) else rows), 0
    band, key = numbers(batch, "band"), numbers(batch, "key")
    for row in pieces.tolist():
        members = rows.data[rows.offsets[row] : rows.offsets[row + 1]]
        first = firsts[int(band[row]), int(key[row])]
        before = first[first < members[0]]
        whole = np.concatenate([before, members])
        yield Ragged(whole, np.array([0, len(whole)])), len(before)


def renumbered(found: DataFrame, candidates: Broadcast[Bits]) -> DataFrame:
    """The same buckets with the numbers of candidates instead of ranks."""

    def numbered(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = flat(batch.column("members"), np.uint32)
            places = candidates.value.places(rows.data.astype(np.int64)).astype(np.uint32)
            others = [batch.column(name) for name in ("band", "key", "piece", "size")]
            arrays = [*others, as_bytes(Ragged(places, rows.offsets))]
            yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    return run_in_arrow(found, numbered, SCHEMA)
