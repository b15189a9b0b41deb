"""The answer does not depend on workers, sizes of shards and chunks, or memory."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import batch_engine
from support.command_line import WRITERS
from support.sizes import each_once, full

from neardup.pipeline import sorting
from neardup.pipeline.sorting import Sorter
from neardup.pipeline.stages import band, compare, decide, pairs, rank
from neardup.pipeline.stages.compare import PairComparer

ASKED: list[batch_engine.Row] = [
    {"limit": 2},
    {"keep": "max:score", "within": "lang"},
    {"distinguish": "lang"},
    {"verify": "estimate", "limit": 1},
    {"cluster": "components"},
]
SIZES = [(400, 1), (90, 1 << 20), (3_000, 40), (1 << 20, 333)]
"""Bytes of shards and of chunks."""


@pytest.fixture(scope="module", params=[200, full(500)])
def inputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    rows = batch_engine.rows(7, request.param)
    return batch_engine.write(tmp_path_factory.mktemp("in"), rows, files=4)


@pytest.fixture(scope="module")
def plain(
    inputs: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, batch_engine.Outcome]:
    """The outcome for each question, of one worker, one shard, one chunk, much memory."""
    folder = tmp_path_factory.mktemp("plain")
    return {
        str(asked): batch_engine.go(inputs, folder / str(n), shard=1 << 26, chunk=1 << 20, **asked)
        for n, asked in enumerate(ASKED)
    }


@pytest.mark.parametrize(("asked", "workers"), each_once(ASKED, [2, 7]), ids=str)
def test_answer_is_the_same_with_any_number_of_workers(
    tmp_path: Path,
    inputs: list[Path],
    plain: dict[str, batch_engine.Outcome],
    asked: batch_engine.Row,
    workers: int,
) -> None:
    got = batch_engine.go(inputs, tmp_path / "out", workers=workers, **asked)
    assert got == plain[str(asked)]
    assert got.counts["removed"] > 50 and got.counts["rejected"] > 2


@pytest.mark.parametrize(("asked", "sizes"), each_once(ASKED, SIZES), ids=str)
def test_answer_is_the_same_at_any_size_of_shards_and_chunks(
    tmp_path: Path,
    inputs: list[Path],
    plain: dict[str, batch_engine.Outcome],
    asked: batch_engine.Row,
    sizes: tuple[int, int],
) -> None:
    shard, chunk = sizes
    workers = 1 + SIZES.index(sizes) % 2
    got = batch_engine.go(
        inputs, tmp_path / "out", shard=shard, chunk=chunk, workers=workers, **asked
    )
    assert got == plain[str(asked)]


class Paths:
    """Records which code paths for small memory budgets were taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slices: list[int] = []
        self.windows = 0
        self.spilled: set[str] = set()
        self.all_sets_fit: set[bool] = set()
        spill, windows, slice_bits = Sorter._spill, decide.cut_windows, rank.count_slice_bits
        init = PairComparer.__init__

        def noted_bits(*given: Any) -> int:
            self.slices.append(1 << slice_bits(*given))
            return slice_bits(*given)

        def noted_windows(*given: Any) -> Iterator[int | None]:
            for bound in windows(*given):
                self.windows += 1
                yield bound

        def noted_spill(sorter: Sorter) -> None:
            self.spilled.add(sorter._path.name)
            spill(sorter)

        def noted_init(comparison: PairComparer, *given: Any) -> None:
            init(comparison, *given)
            self.all_sets_fit.add(comparison._fits)

        for module in (rank, band):
            monkeypatch.setattr(module, "count_slice_bits", noted_bits)
        monkeypatch.setattr(decide, "cut_windows", noted_windows)
        monkeypatch.setattr(Sorter, "_spill", noted_spill)
        monkeypatch.setattr(PairComparer, "__init__", noted_init)


