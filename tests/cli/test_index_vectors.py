"""neardup index, query and serve with vectors: the answers are those of `neardup dedup`."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import neardup, refused, table, write_jsonl, write_parquet
from support.vector_definition import ASKED, Row, Signals, rows_of

import neardup as library
from neardup.errors import ParameterError
from neardup.index.index import Index

EAST, NORTH = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
COLUMNS = ("id", "witness", "similarity", "exact", "cosine", "by")


def some_rows(count: int, seed: int = 1) -> list[Row]:
    """Documents of few words and few vectors, so that many are alike, or equal."""
    chance = random.Random(seed)
    numbers = [-1.0, 0.0, 0.5, 1.0, 1.25]
    return rows_of(
        [
            (
                " ".join(chance.choices("abcdefg", k=chance.randint(3, 6))),
                [1.0, chance.choice(numbers), chance.choice(numbers)],
            )
            for _ in range(count)
        ]
    )


def flags(asked: Signals) -> list[str]:
    return [part for name, value in asked.options.items() for part in (f"--{name}", str(value))]


def decisions(out: Path, rows: Sequence[Row]) -> dict[str, Any]:
    """Document -> what removed.parquet says; None if it is kept."""
    found = {row["id"]: tuple(map(row.get, COLUMNS)) for row in table(out, "removed")}
    return dict.fromkeys(row["id"] for row in rows) | found


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_days_give_the_answer_of_dedup_over_all_of_them(tmp_path: Path, asked: Signals) -> None:
    rows, got, index = some_rows(70), {}, tmp_path / "ix"
    same = [] if asked.role == "unless" else ["--centre", "none"]
    for day, (start, end) in enumerate(pairwise([0, 20, 45, 70])):
        given = write_parquet(tmp_path / f"{day}.parquet", rows[start:end])
        out = tmp_path / f"out{day}"
        ran = neardup("index", "add", index, given, "-o", out, "-q", *flags(asked))
        assert (ran.code, ran.out, ran.err) == (0, "", "")
        got |= decisions(out, rows[start:end])
        kept = {row["id"] for row in rows[start:end] if got[row["id"]] is None}
        assert {row["id"] for row in table(out, f"kept/{day}")} == kept
    given = write_jsonl(tmp_path / "all.jsonl", rows)
    ran = neardup("dedup", given, "-o", tmp_path / "all", "-q", *flags(asked), *same)
    assert (ran.code, ran.err) == (0, "")
    assert got == decisions(tmp_path / "all", rows)
    assert sum(one is not None for one in got.values()) > 5
    if asked.role != "alone":
        assert {one[-1] for one in got.values() if one is not None} & {"text", "both"}


@pytest.mark.parametrize("asked", ASKED[::2], ids=str)
def test_build_and_add_give_the_answer_of_dedup(tmp_path: Path, asked: Signals) -> None:
    rows, index = some_rows(60), tmp_path / "ix"
    first = write_jsonl(tmp_path / "first.jsonl", rows[:40])
    more = write_parquet(tmp_path / "more.parquet", rows[30:])
    built = neardup("index", "build", index, first, "--json", *flags(asked))
    assert built.code == 0, built.err
    added = neardup("index", "add", index, more, "--json", *flags(asked))
    assert json.loads(added.out)["counts"]["again"] == 10
    same = {} if asked.role == "unless" else {"centre": "none"}
    result = library.dedup(rows, **asked.options, **same)
    with Index.open(index, read_only=True) as found:
        kept = [row["id"] for row in rows if found.get(row["id"]).status == "new"]  # type: ignore[union-attr]
        assert kept == result.kept
        wanted = [(one.id, one.witness, one.cosine, one.by) for one in result.removed]
        stored = [found.get(one.id) for one in result.removed]
        assert wanted == [
            (one.id, one.duplicate_of, getattr(one, "cosine", None), getattr(one, "by", None))
            for one in stored
            if one is not None
        ]


def crowded(count: int) -> list[Row]:
    """Vectors around one direction, of which each tenth is near the one before."""
    chance = np.random.default_rng(2)
    vectors = chance.standard_normal((count, 8)) + 2
    vectors[10::10] = vectors[9:-1:10] + 0.01
    return [{"id": f"d{n}", "text": f"t{n}", "v": v} for n, v in enumerate(vectors.tolist())]


@pytest.mark.parametrize("given", [(), ("--planes", "20x12"), ("--centre", "none")], ids=str)
def test_centre_and_planes_of_a_new_index_are_those_of_its_files(
    tmp_path: Path, given: tuple[str, ...]
) -> None:
    rows, asked = crowded(300), ("--vectors", "v", "--cosine", "0.99")
    path = write_parquet(tmp_path / "in.parquet", rows)
    ran = neardup("index", "build", tmp_path / "ix", path, *asked, *given)
    assert ran.code == 0, ran.err
    assert neardup("dedup", path, "-o", tmp_path / "out", "-q", *asked, *given).code == 0
    with Index.open(tmp_path / "ix") as index:
        run = json.loads((tmp_path / "out" / "run.json").read_text())
        assert f"{index.options.vectors.planes}" in ran.out
        digest = index.spec.vectors.partition(":")[2]
        assert digest == json.loads(run["spec"]["canonical"])["vectors"].partition(":")[2]
        assert (digest == "none") == ("none" in given)
        found = {one.id for one in map(index.get, (row["id"] for row in rows)) if one.duplicate_of}
        assert found == {row["id"] for row in table(tmp_path / "out", "removed")}
        assert len(found) == 29
        few = index.options.vectors.planes
    if not given:
        # Of an index that grows: not the planes of a run over so few documents.
        assert few.bits > 100
