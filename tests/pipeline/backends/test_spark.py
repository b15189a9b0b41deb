"""A run on Spark leaves the files of a local run, byte for byte."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import batch_engine
from support.sizes import full

import neardup
from neardup.errors import InputError, RowError, SpecMismatch
from neardup.index.stored_corpus import open_indexes
from neardup.keys import Key
from neardup.pipeline import run as batch_run
from neardup.pipeline.backends.spark import SparkBackend
from neardup.pipeline.exact import ExactDuplicates
from neardup.pipeline.exact_hashes import ExactSpec
from neardup.pipeline.run import run_job
from neardup.pipeline.stages import compare

TABLES = ("removed", "clusters", "rejected", "samples")
SHARD = 6_000
"""Bytes of a shard: some tasks for each stage."""


def run_on_spark(spark: Any, job: Any) -> batch_engine.Silent:
    progress = batch_engine.Silent()
    run_job(batch_engine.on_spark(spark, job), progress)
    return progress


def files(out: Path) -> dict[str, bytes]:
    """What a run says about documents, and what it kept."""
    kept = {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted((out / "kept").rglob("*"))
        if path.is_file()
    }
    return {name: (out / f"{name}.parquet").read_bytes() for name in TABLES} | kept


def record(out: Path) -> Any:
    """What run.json says, but for how it was done."""
    found = json.loads((out / "run.json").read_bytes())
    done = ("seconds", "stages", "peak_memory_bytes", "memory_budget_bytes", "spark")
    for name in done:
        found.pop(name, None)
    for name in ("rounds", "candidate_pairs_per_doc", "verify_drop_rate"):
        del found["metrics"][name]
    found["counts"].pop("comparisons")
    return found


QUESTIONS = {
    "signatures, sketches": (
        {"keep": "longest", "verify": "estimate", "limit": 2},
        {"pairs": True, "save_sketches": True},
    ),
    "weights": ({"sketch": "weighted", "weights": "tf-idf"}, {}),
    "the usual": ({}, {}),
    "sketches": ({}, {"save_sketches": "parquet"}),
    "lines": ({"strip": "lines:20%"}, {}),
    "numbers": ({"distinguish": "numbers"}, {}),
}


@pytest.mark.parametrize(
    "asked", ["signatures, sketches", "weights", *map(full, list(QUESTIONS)[2:])]
)
def test_the_output_is_that_of_the_local_engine(spark: Any, tmp_path: Path, asked: str) -> None:
    options, others = QUESTIONS[asked]
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(7, 300, words=22))
    batch_engine.go(paths, tmp_path / "local", others=others, shard=SHARD, **options)
    job = batch_engine.job(paths, tmp_path / "spark", others=others, shard=SHARD, **options)
    run_on_spark(spark, job)
    assert files(tmp_path / "spark") == files(tmp_path / "local")
    assert record(tmp_path / "spark") == record(tmp_path / "local")
    assert len(batch_engine.table(tmp_path / "spark", "removed")) > 20
    work = json.loads((tmp_path / "spark" / "run.json").read_bytes())["spark"]["work"]
    assert max(one["tasks"] for one in work if one["name"] == "SketchShards") > 3


def test_rows_of_a_document_are_merged(spark: Any, tmp_path: Path) -> None:
    rows = [row | {"id": f"d{at // 2}"} for at, row in enumerate(batch_engine.rows(3, 200))]
    paths = batch_engine.write(tmp_path / "in", rows)
    job = batch_engine.job(paths, tmp_path / "local", shard=SHARD, others={"merge_rows": True})
    job = replace(job, columns=replace(job.columns, id="id", id_option="merge-rows"))
    run_job(job, batch_engine.Silent())
    run_on_spark(spark, replace(job, out=tmp_path / "spark"))
    assert files(tmp_path / "spark") == files(tmp_path / "local")


@pytest.mark.parametrize("unit", ["document", "line"])
def test_exact_copies_are_those_of_the_local_engine(spark: Any, tmp_path: Path, unit: str) -> None:
    rows = batch_engine.rows(3, 120)
    for row in rows:
        row["text"] = row["text"].replace(" w1", "\nw1")
    paths = batch_engine.write(tmp_path / "in", rows)
    job = batch_engine.job(paths, tmp_path / "local", shard=SHARD)
    find = ExactDuplicates(ExactSpec(unit=unit, min_length=5))
    run_job(job, batch_engine.Silent(), find)
    run_job(
        batch_engine.on_spark(spark, replace(job, out=tmp_path / "spark")),
        batch_engine.Silent(),
        find,
    )
    assert files(tmp_path / "spark") == files(tmp_path / "local")


@pytest.mark.parametrize("count", [100, full(200)])
def test_sets_that_do_not_fit_the_driver_are_compared_in_tasks(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(7, count, words=22))
    batch_engine.go(paths, tmp_path / "local", limit=2)
    monkeypatch.setattr(compare, "_memory_factor", lambda _: 10**6)
    run_on_spark(spark, batch_engine.job(paths, tmp_path / "spark", limit=2))
    assert files(tmp_path / "spark") == files(tmp_path / "local")
    work = json.loads((tmp_path / "spark" / "run.json").read_bytes())["spark"]["work"]
    assert "ComparePairs" in {one["name"] for one in work}


OF_VECTORS: dict[str, batch_engine.Row] = {
    "alone": dict.fromkeys(batch_engine.SMALL) | {"vectors": "v", "cosine": 0.9},
    "also": {"also": "v:0.9", "limit": 2},
    "unless": {"unless": "v:0.2"},
}


@pytest.mark.parametrize("role", ["also", *map(full, ("alone", "unless"))])
def test_vectors_are_counted_and_compared_in_tasks(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    rows, chance = batch_engine.rows(7, 150, words=22), random.Random(3)
    for row in rows:
        row["v"] = [chance.choice([-1, 0, 1, 1.1]) for _ in range(4)] + [0.1]
    paths = batch_engine.write(tmp_path / "in", rows)
    options = OF_VECTORS[role]
    batch_engine.go(paths, tmp_path / "local", shard=SHARD, **options)
    monkeypatch.setattr(compare, "_memory_factor", lambda _: 10**6)
    run_on_spark(spark, batch_engine.job(paths, tmp_path / "spark", shard=SHARD, **options))
    assert files(tmp_path / "spark") == files(tmp_path / "local")
    assert record(tmp_path / "spark") == record(tmp_path / "local")
    assert len(batch_engine.table(tmp_path / "spark", "removed")) > 20
    work = json.loads((tmp_path / "spark" / "run.json").read_bytes())["spark"]["work"]
    counted = {one["name"] for one in work} & {"CountDocuments"}
    assert bool(counted) == (role != "unless")


def test_a_secret_key_reaches_the_tasks(spark: Any, tmp_path: Path) -> None:
    key = Key(bytes(range(16)))
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(7, 60))
    asked = {"hash": "siphash", "key": key}
    batch_engine.go(paths, tmp_path / "local", others={"key": key}, **asked)
    run_on_spark(spark, batch_engine.job(paths, tmp_path / "spark", others={"key": key}, **asked))
    assert files(tmp_path / "spark") == files(tmp_path / "local")


@pytest.mark.parametrize(
    ("name", "asked"),
    [("first", {"keep": "max:score"}), full("earlier", {})],
    ids=["a run", "files"],
)
def test_earlier_documents_are_never_removed(
    spark: Any, tmp_path: Path, name: str, asked: batch_engine.Row
) -> None:
    rows = batch_engine.rows(11, 160)
    words = [f"word{number}" for number in range(60)]
    scored = [
        {"text": " ".join(some), "score": score}
        for some, score in ((words[:42], 1), (words[18:], 9), (words, 5))
    ]
    earlier = batch_engine.write(tmp_path / "earlier", [*rows[:80], *scored[:2]])
    new = batch_engine.write(tmp_path / "new", [*rows[40:], *scored[2:]])
    saved = {"save_sketches": True}
    batch_engine.go(earlier, tmp_path / "first", others=saved, keep="max:score")
    others = {"against": (tmp_path / name,)}
    batch_engine.go(new, tmp_path / "local", others=others, **asked)
    run_on_spark(spark, batch_engine.job(new, tmp_path / "spark", others=others, **asked))
    assert files(tmp_path / "spark") == files(tmp_path / "local")
    assert record(tmp_path / "spark")["counts"] == record(tmp_path / "local")["counts"]


def test_another_specification_is_refused(spark: Any, tmp_path: Path) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(1, 20))
    batch_engine.go(paths, tmp_path / "first", others={"save_sketches": True})
    with pytest.raises(SpecMismatch, match="seed"):
        others = {"against": (tmp_path / "first",)}
        run_on_spark(spark, batch_engine.job(paths, tmp_path / "out", seed=7, others=others))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("count", [2, full(3)])
def test_bad_files_are_reported_or_skipped(spark: Any, tmp_path: Path, count: int) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(1, 40))
    bad = [tmp_path / "in" / f"bad{number}.jsonl.gz" for number in range(count)]
    for path in bad:
        path.write_bytes(b"\x1f\x8b no gzip at all")
    with pytest.raises(InputError, match=r"bad\d\.jsonl\.gz"):
        run_on_spark(spark, batch_engine.job([*paths, *bad], tmp_path / "out"))
    job = batch_engine.job([*paths, *bad], tmp_path / "out", others={"skip_bad_files": True})
    run_on_spark(spark, job)
    skipped = record(tmp_path / "out")["skipped_files"]
    assert [Path(one["file"]).name for one in skipped] == [path.name for path in bad]


def test_a_bad_row_stops_a_strict_run(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "one two three four"}\n{"text": 5}\n')
    with pytest.raises(RowError, match=r"rows\.jsonl, row 1: "):
        run_on_spark(spark, batch_engine.job([path], tmp_path / "out", others={"strict": True}))


@pytest.mark.slow
def test_inputs_without_documents(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    path.write_text("\n")
    run_on_spark(spark, batch_engine.job([path], tmp_path / "out"))
    assert record(tmp_path / "out")["counts"]["documents"] == 0


@pytest.mark.parametrize("first", ["spark", "local"])
def test_a_stopped_run_goes_on_with_either_backend(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(9, 60))
    batch_engine.go(paths, tmp_path / "whole")
    job = batch_engine.job(paths, tmp_path / "out")
    jobs = {"local": job, "spark": batch_engine.on_spark(spark, job)}

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(batch_run, "write_tables", stop)
        run_job(jobs.pop(first), batch_engine.Silent())
    made = tmp_path / "out" / ".unfinished"
    stages = ("shards", "buckets", "sets")
    before = {path: path.stat().st_mtime_ns for stage in stages for path in made.glob(f"{stage}/*")}
    assert {path.parent.name for path in before} == set(stages)
    progress = batch_engine.Silent()
    write = batch_run.write_tables

    def look(*given: Any) -> Any:
        assert before == {path: path.stat().st_mtime_ns for path in before}
        return write(*given)

    monkeypatch.setattr(batch_run, "write_tables", look)
    (other,) = jobs.values()
    run_job(other, progress)
    assert any("resuming" in said for said in progress.said)
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def test_an_error_of_the_caller_cancels_the_tasks(spark: Any) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(SparkBackend(lambda: spark).run(wait_long, [1, 2], 1, stop))
    while spark.sparkContext.statusTracker().getActiveJobsIds():
        assert time.monotonic() < begun + 30
        time.sleep(0.1)


def wait_long(items: Any, _threads: int, _advance: Any) -> Any:
    for _ in items:
        time.sleep(60)
        yield None


def test_an_index_is_an_earlier_corpus(spark: Any, tmp_path: Path) -> None:
    rows = batch_engine.rows(11, 120)
    with neardup.Index.open(tmp_path / "ix", **batch_engine.SMALL) as index:
        index.add_batch([f"e{at}" for at in range(60)], [row["text"] for row in rows[:60]])
    paths = batch_engine.write(tmp_path / "in", rows[30:])
    with open_indexes([str(tmp_path / "ix")]) as stored:
        others = {"against": (tmp_path / "ix",), "stored": stored}
        batch_engine.go(paths, tmp_path / "local", others=others)
        run_on_spark(spark, batch_engine.job(paths, tmp_path / "spark", others=others))
    assert files(tmp_path / "spark") == files(tmp_path / "local")
    removed = batch_engine.table(tmp_path / "spark", "removed")
    assert any(row["witness"].startswith("e") for row in removed)


def test_files_of_lost_attempts_are_not_in_the_output(spark: Any, tmp_path: Path) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(9, 60))
    job = batch_engine.job(paths, tmp_path / "out", others={"save_sketches": True})
    lost = [tmp_path / f"out/.unfinished/{name}/.a.0123abcd.tmp" for name in ("kept", "shards")]

    def leave(*_: Any) -> None:
        for path in lost:
            path.parent.mkdir(exist_ok=True)
            path.write_text("the begin of a text")

    class LosesMachines(SparkBackend):
        def run(self, *given: Any) -> Any:
            leave()
            return super().run(*given)

    run_job(replace(job, backend=LosesMachines(lambda: spark)), batch_engine.Silent())
    assert not list((tmp_path / "out").rglob(".a.*"))


def test_nothing_to_count_is_counted(spark: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl.gz"
    bad.write_bytes(b"\x1f\x8b no gzip at all")
    others = {"skip_bad_files": True}
    job = batch_engine.job([bad], tmp_path / "out", others=others, strip="lines:20%")
    run_on_spark(spark, job)
    assert record(tmp_path / "out")["counts"]["documents"] == 0


@pytest.mark.slow
def test_completed_shards_are_not_read_again_after_a_bad_file(spark: Any, tmp_path: Path) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(1, 40))
    bad = tmp_path / "in" / "zzz.jsonl.gz"
    bad.write_bytes(b"\x1f\x8b no gzip at all")
    others = {"skip_bad_files": True}
    progress = run_on_spark(spark, batch_engine.job([*paths, bad], tmp_path / "out", others=others))
    assert any("resuming" in said for said in progress.said)


def test_tasks_write_the_new_columns_of_rows(tmp_path: Path, spark: Any) -> None:
    inputs = batch_engine.write(tmp_path / "in", batch_engine.rows(5, 120), files=4)
    annotated = {"others": {"annotate": "all"}}
    run_on_spark(spark, batch_engine.job(inputs, tmp_path / "spark", **annotated))
    batch_engine.go(inputs, tmp_path / "local", **annotated)
    there, here = (batch_engine.outcome(tmp_path / name).kept for name in ("spark", "local"))
    assert there == here and b"cluster_size" in b"".join(here.values())
