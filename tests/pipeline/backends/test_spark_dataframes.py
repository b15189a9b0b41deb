"""neardup.spark.dedup gives the answer of neardup.dedup for the same rows in the order of ids."""

from __future__ import annotations

import doctest
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from support import batch_engine
from support.sizes import full

import neardup
import neardup.spark
from neardup.errors import ColumnError, OutputError, TooManyRemoved, UsageError
from neardup.pipeline.backends import spark_dataframes

SCHEMA = "`my id` {id}, `the.text` string, score {score}, lang string, other binary"
COLUMNS = {"id": "my id", "text": "the.text"}
SCORES = {
    "double": [None, 1.5, -0.0, 0.0, 2.5, math.nan],
    "decimal(20,2)": [None, Decimal("9.50"), Decimal("10.25")],
    "string": [None, "b", "a", "é"],
}


def rows(kind, score, seed=5, count=160):
    """In no order, with texts that are null or empty and a column that nobody asks for."""
    chance = random.Random(seed)
    ids = chance.sample(range(10 * count), count)
    found = [
        {
            "my id": id if kind == "long" else f"d{id}",
            "the.text": text,
            "score": chance.choice(SCORES[score]),
            "lang": chance.choice("ab"),
            "other": b"\0\xff",
        }
        for id, text in zip(ids, batch_engine.texts(seed, count), strict=True)
    ]
    for row in found[::40]:
        row["the.text"] = None
    return found


def frame(spark, some, kind, score, partitions=2):
    made = [tuple(row.values()) for row in some]
    return spark.createDataFrame(made, SCHEMA.format(id=kind, score=score)).repartition(partitions)


def expected(some, **options):
    in_order = sorted(some, key=lambda row: row["my id"])
    return neardup.dedup(pa.Table.from_pylist(in_order), **COLUMNS, **options)


def listed(data):
    return sorted(tuple(row) for row in data.collect())


CASES = {
    "one partition": (1, "long", "double", {}),
    "strings, the longest": (
        2,
        "string",
        "string",
        {"keep": "longest", "cluster": "components"},
    ),
    "decimals, apart": (
        4,
        "long",
        "decimal(20,2)",
        {"keep": "max:score", "within": "lang", "verify": "estimate"},
    ),
    "many removed": (4, "string", "double", {"keep": "min:score"}),
    "many removed, many partitions": (16, "string", "double", {"keep": "min:score"}),
}


@pytest.mark.parametrize(
    "case",
    ["many removed", *(full(case) for case in CASES if case != "many removed")],
)
def test_dataframe_answer_equals_the_in_memory_answer_in_id_order(spark, monkeypatch, case):
    partitions, kind, score, options = CASES[case]
    if case.startswith("many removed"):
        monkeypatch.setattr(spark_dataframes, "MAX_BROADCAST", 0)
    some = rows(kind, score)
    options = batch_engine.SMALL | options
    want = expected(some, **options)
    df = frame(spark, some, kind, score, partitions)
    with neardup.spark.dedup(df, **COLUMNS, **options) as result:
        assert listed(result.removed) == sorted(
            (one.id, one.witness, one.similarity, one.exact) for one in want.removed
        )
        assert listed(result.rejected) == sorted((one.id, one.reason) for one in want.rejected)
        assert listed(result.clusters) == sorted((one.id, one.size) for one in want.clusters)
        assert result.removed.columns == ["id", "witness", "similarity", "exact"]
        assert result.removed.dtypes[0][1] == df.dtypes[0][1].replace("long", "bigint")
        assert result.kept.schema == df.schema
        kept = {row["my id"]: row for row in result.kept.collect()}
        assert sorted(kept) == sorted(want.kept)
        given = {row["my id"]: row for row in some}
        for id, row in kept.items():
            assert repr(list(row)) == repr(list(given[id].values()))
        assert repr(result) == "Spark" + repr(want)
        # In memory it also says why rows were rejected, and what the options can't find.
        assert want.summary().startswith(result.summary())
        few = case == "many removed"
        ids = (want.removed[0].id, want.kept[0], want.clusters[0].id, want.rejected[0].id)
        for id in ids[:1] if few else ids:
            assert str(result.why(id)) == str(want.why(id))
        copy, witness = want.removed[0].id, want.removed[0].witness
        others = (witness, want.kept[-1], want.rejected[0].id)
        for other in others[:1] if few else others:
            same, wanted = result.why(copy, other), want.why(copy, other)
            assert (same.a, same.b, same.verdict) == (copy, other, wanted.verdict)
            if wanted.similarity is not None:
                assert same.similarity == pytest.approx(wanted.similarity)
        for id in ("x",) if few else (-1, "x"):
            with pytest.raises(UsageError, match=f"no document has the id {id!r}"):
                result.why(id)
        if case.startswith("many removed"):
            assert listed(result.pairs) == sorted((p.a, p.b, p.similarity) for p in want.pairs)


