"""The rows of a Spark DataFrame with the columns cluster, cluster_size, witness and similarity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from neardup.corpus.annotations import NAMES, refuse_columns
from neardup.pipeline.backends.spark_dataframes import DataFrameRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OWN = "id of neardup"
"""The column of ids beside those of the user, while frames are joined."""


def annotate_rows(run: DataFrameRun, only_kept: bool) -> DataFrame:
    """Return the rows of a run with the new columns; a cluster is named by the id of its document.

    Args:
        run: The run.
        only_kept: Whether removed rows are left out; rejected ones are.
    """
    names = run.new.frame.columns
    refuse_columns("this DataFrame", names)
    rows = run.new.identified(OWN)
    left_out = run.table("rejected").select("id")
    removed = run.table("removed")
    dropped = removed.where("witness IS NULL").select("id")
    left_out = left_out.union(removed.select("id") if only_kept else dropped)
    left_out = left_out.where("id IS NOT NULL").withColumnRenamed("id", OWN)
    written = rows.where(sql.col(f"`{OWN}`").isNotNull()).join(left_out, OWN, "left_anti")
    notes = _list_members(run).withColumnRenamed("id", OWN)
    joined = written.join(notes, OWN, "left")
    cluster = sql.coalesce("cluster", f"`{OWN}`").alias("cluster")
    size = sql.coalesce("cluster_size", sql.lit(1).cast("long")).alias("cluster_size")
    numbered = [f"c{place}" for place in range(len(names))]
    return joined.select(*numbered, cluster, size, "witness", "similarity").toDF(*names, *NAMES)


def _list_members(run: DataFrameRun) -> DataFrame:
    """Return the new columns of all documents of clusters, by their ids."""
    clusters = run.table("clusters", "cluster").withColumnsRenamed(
        {"id": "leader", "size": "cluster_size"}
    )
    removed = run.table("removed", "cluster").join(clusters, "cluster")
    copies = removed.select(
        "id", sql.col("leader").alias("cluster"), "cluster_size", "witness", "similarity"
    )
    kept = clusters.select(
        sql.col("leader").alias("id"),
        sql.col("leader").alias("cluster"),
        "cluster_size",
        sql.lit(None).alias("witness"),
        sql.lit(None).alias("similarity"),
    )
    # With keep="none", the document that names a cluster is among its copies.
    return copies.unionByName(kept.join(copies.select("id"), "id", "left_anti"))
