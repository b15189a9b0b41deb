"""Copies that are made to slip through: docs/evasion.md states what is measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.evasions import (
    BY_LETTERS,
    BY_WORDS,
    POST,
    SYNONYMS,
    letters_table,
    vectors_table,
    words_table,
)

import neardup

PAGE = Path(__file__).parents[1] / "docs" / "evasion.md"


@pytest.mark.parametrize("table", [letters_table, words_table, vectors_table])
def test_tables_of_the_page_are_what_is_measured(table):
    assert f"\n\n{table()}\n\n" in PAGE.read_text("utf-8")


def test_each_evasion_changes_the_text():
    copies = [evade(POST) for evade in (BY_LETTERS | BY_WORDS).values()]
    assert len({POST, *copies}) == len(copies) + 1
    assert all(f" {word} " in f" {POST} ".replace(",", " ") for word in SYNONYMS)


def test_a_run_by_look_alikes_finds_the_disguised_copies():
    """All but those that the page names: capitals that look alike alone, digits, spaced letters."""
    copies = {name: evade(POST) for name, evade in BY_LETTERS.items()}
    rows = [{"id": "post", "text": POST}, *({"id": n, "text": t} for n, t in copies.items())]
    missed = set(neardup.dedup(rows, id="id", text_profile="look-alikes").kept) - {"post"}
    assert missed == {
        "capitals, of them Greek ΗΜΝΥ",
        "leetspeak (m0n3y)",
        "letters apart (m o n e y)",
    }
