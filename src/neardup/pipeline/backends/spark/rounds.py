"""Decide the keep list in rounds that end in the answer of `reference.keep_list`, on Spark.

See `pipeline/stages/decide.py`. The rounds hold two bytes for each candidate, which every task
gets. So the pairs of leaders and later members are found where the buckets are; only pairs are
shuffled.

A round settles its similar pairs in passes. Pairs are in ranges of their document v; a task
settles, in rank order, the documents that depend on settled ones only, and a byte for each
candidate goes to all tasks of the next pass. When the pairs of unsettled documents fit into one
task, one task settles the rest: chains are long, and it holds everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
    cogroup_in_arrow,
    group_in_arrow,
    make_batch,
    read_numbers,
    read_rows,
    run_in_arrow,
)
from neardup.pipeline.backends.spark.band import (
    FirstMembers,
    collect_first_members,
    iterate_buckets,
)
from neardup.pipeline.backends.spark.compare import CandidateRanges, ComparePairs, compare_pairs
from neardup.pipeline.backends.spark.failures import translate_spark_errors
from neardup.pipeline.sorting import (
    PAIRS_AT_ONCE,
    drop_repeats,
    merge_pairs,
    split_pairs,
)
from neardup.pipeline.stages.decide import CHANGED, RoundTally
from neardup.text.arrays import Ragged

Bytes = NDArray[np.uint8]
UNKNOWN, KEPT, REMOVED, GONE = range(4)


@dataclass(frozen=True)
class SettledPairs:
    """By candidate: whether it is kept, else a bound for its witness; and how that went."""

    kept: NDArray[np.bool_]
    bound: Bytes
    passes: int
    edges: int


@dataclass(frozen=True)
class SettleRange:
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
                make_batch(
                    docs=[decided.astype(np.uint32).tobytes()],
                    status=[status[decided].tobytes()],
                    bound=[bound[decided].tobytes()],
                    left=np.array([left]),
                )
            ]
        )


@dataclass(frozen=True)
class SelectUnsettled:
    """In a task: the pairs of documents that are not settled yet."""

    known: Broadcast[Bytes]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            pairs = read_numbers(batch, "pair")
            status = self.known.value[pairs >> 32]
            yield make_batch(pair=pairs[(status == UNKNOWN) | (status == GONE)])


def settle_pairs(
    edges: DataFrame, count: int, width: int, shift: int, one_task: int
) -> SettledPairs:
    """Settle the similar pairs of a frame with a column `pair`, about `one_task` at once."""
    send = edges.sparkSession.sparkContext.broadcast
    status, bound = np.full(count, KEPT, np.uint8), np.zeros(count, np.uint8)
    total = left = edges.count()
    passes = 0
    while left:
        known = send(status.copy()) if passes else None
        wide = count if left <= one_task else width
        some = edges if known is None else run_in_arrow(edges, SelectUnsettled(known), "pair long")
        settle = SettleRange(known, count, wide, shift)
        p = sql.floor(sql.shiftright("pair", 32) / sql.lit(wide)).cast("int").alias("p")
        schema = "docs binary, status binary, bound binary, left long"
        made = group_in_arrow(some.select(p, "pair"), "p", settle, schema)
        with translate_spark_errors("deciding"):
            rows = made.collect()
        if known is not None:
            known.destroy()
        for row in rows:
            docs = np.frombuffer(row["docs"], np.uint32)
            status[docs] = np.frombuffer(row["status"], np.uint8)
            bound[docs] = np.frombuffer(row["bound"], np.uint8)
        left = sum(row["left"] for row in rows)
        passes += 1
    return SettledPairs(status == KEPT, bound, passes, total)


@dataclass(frozen=True)
class FindWitnesses:
    """In a task: of the similar pairs of some documents, the one with the best kept document."""

    kept: Broadcast[NDArray[np.bool_]]

    def __call__(self, table: pa.Table) -> pa.Table:
        table = table.combine_chunks()
        pairs = table.column("pair").to_numpy().view(np.uint64)
        order = np.argsort(pairs)
        left, right = split_pairs(pairs[order])
        good = np.flatnonzero(self.kept.value[left] & ~self.kept.value[right])
        first = good[np.flatnonzero(np.diff(right[good], prepend=-1))]
        return pa.Table.from_batches(
            [
                make_batch(
                    doc=right[first].astype(np.int32),
                    witness=left[first].astype(np.int32),
                    similarity=table.column("similarity").to_numpy()[order][first],
                )
            ]
        )


KEPT_BIT = np.uint8(1)
GROWTH = 4
"""How many times as many leaders a round looks at as the one before: fewer rounds than by twos."""
KNOWN_SCHEMA = "pair long, similarity double, current boolean"
MERGED_SCHEMA = f"{KNOWN_SCHEMA}, fresh boolean"

State = tuple[NDArray[np.uint8], NDArray[np.uint8]]


@dataclass(frozen=True)
class PairLeaders:
    """In a task: pairs of each bucket's leaders and its later members. See `leader_pairs`."""

    state: Broadcast[State]
    hot: Broadcast[FirstMembers]
    shift: int
    new: int
    limit: int
    fresh: int
    most: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows, place in iterate_buckets(batch, self.hot.value):
                yield from self._pairs(rows, place)

    def end(self) -> None:
        """Everything was found: what all tasks got is not needed any more."""
        self.state.destroy()
        self.hot.destroy()

    def _pairs(self, buckets: Ragged, place: int) -> Iterator[pa.RecordBatch]:
        (state, bound), bucket = self.state.value, 0
        limit = min(self.limit, int(buckets.sizes.max(initial=1)))
        while bucket < len(buckets):
            pairs, bucket, place, _ = kernels.leader_pairs(
                buckets.data,
                buckets.offsets,
                state,
                bound,
                self.shift,
                self.new,
                limit,
                self.fresh,
                self.most,
                bucket,
                place,
                PAIRS_AT_ONCE,
            )
            yield make_batch(pair=drop_repeats(np.sort(pairs)).view(np.int64))


