"""Another specification or layout of an index with vectors: answers are those of a fresh index."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import neardup as run
from support.vector_definition import Row

from neardup import Index
from neardup.errors import NeardupError

TEXTS: Row = {"shingle": "word:2", "slots": 32, "bands": 16, "rows": 2}
ALONE: Row = {"vectors": "v", "cosine": 0.9, "planes": "8x4"}
ALSO: Row = {**TEXTS, "also": "v:0.9", "planes": "8x4", "threshold": 0.5}
UNLESS: Row = {**TEXTS, "unless": "v:0.3", "threshold": 0.5}
MEAN = [0.5, 0.1, -0.1]
CHANGES: list[tuple[Row, Row, Row]] = [
    (ALONE, {"planes": "30x10"}, {"planes": "30x10"}),
    (ALONE, {"centre": "mean.npy"}, {"centre": "mean.npy"}),
    (ALONE, {"cosine": 0.6, "planes": "40x2"}, {"cosine": 0.6, "planes": "40x2"}),
    (ALONE, {"seed": 3}, {"seed": 3}),
    (ALSO, {"shingle": "word:1"}, {"shingle": "word:1"}),
    (ALSO, {"planes": "30x10", "centre": "mean.npy"}, {"planes": "30x10", "centre": "mean.npy"}),
    (ALSO, {"cosine": 0.97, "threshold": 0.8}, {"also": "v:0.97", "threshold": 0.8}),
    (UNLESS, {"shingle": "char:3", "cosine": 0.6}, {"shingle": "char:3", "unless": "v:0.6"}),
]


def documents(count: int, seed: int = 5) -> list[tuple[str, str, list[float]]]:
    """Id, text and vector of documents, many of which are alike."""
    chance = random.Random(seed)
    numbers = [-1.0, -0.5, 0.0, 0.25, 1.0]
    return [
        (
            f"d{n}",
            " ".join(chance.choices("abcdef", k=chance.randint(3, 7))),
            [1.0, chance.choice(numbers), chance.choice(numbers)],
        )
        for n in range(count)
    ]


ROWS = documents(70)


@pytest.fixture(autouse=True)
def _mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("mean.npy", MEAN)


def add(index: Index, rows: list[tuple[str, str, list[float]]]) -> None:
    ids, texts, vectors = zip(*rows, strict=True)
    given = None if index.spec.of_vectors else texts
    index.add_batch(list(ids), given, vectors=list(vectors))


def decided(index: Index) -> Row:
    """Id -> all that is stored of its decision."""
    found: Row = {}
    for id, _, _ in ROWS:
        one: Any = index.get(id)
        if one is not None:
            both = getattr(one, "cosine", None), getattr(one, "by", None)
            found[id] = (one.status, one.duplicate_of, one.similarity, *both)
    return found


@pytest.mark.parametrize(("old", "change", "new"), CHANGES, ids=str)
def test_answers_are_those_of_a_fresh_index(
    tmp_path: Path, old: Row, change: Row, new: Row
) -> None:
    with Index.open("fresh", dimension=3, **(old | new)) as fresh:
        add(fresh, ROWS[:60])
        wanted, spec = decided(fresh), fresh.spec
        add(fresh, ROWS[60:])
        wanted_later = decided(fresh)
    keep_texts = old is not ALONE
    with Index.open("index", dimension=3, keep_texts=keep_texts, **old) as index:
        add(index, ROWS[:60])
        before, former = decided(index), index.spec
        done = index.reindex(**change)
        assert (done.carried, done.missing) == (60, {})
        assert (decided(index), index.spec) == (wanted, spec)
        assert index.verify() == []
        add(index, ROWS[60:])
        assert decided(index) == wanted_later
    with Index.open("index") as index:
        assert decided(index) == wanted_later
        index.remove_batch([id for id, _, _ in ROWS[60:]])
        index.undo_reindex()
        assert (decided(index), index.spec) == (before, former)
        assert index.verify() == []


def test_vectors_are_carried_with_texts_of_a_corpus() -> None:
    with Index.open("index", dimension=3, **ALSO) as index:
        add(index, ROWS)
        with pytest.raises(NeardupError, match="keeps no texts"):
            index.reindex(shingle="word:1")
        index.reindex(shingle="word:1", corpus=[(id, text) for id, text, _ in ROWS])
        got = decided(index)
    with Index.open("fresh", dimension=3, **(ALSO | {"shingle": "word:1"})) as fresh:
        add(fresh, ROWS)
        assert decided(fresh) == got


@pytest.mark.parametrize(
    ("asked", "change", "message"),
    [
        (ALONE, {"shingle": "word:2"}, "about texts"),
        (ALONE, {"threshold": 0.9}, "about texts"),
        (ALONE, {"cosine": 0.5}, "give planes"),
        (ALSO, {"sketch": "simhash"}, "goes with sets of shingles"),
        (ALSO, {"bits": 8}, "not supported with --bits"),
        (ALSO, {"centre": "none.npy"}, "can't be read"),
        (UNLESS, {"centre": "mean.npy"}, "leave out --centre"),
        ({}, {"planes": "3x3"}, "texts alone: leave out planes"),
    ],
    ids=str,
)
def test_changes_that_are_refused(asked: Row, change: Row, message: str) -> None:
    dimension = {"dimension": 3} if asked else {}
    with Index.open("index", keep_texts=True, **asked, **dimension) as index:
        before = index.settings
        with pytest.raises(NeardupError, match=message):
            index.reindex(**change)
        assert index.settings == before


def test_command_makes_vectors_anew() -> None:
    with Index.open("index", dimension=3, **ALONE) as index:
        add(index, ROWS)
    ran = run("index", "reindex", "index", "--planes", "20x6", "--centre", "mean.npy")
    assert ran.code == 0, ran.err
    assert "70 documents indexed again" in ran.out and "20 bands of 6 planes" in ran.out
    assert run("index", "verify", "index").code == 0
    undone = run("index", "reindex", "index", "--undo")
    assert "back to generation g1" in undone.out and "8 bands of 4 planes" in undone.out
