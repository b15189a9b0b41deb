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
    """For each candidate whether it is kept, else a bound of its witness; passes and edges."""

    kept: NDArray[np.bool_]
    bound: Bytes
    passes: int
    edges: int


@dataclass(frozen=True)
class SettleRange:
    """In a task: settle the pairs of a range of documents, and return their statuses.

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
        unsettled = kernels.settle(pairs, status, bound, self.shift)
        decided = np.unique((pairs >> np.uint64(32)).astype(np.int64))
        return pa.Table.from_batches(
            [
                make_batch(
                    docs=[decided.astype(np.uint32).tobytes()],
                    status=[status[decided].tobytes()],
                    bound=[bound[decided].tobytes()],
                    left=np.array([unsettled]),
                )
            ]
        )


@dataclass(frozen=True)
class SelectUnsettled:
    """In a task: select the pairs of documents that are not settled yet."""

    known: Broadcast[Bytes]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            pairs = read_numbers(batch, "pair")
            status = self.known.value[pairs >> 32]
            yield make_batch(pair=pairs[(status == UNKNOWN) | (status == GONE)])


def settle_pairs(
    edges: DataFrame, count: int, width: int, shift: int, one_task: int
) -> SettledPairs:
    """Settle the similar pairs of a frame with a column `pair`.

    Args:
        count: The number of candidates.
        width: The number of candidates in a range, whose pairs one task settles.
        shift: Bits of a candidate's number that its bound lacks.
        one_task: The number of pairs that one task may settle alone.
    """
    send = edges.sparkSession.sparkContext.broadcast
    status, bound = np.full(count, KEPT, np.uint8), np.zeros(count, np.uint8)
    total = remaining = edges.count()
    passes = 0
    while remaining:
        known = send(status.copy()) if passes else None
        wide = count if remaining <= one_task else width
        unsettled = (
            edges if known is None else run_in_arrow(edges, SelectUnsettled(known), "pair long")
        )
        settle = SettleRange(known, count, wide, shift)
        p = sql.floor(sql.shiftright("pair", 32) / sql.lit(wide)).cast("int").alias("p")
        schema = "docs binary, status binary, bound binary, left long"
        made = group_in_arrow(unsettled.select(p, "pair"), "p", settle, schema)
        with translate_spark_errors("deciding"):
            rows = made.collect()
        if known is not None:
            known.destroy()
        for row in rows:
            docs = np.frombuffer(row["docs"], np.uint32)
            status[docs] = np.frombuffer(row["status"], np.uint8)
            bound[docs] = np.frombuffer(row["bound"], np.uint8)
        remaining = sum(row["left"] for row in rows)
        passes += 1
    return SettledPairs(status == KEPT, bound, passes, total)


@dataclass(frozen=True)
class FindWitnesses:
    """In a task: find the best kept document that each removed one is similar to."""

    kept: Broadcast[NDArray[np.bool_]]

    def __call__(self, table: pa.Table) -> pa.Table:
        table = table.combine_chunks()
        pairs = table.column("pair").to_numpy().view(np.uint64)
        order = np.argsort(pairs)
        better, worse = split_pairs(pairs[order])
        good = np.flatnonzero(self.kept.value[better] & ~self.kept.value[worse])
        first = good[np.flatnonzero(np.diff(worse[good], prepend=-1))]
        return pa.Table.from_batches(
            [
                make_batch(
                    doc=worse[first].astype(np.int32),
                    witness=better[first].astype(np.int32),
                    similarity=table.column("similarity").to_numpy()[order][first],
                )
            ]
        )


KEPT_BIT = np.uint8(1)
GROWTH = 4
"""A round pairs this many times the leaders of the one before: fewer rounds than doubling."""
KNOWN_SCHEMA = "pair long, similarity double, current boolean"
MERGED_SCHEMA = f"{KNOWN_SCHEMA}, fresh boolean"

State = tuple[NDArray[np.uint8], NDArray[np.uint8]]


@dataclass(frozen=True)
class PairLeaders:
    """In a task: pair each bucket's leaders with its later members. See `leader_pairs`."""

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
        """Free the broadcast variables, when all pairs are stored."""
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
    """In a task: select the first kept members of each piece of a bucket."""

    state: Broadcast[State]
    limit: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        state, _ = self.state.value
        for batch in batches:
            rows = read_rows(batch.column("members"), np.uint32)
            kept_members = []
            for row in range(len(rows)):
                members = rows.data[rows.offsets[row] : rows.offsets[row + 1]]
                kept_members.append(
                    members[(state[members] & KEPT_BIT) != 0][: self.limit].tobytes()
                )
            yield make_batch(
                band=batch.column("band"), key=batch.column("key"), members=kept_members
            )


