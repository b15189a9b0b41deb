"""Labels choose the least cosine of vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import command_line
from support.command_line import dedup, refused
from support.embeddings import plant_copies, unit

import neardup
from neardup.errors import ParameterError, UsageError

PAIRS, DIMENSION = 80, 24
GOLDEN = [(f"d{row}", f"d{row + PAIRS}", int(row < PAIRS // 2)) for row in range(PAIRS)]
"""The first half are duplicates, of cosines from 0.87 on; the others have cosines below 0.8."""


@pytest.fixture(scope="module")
def table() -> pa.Table:
    chance = np.random.default_rng(1)
    originals = unit(chance.standard_normal((PAIRS, DIMENSION)).astype(np.float32))
    near, far = chance.uniform(0.87, 1, PAIRS // 2), chance.uniform(0.6, 0.8, PAIRS // 2)
    vectors = np.vstack([originals, plant_copies(originals, np.r_[near, far], 3)])
    names = [f"d{row}" for row in range(2 * PAIRS)]
    texts = [f"text {row % PAIRS} of {row * 7} words" for row in range(2 * PAIRS)]
    return pa.table({"id": names, "text": texts, "v": vectors.tolist()})


@pytest.mark.parametrize(
    "given",
    [
        {"vectors": "v", "cosine": 0.99},
        {"also": "v:0.99"},
        {"unless": "v:0.1", "threshold": 0.2, "shingle": "word:1"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_labels_choose_the_cosine_between_both_kinds(
    table: pa.Table, given: dict[str, Any]
) -> None:
    tuning = neardup.tune(table, golden=GOLDEN, **given)
    chosen = tuning.labels.chosen.threshold
    assert tuning.labels.changed and 0.8 < chosen <= 0.9
    assert tuning.labels.held_out.f1.value > 0.9
    (name,) = given.keys() & {"vectors", "also", "unless"}
    assert tuning.options == given | (
        {"cosine": chosen} if name == "vectors" else {name: f"v:{chosen!r}"}
    )
    removed = {row.id for row in neardup.dedup(table, id="id", **tuning.options).removed}
    assert {b for _, b, label in GOLDEN if label} >= removed
    assert len(removed) > 0.8 * PAIRS / 2
    assert any("A run over these documents has" in one for one in tuning.reasons) == (
        name != "unless"
    )


def test_few_labels_change_nothing(table: pa.Table) -> None:
    few = GOLDEN[:6] + GOLDEN[-6:]
    tuning = neardup.tune(table, golden=few, vectors="v", cosine=0.99)
    assert tuning.options == {"vectors": "v", "cosine": 0.99}
    assert "too few labels" in " ".join(tuning.reasons)


def test_the_command_writes_a_config_that_dedup_takes(table: pa.Table, tmp_path: Path) -> None:
    source, labels = tmp_path / "in.parquet", tmp_path / "labels.tsv"
    pq.write_table(table, source)
    rows = ["\t".join(map(str, pair)) for pair in [("id1", "id2", "label"), *GOLDEN]]
    labels.write_text("\n".join(rows))
    asked = ["tune", source, "--golden", labels, "--also", "v:0.99"]
    ran = command_line.neardup(*asked, "-o", tmp_path / "tuned")
    assert ran.code == 0 and "cosine at 0.8" in ran.out and "next: neardup dedup" in ran.out
    tuned = json.loads((tmp_path / "tuned" / "tuning.json").read_bytes())
    dedup(source, "-o", tmp_path / "out", "--config", tmp_path / "tuned" / "tuned.toml", "-q")
    record = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert tuned["options"]["also"] == f"v:{record['parameters']['cosine']!r}"
    again = command_line.neardup(*asked, "-o", tmp_path / "tuned", "--force", "-q")
    assert again.code == 0
    refused(
        command_line.neardup("tune", source, "--also", "v:0.9", "-q"), 2, "give --golden", "plan"
    )


def test_axes_are_of_texts(table: pa.Table) -> None:
    with pytest.raises(ParameterError, match="slots is an axis of trials of texts"):
        neardup.tune(table, golden=GOLDEN, vectors="v", cosine=0.9, slots=64)
    with pytest.raises(UsageError, match="give --golden"):
        neardup.tune(table, vectors="v", cosine=0.9)
