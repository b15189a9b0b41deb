"""Connected components of the similar pairs, on Spark: `connect_components` of `stages/decide.py`.

A round pairs more of each bucket's first members with later ones of other components, where the
buckets are; only pairs are shuffled, and each is compared once. Every task gets the root of each
candidate, four bytes. Each task joins the similar pairs that it holds, and returns only which roots
were joined: a forest, no larger than the number of roots. One task joins the forests; it holds
nothing but the roots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup import kernels
from neardup.pipeline.backends.spark.arrow import (
    Batches,
    StageTables,
    make_batch,
    read_numbers,
    run_in_arrow,
)
from neardup.pipeline.backends.spark.band import (
    FirstMembers,
    collect_first_members,
    iterate_buckets,
)
from neardup.pipeline.backends.spark.bitmap import SLICE
from neardup.pipeline.backends.spark.compare import (
    CandidateRanges,
    ComparePairs,
    compare_pairs,
    left_document,
    right_document,
)
from neardup.pipeline.backends.spark.failures import translate_spark_errors
from neardup.pipeline.sorting import PAIRS_AT_ONCE
from neardup.pipeline.stages.decide import RoundTally
from neardup.text.arrays import Ragged

Roots = NDArray[np.uint32]


@dataclass(frozen=True)
class MemberRange:
    """Pairs of a bucket's members from `fresh` to before `most` with later ones before `last`."""

    fresh: int
    most: int
    last: int


@dataclass(frozen=True)
class PairMembers:
    """In a task: pair members of a bucket that have different roots. See `member_pairs`."""

    roots: Broadcast[Roots]
    hot: Broadcast[FirstMembers]
    new: int
    part: MemberRange

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows, place in iterate_buckets(batch, self.hot.value):
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
            yield make_batch(pair=np.unique(pairs).view(np.int64))


@dataclass(frozen=True)
class SimilarPairs:
    """Similar pairs with their similarity, their number, and the number of compared pairs."""

    pairs: DataFrame
    count: int
    compared: int


@dataclass(frozen=True)
class BucketMembers:
    """All buckets, and how their members are compared.

    count     the number of candidates; those before `new` are of an earlier corpus
    pieces    whether any bucket is in several rows
    ranges    which candidates are compared together
    cap       the number of first members of a bucket that are compared with others
    """

    work: StageTables
    buckets: DataFrame
    sets: DataFrame
    compare: ComparePairs
    count: int
    new: int
    pieces: bool
    ranges: CandidateRanges
    cap: int

    def similar(self, roots: Broadcast[Roots], part: MemberRange, name: str) -> SimilarPairs:
        """Find the similar pairs of members that have different roots: (pair, similarity)."""
        meeting = PairMembers(roots, self._hot, self.new, part)
        met = run_in_arrow(self.buckets, meeting, "pair long").distinct()
        pairs = self.work.store(met, f"{name}-met")
        count = pairs.count()
        compared = compare_pairs(pairs, count, self.sets, self.compare, self.ranges)
        similar = self.work.store(compared.where("similarity >= 0"), f"{name}-similar")
        return SimilarPairs(similar, similar.count(), count)

    def capped(self) -> int:
        """Return the number of buckets with more than `cap` members."""
        whole = self.buckets.groupBy("band", "key").agg(sql.sum("size").alias("size"))
        return (whole if self.pieces else self.buckets).where(sql.col("size") > self.cap).count()

    @cached_property
    def _hot(self) -> Broadcast[FirstMembers]:
        """The first members of buckets that are in several rows."""
        pieces = self.buckets.where("piece > 0").select(
            "band", "key", sql.substring("members", 1, 4 * self.cap).alias("members")
        )
        first = collect_first_members(pieces, self.cap) if self.pieces else {}
        return self.work.spark.sparkContext.broadcast(first)