@dataclass(frozen=True)
class FirstKeptMembers:
    """In a task: the first kept members of each piece of a bucket."""

    state: Broadcast[State]
    limit: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        state, _ = self.state.value
        for batch in batches:
            rows = read_rows(batch.column("members"), np.uint32)
            found = []
            for row in range(len(rows)):
                members = rows.data[rows.offsets[row] : rows.offsets[row + 1]]
                found.append(members[(state[members] & KEPT_BIT) != 0][: self.limit].tobytes())
            yield make_batch(band=batch.column("band"), key=batch.column("key"), members=found)


def _merge_known(wanted: pa.Table, known: pa.Table) -> pa.Table:
    """In a task: the wanted pairs of a range among those that were compared before."""
    new = drop_repeats(np.sort(wanted.column("pair").to_numpy().view(np.uint64)))
    pairs = known.column("pair").to_numpy().view(np.uint64)
    order = np.argsort(pairs)
    merged = merge_pairs(new, pairs[order])
    similarity = np.full(len(merged.pairs), np.nan)
    similarity[merged.known] = known.column("similarity").to_numpy()[order]
    return pa.Table.from_batches(
        [
            make_batch(
                pair=merged.pairs.view(np.int64),
                similarity=similarity,
                current=merged.current,
                fresh=merged.fresh,
            )
        ]
    )


