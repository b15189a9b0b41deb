"""What the pages for labelling work on: drawn pairs, answers, and the figures by them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neardup.errors import UsageError
from neardup.evaluation.label_figures import (
    UNSURE,
    DrawnPair,
    LabelAgreement,
    LabelFigures,
    WeightedLabel,
    weigh_answers,
)
from neardup.evaluation.systems import RunSystem
from neardup.review.label_journal import LabelJournal, PairDraw
from neardup.review.run_subject import RunSubject

LABELS_FILE: Final = "labels.sqlite"
Answers = dict[int, str]
"""Answers by the numbers of pairs."""


def open_labels(subject: RunSubject) -> LabelJournal:
    """Open the drawn pairs and the answers of a run.

    Args:
        subject: The run.
    """
    return LabelJournal(subject.folder / LABELS_FILE, subject.fingerprint)


class TwoPeople(NamedTuple):
    """How far two people agree, and the pairs on which they differ."""

    mine: str
    theirs: str
    agreement: LabelAgreement
    differing: list[DrawnPair]


class LabelDesk:
    """The pairs of a run that people label.

    Args:
        subject: The run.
        blind: Whether people see neither similarities nor what the run has decided, nor names.
    """

    def __init__(self, subject: RunSubject, blind: bool = True) -> None:
        self.subject, self.blind = subject, blind
        self.journal = open_labels(subject)

    @property
    def draw(self) -> PairDraw:
        """The pairs; an error if none were drawn."""
        if self.journal.draw is None:
            raise UsageError(
                f"no pairs of {self.subject.run} were drawn: neardup review "
                f"{self.subject.run} --label 200 draws some"
            )
        return self.journal.draw

    @cached_property
    def _run(self) -> tuple[RunSystem, NDArray[np.bool_]]:
        """The run, and which of the pairs it has found."""
        number: dict[str, int] = {}
        ids = [id for pair in self.draw.pairs for id in (pair.a, pair.b)]
        places = np.array([number.setdefault(id, len(number)) for id in ids], np.int64)
        a, b = places.reshape(-1, 2).T
        run = RunSystem.of(self.subject.run, list(number))
        return run, run.duplicates(a, b)

    @property
    def found(self) -> NDArray[np.bool_]:
        """Which of the pairs the run has found."""
        return self._run[1]

    @property
    def by_jaccard(self) -> bool:
        """Whether the threshold of the run is one of the similarities that pairs have."""
        record = self._run[0].record
        by_bits = record["spec"].get("sketch") == "simhash"
        return record["parameters"].get("measure") == "jaccard" and not by_bits

    def next(self, who: str) -> DrawnPair | None:
        """Return the first pair that a person has not answered; None if there is none.

        Args:
            who: The name of the person.
        """
        answered = self.answers(who)
        return next((pair for pair in self.draw.pairs if pair.number not in answered), None)

    def answers(self, who: str) -> Answers:
        """Return the answers of a person.

        Args:
            who: The name of the person.
        """
        return self.journal.answers(who).get(who, {})

    def sides(self, pair: DrawnPair) -> tuple[str, str]:
        """Return the ids of a pair as they are shown, swapped at random, always alike.

        Args:
            pair: The pair.
        """
        digest = hashlib.blake2b(f"{pair.number}\n{pair.a}\n{pair.b}".encode("utf-8", "replace"))
        return (pair.b, pair.a) if digest.digest()[0] & 1 else (pair.a, pair.b)

    def figures(self, who: str | None = None) -> LabelFigures:
        """Return the figures by the answers of a person, or by those on which all agree.

        Args:
            who: The name of the person; None for all.
        """
        draw = self.draw
        answers = self.agreed() if who is None else self.answers(who)
        figures = LabelFigures.of(draw.pairs, draw.sizes, answers, self.found)
        return figures if self.by_jaccard else replace(figures, threshold=None)

    def agreed(self) -> Answers:
        """Return the answers of all people; unsure where they differ."""
        agreed: Answers = {}
        for answers in self.journal.answers().values():
            for pair, answer in answers.items():
                agreed[pair] = answer if agreed.get(pair, answer) == answer else UNSURE
        return agreed

    def labels(self, who: str | None = None) -> list[WeightedLabel]:
        """Return the labelled pairs with what each stands for, as a golden set has them.

        Args:
            who: The name of the person whose answers they are; None for those of all, where they
                agree.
        """
        answers = self.agreed() if who is None else self.answers(who)
        return weigh_answers(self.draw.pairs, self.draw.sizes, answers)

    def people(self) -> Iterator[TwoPeople]:
        """Yield how far any two people agree who have answered the same pairs."""
        answers = self.journal.answers()
        for mine, theirs in combinations(sorted(answers), 2):
            both = [p for p in self.draw.pairs if {p.number} <= answers[mine].keys()]
            both = [pair for pair in both if pair.number in answers[theirs]]
            given = [(answers[mine][p.number], answers[theirs][p.number]) for p in both]
            if given:
                differing = [pair for pair, (x, y) in zip(both, given, strict=True) if x != y]
                yield TwoPeople(mine, theirs, LabelAgreement.of(given), differing)

    def close(self) -> None:
        """Close the file."""
        self.journal.close()