GROWTH = 4
"""A round pairs this many times the members of the one before."""
NO_LAST = np.iinfo(np.int64).max
FOREST_SCHEMA = "doc int, root int"


@dataclass(frozen=True)
class JoinRoots:
    """In a task: join pairs of connected documents; return the roots that were joined to others."""

    roots: Broadcast[Roots]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        before = self.roots.value
        parent = before.copy()
        for batch in batches:
            kernels.join_all(parent, read_numbers(batch, "root"), read_numbers(batch, "doc"))
        kernels.to_roots(parent)
        places = np.arange(len(parent), dtype=np.uint32)
        joined = np.flatnonzero((before == places) & (parent != places))
        yield make_batch(doc=joined.astype(np.int32), root=parent[joined].view(np.int32))


@dataclass(frozen=True)
class PairWithRoots:
    """In a task: pair each document from `new` on that is no root with its root."""

    roots: Broadcast[Roots]
    new: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in read_numbers(batch, "id").tolist():
                start = max(number * SLICE, self.new)
                root = self.roots.value[start : (number + 1) * SLICE].astype(np.int64)
                doc = np.arange(start, start + len(root))
                yield make_batch(pair=(doc << 32 | root << 1)[doc != root])


@dataclass
class SparkComponents:
    """The rounds over the members of buckets, whose rows have at most `largest` members."""

    members: BucketMembers
    largest: int
    say: Callable[[str], None]
    tally: RoundTally = field(default_factory=RoundTally)
    round_log: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.roots = np.arange(self.members.count, dtype=np.uint32)

    def run(self) -> DataFrame:
        """Return each removed candidate with its root: (doc, witness, similarity)."""
        send = self.members.work.spark.sparkContext.broadcast
        fresh, most, cap = 0, 1, self.members.cap
        while fresh < (cap if self.members.pieces else min(self.largest, cap)):
            sent = send(self.roots)
            part = MemberRange(fresh, most, NO_LAST)
            similar = self.members.similar(sent, part, f"members-{self.tally.rounds}")
            joined = self._join(sent, similar.pairs)
            sent.destroy()
            self._log_round(most, similar, joined)
            fresh, most = most, min(GROWTH * most, cap)
        return self._removed(send(self.roots))

    def _join(self, roots: Broadcast[Roots], pairs: DataFrame) -> int:
        """Join similar pairs; return the number of roots that were joined to others."""
        edges = pairs.select(right_document().alias("doc"), left_document().alias("root"))
        forests = run_in_arrow(edges, JoinRoots(roots), FOREST_SCHEMA).repartition(1)
        with translate_spark_errors("joining components"):
            forest = run_in_arrow(forests, JoinRoots(roots), FOREST_SCHEMA).toArrow()
        self.roots = self.roots.copy()
        self.roots[forest.column("doc").to_numpy()] = forest.column("root").to_numpy()
        kernels.to_roots(self.roots)
        return len(forest)

    def _log_round(self, most: int, similar: SimilarPairs, joined: int) -> None:
        self.tally.rounds += 1
        self.tally.verified += similar.compared
        self.tally.similar += similar.count
        self.round_log.append(
            {
                "members": most,
                "new_pairs": similar.compared,
                "edges": similar.count,
                "joined": joined,
            }
        )
        self.say(
            f"round {self.tally.rounds}: {similar.compared:,} new pairs, {similar.count:,} similar "
            f"ones, {joined:,} documents joined to others"
        )

    def _removed(self, roots: Broadcast[Roots]) -> DataFrame:
        members = self.members
        slices = members.work.spark.range(0, max(-(-members.count // SLICE), 1))
        pairs = run_in_arrow(slices, PairWithRoots(roots, members.new), "pair long")
        compare = replace(members.compare, least=0.0)
        compared = compare_pairs(pairs, members.count, members.sets, compare, members.ranges)
        return compared.select(
            right_document().alias("doc"), left_document().alias("witness"), "similarity"
        )
