"""The estimate before a run: near the truth where lengths vary, and honest where it can't be."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import neardup, refused, write_jsonl

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.corpus.shards import SHARD, Reading, cut_shards
from neardup.pipeline import disk_estimate
from neardup.pipeline.disk_estimate import CorpusEstimate


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Documents that are sorted by length: 80 long ones, then 12,000 short ones."""
    lengths = [20_000] * 80 + [150] * 12_000
    return [
        {"id": str(n), "text": f"{n} word " * (length // 9)} for n, length in enumerate(lengths)
    ]


@pytest.fixture(scope="module")
def sources(
    rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    plain = write_jsonl(folder / "plain.jsonl", rows)
    (folder / "packed.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes(), 1))
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, folder / "table.parquet", row_group_size=500)
    (folder / "texts").mkdir()
    for n in range(100):
        (folder / "texts" / f"{n:03}.txt").write_text("word " * (20_000 if n < 10 else 200))
    kinds = {"plain": "plain.jsonl", "packed": "packed.jsonl.gz", "table": "table.parquet"}
    return {kind: folder / name for kind, name in kinds.items()} | {"texts": folder / "texts"}


def estimate(path: Path, shard: int = SHARD) -> CorpusEstimate:
    shards = cut_shards(find_inputs([path]), Reading(Columns(), shard=shard))
    return CorpusEstimate.of(shards)


@pytest.mark.parametrize("shard", [SHARD, 700_000])
@pytest.mark.parametrize("kind", ["plain", "table", "texts"])
def test_documents_are_counted_where_the_first_ones_are_longer(
    sources: dict[str, Path], kind: str, shard: int
) -> None:
    """About 3,798 documents were announced of 27,357: those at the beginning were the longest."""
    found, truth = estimate(sources[kind], shard), 100 if kind == "texts" else 12_080
    assert abs(found.documents - truth) <= max(2.5 * found.error, 0.03) * truth
    assert found.error < 0.35 and not found.missed


def test_a_range_is_stated_where_documents_differ(sources: dict[str, Path], tmp_path: Path) -> None:
    ran = neardup("dedup", sources["plain"], "-o", tmp_path / "out", "--dry-run")
    line = ran.out.splitlines()[0]
    fewest, most = (int(n.replace(",", "")) for n in line.split("about ")[1].split()[:3:2])
    assert fewest < 12_080 < most and "MB to " in ran.out


def test_the_beginning_of_a_compressed_file_is_no_more_than_a_guess(
    sources: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_estimate, "SEQUENCE", 2)
    assert estimate(sources["packed"]).missed
    ran = neardup("dedup", sources["packed"], "-o", tmp_path / "out", "--dry-run")
    assert "perhaps " in ran.out and "by the beginning of files" in ran.out


def test_few_documents_are_counted(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", [{"text": f"a text {n}"} for n in range(17)])
    assert estimate(source) == CorpusEstimate(17.0, 17 * 8 + 7.0)
    assert estimate(tmp_path / "a.jsonl", shard=100).documents == 17


def test_little_is_read_for_it(sources: dict[str, Path]) -> None:
    for kind in ("plain", "table"):
        shards = cut_shards(find_inputs([sources[kind]]), Reading(Columns()))
        read = sum(sample.stored for sample in disk_estimate.read_samples(shards))
        assert read <= disk_estimate.SAMPLES * (disk_estimate.SAMPLE + 25_000)


@pytest.mark.parametrize(
    ("free", "options", "cure"),
    [
        (1_000, [], "free some space\n"),
        (1_000, ["--no-kept"], "free some space\n"),
        (3_000_000, [], "or leave out the kept files with --no-kept\n"),
    ],
)
def test_a_full_disk_is_answered_by_what_would_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, options: list[str], cure: str
) -> None:
    """It said "use --no-kept" when that was given, and when it would not help."""
    row = json.dumps({"text": "word " * 10_000}) + "\n"
    (tmp_path / "a.jsonl").write_text(row * 60)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    ran = neardup("dedup", tmp_path / "a.jsonl", "-o", tmp_path / "out", "-q", *options)
    refused(ran, 1, "the run will need about", "choose an output on another disk")
    assert ran.err.endswith(cure)
    assert ("0 B" in ran.err) is False and ("for kept files" in ran.err) is not bool(options)
