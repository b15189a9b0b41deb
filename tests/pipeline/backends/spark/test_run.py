"""A run on Spark leaves the files of a local run, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import batch_engine

from neardup.errors import InputError, RowError, SpecMismatch, UsageError
from neardup.pipeline.backends.spark.arrow import StageTables
from neardup.pipeline.backends.spark.run import find_near_duplicates_on
from neardup.pipeline.backends.spark.tables import OutTables
from neardup.pipeline.run import run_job

ONE_TASK, BY_ROUNDS = 10**9, 4_000
TABLES = ("removed", "clusters", "rejected", "samples")
slow = pytest.mark.slow
QUESTIONS = [
    (ONE_TASK, {}),
    (BY_ROUNDS, {"limit": 2, "threshold": 0.3}),
    pytest.param(BY_ROUNDS, {"keep": "min:score", "verify": "estimate"}, marks=slow),
    pytest.param(BY_ROUNDS, {}, marks=slow),
    pytest.param(BY_ROUNDS, {"limit": 1}, marks=slow),
    pytest.param(BY_ROUNDS, {"keep": "longest"}, marks=slow),
    pytest.param(ONE_TASK, {"keep": "max:score", "limit": 2, "within": "lang"}, marks=slow),
    pytest.param(ONE_TASK, {"verify": "none", "limit": 2}, marks=slow),
    pytest.param(BY_ROUNDS, {"measure": "containment"}, marks=slow),
]


def on_spark(spark: Any, job: Any, memory: int = BY_ROUNDS) -> None:
    run_job(job, batch_engine.Silent(), find_near_duplicates_on(spark, memory))


def files(out: Path) -> dict[str, bytes]:
    """What a run says about documents, and what it kept."""
    kept = {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted((out / "kept").rglob("*"))
        if path.is_file()
    }
    return {name: (out / f"{name}.parquet").read_bytes() for name in TABLES} | kept


def record(out: Path) -> Any:
    """What run.json says, but for how it was done, and for scripts, which Spark does not sample."""
    found = json.loads((out / "run.json").read_bytes())
    done = ("seconds", "stages", "peak_memory_bytes", "memory_budget_bytes", "spark", "scripts")
    for name in done:
        found.pop(name, None)
    for name in ("rounds", "candidate_pairs_per_doc", "verify_drop_rate"):
        del found["metrics"][name]
    found["counts"].pop("comparisons")
    return found


@pytest.mark.parametrize(("memory", "asked"), QUESTIONS, ids=str)
def test_the_answer_is_that_of_the_local_engine(
    spark: Any, tmp_path: Path, memory: int, asked: batch_engine.Row
) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(7, 400, words=22))
    batch_engine.go(paths, tmp_path / "local", **asked)
    on_spark(spark, batch_engine.job(paths, tmp_path / "spark", **asked), memory)
    assert files(tmp_path / "spark") == files(tmp_path / "local")
    assert record(tmp_path / "spark") == record(tmp_path / "local")
    assert len(batch_engine.table(tmp_path / "spark", "removed")) > 20
    told = json.loads((tmp_path / "spark" / "run.json").read_bytes())["spark"]
    assert bool(told["rounds"]) == (memory == BY_ROUNDS)


@pytest.mark.parametrize(
    "partitions", [*(pytest.param(count, marks=slow) for count in (1, 2, 16)), 4]
)
def test_a_hot_bucket_gives_the_answer_with_any_number_of_partitions(
    spark: Any, tmp_path: Path, partitions: int
) -> None:
    header = " ".join(f"boiler{number}" for number in range(60))
    rows = batch_engine.rows(5, 300, words=40)
    for row in rows[::3]:
        row["text"] = f"{header} {row['text']}"
    paths = batch_engine.write(tmp_path / "in", rows)
    batch_engine.go(paths, tmp_path / "local", limit=4)
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        shard = 200_000 // partitions
        on_spark(spark, batch_engine.job(paths, tmp_path / "spark", limit=4, shard=shard))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
        spark.conf.set("spark.sql.adaptive.enabled", "true")
    assert files(tmp_path / "spark") == files(tmp_path / "local")
    assert record(tmp_path / "spark")["hot_buckets"][0]["size"] > 75


@pytest.mark.parametrize(
    ("name", "asked"),
    [("first", {"keep": "max:score"}), pytest.param("earlier", {}, marks=slow)],
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
    on_spark(spark, batch_engine.job(new, tmp_path / "spark", others=others, **asked))
    assert files(tmp_path / "spark") == files(tmp_path / "local")
    assert record(tmp_path / "spark")["counts"] == record(tmp_path / "local")["counts"]


def test_another_specification_is_refused(spark: Any, tmp_path: Path) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(1, 20))
    batch_engine.go(paths, tmp_path / "first", others={"save_sketches": True})
    with pytest.raises(SpecMismatch, match="seed"):
        others = {"against": (tmp_path / "first",)}
        on_spark(spark, batch_engine.job(paths, tmp_path / "out", seed=7, others=others))
    assert not (tmp_path / "out").exists()


def test_bad_files_are_reported_or_skipped(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(1, 40))
    bad = [tmp_path / "in" / f"bad{number}.jsonl.gz" for number in range(3)]
    for path in bad:
        path.write_bytes(b"\x1f\x8b no gzip at all")
    with pytest.raises(InputError, match=r"bad\d\.jsonl\.gz"):
        on_spark(spark, batch_engine.job([*paths, *bad], tmp_path / "out"))
    begun: list[str] = []
    begin = StageTables.begin
    monkeypatch.setattr(StageTables, "begin", lambda *given: begun.append("") or begin(*given))
    job = batch_engine.job([*paths, *bad], tmp_path / "out", others={"skip_bad_files": True})
    on_spark(spark, job)
    skipped = record(tmp_path / "out")["skipped_files"]
    assert [Path(one["file"]).name for one in skipped] == [path.name for path in bad]
    assert len(begun) == 2, "all are found at once"


def test_a_bad_row_stops_a_strict_run(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "one two three four"}\n{"text": 5}\n')
    with pytest.raises(RowError, match=r"rows\.jsonl, row 1: "):
        on_spark(spark, batch_engine.job([path], tmp_path / "out", others={"strict": True}))


@pytest.mark.parametrize("others", [{"merge_rows": True}, {"save_sketches": True}], ids=str)
def test_unsupported_options_are_refused(
    spark: Any, tmp_path: Path, others: batch_engine.Row
) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(1, 5))
    with pytest.raises(UsageError, match="is not supported with --engine spark"):
        on_spark(spark, batch_engine.job(paths, tmp_path / "out", others=others))


def test_inputs_without_documents(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    path.write_text("\n")
    on_spark(spark, batch_engine.job([path], tmp_path / "out"))
    assert record(tmp_path / "out")["counts"]["documents"] == 0


def test_a_stopped_run_resumes(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(9, 60))
    batch_engine.go(paths, tmp_path / "local")

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(OutTables, "write", stopped)
        on_spark(spark, batch_engine.job(paths, tmp_path / "spark"))
    made = tmp_path / "spark" / ".unfinished" / "spark"
    before = {path: path.stat().st_mtime_ns for path in made.glob("*/_SUCCESS")}
    assert {"sketches", "copies", "buckets", "sets", "decided"} <= {p.parent.name for p in before}
    progress = batch_engine.Silent()
    with monkeypatch.context() as patch:
        told = OutTables.write

        def looked(self: OutTables) -> Any:
            assert before == {path: path.stat().st_mtime_ns for path in before}
            return told(self)

        patch.setattr(OutTables, "write", looked)
        job = batch_engine.job(paths, tmp_path / "spark")
        run_job(job, progress, find_near_duplicates_on(spark, BY_ROUNDS))
    assert any("resuming" in said for said in progress.said)
    assert files(tmp_path / "spark") == files(tmp_path / "local")


@slow
def test_other_inputs_discard_the_stopped_run(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = batch_engine.write(tmp_path / "in", batch_engine.rows(9, 60))
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(OutTables, "write", lambda _: 1 / 0)
        on_spark(spark, batch_engine.job(paths, tmp_path / "spark", threshold=0.9))
    batch_engine.go(paths, tmp_path / "local")
    on_spark(spark, batch_engine.job(paths, tmp_path / "spark"))
    assert files(tmp_path / "spark") == files(tmp_path / "local")
