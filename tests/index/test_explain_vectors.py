"""Explanations of an index with vectors have both numbers, and those of the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.command_line import neardup as run
from support.strategies import examples
from support.vector_definition import ASKED, CORPORA, VECTORS, WORDS, Row, Signals, rows_of

from neardup import Index, reference
from neardup.reference import vectors

EAST, NORTH, SOUTH = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.1]
ALSO: Row = {"also": "v:0.9", "dimension": 3, "threshold": 0.6, "shingle": "word:2"}
UNLESS: Row = {"unless": "v:0.5", "dimension": 3, "threshold": 0.6, "shingle": "word:2"}
ALONE: Row = {"vectors": "v", "cosine": 0.9, "dimension": 3}


def filled(folder: Path, asked: Row, rows: Sequence[tuple[str, list[float]]]) -> Index:
    index = Index.open(folder, **asked)
    texts = None if index.spec.of_vectors else [text for text, _ in rows]
    index.add_batch([f"d{n}" for n in range(len(rows))], texts, vectors=[v for _, v in rows])
    return index


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    a, b = ([float(np.float32(x)) for x in each] for each in (one, other))
    return vectors.cosine(a, b)


def jaccard(one: str, other: str) -> float:
    """The similarity of two texts by pairs of words."""
    sets = [
        {tuple(words[n : n + 2]) for n in range(max(len(words) - 1, 1))}
        for words in (one.split(), other.split())
    ]
    return reference.jaccard(*sets)


@pytest.mark.parametrize("asked", ASKED, ids=str)
@settings(max_examples=examples(8))
@given(documents=CORPORA, asking=st.tuples(WORDS, VECTORS))
def test_numbers_are_those_of_texts_and_vectors(
    asked: Signals,
    documents: list[tuple[str, list[float]]],
    asking: tuple[str, list[float]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("index")
    by_id = {row["id"]: row for row in rows_of(documents)}
    with filled(folder, asked.options | {"dimension": 3}, documents) as index:
        text = None if index.spec.of_vectors else asking[0]
        found = index.explain(text, vector=asking[1])
        assert found.answer == index.query(text, vector=asking[1])
        assert found.numbers == 3 and len(str(found).splitlines()) > 5
        for near in found.nearest:
            row = by_id[near.id]
            between = pytest.approx(cosine(asking[1], row["v"]), abs=1e-6)
            if index.spec.of_vectors:
                assert near.similarity == between
            else:
                assert near.similarity == pytest.approx(jaccard(asking[0], row["text"]))
                assert near.cosine == between  # type: ignore[attr-defined]
        for id, row in by_id.items():
            told = index.explain_document(id)
            stored = index.get(id)
            assert told is not None and stored is not None and told.document == stored
            witness = told.witness
            assert (witness is None) == (stored.duplicate_of is None)
            assert json.loads(json.dumps(told.as_dict))["rule"] == told.rule
            if witness is None:
                continue
            assert witness.buckets and witness.id == stored.duplicate_of
            between = pytest.approx(cosine(row["v"], by_id[witness.id]["v"]), abs=1e-6)
            assert (witness.similarity if index.spec.of_vectors else witness.cosine) == between
            pair = index.explain_pair(id, witness.id)
            assert pair is not None and pair.verdict == "copy"
            assert pair.cosine == witness.cosine and pair.similarity == witness.similarity


def test_steps_of_a_query_by_both_signals(tmp_path: Path) -> None:
    rows = [("one two three", EAST), ("four five six", NORTH), ("one two seven", SOUTH)]
    with filled(tmp_path, ALSO, rows) as index:
        found = index.explain("one two three eight", vector=[0.1, 1.0, 0.0])
        assert (found.shingles, found.answer.duplicate_of) == (3, "d0")
        first, second = found.nearest[:2]
        assert {first.id, second.id} == {"d0", "d1"}
        by = {one.id: (one.similarity, one.by) for one in (first, second)}  # type: ignore[attr-defined]
        assert by == {"d0": (pytest.approx(2 / 3), "text"), "d1": (0.0, "vector")}
        page = str(found)
        assert "3 shingles" not in page and "3, and 3 numbers of a vector" in page
        assert "by shingles and vectors" in page and "similar by vector)" in page
        assert "0.6667 similar, cosine 0.0995, by text" in page
        nothing = index.explain("x", vector=[0, 0, 0])
        assert nothing.rule.startswith("vector is all zeros")
        similar = index.similar("one two three eight", vector=[0.1, 1.0, 0.0])
        assert similar == list(found.nearest[: len(similar)]) and len(similar) == 2


def test_steps_of_a_query_by_vectors_alone(tmp_path: Path) -> None:
    with filled(tmp_path, ALONE, [("", EAST), ("", NORTH)]) as index:
        found = index.explain(vector=[1.0, 0.1, 0.0])
        assert (found.shingles, found.answer.duplicate_of) == (0, "d0")
        page = str(found)
        assert page.startswith("vector        3 numbers") and "planes" in page
        assert "duplicate of d0, cosine 0.9950, cluster 1" in page
        told = index.explain_document("d1")
        assert told is not None and told.shingles is None
        assert "shingles" not in str(told)


def test_a_veto_is_named(tmp_path: Path) -> None:
    rows = [("one two three four", EAST), ("one two three four five", NORTH)]
    with filled(tmp_path, UNLESS, rows) as index:
        told = index.explain_document("d1")
        assert told is not None and told.witness is None
        (other,) = told.others
        assert (other.similarity, other.cosine) == (0.75, 0.0)
        pair = index.explain_pair("d0", "d1")
        assert pair is not None and pair.verdict == "vetoed"
        assert "--unless v:0.5" in pair.sentence and "cosine 0.0000" in pair.sentence
        query = index.explain("one two three four six", vector=SOUTH)
        assert (query.answer.status, query.similar) == ("new", 0)
        assert {one.by for one in query.nearest} == {None}  # type: ignore[attr-defined]


def test_commands_explain_with_vectors(tmp_path: Path) -> None:
    rows: list[tuple[str, list[float]]] = [("one two three", EAST), ("four five", [1.0, 0.1, 0.0])]
    filled(tmp_path, ALSO, rows).close()
    asked: tuple[Any, ...] = ("query", tmp_path, "six", "--vector", "[1, 0, 0]", "--explain")
    assert "cosine 1.0000, similar by vector" in run(*asked).out
    why = run("why", tmp_path, "d1")
    assert "0.0000, cosine 0.9950 (Jaccard >= 0.6 or cosine >= 0.9)" in why.out
    assert "by vector, cluster 1" in why.out
    assert "cosine 0.9950" in run("why", tmp_path, "d1", "d0").out
    told = json.loads(run("why", tmp_path, "d1", "--json").out)
    assert told["witness"]["cosine"] == pytest.approx(0.995, abs=1e-3)