def _merge_known(wanted: pa.Table, known: pa.Table) -> pa.Table:
    """In a task: merge the wanted pairs of a range with those that were compared before."""
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
    """The rounds over buckets and sets, and their figures so far.

    count     the number of candidates; those before `new` are of an earlier corpus
    largest   the size of the largest bucket; `pieces`: whether buckets are in several rows
    ranges    which candidates are compared together
    one_task  the number of pairs that fit into one task
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
        """Return each removed candidate with its witness: (doc, witness, similarity)."""
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
            settled = settle_pairs(
                edges.select("pair"), self.count, self.width, self.shift, self.one_task
            )
            different = self._changed(state, bound, settled)
            self._log_round(most, new, settled, different)
            if not new and not different.any() and most >= reach:
                return self._witnesses(edges, settled.kept)
            state = np.where(settled.kept, KEPT_BIT, 0).astype(np.uint8)
            state[different] |= CHANGED
            bound = settled.bound
            fresh, most = most, min(GROWTH * most, self.limit)

    @property
    def width(self) -> int:
        """The number of candidates whose pairs one task merges and settles."""
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
        """Return the leaders of the buckets that are in several rows."""
        if not self.pieces:
            return {}
        kept = FirstKeptMembers(state, self.limit)
        pieces = self.buckets.where("piece > 0")
        return collect_first_members(
            run_in_arrow(pieces, kept, "band int, key long, members binary"), self.limit
        )

    def _compared(self, known: DataFrame, leading: PairLeaders) -> tuple[DataFrame, int]:
        """Return all pairs needed so far with their similarities, and how many are new."""
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
        known_pairs = merged.where(~sql.isnan("similarity")).drop("fresh")
        if not count:
            return known_pairs, fresh
        compared = compare_pairs(new.select("pair"), count, self.sets, self.compare, self.ranges)
        verified = self.work.store(
            compared.withColumn("current", sql.lit(True)), f"compared-{number}"
        )
        self.tally.verified += count
        self.tally.similar += verified.where("similarity >= 0").count()
        return known_pairs.unionByName(verified), fresh

    def _changed(
        self, state: NDArray[np.uint8], bound: NDArray[np.uint8], settled: SettledPairs
    ) -> Any:
        was = (state & KEPT_BIT) != 0
        return (was != settled.kept) | (~settled.kept & (bound != settled.bound))

    def _log_round(
        self, most: int, new: int, settled: SettledPairs, different: NDArray[np.bool_]
    ) -> None:
        self.tally.rounds += 1
        changed = int(np.count_nonzero(different))
        self.say(
            f"round {self.tally.rounds}: {most} leaders a bucket, {new:,} new pairs; of all, "
            f"{settled.edges:,} similar, decided in {settled.passes} passes; {changed:,} changed"
        )
        self.round_log.append(
            {
                "leaders": most,
                "new_pairs": new,
                "edges": settled.edges,
                "passes": settled.passes,
                "changed": changed,
            }
        )

    def _witnesses(self, edges: DataFrame, kept: NDArray[np.bool_]) -> DataFrame:
        witnesses = FindWitnesses(self.work.spark.sparkContext.broadcast(kept))
        p = sql.floor(sql.shiftright("pair", 32) / sql.lit(self.width)).cast("int").alias("p")
        rows = edges.select(p, "pair", "similarity")
        return group_in_arrow(rows, "p", witnesses, "doc int, witness int, similarity double")
