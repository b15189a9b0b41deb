"""Vectors of Spark DataFrames and behind URLs decide as those in memory do, in the order of ids."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import batch_engine
from support.command_line import neardup as run_neardup
from support.sizes import full

import neardup
import neardup.spark
from neardup.errors import ParameterError, UsageError

COUNT = 100
ROLES: dict[str, batch_engine.Row] = {
    "alone": {"vectors": "the.v", "cosine": 0.9},
    "also": {"also": "the.v:0.9", "limit": 2, **batch_engine.SMALL},
    "unless": {"unless": "the.v:0.2", **batch_engine.SMALL},
    "alone, chains": {"vectors": "the.v", "cosine": 0.9, "cluster": "components"},
}
BAD = {
    3: (None, "vector is null"),
    15: ([1.0, 2.0], "vector has 2 numbers, not 5"),
    27: ([1.0, math.nan, 0.0, 0.0, 1.0], "vector has a NaN or an infinity"),
    39: ([0.0] * 5, "vector is all zeros"),
    51: ([1.0, None, 0.0, 0.0, 1.0], "vector is not a list of numbers"),
    63: ([1e300, 0.0, 0.0, 0.0, 0.0], "vector has a NaN or an infinity"),
    75: ([], "vector has 0 numbers, not 5"),
}
"""Row -> what is no vector there, and why."""


def rows(seed: int = 7, start: int = 0, bad: dict[int, Any] = BAD) -> list[batch_engine.Row]:
    chance = random.Random(seed)
    made = [
        {"my id": start + 3 * n, "text": text, "the.v": _numbers(chance)}
        for n, text in enumerate(batch_engine.texts(seed, COUNT))
    ]
    for row, (value, _) in bad.items():
        made[row]["the.v"] = value
    return made


def _numbers(chance: random.Random) -> list[float]:
    return [chance.choice([-1.0, 0.0, 1.0, 1.1]) for _ in range(4)] + [0.1]


def frame(spark: Any, some: list[batch_engine.Row], kind: str = "array<double>") -> Any:
    shuffled = random.Random(1).sample([tuple(row.values()) for row in some], len(some))
    schema = f"`my id` long, text string, `the.v` {kind}"
    return spark.createDataFrame(shuffled, schema).repartition(2)


def listed(data: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in data.collect())


def fields_of(found: Any, *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(getattr(one, name) for name in names) for one in found)


@pytest.mark.parametrize(
    ("role", "kind"),
    [
        ("also", "array<float>"),
        ("unless", "array<double>"),
        full("alone", "array<float>"),
        full("also", "array<double>"),
        full("alone, chains", "array<double>"),
    ],
)
def test_frames_with_vectors_get_the_answer_in_memory(spark: Any, role: str, kind: str) -> None:
    some, options = rows(), ROLES[role]
    want = neardup.dedup(pa.Table.from_pylist(some), id="my id", **options)
    names = [
        "id",
        "witness",
        "similarity",
        "exact",
        *(["cosine", "by"] if "alone" not in role else []),
    ]
    with neardup.spark.dedup(frame(spark, some, kind), id="my id", **options) as result:
        assert result.removed.columns == names
        assert listed(result.removed) == fields_of(want.removed, *names)
        assert listed(result.rejected) == fields_of(want.rejected, "id", "reason")
        assert set(listed(result.rejected)) >= {
            (some[row]["my id"], why) for row, (_, why) in BAD.items()
        }
        assert len(want.removed) > 10
        assert sorted(row["my id"] for row in result.kept.collect()) == sorted(want.kept)
        assert result.options == want.options, "the same planes and centre, counted in tasks"
        assert want.summary().startswith(result.summary())
        copy = want.removed[0]
        assert str(result.why(copy.id)) == str(want.why(copy.id))
        assert (
            result.why(copy.id, copy.witness).similarity
            == want.why(copy.id, copy.witness).similarity
        )
        if role == "unless":
            assert listed(result.vetoed) == fields_of(want.vetoed, *names[:-1])
            assert len(want.vetoed) > 5
            kept = want.vetoed[0].id
            assert str(result.why(kept)) == str(want.why(kept))
        else:
            with pytest.raises(UsageError, match="neither"):
                _ = result.vetoed


@pytest.mark.parametrize("role", ["alone", *map(full, ("also", "unless"))])
def test_earlier_frames_have_vectors_too(spark: Any, tmp_path: Path, role: str) -> None:
    earlier, new = rows(8, 10_000, {}), rows(7)
    for n in range(1, COUNT, 3):
        new[n] = {**earlier[n], "my id": new[n]["my id"]}
    parts = {"earlier": earlier, "new": sorted(new, key=lambda row: row["my id"])}
    for name, part in parts.items():
        pq.write_table(pa.Table.from_pylist(part), tmp_path / f"{name}.parquet")
    want = neardup.dedup_files(
        tmp_path / "new.parquet",
        out=tmp_path / "out",
        id="my id",
        against=tmp_path / "earlier.parquet",
        **ROLES[role],
    )
    given = {"id": "my id", "against": frame(spark, earlier), **ROLES[role]}
    with neardup.spark.dedup(frame(spark, new), **given) as result:
        found = listed(result.removed.select("id", "witness", "similarity"))
    table = pq.read_table(tmp_path / "out" / "removed.parquet").to_pylist()
    assert found == sorted((int(r["id"]), int(r["witness"]), r["similarity"]) for r in table)
    assert sum(witness >= 10_000 for _, witness, _ in found) > 20
    assert result.counts["rejected"] == want.counts["rejected"] > 0


@pytest.mark.slow
def test_vectors_of_spark_ml_are_read(spark: Any) -> None:
    from pyspark.ml.linalg import Vectors, VectorUDT
    from pyspark.sql.types import LongType, StructField, StructType

    vectors = [[1.0, 2.0, 0.0], [1.0, 2.0, 0.001], [0.0, 0.0, 3.0], [0.0, 0.0, 2.0]]
    made = [Vectors.dense(one) for one in vectors[:3]] + [Vectors.sparse(3, {2: 2.0}), None]
    schema = StructType([StructField("id", LongType()), StructField("v", VectorUDT())])
    df = spark.createDataFrame(list(enumerate(made)), schema)
    with neardup.spark.dedup(df, id="id", vectors="v", cosine=0.99) as result:
        assert [row[:2] for row in listed(result.removed)] == [(1, 0), (3, 2)]
        assert listed(result.rejected) == [(4, "vector is null")]
        assert [row["v"] for row in result.kept.orderBy("id").collect()] == [made[0], made[2]]


def test_frames_whose_vectors_can_not_be_used_are_refused(spark: Any) -> None:
    text = "one text of some words"
    data = [
        (1, text, [0.0], "x", [["a"]]),
        (2, text, None, "x", [["b"]]),
        (None, None, None, "", []),
    ]
    schema = "id int, text string, v array<float>, s string, lists array<array<string>>"
    df = spark.createDataFrame(data, schema)
    ask = {"id": "id", "cosine": 0.9}
    says = r"no document has a vector in 'v' \(of 3, 2: vector is null\)"
    with pytest.raises(UsageError, match=says):
        neardup.spark.dedup(df, vectors="v", **ask)
    with pytest.raises(UsageError, match=r"'s' is string, not lists of numbers.*vectors="):
        neardup.spark.dedup(df, vectors="s", **ask)
    with pytest.raises(UsageError, match=r"'lists' is list.*not lists of numbers"):
        neardup.spark.dedup(df, id="id", also="lists:0.9")
    with pytest.raises(UsageError, match=r"no column 'w'.*also="):
        neardup.spark.dedup(df, id="id", also="w:0.9")
    with pytest.raises(UsageError, match=r"have no order, by which those of .*rows\.npy"):
        neardup.spark.dedup(df, vectors="rows.npy", **ask)
    with pytest.raises(ParameterError, match="executors can embed texts: add a column"):
        neardup.spark.dedup(df, id="id", embed="module:function", cosine=0.9)
    without = spark.createDataFrame([(1, [1.0]), (None, [2.0])], "id int, v array<float>")
    with pytest.raises(UsageError, match="1 rows have no id"):
        neardup.spark.dedup(without, vectors="v", **ask)


@pytest.mark.parametrize(
    ("role", "ending"), [("also", "jsonl"), full("alone", "jsonl"), full("unless", "parquet")]
)
def test_urls_with_vectors_get_the_answer_in_memory(
    spark: Any, tmp_path: Path, role: str, ending: str
) -> None:
    """Ids of JSON lines are strings: those of these rows have the same order as numbers."""
    some = [{**row, "my id": f"{row['my id']:06}"} for row in rows()]
    source, out = tmp_path / f"in.{ending}", tmp_path / "out"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(some), source)
    else:
        shuffled = random.Random(1).sample(some, len(some))
        source.write_text("".join(json.dumps(row) + "\n" for row in shuffled))
    options = ROLES[role]
    want = neardup.dedup(pa.Table.from_pylist(some), id="my id", **options)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    asked = ["dedup", source.as_uri(), "-o", out.as_uri(), "--engine", "spark", "--id", "my id"]
    ran = run_neardup(*asked, *flags)
    assert ran.code == 0, ran.err
    names = ["id", "witness", "similarity", *(["cosine", "by"] if role != "alone" else [])]
    for table in ("removed", *(["vetoed"] if role == "unless" else [])):
        names = names[:4] if table == "vetoed" else names
        found = pq.read_table(out / f"{table}.parquet").to_pylist()
        got = sorted(tuple(row[name] for name in names) for row in found)
        assert got == fields_of(getattr(want, table), *names)
    rejected = pq.read_table(out / "rejected.parquet").to_pylist()
    assert len(rejected) == len(want.rejected)
    record = json.loads((out / "run.json").read_bytes())
    assert (record["parameters"]["vectors"], record["parameters"]["role"]) == ("the.v", role)
    assert record["parameters"]["planes"] == want.options.vectors.stated["planes"]


def test_vectors_that_are_not_in_the_files_of_urls_are_refused(spark: Any, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"id": "a", "text": "x"}\n')
    asked = ["dedup", source.as_uri(), "-o", (tmp_path / "out").as_uri(), "--engine", "spark"]
    ran = run_neardup(*asked, "--also", "rows.npy:0.9")
    assert ran.code == 2
    assert "have no order" in ran.err.replace("\n", " ")
    ran = run_neardup(*asked, "--embed", "module:function", "--cosine", "0.9")
    assert ran.code == 2
    assert "--embed is not supported with URLs" in ran.err.replace("\n", " ")
    assert not (tmp_path / "out").exists()