IDS = {
    "bytes": ("binary", [b"\x00\xff", b"a", b"b"]),
    "dates": ("date", [date(2020, 1, day) for day in (3, 1, 2)]),
    # Twice 2:30 by the clock of some places.
    "times": ("timestamp", [datetime(2024, 10, 27, hour, 30, tzinfo=UTC) for hour in (1, 0, 2)]),
    "decimals": ("decimal(30,5)", [Decimal("1.50000"), Decimal("-2.00000"), Decimal("10.00000")]),
    "doubles": ("double", [1e300, 0.1, -7.5]),
}


@pytest.mark.parametrize("kind", ["times", *(full(kind) for kind in IDS if kind != "times")])
def test_ids_of_any_type_come_back_unchanged(spark, kind):
    type_, ids = IDS[kind]
    text = "the cat sat on the mat all day"
    data = [(id, text) for id in ids] + [(None, None)]
    df = spark.createDataFrame(data, f"id {type_}, text string")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        order = [row["id"] for row in df.where("id IS NOT NULL").orderBy("id").collect()]
        with neardup.spark.dedup(df, id="id") as result:
            assert result.removed.schema["id"].dataType == df.schema["id"].dataType
            removed = [(row["id"], row["witness"]) for row in result.removed.collect()]
            assert sorted(removed) == sorted((id, order[0]) for id in order[1:])
            assert [row["id"] for row in result.kept.collect()] == [order[0]]
            assert [tuple(row) for row in result.rejected.collect()] == [(None, "text is null")]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize(
    "data", [full([], id="no rows"), pytest.param([(1, None), (2, " ")], id="no texts")]
)
def test_frames_without_comparable_documents(spark, data):
    df = spark.createDataFrame(data, "id int, text string")
    with neardup.spark.dedup(df, id="id") as result:
        assert [result.counts[name] for name in ("documents", "kept", "removed")] == [
            len(data),
            0,
            0,
        ]
        assert len(result.rejected.collect()) == len(data)
        assert result.kept.collect() == result.removed.collect() == result.pairs.collect() == []
        assert result.summary().startswith(f"{len(data)} documents   0 kept")


def test_columns_of_token_ids_are_compared(spark):
    texts = [[1, 2, 3, 4, 5], [1, 2, 3, 4, 6], None, [1, None], [], [7, 8, 9], [1, 2, 3, 4, 5]]
    some = [{"id": number, "text": text} for number, text in enumerate(texts)]
    options = batch_engine.SMALL | {"shingle": "token:2"}
    want = neardup.dedup(pa.Table.from_pylist(some), **options)
    df = spark.createDataFrame(list(enumerate(texts)), "id int, text array<int>")
    with neardup.spark.dedup(df, id="id", **options) as result:
        assert listed(result.removed) == [
            (one.id, one.witness, one.similarity, one.exact) for one in want.removed
        ]
        assert listed(result.rejected) == [(one.id, one.reason) for one in want.rejected]
        assert {reason for _, reason in listed(result.rejected)} == {
            "text is null",
            "a token id is null",
            "empty",
        }


