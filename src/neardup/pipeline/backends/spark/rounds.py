"""The keep list, by rounds that end in the answer of `reference.keep_list`, on Spark.

See `pipeline/rounds.py`. What the rounds know of a candidate are two bytes, which every task gets.
So the pairs of leaders and later members are found where the buckets are; only pairs are shuffled.
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
from neardup.pipeline.backends.spark.banding import Firsts, firsts_of, rows_of
from neardup.pipeline.backends.spark.comparing import Compare, compared
from neardup.pipeline.backends.spark.ranges import Ranges
from neardup.pipeline.backends.spark.settling import Settled, Witnesses, settled
from neardup.pipeline.backends.spark.tables import (
    Batches,
    Work,
    batch_of,
    cogrouped_in_arrow,
    flat,
    grouped_in_arrow,
    run_in_arrow,
)
from neardup.pipeline.rounds import CHANGED, PAIRS_AT_ONCE, Tally, merge, once
from neardup.text.arrays import Ragged

KEPT = np.uint8(1)
TIMES = 4
"""How many times as many leaders a round looks at as the one before: fewer rounds than by twos."""
KNOWN = "pair long, similarity double, current boolean"
MERGED = f"{KNOWN}, fresh boolean"

State = tuple[NDArray[np.uint8], NDArray[np.uint8]]


@dataclass(frozen=True)
class Leading:
    """In a task: pairs of each bucket's leaders and its later members. See `leader_pairs`."""

    state: Broadcast[State]
    hot: Broadcast[Firsts]
    shift: int
    new: int
    limit: int
    fresh: int
    most: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows, place in rows_of(batch, self.hot.value):
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
            yield batch_of(pair=once(np.sort(pairs)).view(np.int64))


@dataclass(frozen=True)
class FirstKept:
    """In a task: the first kept members of each piece of a bucket."""

    state: Broadcast[State]
    limit: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        state, _ = self.state.value
        for batch in batches:
            rows = flat(batch.column("members"), np.uint32)
            found = []
            for row in range(len(rows)):
                members = rows.data[rows.offsets[row] : rows.offsets[row + 1]]
                found.append(members[(state[members] & KEPT) != 0][: self.limit].tobytes())
            yield batch_of(band=batch.column("band"), key=batch.column("key"), members=found)


def _merge(wanted: pa.Table, known: pa.Table) -> pa.Table:
    """In a task: the wanted pairs of a range among those that were compared before."""
    new = once(np.sort(wanted.column("pair").to_numpy().view(np.uint64)))
    pairs = known.column("pair").to_numpy().view(np.uint64)
    order = np.argsort(pairs)
    merged = merge(new, pairs[order])
    similarity = np.full(len(merged.pairs), np.nan)
    similarity[merged.known] = known.column("similarity").to_numpy()[order]
    return pa.Table.from_batches(
        [
            batch_of(
                pair=merged.pairs.view(np.int64),
                similarity=similarity,
                current=merged.current,
                fresh=merged.fresh,
            )
        ]
    )


