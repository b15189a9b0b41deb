"""A run of which pairs are labelled, and someone who knows all answers."""

from __future__ import annotations

from pathlib import Path

from neardup.evaluation.label_figures import DIFFERENT, SAME, DrawnPair
from neardup.review.label_desk import LabelDesk
from neardup.review.label_draw import draw_pairs
from neardup.review.run_subject import RunSubject
from neardup.runtime import SILENT
from support.command_line import dedup, edited, write_jsonl

DOCUMENTS = [
    {
        "id": f"{seed}-{n}",
        "text": edited(seed, *(n * 9 + k for k in range(n * 3)), count=160),
    }
    for seed in range(20)
    for n in range(6)
]
"""Texts with five copies each, of which more and more words are others: the last are missed."""


def make_labelled_run(folder: Path, count: int = 60) -> Path:
    """Run `neardup dedup` on the documents, and draw pairs."""
    write_jsonl(folder / "texts.jsonl", DOCUMENTS)
    dedup(folder / "texts.jsonl", "-o", folder / "run")
    draw_more(folder / "run", count).close()
    return folder / "run"


def draw_more(run: Path, count: int, **options: int) -> LabelDesk:
    """Draw pairs of a run, and return the desk on which they are labelled."""
    desk = LabelDesk(RunSubject(run))
    draw_pairs(desk.subject, desk.journal, count, 1, SILENT, **options)
    return desk


def truth(pair: DrawnPair) -> str:
    """Return the right answer: copies of one text are the same."""
    return SAME if pair.a.split("-")[0] == pair.b.split("-")[0] else DIFFERENT