def test_earlier_documents_rank_first_and_are_never_removed(spark, tmp_path):
    texts = batch_engine.texts(8, 120)
    some = [{"id": f"{number:04}", "text": text} for number, text in enumerate(texts)]
    parts = {"earlier": some[60:], "new": some[:60]}
    for name, part in parts.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    against = {"against": (tmp_path / "earlier.jsonl",)}
    want = batch_engine.go(
        [tmp_path / "new.jsonl"], tmp_path / "out", others=against, keep="longest"
    )
    new, earlier = (
        spark.createDataFrame(
            [tuple(row.values()) for row in parts[name]], "id string, text string"
        )
        for name in ("new", "earlier")
    )
    options = batch_engine.SMALL | {"keep": "longest", "against": earlier}
    with neardup.spark.dedup(new, id="id", **options) as result:
        found = [(row["id"], row["witness"], row["similarity"]) for row in want.removed]
        assert sorted(row[:3] for row in listed(result.removed)) == sorted(found)
        assert {witness for _, witness, _ in found} & {row["id"] for row in parts["earlier"]}
        assert result.counts["earlier"] == 60
        assert {name: result.counts[name] for name in want.counts} == want.counts


@pytest.mark.parametrize("keep", ["first", "none"])
def test_rows_get_their_clusters(spark, keep):
    some = rows("long", "double", count=60)
    df = frame(spark, some, "long", "double")
    point = batch_engine.SMALL | {"keep": keep}
    in_order = [row | {"id": row["my id"], "text": row["the.text"]} for row in some]
    in_order.sort(key=lambda row: row["id"])
    library = neardup.dedup(in_order, **point)
    ids = [row["id"] for row in in_order]
    with neardup.spark.dedup(df, **COLUMNS, **point) as result:
        for which in ("all", "kept"):
            want = [
                (
                    row["id"],
                    ids[row["cluster"]],
                    row["cluster_size"],
                    row["witness"],
                    row["similarity"],
                )
                for row in library.annotate(in_order, which)
            ]
            found = result.annotate(which)
            assert found.columns == [
                *df.columns,
                "cluster",
                "cluster_size",
                "witness",
                "similarity",
            ]
            assert sorted((row["my id"], *row[5:]) for row in found.collect()) == want
        with pytest.raises(UsageError, match="'similarity' already"):
            renamed = df.withColumnRenamed("other", "similarity")
            with neardup.spark.dedup(renamed, **COLUMNS, **point) as other:
                other.annotate()


def test_limits_stop_a_run_over_a_dataframe(spark):
    some = [(n, f"a text {n // 2} of two words", "ab"[n % 2]) for n in range(240)]
    df = spark.createDataFrame(some, "id long, text string, site string")
    given = {"id": "id", "source": "site", "max_removed_per_source": 0.5}
    with pytest.raises(
        TooManyRemoved, match=r"120 of 120 documents .* of b would be removed"
    ) as got:
        neardup.spark.dedup(df, **given)
    assert [one.source for one in got.value.sources.over] == ["b"]
    with neardup.spark.dedup(df, **given, yes=True) as result:
        assert [one["removed"] for one in result.record["sources"]["listed"]] == [120, 0]
        assert "removed by source   120 of 120 (100%) of b" in result.summary()
    with pytest.raises(UsageError, match="needs the column of the sources"):
        neardup.spark.dedup(df, id="id", max_removed_per_source=0.5)


def test_frames_are_lazy_and_unreadable_after_close(spark, tmp_path):
    source, work = tmp_path / "input", tmp_path / "work"
    frame(spark, rows("long", "double", count=40), "long", "double").write.parquet(str(source))
    df = spark.read.parquet(str(source))
    result = neardup.spark.dedup(df, **COLUMNS, work=str(work), **batch_engine.SMALL)
    shutil.rmtree(source)
    kept = result.kept
    assert len(result.removed.collect()) == result.counts["removed"] > 0
    with pytest.raises(Exception, match="input"):
        kept.collect()
    assert any(work.iterdir())
    result.close()
    result.close()
    assert not work.exists()
    assert result.counts["documents"] == 40
    with pytest.raises(UsageError, match="closed"):
        _ = result.removed