@dataclass
class Rounds:
    """Everything that the rounds need.

    count     how many candidates there are; those before `new` are of an earlier corpus
    largest   how many members the largest bucket has; `pieces` whether some are in several rows
    ranges    which candidates are compared together
    one_task  how many pairs fit into one task
    """

    work: Work
    buckets: DataFrame
    sets: DataFrame
    compare: Compare
    count: int
    new: int
    limit: int
    largest: int
    pieces: bool
    ranges: Ranges
    one_task: int
    say: Callable[[str], None]
    tally: Tally = field(default_factory=Tally)
    told: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> DataFrame:
        """Each removed candidate with its witness: (doc, witness, similarity)."""
        state, bound = np.full(self.count, KEPT, np.uint8), np.zeros(self.count, np.uint8)
        known = self.work.spark.createDataFrame([], KNOWN)
        most, fresh, reach = 1, 0, min(self.limit, self.largest)
        while True:
            leading = self._leading((state, bound), fresh, most)
            known, new = self._compared(known, leading)
            edges = known.where(
                (sql.col("similarity") >= 0)
                & ((sql.col("pair").bitwiseAND(1) == 0) | sql.col("current"))
            )
            found = settled(edges.select("pair"), self.count, self.width, self.shift, self.one_task)
            different = self._changed(state, bound, found)
            self._tell(most, new, found, different)
            if not new and not different.any() and most >= reach:
                return self._witnesses(edges, found.kept)
            state = np.where(found.kept, KEPT, 0).astype(np.uint8)
            state[different] |= CHANGED
            bound = found.bound
            fresh, most = most, min(TIMES * most, self.limit)

    @property
    def width(self) -> int:
        """Of so many candidates, one task merges and settles the pairs."""
        return self.ranges.width

    @property
    def shift(self) -> int:
        return max((self.count - 1).bit_length() - 8, 0)

    def _leading(self, state: State, fresh: int, most: int) -> Leading:
        send = self.work.spark.sparkContext.broadcast
        sent = send(state)
        return Leading(sent, send(self._hot(sent)), self.shift, self.new, self.limit, fresh, most)

    def _hot(self, state: Broadcast[State]) -> Firsts:
        """The leaders of buckets that are in several rows."""
        if not self.pieces:
            return {}
        kept = FirstKept(state, self.limit)
        pieces = self.buckets.where("piece > 0")
        return firsts_of(
            run_in_arrow(pieces, kept, "band int, key long, members binary"), self.limit
        )

    def _compared(self, known: DataFrame, leading: Leading) -> tuple[DataFrame, int]:
        """All pairs that were ever needed, with their similarities; how many are new."""
        number = len(self.told)
        needed = run_in_arrow(self.buckets, leading, "pair long")
        p = sql.floor(sql.shiftright("pair", 32) / sql.lit(self.width)).cast("int").alias("p")
        left = needed.select(p, "pair"), "p"
        right = known.select(p, "pair", "similarity"), "p"
        made = cogrouped_in_arrow(left, right, _merge, MERGED)
        merged = self.work.stored(made, f"merged-{number}")
        leading.end()
        fresh = merged.where("fresh").count()
        new = merged.where(sql.isnan("similarity"))
        count = new.count() if fresh else 0
        there = merged.where(~sql.isnan("similarity")).drop("fresh")
        if not count:
            return there, fresh
        found = compared(new.select("pair"), count, self.sets, self.compare, self.ranges)
        verified = self.work.stored(
            found.withColumn("current", sql.lit(True)), f"compared-{number}"
        )
        self.tally.verified += count
        self.tally.similar += verified.where("similarity >= 0").count()
        return there.unionByName(verified), fresh

    def _changed(self, state: NDArray[np.uint8], bound: NDArray[np.uint8], found: Settled) -> Any:
        was = (state & KEPT) != 0
        return (was != found.kept) | (~found.kept & (bound != found.bound))

    def _tell(self, most: int, new: int, found: Settled, different: NDArray[np.bool_]) -> None:
        self.tally.rounds += 1
        changed = int(np.count_nonzero(different))
        self.say(
            f"round {self.tally.rounds}: {most} leaders a bucket, {new:,} new pairs; of all, "
            f"{found.edges:,} similar, decided in {found.passes} passes; {changed:,} changed"
        )
        self.told.append(
            {
                "leaders": most,
                "new_pairs": new,
                "edges": found.edges,
                "passes": found.passes,
                "changed": changed,
            }
        )

    def _witnesses(self, edges: DataFrame, kept: NDArray[np.bool_]) -> DataFrame:
        witnesses = Witnesses(self.work.spark.sparkContext.broadcast(kept))
        p = sql.floor(sql.shiftright("pair", 32) / sql.lit(self.width)).cast("int").alias("p")
        found = edges.select(p, "pair", "similarity")
        return grouped_in_arrow(found, "p", witnesses, "doc int, witness int, similarity double")
