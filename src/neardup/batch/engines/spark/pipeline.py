"""From ranked sketches to removed documents: collapse, band, match, decide."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup.batch.engines.spark import banding, copies, finishing, matching, verdicts
from neardup.batch.engines.spark.banding import members_of
from neardup.batch.engines.spark.bits import Bits, bits_of
from neardup.batch.engines.spark.comparing import Compare
from neardup.batch.engines.spark.finishing import Finish
from neardup.batch.engines.spark.rounds import Rounds
from neardup.batch.engines.spark.sources import Source
from neardup.batch.engines.spark.tables import Work, numbers
from neardup.batch.rounds import Tally
from neardup.options import Options

SHARES = 4
"""What a task holds is a fourth of its memory: Arrow's copy, ours, what is made of it."""
BYTES_OF_MEMBER, BYTES_OF_EDGE, BYTES_OF_PIECE = 48, 64, 1_000

Stage = Callable[[str], AbstractContextManager[Any]]
"""Tells of a stage, while it runs."""


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
class Sizes:
    """How many buckets there are, members of the largest one and of all, whether some are in
    several rows; how many candidates, and the bytes of their sets."""

    buckets: int
    largest: int
    members: int
    pieces: bool
    candidates: int
    bytes: int

    @property
    def total(self) -> int:
        """What it takes to decide everything in one task, about."""
        return self.bytes + BYTES_OF_MEMBER * self.members


@dataclass
class Decided:
    """What became of the documents, by rank.

    removed     (rank, witness, similarity, exact)
    decided     (doc, witness, similarity) of those that are no copies, by candidate
    identical   how many new documents are copies
    buckets     by the numbers of `candidates`
    told        what each round did; empty if one task has decided all
    """

    removed: DataFrame
    decided: DataFrame
    identical: int
    buckets: DataFrame
    candidates: Broadcast[Bits]
    sizes: Sizes
    tally: Tally
    told: list[dict[str, Any]]


def decide(
    setting: Setting, source: Source, documents: DataFrame, count: int, new: int = 0
) -> Decided:
    """Who is removed, and for whom. `documents` are those that take part, of `count` ranks; ranks
    before `new` are of an earlier corpus, of which nothing is removed."""
    work, options = setting.work, setting.options
    send = work.spark.sparkContext.broadcast
    with setting.stage("collapsing"):
        twins = work.stored(copies.copies(documents), "copies")
        doubles = send(bits_of(twins, lambda batch: numbers(batch, "rank"), count))
    grouping = banding.Grouping(new, max(setting.memory // BYTES_OF_PIECE, 2 * options.limit))
    with setting.stage("banding"):
        found = work.stored(banding.buckets(documents, doubles, grouping), "buckets")
        candidates = send(bits_of(found.select("members"), members_of, count))
        buckets = work.stored(banding.renumbered(found, candidates), "numbered")
    with setting.stage("shingling"):
        sets = work.stored(matching.sets(documents, source, candidates, options), "sets")
    sizes = _sizes(buckets, sets, len(candidates.value))
    with setting.stage("deciding"):
        if sizes.total <= setting.one_task and not sizes.pieces and not new:
            finish = Finish(sizes.candidates, options)
            found = work.stored(finishing.finished(buckets, sets, finish), "decided")
            tally = _tally(found)
            decided, told = found.where("doc >= 0"), []
        else:
            earlier = candidates.value.before(new)
            rounds = _rounds(setting, buckets, sets, sizes, earlier)
            decided, tally, told = work.stored(rounds.run(), "decided"), rounds.tally, rounds.told
    ranks = verdicts.ranks_of(candidates, documents)
    removed = verdicts.removed(decided, twins, ranks, options.verify == "exact")
    identical = len(doubles.value) - doubles.value.before(new)
    return Decided(removed, decided, identical, buckets, candidates, sizes, tally, told)


def _tally(found: DataFrame) -> Tally:
    """What one task has compared: its first row says it."""
    first = found.where("doc < 0").agg(sql.sum("compared").alias("compared")).collect()[0]
    similar = found.where("doc >= 0").count()
    return Tally(0, int(first["compared"] or 0), similar)


def _rounds(
    setting: Setting, buckets: DataFrame, sets: DataFrame, sizes: Sizes, earlier: int
) -> Rounds:
    ranges = max(sizes.bytes * SHARES // setting.memory, setting.parallel, 1)
    return Rounds(
        setting.work, buckets, sets, Compare(setting.options), sizes.candidates, earlier,
        setting.options.limit, sizes.largest, sizes.pieces,
        max(-(-sizes.candidates // ranges), 1), setting.memory // BYTES_OF_EDGE, setting.say,
    )  # fmt: skip


def _sizes(buckets: DataFrame, sets: DataFrame, candidates: int) -> Sizes:
    of_buckets = buckets.agg(
        sql.count("size").alias("count"), sql.max("size").alias("largest"),
        sql.sum("size").alias("members"), sql.max("piece").alias("pieces"),
    ).collect()[0]  # fmt: skip
    (found,) = sets.agg(sql.sum(sql.length("data")).alias("bytes")).collect()
    return Sizes(
        of_buckets["count"], of_buckets["largest"] or 0, of_buckets["members"] or 0,
        bool(of_buckets["pieces"]), candidates, found["bytes"] or 0,
    )  # fmt: skip
