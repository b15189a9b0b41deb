"""A sample of vectors stands for all of them: their centre, their planes, the space they need."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import dedup, neardup, refused
from support.embeddings import crowd, plant_copies, unit

from neardup.lsh.planes import VectorCounts

COUNT, DIMENSION = 6_000, 32


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    chance = np.random.default_rng(3)
    originals = unit(chance.standard_normal((COUNT // 2, DIMENSION)).astype(np.float32))
    copies = plant_copies(originals, np.full(COUNT // 2, 0.97), 5)
    return crowd(np.vstack([originals, copies]), 0.5)


@pytest.fixture(scope="module")
def inputs(vectors: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    texts = [f"text {number} with some words of its own {number * 7}" for number in range(COUNT)]
    pq.write_table(pa.table({"text": texts, "v": vectors.tolist()}), folder / "in.parquet")
    np.save(folder / "v.npy", vectors)
    return folder


def test_the_centre_of_a_sample_is_not_that_of_more_vectors_of_zero(vectors: np.ndarray) -> None:
    """The sums of a sample were divided by the documents of the corpus."""
    counts = VectorCounts()
    counts.add(vectors[:500], np.random.default_rng(1).integers(0, 2**64, (500, 2), np.uint64))
    more = counts.scaled_to(1_000_000)
    assert more.documents == 1_000_000 and counts.documents == 500
    assert np.abs(more.centre(DIMENSION) - counts.centre(DIMENSION)).max() <= 1
    assert np.abs(counts.centre(DIMENSION)).max() > 1_000
    assert counts.scaled_to(10).documents == 500


@pytest.mark.parametrize(
    "asked", [["--vectors", "v", "--cosine", 0.95], ["--also", "v:0.95"], ["beside"]], ids=str
)
def test_the_estimate_of_disk_space_has_the_planes(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[object]
) -> None:
    used: list[int] = []

    def note(work: Path) -> None:
        used.append(sum(path.stat().st_size for path in work.rglob("*") if path.is_file()))

    monkeypatch.setattr("neardup.pipeline.output._remove_quietly", note)
    asked = ["--also", f"{inputs / 'v.npy'}:0.95"] if asked == ["beside"] else asked
    ran = neardup("dedup", inputs / "in.parquet", "-o", tmp_path / "out", "--no-kept", *asked)
    need = re.search(r"will need about ([\d.]+) (kB|MB) of disk", ran.err)
    assert need is not None, ran.err
    assert 0.7 < float(need[1]) * {"kB": 1e3, "MB": 1e6}[need[2]] / max(used) < 1.5


def test_a_threshold_below_all_cosines_is_refused_with_a_cure_that_works(tmp_path: Path) -> None:
    vectors = np.random.default_rng(5).normal(1, 0.1, (300, 24)).astype(np.float32)
    pq.write_table(pa.table({"v": vectors.tolist()}), tmp_path / "in.parquet")
    run = ["dedup", tmp_path / "in.parquet", "-o", tmp_path / "out", "--vectors", "v"]
    for more in (["-q"], ["--dry-run"]):
        said = "use a higher cosine, or --centre none, which finds them"
        refused(neardup(*run, *more, "--cosine", 0.5), 2, said)
    dedup(*run[1:], "-q", "--cosine", 0.5, "--centre", "none")
    assert json.loads((tmp_path / "out" / "run.json").read_text())["counts"]["kept"] == 1


def test_a_dry_run_plans_for_vectors_beside(inputs: Path, tmp_path: Path) -> None:
    run = ["dedup", inputs / "in.parquet", "-o", tmp_path / "out", "--dry-run"]
    lines = [
        next(line for line in neardup(*run, *asked).out.splitlines() if line.startswith("planes"))
        for asked in (["--also", "v:0.95"], ["--also", f"{inputs / 'v.npy'}:0.95"])
    ]
    (bands, rows), (others, of) = (re.findall(r"(\d+) bands of (\d+)", line)[0] for line in lines)
    assert rows == of and abs(int(bands) - int(others)) < 0.2 * int(bands)
    assert "by 2,048 documents" in lines[1]
