"""Results of a run over files besides its decisions, which tests/contract compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support import batch_engine
from support.command_line import neardup as neardup_command

import neardup
from neardup.pipeline.stages import pairs as stages_pairs


def by_library(documents: list[batch_engine.Row], **asked: Any) -> neardup.Result:
    schema = pa.schema(
        [("id", pa.string()), ("text", pa.string()), ("score", pa.float64()), ("lang", pa.string())]
    )
    return neardup.dedup(pa.Table.from_pylist(documents, schema), **batch_engine.SMALL | asked)


@pytest.mark.parametrize("measure", ["jaccard", "containment"])
def test_pairs_equal_those_of_the_library(tmp_path: Path, measure: str) -> None:
    documents = batch_engine.rows(5, 120)
    paths = batch_engine.write(tmp_path / "in", documents)
    batch_engine.go(
        paths, tmp_path / "out", others={"pairs": True}, keep="longest", measure=measure
    )
    got = [tuple(row.values()) for row in batch_engine.table(tmp_path / "out", "pairs")]
    want = by_library(documents, keep="longest", measure=measure).pairs
    assert sorted(got) == sorted((pair.a, pair.b, pair.similarity) for pair in want)
    assert len(got) > 50


def test_pairs_beyond_the_most_are_counted_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = batch_engine.write(tmp_path / "in", [{"text": "all the same"}] * 10)
    monkeypatch.setattr(stages_pairs, "MOST_WRITTEN", 30)
    ran = neardup_command("dedup", *paths, "-o", tmp_path / "out", "--pairs")
    assert ran.code == 0
    assert "pairs.parquet has 30 of 45 similar pairs" in ran.err
    assert len(batch_engine.table(tmp_path / "out", "pairs")) == 30


def test_empty_inputs_give_empty_tables(tmp_path: Path) -> None:
    for name, content in (("none", b""), ("blank", b"\n\n"), ("one", b'{"text": "alone"}\n')):
        (tmp_path / f"{name}.jsonl").write_bytes(content)
        for cluster in ("stars", "components"):
            out = tmp_path / f"{name}-{cluster}"
            got = batch_engine.go(
                [tmp_path / f"{name}.jsonl"], out, cluster=cluster, others={"pairs": True}
            )
            assert got.removed == got.clusters == got.rejected == []
            assert got.kept == {f"{name}.jsonl".encode(): content if name == "one" else b""}


def test_copies_of_one_page_are_never_compared(tmp_path: Path) -> None:
    documents = [{"id": f"d{number}", "text": "a page that all copy"} for number in range(900)]
    paths = batch_engine.write(tmp_path / "in", documents)
    got = batch_engine.go(paths, tmp_path / "out")
    assert {row["witness"] for row in got.removed} == {"d0"}
    assert (got.counts["removed"], got.counts["identical"]) == (899, 899)


def test_strict_names_the_row_at_every_shard_size(tmp_path: Path) -> None:
    documents = [{"text": f"text number {number}"} for number in range(200)]
    documents[137] = {"text": " "}
    paths = batch_engine.write(tmp_path / "in", documents, files=1)
    for shard in (300, 1_000, 1 << 20):
        with pytest.raises(neardup.errors.RowError, match="row 137: empty"):
            batch_engine.go(
                paths, tmp_path / "out", shard=shard, chunk=100, others={"strict": True}
            )
