"""Which members of the buckets are similar, apart from those that are known to belong together?

The first members of a bucket are paired with all later ones, where the buckets are. Only pairs are
shuffled, and each is compared once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup import kernels
from neardup.pipeline.backends.spark.banding import Firsts, firsts_of, rows_of
from neardup.pipeline.backends.spark.comparing import Compare, compared
from neardup.pipeline.backends.spark.ranges import Ranges
from neardup.pipeline.backends.spark.tables import Batches, Work, batch_of, run_in_arrow
from neardup.pipeline.rounds import PAIRS_AT_ONCE
from neardup.text.arrays import Ragged

Roots = NDArray[np.uint32]


@dataclass(frozen=True)
class Part:
    """Of each bucket: the members number `fresh` to `most` with later ones before `last`."""

    fresh: int
    most: int
    last: int


@dataclass(frozen=True)
class Meeting:
    """In a task: pairs of a bucket's members that have different roots. See `member_pairs`."""

    roots: Broadcast[Roots]
    hot: Broadcast[Firsts]
    new: int
    part: Part

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows, place in rows_of(batch, self.hot.value):
                yield from self._pairs(rows, place)

    def _pairs(self, buckets: Ragged, place: int) -> Iterator[pa.RecordBatch]:
        part, bucket = self.part, 0
        while bucket < len(buckets):
            pairs, bucket, place = kernels.member_pairs(
                buckets.data,
                buckets.offsets,
                self.roots.value,
                self.new,
                part.fresh,
                part.most,
                part.last,
                bucket,
                place,
                PAIRS_AT_ONCE,
            )
            yield batch_of(pair=np.unique(pairs).view(np.int64))


@dataclass(frozen=True)
class Similar:
    """Pairs with their similarity, how many they are, and how many were compared."""

    pairs: DataFrame
    count: int
    compared: int


@dataclass(frozen=True)
class Members:
    """All buckets, and how their members are compared.

    count     how many candidates there are; those before `new` are of an earlier corpus
    pieces    whether some buckets are in several rows
    ranges    which candidates are compared together
    cap       of a bucket, so many first members are compared with others
    """

    work: Work
    buckets: DataFrame
    sets: DataFrame
    compare: Compare
    count: int
    new: int
    pieces: bool
    ranges: Ranges
    cap: int

    def similar(self, roots: Broadcast[Roots], part: Part, name: str) -> Similar:
        """The similar pairs of members that have different roots: (pair, similarity)."""
        meeting = Meeting(roots, self._hot, self.new, part)
        met = run_in_arrow(self.buckets, meeting, "pair long").distinct()
        pairs = self.work.stored(met, f"{name}-met")
        count = pairs.count()
        found = compared(pairs, count, self.sets, self.compare, self.ranges)
        similar = self.work.stored(found.where("similarity >= 0"), f"{name}-similar")
        return Similar(similar, similar.count(), count)

    def capped(self) -> int:
        """How many buckets have more than `cap` members."""
        whole = self.buckets.groupBy("band", "key").agg(sql.sum("size").alias("size"))
        return (whole if self.pieces else self.buckets).where(sql.col("size") > self.cap).count()

    @cached_property
    def _hot(self) -> Broadcast[Firsts]:
        """The first members of buckets that are in several rows."""
        some = self.buckets.where("piece > 0").select(
            "band", "key", sql.substring("members", 1, 4 * self.cap).alias("members")
        )
        first = firsts_of(some, self.cap) if self.pieces else {}
        return self.work.spark.sparkContext.broadcast(first)