@pytest.mark.parametrize(("asked", "each"), each_once(ASKED, [700, 8_000]), ids=str)
def test_answer_is_the_same_with_little_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    inputs: list[Path],
    plain: dict[str, batch_engine.Outcome],
    asked: batch_engine.Row,
    each: int,
) -> None:
    monkeypatch.setattr(sorting, "LEAST_BLOCK", 8)
    for module in (decide, pairs):
        monkeypatch.setattr(module, "PAIRS_AT_ONCE", 50)
    monkeypatch.setattr(compare, "PAIRS_PER_CALL", 30)
    monkeypatch.setattr(compare, "MANY_PAIRS", 0)
    monkeypatch.setattr("neardup.pipeline.stages.removed.RECORDS_AT_ONCE", 20)
    monkeypatch.setattr("neardup.pipeline.set_files.SET_BLOCK_BYTES", 500)
    monkeypatch.setattr("neardup.pipeline.set_files.READ_GAP", 100)
    monkeypatch.setattr("neardup.pipeline.sketch_files.BLOCK_ROWS", 7)
    taken = Paths(monkeypatch)
    got = batch_engine.go(
        inputs, tmp_path / "out", budget=batch_engine.Little(each), workers=2, **asked
    )
    assert got == plain[str(asked)]
    assert max(taken.slices) > 1
    if each == 700:
        assert taken.all_sets_fit == {False}
        sorted_pairs = "members" if "cluster" in asked else "needed"
        assert taken.spilled >= {"copies", "removed", "clusters", sorted_pairs}
        assert "cluster" in asked or taken.windows > 10


@pytest.mark.parametrize("keep", [full("first"), full("last"), "max:score"])
def test_answer_is_the_same_if_the_copies_of_one_document_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str
) -> None:
    """The copies of one that is kept, and of one that is removed as similar to it."""
    documents = batch_engine.rows(3, 400)
    for place, row in enumerate(documents):
        if place % 4:
            row["text"] = f"a b c d e f g h i j k l {'m' if place % 4 == 1 else 'n'}"
            row["score"] = place * 7 % 5
    inputs = batch_engine.write(tmp_path / "in", documents)
    want = batch_engine.go(inputs, tmp_path / "plain", keep=keep)
    assert want.counts["identical"] > 290 and len({row["size"] for row in want.clusters}) > 1
    assert max(row["size"] for row in want.clusters) >= 300
    monkeypatch.setattr(sorting, "LEAST_BLOCK", 8)
    monkeypatch.setattr(sorting, "MERGED_AT_ONCE", 3)
    monkeypatch.setattr("neardup.pipeline.stages.removed.RECORDS_AT_ONCE", 20)
    monkeypatch.setattr("neardup.pipeline.sketch_files.BLOCK_ROWS", 7)
    batches: list[int] = []
    read = rank._read_batches

    def noted_batches(*given: Any) -> Iterator[rank.HashedRanks]:
        for batch in read(*given):
            batches.append(len(batch.ranks))
            yield batch

    monkeypatch.setattr(rank, "_read_batches", noted_batches)
    got = batch_engine.go(inputs, tmp_path / "out", budget=batch_engine.Little(700), keep=keep)
    assert got == want
    assert 5 < max(batches) < 30, "the copies are taken in parts"


def test_ample_memory_uses_no_slices_and_spills_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inputs: list[Path]
) -> None:
    taken = Paths(monkeypatch)
    batch_engine.go(inputs, tmp_path / "out")
    assert set(taken.slices) == {1} and taken.spilled == set() and taken.all_sets_fit == {True}


