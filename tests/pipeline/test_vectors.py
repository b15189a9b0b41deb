"""Documents with vectors over files: what a run is told, what it says, how it goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import batch_engine
from support.command_line import dedup, neardup, refused

import neardup as library
from neardup.decisions import Decision
from neardup.sketch.centre import VectorCentre

KILLING = Path(batch_engine.__file__).with_name("killing.py")
DIMENSION = 24
COUNT = 300


def unit_rows(count: int, seed: int) -> Any:
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def corpus() -> pa.Table:
    """Each tenth vector is near the one before it; half of the texts come three times."""
    vectors = unit_rows(COUNT, 3)
    near = np.arange(9, COUNT, 10)
    vectors[near] = vectors[near - 1] + 0.02 * unit_rows(len(near), 4)
    numbers = [n // 3 if n < 150 else n for n in range(COUNT)]
    texts = [f"report {n} about the weather of town {n} and of day {n}" for n in numbers]
    return pa.table(
        {
            "id": [f"d{n}" for n in range(COUNT)],
            "text": texts,
            "group": [str(n % 2) for n in range(COUNT)],
            "v": pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), DIMENSION),
        }
    )


TABLE = corpus()
ALONE = ("--vectors", "v", "--cosine", "0.95")
ROLES = [ALONE, ("--also", "v:0.95"), ("--unless", "v:0.5")]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("in")
    paths = [folder / "a.parquet", folder / "b.parquet"]
    pq.write_table(TABLE.slice(0, 155), paths[0], row_group_size=40)
    pq.write_table(TABLE.slice(155), paths[1], row_group_size=40)
    return paths


def removed(out: Path) -> list[tuple[Any, ...]]:
    fields = ("id", "witness", "similarity", "cosine", "by")
    return [tuple(row.get(f) for f in fields) for row in batch_engine.table(out, "removed")]


def in_memory(**options: Any) -> list[tuple[Any, ...]]:
    fields = ("id", "witness", "similarity", "cosine", "by")
    return [tuple(getattr(r, f) for f in fields) for r in library.dedup(TABLE, **options).removed]


@pytest.mark.parametrize("given", ROLES, ids=lambda given: given[0])
def test_planned_run_is_as_in_memory_and_says_its_rule(
    given: tuple[str, ...], inputs: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ran = neardup("dedup", *inputs, "-o", out, *given)
    assert ran.code == 0, ran.err
    options = {given[i].removeprefix("--"): given[i + 1] for i in range(0, len(given), 2)}
    options |= {"cosine": float(options["cosine"])} if "cosine" in options else {}
    assert removed(out) == in_memory(**options)
    assert len(removed(out)) >= 10
    record = json.loads((out / "run.json").read_bytes())
    by = library.dedup(TABLE, **options).removed_by
    assert record.get("removed_by") == by
    assert ("removed by  " in ran.out) == (given is not ALONE)
    if by is not None:
        assert by == {name: [row[4] for row in removed(out)].count(name) for name in by}
        assert sum(by.values()) == len(removed(out))
    page = (out / "report.html").read_text("utf-8")
    if given[0] == "--unless":
        assert record["spec"]["vectors"] == f"{DIMENSION}x0:none"
        assert "only if the cosine of those in 'v' is at least 0.5 too" in ran.out
        assert "documents are kept because of --unless v:0.5; vetoed.parquet lists them" in ran.out
        assert record["counts"]["vetoed"] == len(batch_engine.table(out, "vetoed")) > 80
        assert "would be removed without --unless v:0.5" in page
    else:
        centre = VectorCentre.from_bytes((out / "vector-centre").read_bytes())
        assert record["spec"]["vectors"].endswith(":" + centre.digest)
        assert "cosine of" in page
        assert ("vectors alone were compared, and no text was read" in page) == (given is ALONE)
        assert page.count("<h3>By the vectors</h3>") == (given is not ALONE)
        assert ("two documents of cosine 0.9" in page) == (given is not ALONE)
        predicted = record["predicted"]
        found = predicted["recall_at_threshold" if given is ALONE else "recall_at_cosine"]
        assert 0.99 <= found < 1
        assert f"{found:.4f}" in ran.out and " planes: predicted recall at" in ran.out


@pytest.mark.parametrize("given", ROLES, ids=lambda given: given[0])
def test_pairs_of_two_signals_have_their_cosine(
    given: tuple[str, ...], inputs: list[Path], tmp_path: Path
) -> None:
    pq.write_table(TABLE.slice(0, 3), tmp_path / "copies.parquet")
    dedup(*inputs, tmp_path / "copies.parquet", "-o", tmp_path / "out", "--pairs", "-q", *given)
    rows = batch_engine.table(tmp_path / "out", "pairs")
    if given is ALONE:
        assert all(list(row) == ["a", "b", "similarity"] for row in rows)
        return
    vectors = dict(zip(TABLE["id"].to_pylist(), TABLE["v"].to_pylist(), strict=True))
    same = [row for row in rows if row["a"] == row["b"]]
    assert len(rows) > len(same) == 3
    for row in rows:
        x, y = (np.array(vectors[row[side]]) for side in "ab")
        want = None if row in same else x @ y / np.sqrt((x @ x) * (y @ y))
        assert row["cosine"] == (None if want is None else pytest.approx(want, abs=1e-6))


def test_groups_and_components_are_as_in_memory(inputs: list[Path], tmp_path: Path) -> None:
    options = {"vectors": "v", "cosine": 0.9, "within": "group"}
    dedup(*inputs, "-o", tmp_path / "within", *ALONE[:3], "0.9", "--within", "group")
    assert removed(tmp_path / "within") == in_memory(**options) == []
    also = ("--also", "v:0.9", "--cluster", "components")
    dedup(*inputs, "-o", tmp_path / "components", *also)
    assert removed(tmp_path / "components") == in_memory(also="v:0.9", cluster="components")


@pytest.mark.parametrize("given", ROLES, ids=lambda given: given[0])
@pytest.mark.parametrize("saved", [True, False])
def test_earlier_run_settles_the_centre(
    given: tuple[str, ...], saved: bool, inputs: list[Path], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    dedup(inputs[0], "-o", first, *given, *(["--save-sketches"] if saved else []))
    dedup(inputs[1], "-o", second, *given, "--against", first)
    specs = [json.loads((out / "run.json").read_bytes())["spec"] for out in (first, second)]
    assert specs[0] == specs[1]
    both = {name: witness for name, witness, *_ in removed(first) + removed(second)}
    dedup(*inputs, "-o", tmp_path / "all", *given)
    assert both == {name: witness for name, witness, *_ in removed(tmp_path / "all")}


def test_why_tells_both_signals(inputs: list[Path], tmp_path: Path) -> None:
    dedup(*inputs, "-o", tmp_path / "also", "--also", "v:0.95")
    said = neardup("why", tmp_path / "also", "d159").out
    assert "'d159' was removed: cosine 0.9" in said and ", with texts 0." in said
    assert "or cosine >= 0.95 of the vectors in 'v'" in said
    pair = neardup("why", tmp_path / "also", "d9", "d200").out
    assert "they never met: 0." in pair and ", cosine " in pair
    dedup(*inputs, "-o", tmp_path / "alone", *ALONE)
    said = neardup("why", tmp_path / "alone", "d9").out
    assert "'d9' was removed: cosine 0.9" in said and "shingles" not in said
    dedup(*inputs, "-o", tmp_path / "unless", "--unless", "v:0.5")
    said = neardup("why", tmp_path / "unless", "d1").out
    assert "without --unless v:0.5 it would be removed" in said
    said = neardup("why", tmp_path / "unless", "d0", "d1").out
    assert "kept apart by --unless v:0.5" in said


@pytest.mark.parametrize("given", ROLES, ids=lambda given: given[0])
def test_decisions_change_a_run_and_an_index_refuses_it(
    given: tuple[str, ...], inputs: list[Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    dedup(*inputs, "-o", run, *given, "--save-sketches")
    stays = Decision("keep", "d19", who="ann", when="2026-03-01T12:00:00Z")
    made = library.apply_decisions(run, [stays], tmp_path / "decided", progress=False)
    assert [one[0] for one in removed(run) if one[0] != "d19"] == [
        one[0] for one in removed(made.path)
    ]
    wanted = f"was made with {given[0]}, which an index of saved sketches does not support"
    refused(neardup("index", "build", tmp_path / "index", "--from", run, "-q"), 2, wanted)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--cosine", "0.9"), "--cosine is about vectors"),
        (("--vectors", "v"), "--vectors needs --cosine"),
        (("--vectors", "w", "--cosine", "0.9"), "no column 'w'"),
        (("--vectors", "w.npz", "--cosine", "0.9"), "save one by numpy.save('vectors.npy'"),
        (("--also", "w:0.9"), "--also"),
        (("--vectors", "text", "--cosine", "0.9"), "vector"),
        ((*ALONE, "--also", "v:0.9"), "give one of --vectors and --also"),
        ((*ALONE, "--merge-rows", "id"), "--merge-rows is not supported with --vectors"),
        ((*ALONE, "--shingle", "word:3"), "--shingle is about texts"),
        ((*ALONE, "--threshold", "0.9"), "leave it out, --cosine is the threshold"),
        (("--vectors", "v", "--cosine", "95"), "write 0.95"),
        ((*ALONE, "--planes", "9"), "is not BxR"),
        (("--unless", "v:0.5", "--centre", "none"), "leave out --centre"),
        ((*ALONE, "--centre", "missing.npy"), "can't be read"),
        ((*ALONE, "--centre", os.devnull), "can't be read"),
    ],
)
def test_bad_options_are_refused(
    given: tuple[str, ...], message: str, inputs: list[Path], tmp_path: Path
) -> None:
    refused(neardup("dedup", *inputs, "-o", tmp_path / "out", *given, "-q"), 2, message)
    assert not (tmp_path / "out").exists()


def test_centre_with_a_nan_is_refused_for_that(inputs: list[Path], tmp_path: Path) -> None:
    np.save(tmp_path / "nan.npy", np.full(DIMENSION, np.nan))
    ran = neardup(
        "dedup", *inputs, "-o", tmp_path / "out", *ALONE, "--centre", tmp_path / "nan.npy"
    )
    refused(ran, 2, f"{DIMENSION} finite numbers")


def test_centre_beside_an_earlier_run_is_that_of_the_run(
    inputs: list[Path], tmp_path: Path
) -> None:
    np.save(tmp_path / "mean.npy", np.full(DIMENSION, 0.05))
    own, none = ("--centre", tmp_path / "mean.npy"), ("--centre", "none")
    dedup(inputs[0], "-o", tmp_path / "first", *ALONE, *own)
    against = ("dedup", inputs[1], *ALONE, "--against", tmp_path / "first", "-q")
    refused(neardup(*against, *none, "-o", tmp_path / "new"), 2, "leave out --centre")
    for number, same in enumerate(((), own)):
        assert neardup(*against, *same, "-o", tmp_path / f"new{number}").code == 0
    assert removed(tmp_path / "new0") == removed(tmp_path / "new1")


def test_other_dimension_or_other_role_is_refused(inputs: list[Path], tmp_path: Path) -> None:
    narrow = pa.FixedSizeListArray.from_arrays(unit_rows(2, 1)[:, :4].reshape(-1), 4)
    pq.write_table(pa.table({"id": ["x", "y"], "v": narrow}), tmp_path / "c.parquet")
    ran = neardup("dedup", *inputs, tmp_path / "c.parquet", "-o", tmp_path / "out", *ALONE)
    assert "2 vector has 4 numbers, not 24 as the first (of another model?)" in ran.out
    dedup(inputs[0], "-o", tmp_path / "alone", *ALONE)
    against = ("-o", tmp_path / "new", "--against", tmp_path / "alone")
    refused(neardup("dedup", inputs[1], *against, "-q"), 1, "the other only vectors")
    other = neardup("dedup", tmp_path / "c.parquet", *against, *ALONE, "-q")
    refused(other, 2, "have 24 numbers, these have 4")


@pytest.mark.parametrize("name", ["vectors", "also", "unless"])
def test_killed_run_resumes(name: str, tmp_path: Path) -> None:
    rows = batch_engine.rows(5, 120)
    for row, vector in zip(rows, unit_rows(120, 5).round(1).tolist(), strict=True):
        row["v"] = vector
    inputs = batch_engine.write(tmp_path / "in", rows, files=3)
    asked: dict[str, Any] = {name: "v:-0.5" if name == "unless" else "v:0.5"}
    if name == "vectors":
        asked = dict.fromkeys(batch_engine.SMALL) | {name: "v", "cosine": 0.5}
    given = {"first": 3, "every": 61, "asked": asked}
    given |= {"inputs": [str(path) for path in inputs], "folder": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, str(KILLING), "at_steps", json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=300,
        env=batch_engine.environment(),
    )
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr
    kills = json.loads(ran.stdout)
    assert len(kills) > 2 and set(kills[:-1]) == {1} and kills[-1] == 0
    plain = batch_engine.go(inputs, tmp_path / "plain", **asked)
    assert plain.counts["removed"] > 5
    for number in range(len(kills)):
        assert batch_engine.outcome(tmp_path / str(number)) == plain
