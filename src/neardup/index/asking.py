"""Is a text a copy of a kept document? Nothing is stored."""

from __future__ import annotations

import time

import numpy as np

from neardup.index.answer import DUPLICATE, NEW, REJECTED, Answer, Match
from neardup.index.deciding import Arrivals, Pairs, first_similar
from neardup.index.finding import rows_like
from neardup.index.known import Behind
from neardup.index.probing import Probing
from neardup.index.sketching import Sketched
from neardup.index.store import Stored
from neardup.index.tables.postings import Integers
from neardup.index.work import Counters, Point


def copies_of(
    store: Stored, point: Point, arrivals: Arrivals, counters: Counters, more: Probing | None = None
) -> dict[int, Answer]:
    """Of those that are copies, what is said.

    With `more`, other buckets are looked into besides.
    """
    if not len(arrivals):
        return {}
    begun = time.perf_counter()
    same = rows_like(store, point, arrivals.content)
    rest = np.array([at for at in range(len(arrivals)) if at not in same], np.int64)
    found = {
        at: (row.number, 1.0, True)
        if row.witness is None or row.similarity is None
        else (row.witness, row.similarity, bool(row.exact))
        for at, row in same.items()
    }
    if len(rest):
        probes = None if more is None else more.of(arrivals, rest)
        _, pairs = point.decider.meetings(arrivals, rest, point.known(store), probes)
        counters.meet(len(rest), pairs, time.perf_counter() - begun)
        for row, place in first_similar(pairs):
            found[row] = (
                int(pairs.numbers[place]),
                float(pairs.similarity[place]),
                bool(pairs.exact[place]),
            )
    if not found:
        return {}
    names = {row.number: row.id for row in same.values()}
    if missing := {witness for witness, _, _ in found.values()} - names.keys():
        names |= {row.number: row.id for row in store.rows(sorted(missing)).values()}
    if any(witness not in names for witness, _, _ in found.values()):
        raise Behind
    return {
        at: Answer(None, DUPLICATE, names[witness], similarity, exact, witness)
        for at, (witness, similarity, exact) in found.items()
    }


def answers_of(sketched: Sketched, copies: dict[int, Answer]) -> list[Answer]:
    """What is said of all texts, in order: which are copies is known."""
    answers = [Answer(None, NEW)] * (len(sketched.places) + len(sketched.rejected))
    for place, why in sketched.rejected.items():
        answers[place] = Answer(None, REJECTED, reason=why)
    for at, answer in copies.items():
        answers[sketched.places[at]] = answer
    return answers


def matches_of(store: Stored, point: Point, arrivals: Arrivals, most: int) -> list[Match]:
    """The kept documents that the one arrival is similar to, the most similar first."""
    _, pairs = point.decider.meetings(arrivals, np.zeros(1, np.int64), point.known(store))
    good = np.flatnonzero(pairs.similarity >= 0.0)
    return matches(store, pairs, good[np.argsort(-pairs.similarity[good], kind="stable")][:most])


def matches(store: Stored, pairs: Pairs, places: Integers) -> list[Match]:
    """Some of the pairs, with names."""
    rows = store.rows(pairs.numbers[places].tolist())
    return [
        Match(rows[number].id, number, max(float(pairs.similarity[at]), 0.0), bool(pairs.exact[at]))
        for at in places.tolist()
        if (number := int(pairs.numbers[at])) in rows
    ]
