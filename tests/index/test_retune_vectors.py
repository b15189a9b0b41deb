"""Another operating point of an index with vectors: the decisions are those of a fresh index."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.command_line import neardup as run
from support.vector_definition import Row

from neardup import Index
from neardup.errors import ParameterError

TEXTS: Row = {"shingle": "word:2", "slots": 32, "bands": 16, "rows": 2, "limit": 3}
ALONE: Row = {"vectors": "v", "cosine": 0.9, "planes": "8x4"}
ALSO: Row = {**TEXTS, "also": "v:0.9", "planes": "8x4", "threshold": 0.5}
UNLESS: Row = {**TEXTS, "unless": "v:0.3", "threshold": 0.5}
CHANGES: list[tuple[Row, Row, Row]] = [
    (ALONE, {"cosine": 0.97}, {"cosine": 0.97}),
    (ALONE, {"cosine": 0.7, "planes": "20x3"}, {"cosine": 0.7, "planes": "20x3"}),
    (ALONE, {"limit": 1}, {"limit": 1}),
    (ALSO, {"cosine": 0.97}, {"also": "v:0.97"}),
    (ALSO, {"planes": "5x6"}, {"planes": "5x6"}),
    (ALSO, {"threshold": 0.7, "bands": 10, "rows": 3}, {"threshold": 0.7, "bands": 10, "rows": 3}),
    (UNLESS, {"cosine": 0.8}, {"unless": "v:0.8"}),
    (UNLESS, {"cosine": -0.5, "limit": 1}, {"unless": "v:-0.5", "limit": 1}),
]


def documents(count: int, seed: int = 4) -> list[tuple[str, str, list[float]]]:
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


ROWS = documents(90)


def add(index: Index, rows: list[tuple[str, str, list[float]]]) -> None:
    ids, texts, vectors = zip(*rows, strict=True)
    given = None if index.spec.of_vectors else texts
    index.add_batch(list(ids), given, vectors=list(vectors))


def decided(index: Index) -> Row:
    """Id -> all that is stored of its decision."""
    found = {}
    for id, _, _ in ROWS:
        one: Any = index.get(id)
        if one is not None:
            both = getattr(one, "cosine", None), getattr(one, "by", None)
            found[id] = (one.status, one.duplicate_of, one.similarity, *both)
    return found


@pytest.mark.parametrize(("old", "change", "new"), CHANGES, ids=str)
def test_decisions_are_those_of_a_fresh_index(
    tmp_path: Path, old: Row, change: Row, new: Row
) -> None:
    with Index.open(tmp_path / "fresh", dimension=3, **(old | new)) as fresh:
        add(fresh, ROWS[:80])
        wanted = decided(fresh)
        fresh.remove_batch(["d0", "d11"])
        add(fresh, ROWS[80:])
        wanted_later = decided(fresh)
    with Index.open(tmp_path / "index", dimension=3, **old) as index:
        add(index, ROWS[:50])
        index.shadow.start(**change)
        add(index, ROWS[50:80])
        vector = ROWS[85][2]
        text = None if index.spec.of_vectors else ROWS[85][1]
        assert index.shadow.wait()
        index.query(text, vector=vector)
        assert index.shadow.report().asked.queries <= 1
        before, moved = decided(index), index.shadow.promote(wait=True)
        assert decided(index) == wanted
        # The signal by which one is a copy follows from the numbers.
        assert moved == sum(wanted[id][:-1] != before[id][:-1] for id in wanted)
        assert index.verify() == []
        index.remove_batch(["d0", "d11"])
        add(index, ROWS[80:])
        assert decided(index) == wanted_later
    with Index.open(tmp_path / "index") as index:
        assert decided(index) == wanted_later
        signal = index.options.vectors
        assert signal is not None and signal.threshold == change.get("cosine", signal.threshold)


@pytest.mark.parametrize(
    ("asked", "change", "message"),
    [
        (ALSO, {"cosine": 0.8}, "give planes, too, in bands of fewer than 4"),
        (ALSO, {"planes": "100x10"}, "more planes than the 64 .*neardup index reindex"),
        (ALSO, {"cosine": 2}, "at most 1"),
        (ALSO, {"cosine": 0.9}, "already"),
        (ALONE, {"threshold": 0.95}, "about texts"),
        (ALONE, {"bands": 3, "rows": 3}, "about texts"),
        (UNLESS, {"planes": "3x3"}, "leave out --planes"),
        ({}, {"cosine": 0.9}, "texts alone: leave out cosine"),
        (ALSO, {"shingle": "word:3"}, "belongs to the specification"),
    ],
    ids=str,
)
def test_operating_points_that_are_refused(
    tmp_path: Path, asked: Row, change: Row, message: str
) -> None:
    dimension = {"dimension": 3} if asked else {}
    with (
        Index.open(tmp_path, **asked, **dimension) as index,
        pytest.raises(ParameterError, match=message),
    ):
        index.retune(**change)


def test_command_retunes_vectors(tmp_path: Path) -> None:
    with Index.open(tmp_path, dimension=3, **ALSO) as index:
        add(index, ROWS)
    ran = run("index", "retune", tmp_path, "--cosine", "0.99")
    assert ran.code == 0 and "of 90 documents have another decision now" in ran.out
    assert "is at least 0.99" in ran.out
    assert "give planes" in run("index", "retune", tmp_path, "--cosine", "0.5").err