TWO = [(1, "one text"), (2, "another text")]
BAD = {
    "no such text": (TWO, {"text": "body"}, ColumnError, "no column 'body'.*id, text, list.*text="),
    "no such id": (TWO, {"id": "key"}, ColumnError, "no column 'key'.*id="),
    "no such keep": (TWO, {"keep": "max:n"}, ColumnError, "no column 'n'.*keep="),
    "numbers as texts": (TWO, {"text": "id", "id": "text"}, UsageError, "'id' is int32, not text"),
    "lists to rank by": (TWO, {"keep": "max:list"}, UsageError, "'list' is list.*, not numbers"),
    "no id": ([*TWO, (None, "x"), (None, "y")], {}, UsageError, "2 rows have no id"),
    "ids that are not unique": ([*TWO, (1, "x"), (1, "y")], {}, UsageError, "3 rows have the id 1"),
    "a work folder by URL": (TWO, {"work": "s3a://x/y"}, UsageError, "is a URL: give the path"),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_input_is_refused(spark, tmp_path, case):
    data, given, error, says = BAD[case]
    df = spark.createDataFrame(data, "id int, text string").selectExpr("*", "array(1) list")
    with pytest.raises(error, match=says):
        neardup.spark.dedup(df, **{"id": "id", "work": str(tmp_path / "work")} | given)
    assert not (tmp_path / "work").exists()


def test_unsupported_inputs_and_ids_are_refused(spark):
    df = spark.createDataFrame(TWO, "id int, text string")
    with pytest.raises(UsageError, match=r"the id 1 is in the documents and in `against`"):
        neardup.spark.dedup(df, id="id", against=df)
    with pytest.raises(UsageError, match="ids are int, those of `against` bigint"):
        neardup.spark.dedup(df, id="id", against=df.withColumn("id", df.id.cast("long")))
    with pytest.raises(UsageError, match="ids of type array<string>"):
        neardup.spark.dedup(df.selectExpr("array(text) id", "text"), id="id")
    with pytest.raises(UsageError, match="`against`: column 'text' is int32, not text"):
        neardup.spark.dedup(df, id="id", against=df.withColumn("text", df.id))
    with pytest.raises(UsageError, match="column of unique ids with id="):
        neardup.spark.dedup(df.withColumnRenamed("id", "n"), id=None)
    with pytest.raises(UsageError, match="streaming DataFrames are not supported"):
        neardup.spark.dedup(spark.readStream.format("rate").load(), id="value", text="timestamp")
    with pytest.raises(UsageError, match=r"a list is not a Spark DataFrame.*neardup\.dedup"):
        neardup.spark.dedup(TWO, id="id")


def test_ids_that_are_equal_are_not_unique(spark):
    df = spark.createDataFrame([(0.0, "one text"), (-0.0, "another")], "id double, text string")
    with pytest.raises(UsageError, match="2 rows have the id"):
        neardup.spark.dedup(df, id="id")


def test_a_session_with_wider_arrow_types_is_refused(spark):
    from neardup.pipeline.backends.spark_session import LARGE_TYPES_SETTING, open_session

    df = spark.createDataFrame(TWO, "id int, text string")
    spark.conf.set(LARGE_TYPES_SETTING, "true")
    try:
        with pytest.raises(UsageError, match=r"useLargeVarTypes=true.*spark\.conf\.set"):
            neardup.spark.dedup(df, id="id")
        with pytest.raises(UsageError, match="useLargeVarTypes=true"):
            open_session(None)
    finally:
        spark.conf.unset(LARGE_TYPES_SETTING)


def test_a_work_folder_that_is_not_empty_is_refused(spark, tmp_path):
    (tmp_path / "mine").write_text("x")
    df = spark.createDataFrame(TWO, "id int, text string")
    with pytest.raises(OutputError, match=r"is not empty \(mine\)"):
        neardup.spark.dedup(df, id="id", work=str(tmp_path))
    assert (tmp_path / "mine").read_text() == "x"


def test_dedup_example_runs_and_deletes_its_work_folder(spark, tmp_path, monkeypatch):
    temporary = tmp_path / "with a space"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    names = {"spark": spark, "dedup": neardup.spark.dedup}
    (example,) = doctest.DocTestFinder().find(neardup.spark.dedup, "dedup", globs=names)
    for one in example.examples:
        one.options.pop(doctest.SKIP, None)
    assert doctest.DocTestRunner().run(example) == doctest.TestResults(0, 3)
    assert list(temporary.iterdir()) == []
    assert list(tmp_path.iterdir()) == [temporary]


def test_spark_is_not_imported_before_it_is_needed():
    code = "import sys, neardup, neardup.spark; print('pyspark' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
