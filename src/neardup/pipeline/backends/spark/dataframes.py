"""Run over a DataFrame on Spark: sketch, rank, collapse, band, match, decide, by ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from neardup.corpus.documents import render
from neardup.errors import RowError, UsageError
from neardup.formats.tables import to_arrow
from neardup.pipeline import record
from neardup.pipeline.backends.spark.arrow import StageTables, run_in_arrow
from neardup.pipeline.backends.spark.bitmap import Bitmap
from neardup.pipeline.backends.spark.decide import (
    SparkDecision,
    SparkSetting,
    decide_documents,
    list_all_pairs,
)
from neardup.pipeline.backends.spark.inputs import DataFrameInput, DataFrameSource, KeyFilter
from neardup.pipeline.backends.spark.limits import MAX_ON_DRIVER
from neardup.pipeline.backends.spark.progress import SparkStages
from neardup.pipeline.backends.spark.rank import count_undated, order_by_policy, rank_by_order
from neardup.pipeline.backends.spark.record import (
    collect_bucket_statistics,
    describe_spark,
    measure_empty_bins,
)
from neardup.pipeline.backends.spark.run import require_document_limit, require_supported
from neardup.pipeline.backends.spark.sketch import MakeSketchRows, sketch_schema
from neardup.pipeline.budget import peak_memory
from neardup.pipeline.job import Job
from neardup.runtime import Progress


@dataclass(frozen=True)
class DataFrameOutcome:
    """The decisions about the rows of a DataFrame.

    documents  all rows, and those of an earlier DataFrame: id, earlier, rank, reason and more
    removed    (id, witness, similarity, exact), both by id
    rejected   (id, reason)
    record     the content of run.json, without what concerns files
    """

    documents: DataFrame
    decided: SparkDecision
    removed: DataFrame
    rejected: DataFrame
    record: dict[str, Any]

    def kept(self, rows_read: DataFrameInput) -> DataFrame:
        """Return the rows that are kept, with all columns of the user.

        A few ids of removed rows are broadcast; if there are many, only the rows that may be
        removed are shuffled.
        """
        dropped = (
            self.removed.select("id").union(self.rejected.select("id")).where("id IS NOT NULL")
        )
        count = self.record["counts"]["removed"] + self.record["counts"]["rejected"]
        rows = rows_read.with_ids().where("id IS NOT NULL")
        if count <= MAX_ON_DRIVER:
            kept = rows.join(sql.broadcast(dropped), "id", "left_anti")
        else:
            key = sql.xxhash64("id")
            sieve = KeyFilter(dropped.select(key.alias("key")), count)
            may_be = arrow_udf(_test_bitmap(sieve.bits), "boolean", ArrowUDFType.SCALAR)(
                sieve.place(key)
            )
            checked = rows.where(may_be).join(dropped, "id", "left_anti")
            kept = rows.where(~may_be).unionByName(checked)
        return kept.drop("id").toDF(*rows_read.frame.columns)

    def pairs(self) -> DataFrame:
        """Return all similar pairs that share a bucket, by id: (a, b, similarity), a < b."""
        named = self.documents.select("rank", "id")
        a, b = (named.toDF(side, f"{side}_id") for side in "ab")
        pairs = list_all_pairs(self.decided).join(a, "a").join(b, "b")
        first, second = sql.least("a_id", "b_id"), sql.greatest("a_id", "b_id")
        return pairs.select(first.alias("a"), second.alias("b"), "similarity")

    def clusters(self) -> DataFrame:
        """Return the kept documents with copies: (id, size), where size includes the kept one."""
        by = self.removed.groupBy(sql.col("witness").alias("id"))
        return by.agg((sql.count("*") + 1).alias("size"))


def _test_bitmap(places: Broadcast[Bitmap]) -> Callable[[pa.Array], pa.Array]:
    """In a task: test which places are in a bitmap."""

    def test(place: pa.Array) -> pa.Array:
        return to_arrow(places.value.has(place.to_numpy(zero_copy_only=False)))

    return test


@dataclass
class DataFrameRun:
    """The stages of a run, in order. Of the job only the options and columns are used."""

    job: Job
    new: DataFrameInput
    earlier: DataFrameInput | None
    work: StageTables
    memory: int
    progress: Progress

    def __post_init__(self) -> None:
        require_supported(self.job.options)
        self.stage = SparkStages(self.work.spark, self.progress)

    def run(self) -> DataFrameOutcome:
        """Decide all documents, and store the decisions."""
        with self.stage("sketching"):
            source = DataFrameSource(self.work, self.new, self.earlier, self.job.sketcher)
            sketches = self._sketched(source)
            reasons, count, before = self._counted(sketches)
        with self.stage("ranking"):
            documents = self._ranked(source, sketches)
        setting = SparkSetting(
            self.work, self.job.options, self.stage, self.progress.say, self.memory
        )
        usable = documents.where(sql.col("reason").isNull())
        decided = decide_documents(setting, source, usable, count, before)
        with self.stage("writing tables"):
            removed = self.work.store(_name_removed(decided.removed, documents), "removed")
            counts = record.RunCounts(
                count - before, removed.count(), decided.identical, decided.tally, reasons, before
            )
            made = self._described(counts, documents, decided)
        rejected = sketches.where(sql.col("reason").isNotNull() & ~sql.col("earlier"))
        self.add_timings(made)
        return DataFrameOutcome(documents, decided, removed, rejected.select("id", "reason"), made)

    def add_timings(self, made: dict[str, Any]) -> None:
        """Add the times and metrics of the stages so far to a record."""
        made |= {
            "seconds": self.stage.clock.seconds,
            "stages": self.stage.clock.stages,
            "peak_memory_bytes": peak_memory(),
            "memory_budget_bytes": self.memory,
        }
        made["spark"]["stages"] = self.stage.metrics()

    def _sketched(self, source: DataFrameSource) -> DataFrame:
        schema = sketch_schema(source.where, source.id_type, self.job.options)
        make = MakeSketchRows(source.reader, self.job.sketcher, self.job.options)
        return self.work.store(run_in_arrow(source.frame, make, schema), "sketches")

    def _counted(self, sketches: DataFrame) -> tuple[Counter[str], int, int]:
        """Count the reasons of rejected new documents, all documents, and earlier documents."""
        by = sketches.groupBy("earlier", "reason")
        rows = by.agg(sql.count("*").alias("all"), sql.count("id").alias("named")).collect()
        count = sum(row["all"] for row in rows)
        require_document_limit(count)
        _require_ids(sketches, sum(row["all"] - row["named"] for row in rows if not row["reason"]))
        reasons = Counter(
            {row["reason"]: row["all"] for row in rows if row["reason"] and not row["earlier"]}
        )
        if self.job.strict and reasons:
            why, many = reasons.most_common(1)[0]
            raise RowError(
                f"{many:,} documents can't be used: {why}. "
                "Fix the rows, or drop --strict to collect bad rows in rejected.parquet"
            )
        return reasons, count, sum(row["all"] for row in rows if row["earlier"])

    def _ranked(self, source: DataFrameSource, sketches: DataFrame) -> DataFrame:
        order = order_by_policy(sketches, self.job.options, source.order)
        return rank_by_order(self.work, sketches, [sql.col("earlier").desc(), *order])

    def _described(
        self, counts: record.RunCounts, documents: DataFrame, decided: SparkDecision
    ) -> dict[str, Any]:
        new = documents.where(~sql.col("earlier"))
        counts.undated = count_undated(new, self.job.options)
        made = record.describe_run(self.job, counts)
        buckets = collect_bucket_statistics(self.job, decided)
        made["metrics"] |= buckets.metrics() | measure_empty_bins(self.job, new)
        made |= buckets.describe(lambda docs: _name_candidates(docs, documents, decided))
        made["spark"] = describe_spark(self.work.spark, decided)
        return made


def _require_ids(sketches: DataFrame, missing: int) -> None:
    """Raise UsageError unless every usable document has an id, and every id is unique."""
    if missing:
        raise UsageError(
            f"{missing:,} rows have no id: give each row a unique id, or filter them out"
        )
    shared = (
        sketches.where("id IS NOT NULL")
        .groupBy("id")
        .agg(sql.count("*").alias("rows"), sql.countDistinct("earlier").alias("sides"))
    )
    for row in shared.where("rows > 1").orderBy("id").limit(1).collect():
        both = " in the DataFrame and `against` together" if row["sides"] > 1 else ""
        raise UsageError(
            f"{row['rows']:,} rows{both} have the id {row['id']!r}, and there may be more such "
            "ids: make them unique"
        )


def _name_removed(removed: DataFrame, documents: DataFrame) -> DataFrame:
    """Return the removed new documents by ids instead of ranks."""
    named = documents.select("rank", "id", "earlier")
    by = documents.select(sql.col("rank").alias("witness"), sql.col("id").alias("by"))
    new = removed.join(named, "rank").where(~sql.col("earlier"))
    return new.join(by, "witness").select(
        "id", sql.col("by").alias("witness"), "similarity", "exact"
    )


def _name_candidates(
    docs: set[int], documents: DataFrame, decided: SparkDecision
) -> dict[int, str]:
    """Return the ids of these candidates, which must be few, as readable strings."""
    docs_array = np.array(sorted(docs), np.int64)
    ranks_array = decided.candidates.value.numbers(docs_array)
    ranks = dict(zip(ranks_array.tolist(), docs_array.tolist(), strict=True))
    rows = documents.where(sql.col("rank").isin(list(ranks))).select("rank", "id")
    return {ranks[row["rank"]]: str(render(row["id"])) for row in rows.collect()} if docs else {}
