"""Candidates are compared in slices of a limited size, with the same answer."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from neardup import Index
from neardup.index import decider
from neardup.index.answer import Answer
from neardup.index.view import View

COUNT = 40
OPTIONS = {"threshold": 0.95, "shingle": "word:1", "bands": 16, "rows": 2, "limit": 1_000}


def text(number: int) -> str:
    """All texts share two thirds of their words, and so a bucket; none is a copy of another."""
    shared = [f"s{at}" for at in range(200)]
    return " ".join([*shared, *(f"own{number}x{at}" for at in range(100))])


@pytest.fixture
def index(tmp_path: Path) -> Index:
    opened = Index.open(tmp_path, **OPTIONS)
    answers = opened.add_batch([str(at) for at in range(COUNT)], [text(at) for at in range(COUNT)])
    assert {answer.status for answer in answers} == {"new"}
    return opened


def loaded(index: Index, monkeypatch: pytest.MonkeyPatch, query: str) -> tuple[Answer, list[int]]:
    """The answer to a query, and the bytes of each load of shingles."""
    sizes = []
    load = View.first_shingles

    def measure(self: View, numbers: Sequence[int], most: int) -> tuple[dict[int, bytes], int]:
        found, count = load(self, numbers, most)
        sizes.append(sum(map(len, found.values())))
        return found, count

    monkeypatch.setattr(View, "first_shingles", measure)
    return index.query(query), sizes


def test_shingles_of_all_candidates_are_never_loaded_at_once(index, monkeypatch):
    whole, sizes = loaded(index, monkeypatch, text(COUNT - 1) + " more")
    assert len(sizes) == 1
    one = sizes[0] // COUNT
    monkeypatch.setattr(decider, "SLICE_BYTES", 3 * one)
    answer, sizes = loaded(index, monkeypatch, text(COUNT - 1) + " more")
    assert answer == whole and answer.duplicate_of == str(COUNT - 1)
    assert max(sizes) <= 4 * one
    assert len(sizes) >= COUNT // 4


def test_no_candidate_is_loaded_after_the_witness(index, monkeypatch):
    monkeypatch.setattr(decider, "SLICE_BYTES", 1)
    answer, sizes = loaded(index, monkeypatch, text(0) + " more")
    assert answer.duplicate_of == "0"
    assert len(sizes) == 1


@pytest.mark.parametrize("budget", [1, 5_000, 20_000])
def test_documents_are_judged_the_same_in_slices_of_any_size(index, monkeypatch, budget):
    texts = [text(at % COUNT) + " more" * (at % 3) for at in range(2 * COUNT)]
    whole = index.query_batch(texts)
    monkeypatch.setattr(decider, "SLICE_BYTES", budget)
    assert index.query_batch(texts) == whole
    added = index.add_batch([f"n{at}" for at in range(len(texts))], texts)
    assert [one.duplicate_of for one in added] == [one.duplicate_of for one in whole]
    assert index.verify() == []


def test_memory_of_a_query_that_meets_many_long_documents(tmp_path: Path) -> None:
    """400 documents with 832 KB of shingles each took 800 MB."""
    count, words = 120, 104_000
    common = " ".join(f"s{at}" for at in range(words // 2))
    with Index.open(tmp_path, **OPTIONS) as index:
        for number in range(count):
            own = " ".join(f"own{number}x{at}" for at in range(words // 2))
            assert index.add(str(number), f"{common} {own}").status == "new"
        asked = f"{common} " + " ".join(f"asked{at}" for at in range(words // 2))
        index.query(asked)
        tracemalloc.start()
        try:
            assert index.query(asked).status == "new"
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 100e6, f"{peak / 1e6:.0f} MB"
