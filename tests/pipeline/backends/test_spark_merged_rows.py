"""Rows of one document, in a Spark DataFrame or behind URLs, are merged as those in files are."""

from __future__ import annotations

import json
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
from neardup.errors import UsageError

Row = batch_engine.Row


def rows(kind: type = int) -> list[Row]:
    """Documents of one to four rows, in the order of ids and of groups; some rows are unusable."""
    chance = random.Random(4)
    some = []
    for number, text in enumerate(batch_engine.texts(9, 90)):
        words, group = text.split(), chance.choice("ab")
        step = max(1, -(-len(words) // chance.randint(1, 3)))
        parts: list[str | None] = [
            " ".join(words[max(0, at - 1) : at + step]) for at in range(0, len(words), step)
        ]
        if number % 7 == 0:
            parts.append(None)
        name = 3 * number if kind is int else f"d{number:04}"
        keys = sorted(chance.choice([group, group, "c"]) for _ in parts)
        pages = zip(parts, keys, strict=True)
        some += [
            {"doc": name, "text": part, "lang": key, "score": chance.random()}
            for part, key in pages
        ]
    return some


def listed(table: Any, *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(str(row[name]) for name in names) for row in table)


def read(out: Path, name: str) -> list[Row]:
    return pq.read_table(out / name).to_pylist()


OPTIONS: dict[str, Row] = {
    "max": {"keep": "max:score", "within": "lang"},
    "strings, components": {"cluster": "components", "verify": "estimate"},
}


@pytest.mark.parametrize("case", ["max", full("strings, components")])
def test_frames_with_documents_of_several_rows(spark: Any, tmp_path: Path, case: str) -> None:
    some = rows(str if case.startswith("strings") else int)
    options = batch_engine.SMALL | OPTIONS[case]
    pq.write_table(pa.Table.from_pylist(some), tmp_path / "in.parquet")
    out, given = tmp_path / "out", {"merge_rows": "doc", **options}
    want = neardup.dedup_files(tmp_path / "in.parquet", out=out, **given)
    shuffled = random.Random(1).sample([tuple(row.values()) for row in some], len(some))
    kind = "string" if case.startswith("strings") else "long"
    schema = f"doc {kind}, text string, lang string, score double"
    df = spark.createDataFrame(shuffled, schema).repartition(3)
    with neardup.spark.dedup(df, **given) as result:
        names = ("id", "witness", "similarity", "exact")
        assert listed(result.removed.collect(), *names) == listed(
            read(out, "removed.parquet"), *names
        )
        assert listed(result.rejected.collect(), "id", "reason") == listed(
            read(out, "rejected.parquet"), "id", "reason"
        )
        assert listed(result.clusters.collect(), "id", "size") == listed(
            read(out, "clusters.parquet"), "id", "size"
        )
        kept = listed(result.kept.collect(), "doc", "text", "lang")
        assert kept == listed(read(out / "kept", "in.parquet"), "doc", "text", "lang")
        assert result.counts == want.counts
        assert result.counts["documents"] < len(some) and result.counts["removed"] > 15
        copy = read(out, "removed.parquet")[0]
        assert result.why(copy["id"]).witness == type(some[0]["doc"])(copy["witness"])
        with pytest.raises(UsageError, match="its documents are several rows"):
            result.annotate()


@pytest.mark.parametrize("kind", ["float", full("double")])
def test_numbers_that_spark_takes_for_equal_are_one_document(spark: Any, kind: str) -> None:
    data = [(0.0, "a b c d"), (-0.0, "e f g h"), (0.1, "A B C D"), (0.5, "e f g h a b c d")]
    df = spark.createDataFrame(data, f"doc {kind}, text string")
    with neardup.spark.dedup(df, merge_rows="doc", shingle="word:4", threshold=0.1) as result:
        names = sorted(row["id"] for row in result.clusters.collect())
        assert names == [0.0]
        removed = {round(row["id"], 6): row["witness"] for row in result.removed.collect()}
        assert removed == {0.1: 0.0, 0.5: 0.0}
        assert sorted(row["text"] for row in result.kept.collect()) == ["a b c d", "e f g h"]
        run = result._run
        stored = pq.read_table(run.folder / "run" / "removed.parquet").column("id")
        assert stored.to_pylist() == ["0.1", "0.5"]


def test_frames_of_rows_without_a_document_are_refused(spark: Any) -> None:
    df = spark.createDataFrame([(1, "a"), (1, "b"), (None, "c")], "doc int, text string")
    with pytest.raises(UsageError, match="1 rows have no id"):
        neardup.spark.dedup(df, merge_rows="doc")
    with pytest.raises(UsageError, match="leave out"):
        neardup.spark.dedup(df, merge_rows="doc", id="doc")
    with pytest.raises(UsageError, match=r"no column 'book'.*merge_rows="):
        neardup.spark.dedup(df, merge_rows="book")


@pytest.mark.parametrize("ending", ["jsonl", full("parquet")])
def test_urls_with_documents_of_several_rows(spark: Any, tmp_path: Path, ending: str) -> None:
    some = rows(str)
    path, local, out = tmp_path / f"in.{ending}", tmp_path / "local", tmp_path / "out"
    shuffled = random.Random(1).sample(some, len(some))
    if ending == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in shuffled))
    else:
        pq.write_table(pa.Table.from_pylist(shuffled), path)
    ordered = tmp_path / f"ordered.{ending}"
    in_order = sorted(some, key=lambda row: row["doc"])
    if ending == "jsonl":
        ordered.write_text("".join(json.dumps(row) + "\n" for row in in_order))
    else:
        pq.write_table(pa.Table.from_pylist(in_order), ordered)
    flags = ["--merge-rows", "doc", "--shingle", "word:2", "--threshold", "0.5"]
    assert run_neardup("dedup", ordered, "-o", local, *flags, "-q").code == 0
    ran = run_neardup(
        *("dedup", path.as_uri(), "-o", out.as_uri(), "--engine", "spark", *flags, "-q")
    )
    assert ran.code == 0, ran.err
    for name, fields in (
        ("removed", ("id", "witness", "similarity")),
        ("clusters", ("id", "size")),
        ("rejected", ("id", "reason")),
    ):
        found, wanted = (read(place, f"{name}.parquet") for place in (out, local))
        assert listed(found, *fields) == listed(wanted, *fields)
    counts = [json.loads((place / "run.json").read_bytes())["counts"] for place in (out, local)]
    assert counts[0] == counts[1]
    if ending == "jsonl":
        lines = [
            line
            for part in sorted((out / "kept").glob("part-*"))
            for line in part.read_text().splitlines()
        ]
        kept = (local / "kept" / "ordered.jsonl").read_text().splitlines()
        assert sorted(lines) == sorted(kept) and len(kept) > 30
