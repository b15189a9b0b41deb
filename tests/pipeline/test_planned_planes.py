"""A dry run plans the planes of vectors as the run does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import dedup, neardup, refused
from support.embeddings import plant_copies


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    chance = np.random.default_rng(3)
    originals = chance.standard_normal((150, 24)).astype(np.float32)
    return np.vstack([originals, plant_copies(originals, chance.uniform(0.9, 1.0, 150))])


def write(path: Path, vectors: np.ndarray) -> Path:
    texts = [f"text {number}" for number in range(len(vectors))]
    pq.write_table(pa.table({"text": texts, "v": vectors.tolist()}), path)
    return path


@pytest.mark.parametrize(
    "asked", [["--vectors", "v", "--cosine", 0.9], ["--also", "v:0.95", "--recall", 0.9]], ids=str
)
def test_dry_run_has_the_planes_of_the_run(
    tmp_path: Path, vectors: np.ndarray, asked: list[object]
) -> None:
    file = write(tmp_path / "in.parquet", vectors)
    planned = neardup("dedup", file, "-o", tmp_path / "out", "--dry-run", *asked)
    assert planned.code == 0 and not (tmp_path / "out").exists()
    dedup(file, "-o", tmp_path / "out", "-q", *asked)
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    bands, rows = record["parameters"]["planes"].split("x")
    assert f"planes     about {bands} bands of {rows} planes, by 300 documents" in planned.out
    predicted = record["predicted"]
    recall = predicted.get("recall_at_cosine", predicted["recall_at_threshold"])
    assert f"recall at cosine {record['parameters']['cosine']:g} {recall:.3f}" in planned.out
    assert re.search(r"and \d+\.\d pairs a document that are compared in vain", planned.out)


def test_dry_run_refuses_what_the_run_would(tmp_path: Path) -> None:
    vectors = np.random.default_rng(4).standard_normal((120_000, 8)).astype(np.float32)
    file = write(tmp_path / "in.parquet", vectors)
    asked = ["dedup", file, "-o", tmp_path / "out", "--vectors", "v", "--cosine", 0.2]
    for more in (["--dry-run"], ["-q"]):
        refused(neardup(*asked, *more), 2, "would be compared in vain")
