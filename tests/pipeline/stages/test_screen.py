"""Codes of vectors rule out no pair that is similar, and most that are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import batch_engine
from support.command_line import dedup
from support.embeddings import crowd, plant_copies
from support.signals import words_of
from support.strategies import examples

from neardup import apply_decisions, kernels
from neardup.decisions import Decision
from neardup.kernels import signals
from neardup.pipeline.set_files import CandidateSets
from neardup.pipeline.stages import screen
from neardup.pipeline.stages.screen import VectorScreen, encode, find_directions
from neardup.text.arrays import Ragged

ENOUGH = 1 << 24


class HeldSets(CandidateSets):
    """Vectors in memory, as the files of candidates return them."""

    def __init__(self, vectors: np.ndarray, step: int = 1) -> None:
        self._words, _ = words_of(vectors)
        self._words = self._words.reshape(len(vectors), -1)
        self._step = step

    def __len__(self) -> int:
        return len(self._words)

    def documents(self) -> np.ndarray:
        return np.arange(len(self), dtype=np.int64) * self._step

    def gather(self, documents: np.ndarray) -> Ragged:
        rows = self._words[documents // self._step]
        return Ragged(rows.reshape(-1), np.arange(len(rows) + 1) * rows.shape[1])


def made_of(vectors: np.ndarray, threshold: float, memory: int = ENOUGH) -> VectorScreen | None:
    return VectorScreen.of(HeldSets(vectors, 3), vectors.shape[1], threshold, memory, 1)


@pytest.fixture(autouse=True)
def screens_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "LEAST_SCREENED", 1)


def cosines(vectors: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    rows, offsets = words_of(vectors)
    return kernels.signal_numbers(rows, offsets, vectors.shape[1], left, right)[:, 1]


@st.composite
def crowds(draw: st.DrawFn) -> np.ndarray:
    """Vectors of all lengths, near one another and not, some of them outside of any sample."""
    dimension, count = draw(st.sampled_from([1, 2, 31, 33, 64, 200])), draw(st.integers(2, 40))
    chance = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    vectors = chance.standard_normal((count, dimension)) + draw(st.sampled_from([0.0, 1.0, 5.0]))
    near = chance.random(count) < 0.5
    vectors[near] = vectors[0] + draw(st.sampled_from([0.0, 1e-6, 0.1, 0.5])) * vectors[near]
    scales = 10.0 ** chance.uniform(-15, 15, (count, 1))
    vectors = (vectors * scales).astype(np.float32)
    vectors[~vectors.any(axis=1), 0] = 1
    return vectors


@given(crowds(), st.sampled_from([0.01, 0.5, 0.9, 0.95, 0.9999, 1.0]), st.integers(32, 200))
@settings(max_examples=examples(300), deadline=None)
def test_no_similar_pair_is_ruled_out(vectors: np.ndarray, threshold: float, room: int) -> None:
    memory = len(vectors) * (room + 4) + 12 * len(vectors)
    screened = made_of(vectors, threshold, memory)
    assert screened is not None
    left, right = (side.ravel().astype(np.int64) for side in np.indices((len(vectors),) * 2))
    possible = screened.may_be_similar(3 * left, 3 * right)
    assert possible[cosines(vectors, left, right) >= threshold].all()


def test_most_pairs_that_are_not_similar_are_ruled_out() -> None:
    chance = np.random.default_rng(5)
    decay = 1 / np.sqrt(np.arange(1, 385))
    vectors = crowd((chance.standard_normal((3_000, 384)) * decay).astype(np.float32), 0.5)
    copies = plant_copies(vectors[:500], np.linspace(0.9, 1.0, 500))
    screened = made_of(np.concatenate([vectors, copies]), 0.95)
    assert screened is not None
    left, right = chance.integers(0, 3_000, (2, 100_000))
    others = left != right
    assert screened.may_be_similar(3 * left[others], 3 * right[others]).mean() < 0.01
    planted = np.arange(500)
    possible = screened.may_be_similar(3 * planted, 3 * (planted + 3_000))
    assert possible[250:].all(), "from 0.95 on"


def test_codes_of_all_numbers_rule_out_what_is_little_below_the_threshold() -> None:
    vectors = np.random.default_rng(5).standard_normal((1_000, 100)).astype(np.float32)
    copies = plant_copies(vectors, np.linspace(0.9, 1.0, 1_000))
    screened = made_of(np.concatenate([vectors, copies]), 0.95)
    assert screened is not None
    planted = np.arange(1_000)
    possible = screened.may_be_similar(3 * planted, 3 * (planted + 1_000))
    assert possible[501:].all()
    assert possible[:400].mean() < 0.01, "up to 0.94"


def test_kernel_equals_its_twin() -> None:
    chance = np.random.default_rng(7)
    codes = chance.integers(-127, 128, (50, 96)).astype(np.int8)
    errors = chance.uniform(0, 0.2, 50).astype(np.float32)
    rows = chance.permutation(50).astype(np.int32)
    left, right = chance.integers(0, 50, (2, 3_000))
    u, v = rows[left], rows[right]
    apart = 0.001 * np.sqrt(((codes[u].astype(float) - codes[v]) ** 2).sum(axis=1))
    farthest = float(np.median(apart)) - 0.2
    twin = apart <= farthest + errors[u].astype(float) + errors[v]
    assert 0.2 < twin.mean() < 0.8
    found = kernels.near_codes(codes, errors, rows, 0.001, farthest, left, right)
    assert found.tolist() == twin.tolist()


def test_codes_are_as_long_as_the_kernel_compares_them() -> None:
    assert screen.CODES == signals.CODES
    assert screen.MOST_NUMBERS % signals.CODES == 0


def test_directions_are_at_right_angles_and_the_errors_of_codes_are_bounds() -> None:
    chance = np.random.default_rng(9)
    flat = np.outer(chance.standard_normal(300), chance.standard_normal(60))  # of one direction
    found = find_directions(flat, 32)
    assert np.allclose(found.T @ found, np.eye(32), atol=1e-12)
    along = flat @ found
    assert np.allclose((along[:, 0] ** 2).sum(), (flat**2).sum())
    codes, errors = encode(along, 0.01)
    far = np.sqrt(((along - 0.01 * codes) ** 2).sum(axis=1))
    assert (errors >= far).all()
    assert np.allclose(errors, far, rtol=1e-6)
    assert (np.abs(codes) == 127).any(), "some are outside of what a code can say"


def test_without_room_there_are_no_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(1).standard_normal((50, 40)).astype(np.float32)
    assert made_of(vectors, 0.9, 50 * 30) is None
    monkeypatch.setattr(screen, "LEAST_SCREENED", 51)
    assert made_of(vectors, 0.9) is None


@pytest.fixture
def table() -> pa.Table:
    chance = np.random.default_rng(3)
    vectors = crowd(chance.standard_normal((500, 50)).astype(np.float32), 0.6)
    vectors[1::5] = plant_copies(vectors[::5], chance.uniform(0.85, 1.0, 100))
    column = pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), 50)
    return pa.table({"id": [f"d{n}" for n in range(500)], "text": ["a"] * 500, "v": column})


OPTIONS = ("--vectors", "v", "--cosine", "0.93", "--planes", "12x3")


@pytest.mark.parametrize("more", [("--pairs",), ("--cluster", "components")], ids=lambda m: m[0])
def test_answer_is_the_same_with_codes_and_without(
    more: tuple[str, ...], table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(table, tmp_path / "in.parquet")
    answers, compared = [], []
    for least in (1, 1_000):
        monkeypatch.setattr(screen, "LEAST_SCREENED", least)
        out = tmp_path / str(least)
        record = dedup(tmp_path / "in.parquet", "-o", out, *OPTIONS, *more)
        tables = ("removed", "pairs") if more == ("--pairs",) else ("removed",)
        answers.append([batch_engine.table(out, name) for name in tables])
        compared.append(record["counts"]["comparisons"])
    assert answers[0] == answers[1]
    assert len(answers[0][0]) > 20
    assert compared[0] < compared[1] / 2


def test_people_may_say_that_far_vectors_are_the_same(table: pa.Table, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "in.parquet")
    dedup(tmp_path / "in.parquet", "-o", tmp_path / "run", *OPTIONS)
    gone = {row["id"] for row in batch_engine.table(tmp_path / "run", "removed")}
    one, other = [name for name in ("d3", "d8", "d13", "d18") if name not in gone][:2]
    same = [Decision("same", one, other, who="ann", when="2026-03-01T12:00:00Z")]
    apply_decisions(tmp_path / "run", same, tmp_path / "decided", progress=False)
    rows = {row["id"]: row for row in batch_engine.table(tmp_path / "decided", "removed")}
    assert rows[other]["witness"] == one
    assert rows[other]["similarity"] < 0.93