@dataclass
class SparkRounds:
    """Everything that the rounds need.

    count     how many candidates there are; those before `new` are of an earlier corpus
    largest   how many members the largest bucket has; `pieces` whether some are in several rows
    ranges    which candidates are compared together
    one_task  how many pairs fit into one task
    """

    work: StageTables
    buckets: DataFrame
    sets: DataFrame
    compare: ComparePairs
    count: int
    new: int
    limit: int
    largest: int
    pieces: bool
    ranges: CandidateRanges
    one_task: int
    say: Callable[[str], None]
    tally: RoundTally = field(default_factory=RoundTally)
    round_log: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> DataFrame:
        """Each removed candidate with its witness: (doc, witness, similarity)."""
        state, bound = np.full(self.count, KEPT_BIT, np.uint8), np.zeros(self.count, np.uint8)
        known = self.work.spark.createDataFrame([], KNOWN_SCHEMA)
        most, fresh, reach = 1, 0, min(self.limit, self.largest)
        while True:
            leading = self._leading((state, bound), fresh, most)
            known, new = self._compared(known, leading)
            edges = known.where(
                (sql.col("similarity") >= 0)
                & ((sql.col("pair").bitwiseAND(1) == 0) | sql.col("current"))
            )
            found = settle_pairs(
                edges.select("pair"), self.count, self.width, self.shift, self.one_task
            )
            different = self._changed(state, bound, found)
            self._log_round(most, new, found, different)
            if not new and not different.any() and most >= reach:
                return self._witnesses(edges, found.kept)
            state = np.where(found.kept, KEPT_BIT, 0).astype(np.uint8)
            state[different] |= CHANGED
            bound = found.bound
            fresh, most = most, min(GROWTH * most, self.limit)

    @property
    def width(self) -> int:
        """Of so many candidates, one task merges and settles the pairs."""
        return self.ranges.width

    @property
    def shift(self) -> int:
        return max((self.count - 1).bit_length() - 8, 0)

    def _leading(self, state: State, fresh: int, most: int) -> PairLeaders:
        send = self.work.spark.sparkContext.broadcast
        sent = send(state)
        return PairLeaders(
            sent, send(self._hot(sent)), self.shift, self.new, self.limit, fresh, most
        )

    def _hot(self, state: Broadcast[State]) -> FirstMembers:
        """The leaders of buckets that are in several rows."""
        if not self.pieces:
            return {}
        kept = FirstKeptMembers(state, self.limit)
        pieces = self.buckets.where("piece > 0")
        return collect_first_members(
            run_in_arrow(pieces, kept, "band int, key long, members binary"), self.limit
        )

    def _compared(self, known: DataFrame, leading: PairLeaders) -> tuple[DataFrame, int]:
        """All pairs that were ever needed, with their similarities; how many are new."""
        number = len(self.round_log)
        needed = run_in_arrow(self.buckets, leading, "pair long")
        p = sql.floor(sql.shiftright("pair", 32) / sql.lit(self.width)).cast("int").alias("p")
        left = needed.select(p, "pair"), "p"
        right = known.select(p, "pair", "similarity"), "p"
        made = cogroup_in_arrow(left, right, _merge_known, MERGED_SCHEMA)
        merged = self.work.store(made, f"merged-{number}")
        leading.end()
        fresh = merged.where("fresh").count()
        new = merged.where(sql.isnan("similarity"))
        count = new.count() if fresh else 0
        there = merged.where(~sql.isnan("similarity")).drop("fresh")
        if not count:
            return there, fresh
        found = compare_pairs(new.select("pair"), count, self.sets, self.compare, self.ranges)
        verified = self.work.store(found.withColumn("current", sql.lit(True)), f"compared-{number}")
        self.tally.verified += count
        self.tally.similar += verified.where("similarity >= 0").count()
        return there.unionByName(verified), fresh

    def _changed(
        self, state: NDArray[np.uint8], bound: NDArray[np.uint8], found: SettledPairs
    ) -> Any:
        was = (state & KEPT_BIT) != 0
        return (was != found.kept) | (~found.kept & (bound != found.bound))

    def _log_round(
        self, most: int, new: int, found: SettledPairs, different: NDArray[np.bool_]
    ) -> None:
        self.tally.rounds += 1
        changed = int(np.count_nonzero(different))
        self.say(
            f"round {self.tally.rounds}: {most} leaders a bucket, {new:,} new pairs; of all, "
            f"{found.edges:,} similar, decided in {found.passes} passes; {changed:,} changed"
        )
        self.round_log.append(
            {
                "leaders": most,
                "new_pairs": new,
                "edges": found.edges,
                "passes": found.passes,
                "changed": changed,
            }
        )

    def _witnesses(self, edges: DataFrame, kept: NDArray[np.bool_]) -> DataFrame:
        witnesses = FindWitnesses(self.work.spark.sparkContext.broadcast(kept))
        p = sql.floor(sql.shiftright("pair", 32) / sql.lit(self.width)).cast("int").alias("p")
        found = edges.select(p, "pair", "similarity")
        return group_in_arrow(found, "p", witnesses, "doc int, witness int, similarity double")
