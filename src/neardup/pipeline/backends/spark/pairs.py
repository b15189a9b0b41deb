"""Find all similar pairs that share a bucket, on Spark: see `pipeline/stages/pairs.py`.

Only the best of identical documents is compared: a pair of two such leaders (u, v) stands for all
pairs of a copy p of u and a copy q of v, a leader with itself for the pairs among its copies.
Leaders are copies of themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyspark import Broadcast
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

from neardup.pipeline.backends.spark.arrow import StageTables
from neardup.pipeline.backends.spark.bitmap import Bitmap, translate_to_ranks
from neardup.pipeline.backends.spark.compare import left_document, right_document
from neardup.pipeline.backends.spark.components import BucketMembers, MemberRange
from neardup.pipeline.backends.spark.rank import rank_by_order

UNLIMITED = 2**62


def compare_leaders(
    members: BucketMembers, candidates: Broadcast[Bitmap], copies: DataFrame
) -> DataFrame:
    """Return the similar pairs of documents that are no copies, as `count_pairs` does."""
    own_roots = np.arange(members.count, dtype=np.uint32)
    sent = members.work.spark.sparkContext.broadcast(own_roots)
    similar = members.similar(sent, MemberRange(0, members.cap, members.cap), "pairs").pairs
    near = similar.select(
        right_document().alias("doc"), left_document().alias("witness"), "similarity"
    )
    near = translate_to_ranks(near, candidates).selectExpr(
        "witness AS u", "rank AS v", "similarity"
    )
    return members.work.store(count_pairs(near, copies), "pairs")


def count_pairs(near: DataFrame, copies: DataFrame) -> DataFrame:
    """Add the pairs of leaders with themselves, and how many pairs each pair stands for.

    Returns (u, v, similarity, mine, theirs, many), by rank: u has `mine` copies, v `theirs`.
    """
    sizes = copies.groupBy("leader").agg((sql.count("rank") + 1).alias("size"))
    mine, theirs = (
        sizes.select(sql.col("leader").alias(x), sql.col("size").alias(name))
        for x, name in (("u", "mine"), ("v", "theirs"))
    )
    same = sizes.select(
        sql.col("leader").alias("u"), sql.col("leader").alias("v"), sql.lit(1.0).alias("similarity")
    )
    every = near.unionByName(same).join(mine, "u", "left").join(theirs, "v", "left")
    return every.fillna(1, ["mine", "theirs"]).withColumn("many", _count_column())


def _count_column() -> Column:
    mine, theirs = sql.col("mine"), sql.col("theirs")
    return sql.when(_is_same(), sql.shiftright(mine * (mine - 1), 1)).otherwise(mine * theirs)


def _is_same() -> Column:
    return sql.col("u") == sql.col("v")


@dataclass(frozen=True)
class SparkPairs:
    """All similar pairs that share a bucket: (a, b, similarity), by rank, a < b.

    leaders   as `count_pairs` gives them
    copies    (leader, rank)
    """

    work: StageTables
    leaders: DataFrame
    copies: DataFrame

    def count(self) -> int:
        """Return the number of pairs, without making them."""
        (row,) = self.leaders.agg(sql.sum("many").alias("many")).collect()
        return int(row["many"] or 0)

    def all(self) -> DataFrame:
        """Return all pairs."""
        return _expand_pairs(self.leaders.withColumn("room", sql.lit(UNLIMITED)), self.copies)

    def first(self, most: int) -> DataFrame:
        """Return the first `most` pairs: of identical documents, then by (v, u), then by (p, q)."""
        order = [~_is_same(), sql.col("v"), sql.col("u")]
        placed = rank_by_order(self.work, self.leaders, order, "pairs-placed")
        # Each stands for at least one pair, so that later ones can't be needed.
        needed = placed.where(sql.col("rank") < most)
        earlier = Window.orderBy("rank").rowsBetween(Window.unboundedPreceding, -1)
        before = sql.coalesce(sql.sum("many").over(earlier), sql.lit(0))
        room = needed.withColumn("room", sql.lit(most) - before).where("room > 0")
        return _expand_pairs(room, self.copies)


def _expand_pairs(pairs: DataFrame, copies: DataFrame) -> DataFrame:
    """Make the pairs that each pair of leaders stands for, up to its `room`."""
    leaders = copies.select("leader", sql.col("leader").alias("rank")).distinct()
    place = sql.row_number().over(Window.partitionBy("leader").orderBy("rank")).cast("long") - 1
    placed = copies.select("leader", "rank").union(leaders).withColumn("place", place)
    of_u, of_v = (placed.toDF(*names) for names in (("u", "p", "i"), ("v", "q", "j")))
    i, j, p, q = sql.col("i"), sql.col("j"), sql.col("p"), sql.col("q")
    before = sql.when(_is_same(), i * sql.col("mine") - sql.shiftright(i * (i + 1), 1)).otherwise(
        i * sql.col("theirs")
    )
    after = sql.when(_is_same(), j - i - 1).otherwise(j)
    of_first = pairs.join(of_u, "u", "left").fillna(0, ["i"]).withColumn("before", before)
    both = of_first.where("before < room").join(of_v, "v", "left").fillna(0, ["j"])
    a, b = sql.coalesce(p, sql.col("u")), sql.coalesce(q, sql.col("v"))
    within_room = both.where((after >= 0) & (sql.col("before") + after < sql.col("room")))
    return within_room.select(
        sql.least(a, b).alias("a"), sql.greatest(a, b).alias("b"), "similarity"
    )


def name_pairs(pairs: DataFrame, documents: DataFrame) -> DataFrame:
    """Return pairs by the numbers of documents instead of their ranks, a < b, with ids."""
    named = documents.select("rank", sql.struct("number", "id"))
    one, other = (named.toDF(*names) for names in (("a", "x"), ("b", "y")))
    joined = (
        pairs.join(one, "a")
        .join(other, "b")
        .select(
            sql.least("x", "y").alias("one"), sql.greatest("x", "y").alias("other"), "similarity"
        )
    )
    return joined.select(
        sql.col("one.number").alias("a"),
        sql.col("one.id").alias("a_id"),
        sql.col("other.number").alias("b"),
        sql.col("other.id").alias("b_id"),
        "similarity",
    )
