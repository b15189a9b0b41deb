"""From ranked sketches to removed documents: collapse, band, match, decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup.cluster import BUCKET_CAP
from neardup.options import Options
from neardup.pipeline.backends.spark import finishing, matching, verdicts
from neardup.pipeline.backends.spark.banding import Grouping
from neardup.pipeline.backends.spark.bits import Bits
from neardup.pipeline.backends.spark.comparing import Compare
from neardup.pipeline.backends.spark.components import Components
from neardup.pipeline.backends.spark.finishing import Finish
from neardup.pipeline.backends.spark.limits import (
    BYTES_OF_EDGE,
    BYTES_OF_PIECE,
    SHARES,
    is_few,
    keys_fit,
    sets_fit,
)
from neardup.pipeline.backends.spark.meeting import Met, Stage, Sums, by_shuffles, in_one_task
from neardup.pipeline.backends.spark.members import Members, Roots
from neardup.pipeline.backends.spark.pairs import Pairs, leader_pairs
from neardup.pipeline.backends.spark.ranges import Ranges
from neardup.pipeline.backends.spark.rounds import Rounds
from neardup.pipeline.backends.spark.sources import Source
from neardup.pipeline.backends.spark.tables import Work
from neardup.pipeline.rounds import Tally


@dataclass(frozen=True)
class Setting:
    """What a run on Spark has at hand. A task may hold about `memory` bytes."""

    work: Work
    options: Options
    stage: Stage
    say: Callable[[str], None]
    memory: int

    @property
    def one_task(self) -> int:
        """Bytes of buckets and sets that one task may take on."""
        return self.memory // SHARES

    @property
    def parallel(self) -> int:
        """How many tasks run at once, about."""
        return self.work.spark.sparkContext.defaultParallelism


@dataclass(frozen=True)
class Sizes(Sums):
    """Besides, how many candidates there are, and the bytes of their sets."""

    candidates: int
    bytes: int


@dataclass
class Decided:
    """What became of the documents, by rank.

    removed     (rank, witness, similarity, exact)
    decided     (doc, witness, similarity) of those that are no copies, by candidate
    few         the same on the driver, if there can't be many, of them or of copies
    exact       whether sets were compared
    copies      (leader, rank)
    identical   how many new documents are copies
    members     the buckets, by the numbers of `candidates`, and how their members are compared
    roots       of connected components: the root of each candidate
    told        what each round did; empty if one task has decided all
    """

    removed: DataFrame
    decided: DataFrame
    few: pa.Table | None
    exact: bool
    copies: DataFrame
    identical: int
    members: Members
    candidates: Broadcast[Bits]
    sizes: Sizes
    tally: Tally
    roots: Roots | None
    told: list[dict[str, Any]]


def decide(
    setting: Setting, source: Source, documents: DataFrame, count: int, new: int = 0
) -> Decided:
    """Who is removed, and for whom. `documents` are those that take part, of `count` ranks; ranks
    before `new` are of an earlier corpus, of which nothing is removed."""
    work, options = setting.work, setting.options
    send = work.spark.sparkContext.broadcast
    met = _met(setting, documents, count, new)
    candidates = send(met.candidates)
    with setting.stage("shingling"):
        sets = work.stored(matching.sets(documents, source, candidates, options), "sets")
    ranges = Ranges.of(sets, len(met.candidates), setting.one_task, setting.parallel)
    sizes = Sizes(**vars(met.sums), candidates=ranges.count, bytes=ranges.bytes)
    members = Members(
        work,
        met.buckets,
        sets,
        Compare(options),
        ranges.count,
        met.candidates.before(new),
        sizes.pieces,
        ranges,
        BUCKET_CAP,
    )
    roots: Roots | None = None
    few: pa.Table | None = None
    identical = len(met.doubles) - met.doubles.before(new)
    with setting.stage("deciding"):
        if sets_fit(sizes.bytes, sizes.members, setting.memory) and not (sizes.pieces or new):
            finish = Finish(sizes.candidates, options)
            found = work.stored(finishing.finished(met.buckets, sets, finish), "decided")
            decided, told = found.where("doc >= 0"), []
            if is_few(sizes.candidates, identical):
                every = found.toArrow()
                tally, few = _tally_of(every), every.filter(pc.field("doc") >= 0)
            else:
                tally = _tally(found)
            if options.cluster == "components":
                roots = _roots(decided.toArrow() if few is None else few, sizes)
        elif options.cluster == "components":
            joining = Components(members, sizes.largest, setting.say)
            decided = work.stored(joining.run(), "decided")
            tally, told, roots = joining.tally, joining.told, joining.roots
        else:
            rounds = _rounds(setting, members, sizes)
            decided, tally, told = work.stored(rounds.run(), "decided"), rounds.tally, rounds.told
    near, exact = verdicts.by_rank(decided, candidates), options.verify == "exact"
    return Decided(
        verdicts.removed(near, met.copies, exact),
        decided,
        few,
        exact,
        met.copies,
        identical,
        members,
        candidates,
        sizes,
        tally,
        roots,
        told,
    )


def _met(setting: Setting, documents: DataFrame, count: int, new: int) -> Met:
    """Copies and buckets. One task does not know what is new."""
    if keys_fit(count, setting.options.tables.count, setting.memory) and not new:
        return in_one_task(setting.work, setting.stage, documents, count)
    piece = max(setting.memory // BYTES_OF_PIECE, 2 * setting.options.limit)
    return by_shuffles(setting.work, setting.stage, documents, count, Grouping(new, piece))


def all_pairs(decided: Decided) -> DataFrame:
    """All similar pairs that share a bucket, however many: (a, b, similarity), by rank, a < b."""
    return similar_pairs(decided).all()


def similar_pairs(decided: Decided) -> Pairs:
    """The pairs of similar documents, and of their copies, not made yet."""
    leaders = leader_pairs(decided.members, decided.candidates, decided.copies)
    return Pairs(decided.members.work, leaders, decided.copies)


def _tally(found: DataFrame) -> Tally:
    """What one task has compared: its first row says it."""
    similar = sql.count(sql.when(sql.col("doc") >= 0, 1)).alias("similar")
    (row,) = found.agg(sql.sum("compared").alias("compared"), similar).collect()
    return Tally(0, int(row["compared"] or 0), row["similar"])


def _tally_of(found: pa.Table) -> Tally:
    return Tally(0, sum(found.column("compared").to_pylist()), max(len(found) - 1, 0))


def _roots(found: pa.Table, sizes: Sizes) -> Roots:
    """The roots that one task has found."""
    roots = np.arange(sizes.candidates, dtype=np.uint32)
    roots[found.column("doc").to_numpy()] = found.column("witness").to_numpy()
    return roots


def _rounds(setting: Setting, members: Members, sizes: Sizes) -> Rounds:
    return Rounds(
        setting.work,
        members.buckets,
        members.sets,
        members.compare,
        members.count,
        members.new,
        setting.options.limit,
        sizes.largest,
        sizes.pieces,
        members.ranges,
        setting.memory // BYTES_OF_EDGE,
        setting.say,
    )
