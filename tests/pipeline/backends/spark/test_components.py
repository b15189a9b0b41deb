"""Connected components on Spark are those of the local engine, and of the definition."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from support import batch_engine

from neardup import cluster, reference
from neardup.options import Options
from neardup.pipeline.backends.spark import decide
from neardup.pipeline.backends.spark.arrow import StageTables
from neardup.pipeline.backends.spark.band import BUCKET_SCHEMA
from neardup.pipeline.backends.spark.compare import CandidateRanges, ComparePairs
from neardup.pipeline.backends.spark.components import BucketMembers, SparkComponents
from neardup.pipeline.backends.spark.record import CountBeyondLimit, SparkBucketStatistics
from neardup.pipeline.backends.spark.run import find_near_duplicates_on
from neardup.pipeline.run import run_job
from neardup.pipeline.stages import decide as local_decide
from neardup.text.arrays import Ragged

SHARED = ("hot_buckets", "full_buckets")


def on_spark(spark: SparkSession, memory: int, *given: Any, **asked: Any) -> batch_engine.Outcome:
    run_job(
        batch_engine.job(*given, **asked),
        batch_engine.Silent(),
        find_near_duplicates_on(spark, memory),
    )
    return batch_engine.outcome(given[1])


def recorded(out: Path) -> dict[str, Any]:
    return json.loads((out / "run.json").read_bytes())


@pytest.mark.parametrize(
    ("memory", "asked"),
    [
        pytest.param(1 << 30, {"keep": "longest"}, marks=pytest.mark.slow),
        (1 << 12, {"keep": "max:score", "verify": "estimate"}),
    ],
    ids=str,
)
def test_components_equal_those_of_the_local_engine(
    spark: SparkSession, tmp_path: Path, memory: int, asked: dict[str, Any]
) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(5, 300, words=30))
    asked = {"cluster": "components", **asked}
    want = batch_engine.go(paths, tmp_path / "local", **asked)
    got = on_spark(spark, memory, paths, tmp_path / "spark", **asked)
    assert got == want
    assert len(got.removed) > 30, "or this has seen nothing"
    local, far = recorded(tmp_path / "local"), recorded(tmp_path / "spark")
    assert {name: far[name] for name in SHARED} == {name: local[name] for name in SHARED}
    assert bool(far["spark"]["rounds"]) == (memory == 1 << 12)


def test_an_earlier_corpus_is_kept_and_few_members_are_compared(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (local_decide, decide):
        monkeypatch.setattr(module, "BUCKET_CAP", 3)
    documents = batch_engine.rows(7, 240, words=14)
    earlier = batch_engine.write(tmp_path / "earlier", documents[:90])
    paths = batch_engine.write(tmp_path / "in", documents[90:])
    asked = {"cluster": "components", "others": {"against": earlier}}
    want = batch_engine.go(paths, tmp_path / "local", **asked)
    got = on_spark(spark, 1 << 30, paths, tmp_path / "spark", **asked)
    assert got == want
    rounds = recorded(tmp_path / "spark")["spark"]["rounds"]
    assert [one["members"] for one in rounds] == [1, 3]
    assert any(row["witness_file"].startswith(str(tmp_path / "earlier")) for row in got.removed)


# -- buckets and sets made by hand ---------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """Documents, and buckets of them by band and key: lists of pieces of members."""

    sets: list[set[int]]
    buckets: dict[tuple[int, int], list[list[int]]]

    def frames(self, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
        rows = [
            (
                band,
                key,
                number if len(pieces) > 1 else 0,
                len(piece),
                bytearray(np.array(piece, np.uint32).tobytes()),
            )
            for (band, key), pieces in self.buckets.items()
            for number, piece in enumerate(pieces, 1)
        ]
        sets = [
            (doc, bytearray(np.array(sorted(one), np.uint64).tobytes()))
            for doc, one in enumerate(self.sets)
        ]
        return (
            spark.createDataFrame(rows, BUCKET_SCHEMA).repartition(3),
            spark.createDataFrame(sets, "doc int, data binary").selectExpr(
                "*", "length(data) AS size"
            ),
        )

    def whole(self) -> dict[tuple[int, int], list[int]]:
        return {
            where: [doc for piece in pieces for doc in piece]
            for where, pieces in self.buckets.items()
        }


def chains_and_stars(seed: int, count: int) -> Corpus:
    """Sets that are edits of earlier ones; all in one bucket of several pieces, many in others."""
    chance = random.Random(seed)
    sets: list[set[int]] = []
    for doc in range(count):
        base = sets[chance.choice([doc - 1, 0, chance.randrange(doc)])] if doc else set()
        fresh = set(range(10 * doc, 10 * doc + 10))
        edited = set(sorted(base)[1:]) | {10 * doc}
        sets.append(edited if doc and chance.randrange(4) else fresh)
    everyone = list(range(count))
    cuts = [0, 3, 20, count]
    buckets = {(0, 7): [everyone[a:b] for a, b in pairwise(cuts)]}
    for key in range(12):
        buckets[1 + key % 2, -key] = [sorted(chance.sample(everyone, 2 + key))]
    return Corpus(sets, buckets)


def similar(corpus: Corpus, cap: int, new: int, threshold: float) -> set[tuple[int, int]]:
    """The pairs that count, by definition."""
    return {
        (u, v)
        for members in corpus.whole().values()
        for at, v in enumerate(members)
        for u in members[: min(at, cap)]
        if v >= new and reference.jaccard(corpus.sets[u], corpus.sets[v]) >= threshold
    }


def roots_of(count: int, pairs: set[tuple[int, int]]) -> list[int]:
    root = list(range(count))
    for u, v in pairs:
        low, high = sorted((root[u], root[v]))
        root = [low if one == high else one for one in root]
    return root


@pytest.mark.parametrize(("cap", "new"), [pytest.param(6, 0, marks=pytest.mark.slow), (8, 30)])
def test_buckets_in_pieces_give_the_same_components(
    spark: SparkSession, tmp_path: Path, cap: int, new: int
) -> None:
    corpus = chains_and_stars(cap, 60)
    buckets, sets = corpus.frames(spark)
    options = Options.of(**batch_engine.SMALL | {"threshold": 0.6})
    count = len(corpus.sets)
    ranges = CandidateRanges.of(sets, count, 600, 2)
    members = BucketMembers(
        StageTables.at(spark, tmp_path),
        buckets,
        sets,
        ComparePairs(options),
        count,
        new,
        True,
        ranges,
        cap,
    )
    said: list[str] = []
    joining = SparkComponents(members, count, said.append)
    found = {row["doc"]: (row["witness"], row["similarity"]) for row in joining.run().collect()}
    pairs = similar(corpus, cap, new, 0.6)
    want = roots_of(count, pairs)
    assert joining.roots.tolist() == want
    assert found == {
        doc: (root, reference.jaccard(corpus.sets[root], corpus.sets[doc]))
        for doc, root in enumerate(want)
        if root != doc and doc >= new
    }
    assert sum(one["joined"] for one in joining.round_log) == sum(
        r != d for d, r in enumerate(want)
    )
    assert len(found) > 10, "or this has seen nothing"
    assert 0 < joining.tally.similar <= len(pairs)
    assert len(said) == joining.tally.rounds > 1


def test_full_buckets_have_members_of_several_components(spark: SparkSession) -> None:
    corpus = chains_and_stars(3, 50)
    buckets, _ = corpus.frames(spark)
    whole, cap = corpus.whole(), 4
    roots = np.array([doc % 2 if doc in whole[0, 7][:20] else 0 for doc in range(50)], np.uint32)
    rows = Ragged(np.concatenate(list(whole.values())), np.cumsum([0, *map(len, whole.values())]))
    beyond = cluster.count_beyond_cap(roots[rows.data].astype(np.int64), rows.offsets, cap)
    sent = spark.sparkContext.broadcast(roots)
    found = SparkBucketStatistics.of(buckets, CountBeyondLimit(sent, cap), pieces=True)
    assert found.full == np.count_nonzero(beyond) > 2
    want = {(band, key): many for (band, key), many in zip(whole, beyond.tolist(), strict=True)}
    listed = [one for one in found.fullest if one["not_compared"]]
    assert [one["not_compared"] for one in listed] == sorted(filter(None, want.values()))[::-1][
        : len(listed)
    ]
    assert listed[0]["size"] == 50