def test_pairs_are_the_same_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inputs: list[Path]
) -> None:
    asked = {"keep": "longest", "others": {"pairs": True}}
    batch_engine.go(inputs, tmp_path / "plain", **asked)
    monkeypatch.setattr(sorting, "LEAST_BLOCK", 8)
    monkeypatch.setattr(pairs, "PAIRS_AT_ONCE", 50)
    monkeypatch.setattr(pairs, "NAMED_AT_ONCE", 20)
    taken = Paths(monkeypatch)
    batch_engine.go(inputs, tmp_path / "little", budget=batch_engine.Little(700), **asked)
    assert taken.spilled >= {"members", "found"}
    written = batch_engine.table(tmp_path / "little", "pairs")
    assert written == batch_engine.table(tmp_path / "plain", "pairs")
    assert len(written) > 80


def test_answer_is_the_same_in_every_file_format(tmp_path: Path) -> None:
    """Small shards of row groups, small chunks of compressed lines: always the same decisions."""
    documents = [
        {"id": f"d{n}", "text": text or " ", "score": float(n % 3), "lang": "x"}
        for n, text in enumerate(batch_engine.texts(3, 120))
    ]
    found = []
    for extension in ("jsonl", "jsonl.gz", "jsonl.zst", "parquet", "csv", "arrow", "arrows"):
        path = tmp_path / f"a.{extension}"
        WRITERS[extension](path, documents)
        got = batch_engine.go(
            [path], tmp_path / extension, keep="max:score", chunk=400, shard=1_500
        )
        found.append([(row["id"], row["witness"], row["similarity"]) for row in got.removed])
    assert all(one == found[0] for one in found)
    assert len(found[0]) > 20


def test_shards_of_text_files_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, text in enumerate(batch_engine.texts(3, 150)):
        (tmp_path / "in" / f"{number:03}.txt").write_text(text)
    outcomes = [
        batch_engine.go([tmp_path / "in"], tmp_path / f"{shard}-{chunk}", shard=shard, chunk=chunk)
        for shard, chunk in ((1 << 20, 1 << 20), (1 << 20, 60), (200, 60), (1, 1))
    ]
    assert all(one == outcomes[0] for one in outcomes)
    assert len(outcomes[0].removed) > 30


def test_answer_is_the_same_with_any_python_hash_seed(tmp_path: Path, inputs: list[Path]) -> None:
    script = """
import sys
from support import batch_engine
from pathlib import Path
from neardup.pipeline.run import run_job
inputs = [Path(path) for path in sys.argv[2:]]
run_job(batch_engine.job(inputs, Path(sys.argv[1]), keep="longest", limit=2), batch_engine.Silent())
"""
    outcomes, records = [], []
    for seed in ("1", "77"):
        out = tmp_path / seed
        environment = batch_engine.environment(PYTHONHASHSEED=seed)
        ran = batch_engine.process(script, out, *inputs, env=environment)
        assert ran.returncode == 0, ran.stderr
        outcomes.append(batch_engine.outcome(out))
        records.append(hashlib.sha256((out / "removed.parquet").read_bytes()).hexdigest())
    assert outcomes[0] == outcomes[1]
    assert len(set(records)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_answer_is_the_same_with_random_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    inputs = batch_engine.write(
        tmp_path / "in", batch_engine.rows(seed, 2_000, words=chance.randint(4, 40))
    )
    asked = chance.choice(ASKED) | {"threshold": chance.choice([0.3, 0.5, 0.8])}
    want = batch_engine.go(inputs, tmp_path / "plain", shard=1 << 26, chunk=1 << 20, **asked)
    for number in range(6):
        monkeypatch.setattr(sorting, "LEAST_BLOCK", chance.choice([4, 50, 4_096]))
        monkeypatch.setattr(decide, "PAIRS_AT_ONCE", chance.choice([20, 1_000]))
        got = batch_engine.go(
            inputs,
            tmp_path / str(number),
            workers=chance.randint(1, 7),
            shard=chance.choice([500, 5_000, 100_000]),
            chunk=chance.choice([100, 1_000, 1 << 20]),
            budget=batch_engine.Little(chance.choice([1_000, 30_000, 1 << 28])),
            **asked,
        )
        assert got == want
