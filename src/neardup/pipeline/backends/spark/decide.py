"""From ranked sketches to removed documents: collapse, band, match, decide.

When the buckets and the sets of all candidates fit into one task, that task decides everything with
the in-memory engine: the answer is unique, so any engine may find it, and one task is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from neardup import cluster
from neardup.cluster import BUCKET_CAP
from neardup.errors import FormatError
from neardup.lsh.buckets import Buckets
from neardup.options import Options
from neardup.pipeline.backends.spark.arrow import (
    StageTables,
    cogroup_in_arrow,
    make_batch,
    read_numbers,
    read_rows,
)
from neardup.pipeline.backends.spark.band import (
    BucketGrouping,
    BucketTotals,
    CopiesAndBuckets,
    StageContext,
    find_by_shuffles,
    find_in_one_task,
)
from neardup.pipeline.backends.spark.bitmap import (
    Bitmap,
    select_candidates,
    translate_to_ranks,
)
from neardup.pipeline.backends.spark.compare import (
    CandidateRanges,
    ComparePairs,
    make_verifier,
    read_sets,
)
from neardup.pipeline.backends.spark.components import BucketMembers, Roots, SparkComponents
from neardup.pipeline.backends.spark.limits import (
    BYTES_PER_EDGE,
    BYTES_PER_PIECE,
    MEMORY_SHARES,
    fits_on_driver,
    keys_fit_one_task,
    sets_fit_one_task,
)
from neardup.pipeline.backends.spark.pairs import SparkPairs, compare_leaders
from neardup.pipeline.backends.spark.rounds import SparkRounds
from neardup.pipeline.backends.spark.sources import DocumentSource
from neardup.pipeline.stages.decide import RoundTally

DECIDED_SCHEMA = "doc int, witness int, similarity double, compared long"


@dataclass(frozen=True)
class DecideAll:
    """In a task: decide all documents, from all buckets and sets.

    The result has the removed documents and their witnesses. Its first row, with document -1, has
    the number of compared pairs.
    """

    candidates: int
    options: Options
    weights: NDArray[np.uint32] | None = None

    def __call__(self, buckets: pa.Table, sets: pa.Table) -> pa.Table:
        docs, rows = read_sets(sets, self.options)
        if len(docs) != self.candidates:
            raise FormatError("a candidate has no set: run again with another output")
        grouped = to_buckets(buckets, len(docs), self.options.hash_tables.count)
        judge = make_verifier(rows, self.options, self.weights)
        kept = (
            cluster.keep_stars(grouped, judge, self.options.limit)
            if self.options.cluster == "stars"
            else cluster.keep_components(grouped, judge)
        )
        removed = np.flatnonzero(kept.witness >= 0)
        return pa.Table.from_batches(
            [
                make_batch(
                    doc=np.append(-1, removed).astype(np.int32),
                    witness=np.append(-1, kept.witness[removed]).astype(np.int32),
                    similarity=np.append(0.0, kept.similarity[removed]),
                    compared=np.append(kept.compared, np.zeros(len(removed))).astype(np.int64),
                )
            ]
        )


def to_buckets(table: pa.Table, documents: int, bands: int) -> Buckets:
    """Turn rows of the bucket table into the `Buckets` of the in-memory engine."""
    bucket_of = np.full((documents, bands), -1, np.int64)
    sizes: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    band_of, key_of, count = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    for batch in table.to_batches():
        rows = read_rows(batch.column("members"), np.uint32)
        band = read_numbers(batch, "band")
        number = np.arange(count, count + len(batch))
        bucket_of[rows.data, np.repeat(band, rows.sizes)] = np.repeat(number, rows.sizes)
        sizes.append(rows.sizes)
        band_of.append(band)
        key_of.append(read_numbers(batch, "key"))
        count += len(batch)
    return Buckets(
        np.arange(documents),
        bucket_of,
        np.concatenate(sizes),
        np.concatenate(band_of),
        np.concatenate(key_of).view(np.uint64),
    )


def decide_in_one_task(buckets: DataFrame, sets: DataFrame, finish: DecideAll) -> DataFrame:
    """Return the removed candidates with their witnesses, found in one task."""
    left = buckets.coalesce(1).select(sql.lit(0).alias("p"), "band", "key", "members")
    right = sets.coalesce(1).select(sql.lit(0).alias("p"), "doc", "data")
    return cogroup_in_arrow((left, "p"), (right, "p"), finish, DECIDED_SCHEMA)


@dataclass(frozen=True)
class SparkSetting:
    """The tables, options and progress of a run on Spark. A task may hold about `memory` bytes."""

    work: StageTables
    options: Options
    stage: StageContext
    say: Callable[[str], None]
    memory: int

    @property
    def one_task(self) -> int:
        """Bytes of buckets and sets that one task may read."""
        return self.memory // MEMORY_SHARES

    @property
    def parallel(self) -> int:
        """The approximate number of tasks that run at once."""
        return self.work.spark.sparkContext.defaultParallelism


@dataclass(frozen=True)
class DecisionSizes(BucketTotals):
    """The totals of the buckets, the number of candidates, and the bytes of their sets."""

    candidates: int
    bytes: int


@dataclass
class SparkDecision:
    """The decisions about all documents, by rank.

    removed     (rank, witness, similarity, exact)
    decided     (doc, witness, similarity) of removed candidates, which are no copies, by number
    few         `decided` as a table on the driver, if few documents can be removed
    exact       whether sets were compared
    copies      (leader, rank)
    identical   the number of new documents that are copies
    members     the buckets, by the numbers of `candidates`, and how their members are compared
    roots       the root of each candidate, if connected components were made
    round_log   the figures of each round; empty if one task has decided all
    """

    removed: DataFrame
    decided: DataFrame
    few: pa.Table | None
    exact: bool
    copies: DataFrame
    identical: int
    members: BucketMembers
    candidates: Broadcast[Bitmap]
    sizes: DecisionSizes
    tally: RoundTally
    roots: Roots | None
    round_log: list[dict[str, Any]]


def decide_documents(
    setting: SparkSetting, source: DocumentSource, documents: DataFrame, count: int, new: int = 0
) -> SparkDecision:
    """Decide which documents are removed, and find their witnesses.

    Args:
        documents: The documents that take part, with their ranks and sketches.
        count: The number of all ranks.
        new: The first rank of a new document; those before it are of an earlier corpus, and stay.
    """
    work, options = setting.work, setting.options
    send = work.spark.sparkContext.broadcast
    grouped = _find_copies_and_buckets(setting, documents, count, new)
    candidates = send(grouped.candidates)
    with setting.stage("shingling"):
        sets = work.store(fetch_sets(documents, source, candidates, options), "sets")
    ranges = CandidateRanges.of(sets, len(grouped.candidates), setting.one_task, setting.parallel)
    sizes = DecisionSizes(**vars(grouped.sums), candidates=ranges.count, bytes=ranges.bytes)
    members = BucketMembers(
        work,
        grouped.buckets,
        sets,
        ComparePairs(options),
        ranges.count,
        grouped.candidates.count_below(new),
        sizes.pieces,
        ranges,
        BUCKET_CAP,
    )
    roots: Roots | None = None
    few: pa.Table | None = None
    identical = len(grouped.doubles) - grouped.doubles.count_below(new)
    with setting.stage("deciding"):
        if sets_fit_one_task(sizes.bytes, sizes.members, setting.memory) and not (
            sizes.pieces or new
        ):
            finish = DecideAll(sizes.candidates, options)
            rows = work.store(decide_in_one_task(grouped.buckets, sets, finish), "decided")
            decided, round_log = rows.where("doc >= 0"), []
            if fits_on_driver(sizes.candidates, identical):
                every = rows.toArrow()
                tally, few = _tally_table(every), every.filter(pc.field("doc") >= 0)
            else:
                tally = _tally_frame(rows)
            if options.cluster == "components":
                roots = _read_roots(decided.toArrow() if few is None else few, sizes)
        elif options.cluster == "components":
            joining = SparkComponents(members, sizes.largest, setting.say)
            decided = work.store(joining.run(), "decided")
            tally, round_log, roots = joining.tally, joining.round_log, joining.roots
        else:
            rounds = _make_rounds(setting, members, sizes)
            decided, tally, round_log = (
                work.store(rounds.run(), "decided"),
                rounds.tally,
                rounds.round_log,
            )
    near, exact = translate_to_ranks(decided, candidates), options.verify == "exact"
    return SparkDecision(
        join_copies(near, grouped.copies, exact),
        decided,
        few,
        exact,
        grouped.copies,
        identical,
        members,
        candidates,
        sizes,
        tally,
        roots,
        round_log,
    )


def _find_copies_and_buckets(
    setting: SparkSetting, documents: DataFrame, count: int, new: int
) -> CopiesAndBuckets:
    """Find copies and buckets; in one task if they fit and there is no earlier corpus."""
    if keys_fit_one_task(count, setting.options.hash_tables.count, setting.memory) and not new:
        return find_in_one_task(setting.work, setting.stage, documents, count)
    piece = max(setting.memory // BYTES_PER_PIECE, 2 * setting.options.limit)
    return find_by_shuffles(
        setting.work, setting.stage, documents, count, BucketGrouping(new, piece)
    )


def fetch_sets(
    documents: DataFrame, source: DocumentSource, candidates: Broadcast[Bitmap], options: Options
) -> DataFrame:
    """Return what is compared of each candidate, shingles or a signature: (doc, data, size)."""
    if options.verify == "exact":
        sets = source.sets(documents, candidates)
    else:
        slots = select_candidates(documents, candidates, ["slots"])
        sets = slots.withColumnRenamed("slots", "data")
    return sets.withColumn("size", sql.length("data"))


def list_all_pairs(decided: SparkDecision) -> DataFrame:
    """Return all similar pairs that share a bucket: (a, b, similarity), by rank, a < b."""
    return find_similar_pairs(decided).all()


def find_similar_pairs(decided: SparkDecision) -> SparkPairs:
    """Find the similar pairs of leaders; pairs with their copies are made when they are read."""
    leaders = compare_leaders(decided.members, decided.candidates, decided.copies)
    return SparkPairs(decided.members.work, leaders, decided.copies)


def _tally_frame(rows: DataFrame) -> RoundTally:
    """Return the figures of the task that decided all documents."""
    similar = sql.count(sql.when(sql.col("doc") >= 0, 1)).alias("similar")
    (row,) = rows.agg(sql.sum("compared").alias("compared"), similar).collect()
    return RoundTally(0, int(row["compared"] or 0), row["similar"])


def _tally_table(rows: pa.Table) -> RoundTally:
    return RoundTally(0, sum(rows.column("compared").to_pylist()), max(len(rows) - 1, 0))


def _read_roots(removed: pa.Table, sizes: DecisionSizes) -> Roots:
    """Return the roots of the components that one task has removed."""
    roots = np.arange(sizes.candidates, dtype=np.uint32)
    roots[removed.column("doc").to_numpy()] = removed.column("witness").to_numpy()
    return roots


def _make_rounds(
    setting: SparkSetting, members: BucketMembers, sizes: DecisionSizes
) -> SparkRounds:
    return SparkRounds(
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
        setting.memory // BYTES_PER_EDGE,
        setting.say,
    )


def join_copies(near: DataFrame, copies: DataFrame, exact: bool) -> DataFrame:
    """Return (rank, witness, similarity, exact) of all removed documents.

    These are the removed candidates and all copies; a copy of a removed document has its witness.
    """
    near = near.withColumn("exact", sql.lit(exact))
    judged = near.select(
        sql.col("rank").alias("leader"), sql.col("witness").alias("theirs"), "similarity", "exact"
    )
    twins = copies.join(judged, "leader", "left").select(
        "rank",
        sql.coalesce("theirs", "leader").alias("witness"),
        sql.coalesce("similarity", sql.lit(1.0)).alias("similarity"),
        sql.coalesce("exact", sql.lit(True)).alias("exact"),
    )
    return near.unionByName(twins)
