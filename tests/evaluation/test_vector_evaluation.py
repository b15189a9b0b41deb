"""Evaluations of documents with vectors: the numbers are those of the engine itself."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from support.command_line import Ran, neardup
from support.embeddings import plant_copies
from support.golden_set import planted

import neardup as library
from neardup.errors import InputError, UsageError
from neardup.evaluation.evaluation import evaluate
from neardup.evaluation.scores import Scores
from neardup.report.evaluation_page import evaluation_page

DIMENSION = 16
embedder: Any = ModuleType("embedder")
sys.modules["embedder"] = embedder
POINTS: list[dict[str, Any]] = [
    {"vectors": "v", "cosine": 0.9},
    {"vectors": "v", "cosine": 0.9, "planes": "2x4", "centre": "none"},
    {"also": "v:0.95"},
    {"also": "v:0.9", "threshold": 0.6, "planes": "2x4"},
    {"unless": "v:0.9", "threshold": 0.5},
    {"unless": "v:0.9", "threshold": 0.5, "bands": 2, "rows": 8},
]


@dataclass(frozen=True)
class LabelledVectors:
    """Documents with texts and vectors, their pairs with labels, and their exact figures."""

    table: pa.Table
    golden: list[tuple[str, str, int]]
    label: np.ndarray
    jaccard: np.ndarray
    cosine: np.ndarray

    def similar(self, point: dict[str, Any]) -> np.ndarray:
        """Which pairs are similar, by the definition of each role."""
        by_text = self.jaccard >= point.get("threshold", 0.8)
        if "vectors" in point:
            return self.cosine >= point["cosine"]
        (given,) = (point[role] for role in ("also", "unless") if role in point)
        by_vector = self.cosine >= float(given.rpartition(":")[2])
        return by_text | by_vector if "also" in point else by_text & by_vector


@pytest.fixture(scope="module")
def labelled() -> LabelledVectors:
    """The planted texts; documents of one pair have vectors at cosines around the threshold."""
    planted_set = planted()
    chance = np.random.default_rng(7)
    place = {row["id"]: number for number, row in enumerate(planted_set.rows)}
    vectors = chance.standard_normal((len(place), DIMENSION)).astype(np.float32)
    duplicates = [(place[a], place[b]) for a, b, label in planted_set.golden if label]
    first, second = np.array(duplicates).T
    vectors[second] = plant_copies(vectors[first], chance.uniform(0.8, 1.0, len(first)))
    texts = {row["id"]: row["text"] for row in planted_set.rows}
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    a, b = np.array([[place[x], place[y]] for x, y, _ in planted_set.golden]).T
    return LabelledVectors(
        pa.table({"id": list(place), "text": list(texts.values()), "v": vectors.tolist()}),
        planted_set.golden,
        np.array([bool(one[2]) for one in planted_set.golden]),
        np.array([library.similarity(texts[x], texts[y]) for x, y, _ in planted_set.golden]),
        np.sum(units[a] * units[b], axis=1),
    )


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_predictions_equal_dedup_and_similarity_the_definition(
    labelled: LabelledVectors, point: dict[str, Any]
) -> None:
    found = evaluate(labelled.golden, corpus=labelled.table, **point)
    pairs = {frozenset((p.a, p.b)) for p in library.dedup(labelled.table, id="id", **point).pairs}
    predicted = np.array([frozenset(pair[:2]) in pairs for pair in labelled.golden])
    assert found.labels == Scores.of(predicted, labelled.label)
    assert found.similarity == Scores.of(predicted, labelled.similar(point))
    assert 0 < found.labels.tp < labelled.label.sum()
    assert (found.profile is None) == ("vectors" in point)


def test_best_cosine_is_that_of_all_thresholds(labelled: LabelledVectors) -> None:
    """The sweep has the F1 of every cosine, beside the threshold of the texts."""
    alone = evaluate(labelled.golden, corpus=labelled.table, vectors="v", cosine=0.9)
    beside = evaluate(labelled.golden, corpus=labelled.table, also="v:0.9")
    veto = evaluate(labelled.golden, corpus=labelled.table, unless="v:0.9", threshold=0.5)
    assert alone.cosines is None
    for cosine in (0.5, 0.85, 0.95):
        for sweep, point in (
            (alone.sweep, {"vectors": "v", "cosine": cosine}),
            (beside.cosines, {"also": f"v:{cosine}"}),
            (veto.cosines, {"unless": f"v:{cosine}", "threshold": 0.5}),
        ):
            assert sweep is not None
            want = Scores.of(labelled.similar(point), labelled.label)
            got = sweep.at(cosine)
            assert got == pytest.approx((want.recall.value, want.precision.value, want.f1.value))


def test_what_vectors_change_is_said(labelled: LabelledVectors) -> None:
    beside = evaluate(labelled.golden, corpus=labelled.table, also="v:0.9")
    by_text = labelled.jaccard >= 0.8
    more = int(np.sum(~by_text & (labelled.cosine >= 0.9) & labelled.label))
    assert f"{more} labelled duplicates and 0 other pairs are similar by their" in str(beside)
    assert "also if the cosine of those in 'v' is at least 0.9" in beside.judged
    veto = evaluate(labelled.golden, corpus=labelled.table, unless="v:0.9")
    less = int(np.sum(by_text & (labelled.cosine < 0.9) & labelled.label))
    assert f"{less} labelled duplicates and 0 other pairs have similar texts" in str(veto)
    missed = veto.false_negatives[0]
    assert missed.similarity is not None and missed.cosine is not None
    assert f"cosine {missed.cosine:.2f}" in evaluation_page(veto, "golden", None, [])


def test_a_document_without_a_usable_vector_is_no_pair(labelled: LabelledVectors) -> None:
    rows = labelled.table.to_pylist()
    (first, *_), *_ = labelled.golden
    next(row for row in rows if row["id"] == first)["v"] = None
    used = [pair for pair in labelled.golden if first not in pair]
    for point in POINTS[0], POINTS[2]:
        found = evaluate(labelled.golden, corpus=pa.Table.from_pylist(rows), **point)
        assert len(found.golden) == len(used) < len(labelled.golden)
        assert "empty documents" in found.golden.flaws


@pytest.mark.parametrize("point", [{"cosine": 0.9}, {"also": 0.95}, {"unless": 0.9}], ids=str)
@pytest.mark.parametrize("as_files", [False, True])
def test_vectors_beside_are_judged_as_those_of_a_column(
    labelled: LabelledVectors, tmp_path: Path, point: dict[str, float], as_files: bool
) -> None:
    """A CSV file has no lists: its vectors are in an .npy file, or made of its texts."""
    texts, ((role, least),) = labelled.table.select(["id", "text"]), point.items()
    every = zip(labelled.table["text"].to_pylist(), labelled.table["v"].to_pylist(), strict=True)
    made = dict(every)  # equal texts have one vector
    vectors = np.array([made[text] for text in texts["text"].to_pylist()], np.float32)
    table = texts.append_column("v", [vectors.tolist()])
    np.save(tmp_path / "v.npy", vectors)
    corpus: Any = texts
    if as_files:
        corpus = [tmp_path / "a.csv", tmp_path / "b.csv"]
        pc.write_csv(texts.slice(0, 7), corpus[0])
        pc.write_csv(texts.slice(7), corpus[1])
    embedder.embed = lambda texts: [made[text] for text in texts]
    alone = role == "cosine"
    column, file, function = (
        evaluate(
            labelled.golden,
            corpus=table if name == "v" else corpus,
            id="id",
            **({"vectors": name, "cosine": least} if alone else {role: f"{name}:{least}"})
            if name != "embed"
            else {"embed": "embedder:embed", role: least if alone else f"embed:{least}"},
        )
        for name in ("v", str(tmp_path / "v.npy"), "embed")
    )
    for other in (file, function):
        assert other.labels == column.labels and other.sweep == column.sweep
        assert other.cosines == column.cosines
    np.save(tmp_path / "v.npy", vectors[1:])
    with pytest.raises(InputError, match="needs a row for each document"):
        evaluate(labelled.golden, corpus=corpus, id="id", also=f"{tmp_path / 'v.npy'}:0.9")


def test_a_run_has_no_function_called(labelled: LabelledVectors, tmp_path: Path) -> None:
    pq.write_table(labelled.table, tmp_path / "in.parquet")
    embedder.embed = lambda texts: np.ones((len(texts), 3))
    library.dedup_files(
        tmp_path / "in.parquet", tmp_path / "run", embed="embedder:embed", also="embed:0.9"
    )
    embedder.embed = None
    run = tmp_path / "run"
    with pytest.raises(UsageError, match="leave out the corpus"):
        evaluate(labelled.golden, run=run, corpus=tmp_path / "in.parquet")
    assert evaluate(labelled.golden, run=run).labels.recall.value == 1.0


@dataclass(frozen=True)
class Folder:
    """The documents as a file, and the golden set."""

    path: Path

    def evaluate(self, *options: object) -> Ran:
        return neardup("evaluate", self.path / "golden.tsv", *options)


@pytest.fixture(scope="module")
def folder(labelled: LabelledVectors, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    path = tmp_path_factory.mktemp("labelled")
    pq.write_table(labelled.table, path / "in.parquet")
    lines = ("\t".join(map(str, pair)) for pair in labelled.golden)
    (path / "golden.tsv").write_text("\n".join(lines) + "\n")
    return Folder(path)


@pytest.mark.parametrize("role", ["vectors", "also", "unless"])
def test_command_evaluates_a_run_as_its_operating_point(folder: Folder, role: str) -> None:
    asked = {
        "vectors": ["--vectors", "v", "--cosine", 0.9],
        "also": ["--also", "v:0.9"],
        "unless": ["--unless", "v:0.9", "--threshold", 0.5],
    }[role]
    corpus, out = ["--corpus", folder.path / "in.parquet"], folder.path / f"run-{role}"
    done = neardup("dedup", folder.path / "in.parquet", "-o", out, "--pairs", "-q", *asked)
    assert done.code == 0, done.err
    by_options = json.loads(folder.evaluate(*corpus, "--json", *asked).out)
    by_run = json.loads(folder.evaluate("--run", out, *corpus, "--json").out)
    alone = json.loads(folder.evaluate("--run", out, "--json").out)
    for name in ("labels", "similarity", "losses", "sweep", "candidates"):
        assert by_run[name] == by_options[name], name
    assert alone["labels"] == by_options["labels"] and alone["similarity"] is None
    point = by_run["operating_point"]["parameters"]
    assert (point["vectors"], point["cosine"]) == ("v", 0.9)
    assert point["role"] == {"vectors": "alone"}.get(role, role)
    page = folder.evaluate("--run", out, *corpus, "-o", folder.path / f"page-{role}")
    assert (
        page.code == 0
        and "Least cosines" in (folder.path / f"page-{role}" / "evaluation.html").read_text()
    )


def test_next_command_has_the_best_cosine(folder: Folder) -> None:
    corpus = ["--corpus", folder.path / "in.parquet"]
    done = folder.evaluate(*corpus, "--vectors", "v", "--cosine", 0.99)
    assert "best cosine" in done.out and "best threshold" not in done.out
    following = done.out.splitlines()[-1]
    assert "--vectors v --cosine 0.8" in following and "--threshold" not in following
