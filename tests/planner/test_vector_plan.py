"""A plan of vectors: the planes and the cost of the run that follows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.command_line import dedup, neardup, refused
from support.embeddings import crowd, plant_copies, unit

import neardup as library
from neardup.errors import ParameterError

COUNT, DIMENSION = 4_000, 32


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chance = np.random.default_rng(3)
    originals = unit(chance.standard_normal((COUNT // 2, DIMENSION)).astype(np.float32))
    copies = plant_copies(originals, np.full(COUNT // 2, 0.97), 5)
    vectors = crowd(np.vstack([originals, copies]), 0.5)
    words = [f"w{number}" for number in chance.integers(0, 3_000, 20 * COUNT)]
    texts = [" ".join(words[20 * row : 20 * row + 20]) for row in range(COUNT)]
    folder = tmp_path_factory.mktemp("planned")
    pq.write_table(pa.table({"text": texts, "v": vectors.tolist()}), folder / "in.parquet")
    np.save(folder / "v.npy", vectors)
    return folder


@pytest.mark.parametrize(
    "asked",
    [["--vectors", "v", "--cosine", "0.96"], ["--also", "v:0.96"], ["--unless", "v:0.9"]],
    ids=lambda asked: asked[0],
)
def test_the_run_that_follows_has_the_planned_planes_and_costs(
    inputs: Path, tmp_path: Path, asked: list[str]
) -> None:
    source, config = inputs / "in.parquet", tmp_path / "plan.toml"
    ran = neardup(
        "plan", "--sample", source, *asked, "--no-calibrate", "--cores", 2, "--json", "-o", config
    )
    assert ran.code == 0, ran.err
    planned = json.loads(ran.out)
    dedup(source, "-o", tmp_path / "out", "--config", config, "-q")
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    vectors, parameters = planned["vectors"], record["parameters"]
    assert planned["sla"]["documents"] == pytest.approx(COUNT, rel=0.01)
    assert (vectors["role"], vectors["dimension"]) == (parameters["role"], DIMENSION)
    assert vectors["planes"] == parameters["planes"]
    if vectors["planes"] is None:
        assert vectors["recall"] is None and vectors["compared"] is None
    else:
        predicted = record["predicted"]
        recall = predicted.get("recall_at_cosine", predicted["recall_at_threshold"])
        assert vectors["recall"] == pytest.approx(recall, abs=0.005)
        compared = record["metrics"]["candidate_pairs_per_doc"]
        assert 0.5 * compared - 1 < planned["predicted"]["compared"] < 2 * compared + 1
    names = [choice["name"] for choice in planned["choices"]]
    assert ("planes" in names) == (vectors["planes"] is not None)
    assert ("bands" in names) == (vectors["role"] != "alone")
    assert [stage["name"] for stage in planned["predicted"]["stages"]][1:] == [
        stage["name"] for stage in record["stages"]
    ]


def test_vectors_cost_disk_and_time(inputs: Path) -> None:
    asked: dict[str, Any] = {"sample": inputs / "in.parquet", "calibrate": False, "cores": 2}
    texts = library.plan(**asked)
    vetoed = library.plan(**asked, unless="v:0.9")
    both = library.plan(**asked, also="v:0.96")
    assert texts.vectors is None and "vectors" not in texts.to_json()
    assert texts.predicted.seconds < vetoed.predicted.seconds < both.predicted.seconds
    assert texts.predicted.disk <= vetoed.predicted.disk < both.predicted.disk
    assert both.options["also"] == "v:0.96" and both.options["planes"] == both.vectors.planes
    assert both.predicted.recall == texts.predicted.recall


def test_more_documents_are_planned_with_rarer_keys(inputs: Path) -> None:
    few, many = (
        library.plan(
            count,
            sample=inputs / "in.parquet",
            vectors=str(inputs / "v.npy"),
            cosine=0.96,
            calibrate=False,
        )
        for count in (None, "50M")
    )
    assert few.vectors.sampled == 2_048 and few.is_of_vectors
    rows = [int(plan.vectors.planes.split("x")[1]) for plan in (few, many)]
    assert rows[0] < rows[1] and many.predicted.disk > 1_000 * few.predicted.disk


def test_given_planes_that_find_too_little_are_a_missed_requirement(inputs: Path) -> None:
    asked = ["--sample", inputs / "in.parquet", "--vectors", "v", "--cosine", "0.96"]
    ran = neardup("plan", *asked, "--planes", "2x20", "--no-calibrate", "-q")
    refused(ran, 1, "2 bands of 20 planes reach 0.", "leave out --planes")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--engine", "spark"], "leave out --engine"),
        (["--rate", "100"], "leave out --engine, --rate and --for"),
        (["--threshold", "0.9"], "--cosine is the threshold"),
        (["--embed", "a:b"], "a plan calls no function"),
        (["--vectors", "w"], "no column 'w'"),
    ],
)
def test_what_a_plan_of_vectors_has_no_figures_for(
    inputs: Path, more: list[str], said: str
) -> None:
    asked = ["--sample", inputs / "in.parquet", "--vectors", "v", "--cosine", "0.96"]
    refused(neardup("plan", *asked, *more, "--no-calibrate"), 2, said)


def test_vectors_are_planned_by_a_sample_only() -> None:
    with pytest.raises(ParameterError, match="give some of them by --sample"):
        library.plan("1M", also="v:0.9")
