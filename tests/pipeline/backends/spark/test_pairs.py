"""All similar pairs on Spark are those of the local engine, also where there are too many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from support import batch_engine

from neardup import kernels
from neardup.pipeline.backends.spark import decide
from neardup.pipeline.backends.spark import run as far
from neardup.pipeline.backends.spark.arrow import StageTables
from neardup.pipeline.backends.spark.pairs import SparkPairs, count_pairs
from neardup.pipeline.run import run_job
from neardup.pipeline.stages import pairs as local


def compared(
    spark: SparkSession, memory: int, paths: list[Path], out: Path, **asked: Any
) -> dict[str, int]:
    """Run both engines; what both say about pairs.parquet, of which all bytes are equal."""
    asked["others"] = {"pairs": True, "kept": False, **asked.get("others", {})}
    run_job(batch_engine.job(paths, out / "local", **asked), batch_engine.Silent())
    job = batch_engine.job(paths, out / "spark", **asked)
    run_job(job, batch_engine.Silent(), far.find_near_duplicates_on(spark, memory))
    found = [json.loads((out / one / "run.json").read_bytes()) for one in ("local", "spark")]
    assert found[1]["pairs"] == found[0]["pairs"]
    tables = [(out / one / "pairs.parquet").read_bytes() for one in ("local", "spark")]
    assert tables[1] == tables[0]
    return found[1]["pairs"]  # type: ignore[no-any-return]


def test_a_run_lists_the_pairs_of_a_local_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(3, 200, words=30))
    for module in (local, far):
        monkeypatch.setattr(module, "MAX_PAIRS", 60)
    told = compared(spark, 1 << 30, paths, tmp_path, keep="longest")
    assert told["written"] == told["limit"] == 60
    assert told["beyond_limit"] > 60


@pytest.mark.slow
def test_pairs_with_an_earlier_corpus_and_a_low_bucket_cap(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (local, decide):
        monkeypatch.setattr(module, "BUCKET_CAP", 3)
    documents = [{"text": row["text"]} for row in batch_engine.rows(4, 160, words=14)]
    earlier = batch_engine.write(tmp_path / "earlier", documents[:60])
    paths = batch_engine.write(tmp_path / "in", documents[60:])
    told = compared(spark, 1 << 12, paths, tmp_path, limit=1, others={"against": earlier})
    assert told["capped_buckets"] > 0 < told["written"]


def test_copies_are_paired_up_to_a_limit(spark: SparkSession, tmp_path: Path) -> None:
    groups = {0: [0, 3, 9], 1: [1], 2: [2, 4, 5, 6, 10], 7: [7], 8: [8, 11]}
    pairs = [(0, 0), (2, 2), (8, 8), (0, 1), (0, 2), (1, 2), (1, 7), (7, 8)]
    similarity = [1.0 if u == v else 0.5 + 0.01 * u + 0.02 * v for u, v in pairs]
    twins = [(leader, rank) for leader, some in groups.items() for rank in some if rank != leader]
    copies = spark.createDataFrame(twins, "leader long, rank long")
    near = [(u, v, s) for (u, v), s in zip(pairs, similarity, strict=True) if u != v]
    leaders = count_pairs(spark.createDataFrame(near, "u long, v long, similarity double"), copies)
    found = SparkPairs(StageTables.at(spark, tmp_path), leaders.cache(), copies)

    members = [sorted(groups.get(leader, [])) for leader in range(12)]
    ends = np.cumsum([0, *map(len, members)])
    left, right = (np.array(side) for side in zip(*pairs, strict=True))
    total = found.count()
    assert total == 3 + 10 + 1 + 3 + 15 + 5 + 1 + 2
    for most in (1, 6, 13, 20, total - 1, total):
        *columns, many = kernels.spread_pairs(
            left, right, np.array(similarity), np.concatenate(members).astype(np.int64), ends, most
        )
        made = found.first(most) if most < total else found.all()
        want = sorted(zip(*(column.tolist() for column in columns), strict=True))
        assert many == total
        assert sorted(tuple(row) for row in made.collect()) == want
