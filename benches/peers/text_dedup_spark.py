"""text-dedup on Spark: the script of its package, `text_dedup.minhash_spark`, unchanged.

    python -m peers.text_dedup_spark [--partitions N] --input FOLDER --output FOLDER ...

Two things around the script are not as its users have them, and both favour it:

- It takes components from GraphFrames, whose Java part is in no package registry. `GraphFrame`
  here is a stand-in: it collects the edges and joins them in the driver, with a union-find.
- It fixes 8,192, 4,096 and 256 partitions, for a large cluster; on two cores it mostly starts empty
  tasks. With `--partitions` it gets that many at most, everywhere.
"""

from __future__ import annotations

import runpy
import sys
from types import ModuleType
from typing import Any

from pyspark import SparkConf
from pyspark.sql.classic.dataframe import DataFrame

FIXED = ("spark.default.parallelism", "spark.sql.shuffle.partitions")


class GraphFrame:
    """What the script uses of GraphFrames: every vertex with the least vertex of its component."""

    def __init__(self, vertices: DataFrame, edges: DataFrame) -> None:
        self._vertices, self._edges = vertices, edges

    def connectedComponents(self) -> DataFrame:  # noqa: N802 (the script calls it so)
        parent: dict[int, int] = {}

        def root(node: int) -> int:
            while (above := parent.setdefault(node, node)) != node:
                parent[node] = parent[above]
                node = above
            return node

        for left, right in self._edges.collect():
            low, high = sorted((root(left), root(right)))
            parent[high] = low
        rows = [(node, root(node)) for node in parent]
        return self._vertices.sparkSession.createDataFrame(rows, "id long, component long")


def limit_partitions(most: int) -> None:
    """No more partitions than that, whatever the script asks for."""
    set_option, repartition = SparkConf.set, DataFrame.repartition

    def limited_option(conf: SparkConf, key: str, value: str) -> SparkConf:
        return set_option(conf, key, str(most) if key in FIXED else value)

    def limited(frame: DataFrame, count: Any, *columns: Any) -> DataFrame:
        return repartition(frame, min(count, most), *columns)

    SparkConf.set, DataFrame.repartition = limited_option, limited


def main() -> None:
    if sys.argv[1] == "--partitions":
        limit_partitions(int(sys.argv[2]))
        del sys.argv[1:3]
    standin = ModuleType("graphframes")
    standin.GraphFrame = GraphFrame
    sys.modules["graphframes"] = standin
    runpy.run_module("text_dedup.minhash_spark", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
