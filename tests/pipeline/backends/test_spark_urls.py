"""Runs over URLs: what Spark reads and writes, in OUT."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import batch_engine

import neardup
from neardup.corpus.columns import Source
from neardup.corpus.documents import Columns
from neardup.corpus.jsonl import parse_lines
from neardup.errors import MissingInput, NeardupError, OutputError, RowError, UsageError
from neardup.options import Options
from neardup.pipeline.backends.spark_urls import dedup_urls
from neardup.pipeline.job import Job
from neardup.report.run_page import write_report

REPORT = partial(write_report, title="a run")
OPTIONS = Options.of(**batch_engine.SMALL)
BAD = [
    b"{",
    b"[1]",
    b"",
    b"  \t",
    b'{"name": 201, "text": 5}',
    b'{"name": "202", "text": {"a": "x"}}',
    b'{"name": 203, "text": true}',
    b'{"name": 204, "text": ["x"]}',
    b'{"name": 205}',
    b'{"name": 206, "text": "\xff"}',
]
"""Lines that are no document, or none that can be compared."""


def rows(count=60):
    texts = batch_engine.texts(3, count)
    return [{"name": 7 * n % 101, "text": text, "b": {"x": None}} for n, text in enumerate(texts)]


def expected(some):
    in_order = sorted(some, key=lambda row: row["name"])
    return neardup.dedup(pa.Table.from_pylist(in_order), id="name", **batch_engine.SMALL)


def run(spark, inputs, out, id="name", asked=(), **given):
    asked = {"finish": REPORT} | dict(asked)
    job = Job([], Path(), OPTIONS, Columns(id=id), workers=2, **asked)
    job = batch_engine.on_spark(spark, job)
    return dedup_urls(inputs, out.as_uri(), job, **given)


def table(out, name):
    return pq.read_table(out / f"{name}.parquet").to_pylist()


def test_kept_json_lines_are_unchanged(spark, tmp_path):
    some, out = rows(), tmp_path / "out"
    lines = [json.dumps(row, separators=(" , ", ":")) for row in some]
    some = [{**row, "name": str(row["name"])} for row in some]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([*map(str.encode, lines[:30]), *BAD]) + b"\n")
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.write("\r\n".join(lines[30:]))
    finished = run(spark, [f"{tmp_path.as_uri()}/{{a,b}}.jsonl*"], out, asked={"pairs": True})
    want = expected(some)
    kept = [
        line
        for part in sorted((out / "kept").glob("part-*"))
        for line in part.read_bytes().decode().split("\n")[:-1]
    ]
    assert sorted(line.rstrip("\r") for line in kept) == sorted(
        line for line, row in zip(lines, some, strict=True) if row["name"] in set(want.kept)
    )
    assert sorted(
        (row["id"], row["witness"], row["similarity"]) for row in table(out, "removed")
    ) == sorted((one.id, one.witness, one.similarity) for one in want.removed)
    assert {(row["id"], row["size"]) for row in table(out, "clusters")} == {
        (one.id, one.size) for one in want.clusters
    }
    assert sorted((row["a"], row["b"]) for row in table(out, "pairs")) == sorted(
        (one.a, one.b) for one in want.pairs
    )
    bad = parse_lines(b"\n".join(BAD), False, Columns(id="name"), Source(""))
    assert sorted((row["id"] or "", row["reason"]) for row in table(out, "rejected")) == sorted(
        [(bad.ids[row].as_py() or "", reason) for row, reason in bad.rejected.items()]
        + [(one.id, one.reason) for one in want.rejected]
    )
    record = json.loads((out / "run.json").read_text())
    assert record == finished.record
    assert record["counts"]["kept"] == len(want.kept)
    assert record["counts"]["documents"] == len(some) + len(bad) == len(some) + 8
    assert record["reasons"]["JSON, but not an object"] == 1
    times = record["seconds"]  # of all of it: also while Spark reads and writes the URLs
    assert [one["name"] for one in record["stages"]][:1] == ["read"] and times["write"] > 0
    assert times["total"] >= sum(times.values()) - times["total"] - 0.01
    size = sum(file.stat().st_size for file in tmp_path.glob("?.jsonl*"))
    assert record["inputs"][0]["size"] == size
    assert finished.largest[0] == (str(want.clusters[0].id), want.clusters[0].size - 1)
    page = (out / "report.html").read_text()
    assert "a run: neardup report" in page
    assert f"{len(want.removed):,}" in page
    assert {entry.name for entry in out.iterdir() if not entry.name.startswith(".")} == {
        "kept",
        "removed.parquet",
        "clusters.parquet",
        "rejected.parquet",
        "pairs.parquet",
        "report.html",
        "run.json",
    }
    assert not (out / ".unfinished").exists()


@pytest.mark.slow
def test_earlier_lines_need_no_column_to_rank_by(spark, tmp_path):
    text = " ".join(f"word{number}" for number in range(30))
    (tmp_path / "new.jsonl").write_text(
        json.dumps({"name": "b", "text": text, "score": 1})
        + "\n"
        + json.dumps({"name": "c", "text": f"{text} more", "score": 2})
        + "\n"
    )
    (tmp_path / "old.jsonl").write_text(json.dumps({"name": "a", "text": text}) + "\n")
    new, old = ((tmp_path / name).as_uri() for name in ("new.jsonl", "old.jsonl"))
    options = Options.of(keep="max:score")
    job = Job([], Path(), options, Columns(id="name", keep="score"), workers=1, finish=REPORT)
    job = batch_engine.on_spark(spark, job)
    dedup_urls([new], (tmp_path / "out").as_uri(), job, against=[old])
    removed = {row["id"]: row["witness"] for row in table(tmp_path / "out", "removed")}
    assert removed == {"b": "a", "c": "a"}


def test_a_parquet_folder_is_read_and_an_existing_output_refused(spark, tmp_path):
    some, out = [{**row, "b": 1} for row in rows(30)], tmp_path / "out"
    folder = tmp_path / "input"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(some[:20]), folder / "a.parquet")
    more = [{**row, "only": "here"} for row in some[20:]]
    pq.write_table(pa.Table.from_pylist(more), folder / "b.parquet")
    (out / "kept").mkdir(parents=True)
    (out / "mine").write_text("x")
    with pytest.raises(OutputError, match=r"not empty \(kept, mine\).*--force"):
        run(spark, [folder.as_uri()], out)
    (out / "kept").rmdir()
    run(spark, [folder.as_uri()], out, force=True)
    want = expected(some)
    kept = pq.read_table(out / "kept").to_pylist()
    assert {row["name"] for row in kept} == set(want.kept)
    assert {row["only"] for row in kept} == {None, "here"}
    assert (out / "mine").read_text() == "x"
    with pytest.raises(OutputError, match="not empty"):
        run(spark, [folder.as_uri()], out)

    def fail(_):
        raise NeardupError("no page")

    before = sorted(path.name for path in out.iterdir())
    with pytest.raises(NeardupError, match="no page"):
        run(spark, [folder.as_uri()], out, force=True, asked={"kept": False, "finish": fail})
    assert sorted(path.name for path in out.iterdir()) == before, "OUT is as it was"


def test_a_refused_url_run_leaves_out_unchanged(spark, tmp_path):
    out = tmp_path / "out"
    (tmp_path / "a.jsonl").write_text('{"name": 1, "text": "x"}\n{"text": \n')
    (tmp_path / "data").write_text("")
    (tmp_path / "no.parquet").touch()
    url = (tmp_path / "a.jsonl").as_uri()
    with pytest.raises(RowError, match=r"a\.jsonl, part 0, row 0: not JSON"):
        run(spark, [url], out, asked={"strict": True})
    with pytest.raises(UsageError, match=r"no column 'key'.*name, text.*--id"):
        run(spark, [url], out, id="key")
    with pytest.raises(UsageError, match=r"no column 'id'.*--id"):
        run(spark, [url], out, id=None)
    with pytest.raises(UsageError, match=r"one format, .* not jsonl and parquet"):
        run(spark, [url], out, against=[(tmp_path / "no.parquet").as_uri()])
    with pytest.raises(UsageError, match="--format"):
        run(spark, [(tmp_path / "data").as_uri()], out)
    with pytest.raises(UsageError, match=r"one format, .* not csv"):
        run(spark, [url], out, format="csv")
    with pytest.raises(MissingInput, match="nowhere does not exist"):
        run(spark, [(tmp_path / "nowhere").as_uri()], out)
    with pytest.raises(MissingInput, match=r"nowhere\.parquet does not exist"):
        run(spark, [(tmp_path / "nowhere.parquet").as_uri()], out)
    assert not out.exists()
    with pytest.raises(UsageError, match="contain one another"):
        run(spark, [tmp_path.as_uri()], out)
    with pytest.raises(UsageError, match="contain one another"):
        run(spark, [url], tmp_path)
    (out / "kept").mkdir(parents=True)
    with pytest.raises(OutputError, match="no finished run, and kept would be replaced"):
        run(spark, [url], out, force=True)
