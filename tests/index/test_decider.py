"""Candidates are compared in slices of a limited size, with the same answer."""

from __future__ import annotations

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
    load = View.shingles

    def measure(self: View, numbers: Sequence[int]) -> dict[int, bytes]:
        found = load(self, numbers)
        sizes.append(sum(map(len, found.values())))
        return found

    monkeypatch.setattr(View, "shingles", measure)
    return index.query(query), sizes


def test_shingles_of_all_candidates_are_never_loaded_at_once(index, monkeypatch):
    whole, sizes = loaded(index, monkeypatch, text(COUNT - 1) + " more")
    assert len(sizes) == 1
    one = sizes[0] // COUNT
    monkeypatch.setattr(decider, "SLICE_BYTES", 3 * one)
    monkeypatch.setattr(decider, "FIRST_DOCUMENTS", 2)
    answer, sizes = loaded(index, monkeypatch, text(COUNT - 1) + " more")
    assert answer == whole and answer.duplicate_of == str(COUNT - 1)
    assert max(sizes) <= 4 * one


def test_no_candidate_is_loaded_after_the_witness(index, monkeypatch):
    monkeypatch.setattr(decider, "SLICE_BYTES", 1)
    monkeypatch.setattr(decider, "FIRST_DOCUMENTS", 2)
    answer, sizes = loaded(index, monkeypatch, text(0) + " more")
    assert answer.duplicate_of == "0"
    assert len(sizes) == 1


@pytest.mark.parametrize("budget", [1, 5_000, 20_000])
def test_documents_are_judged_the_same_in_slices_of_any_size(index, monkeypatch, budget):
    texts = [text(at % COUNT) + " more" * (at % 3) for at in range(2 * COUNT)]
    whole = index.query_batch(texts)
    monkeypatch.setattr(decider, "SLICE_BYTES", budget)
    monkeypatch.setattr(decider, "FIRST_DOCUMENTS", 3)
    assert index.query_batch(texts) == whole
    added = index.add_batch([f"n{at}" for at in range(len(texts))], texts)
    assert [one.duplicate_of for one in added] == [one.duplicate_of for one in whole]
    assert index.verify() == []
