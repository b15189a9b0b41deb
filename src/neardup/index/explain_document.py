"""Why is a stored document a copy, or why is it kept? It is compared again with those it meets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from neardup.index.answer import Document
from neardup.index.deciding import Arrivals
from neardup.index.explain import NEAREST, WIDTH, lenient, measure_of
from neardup.index.known import Behind, Known
from neardup.index.store import Row, Store
from neardup.index.work import Point


@dataclass(frozen=True, slots=True)
class Meeting:
    """A kept document that another one is compared with."""

    id: str
    number: int
    similarity: float
    exact: bool
    shingles: int | None
    """Its own, counted as the other's; None if it came without a text."""
    shared: int | None
    """Those that both have."""
    buckets: tuple[int, ...]
    """The tables, from 1 on, in which both are in one bucket."""


@dataclass(frozen=True, slots=True)
class DocumentExplanation:
    """A stored document beside its witness and others; `str()` of it is a page to read.

    No text is in it.
    """

    document: Document
    rule: str
    """What decided."""
    measure: str
    shingles: int | None
    """Different ones; where repeats count, all of them. None if it came without a text."""
    tables: int
    identical: bool
    """Whether its witness has the same content."""
    witness: Meeting | None
    others: tuple[Meeting, ...]
    """Other kept documents that share a bucket with it now, the most similar ones first."""

    @property
    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON can say it."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(f"{name:{WIDTH}}{value}" for name, value in self._lines())

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield "document", f"{self.document.id}, number {self.document.number}"
        yield "shingles", "not stored" if self.shingles is None else f"{self.shingles:,}"
        if self.witness is not None:
            yield "witness", f"{self.witness.id}, number {self.witness.number}"
            yield "similarity", f"{_similarity(self.witness)} ({self.measure})"
            yield "shared", self._shared(self.witness)
            yield "buckets", self._buckets(self.witness)
        for place, other in enumerate(self.others):
            found = f"{_similarity(other)} {other.id}: {self._shared(other)}"
            buckets = f"{len(other.buckets):,} of {self.tables:,} buckets"
            yield ("" if place else "others"), f"{found}, {buckets}"
        if not (self.witness or self.others):
            yield "others", "no kept document shares a bucket with it"
        yield "decision", self._decision()

    def _shared(self, other: Meeting) -> str:
        if other.shared is None:
            return "not both have stored shingles"
        both = f"{self.shingles:,} here and {other.shingles:,} there"
        return f"{other.shared:,} shingles of {both}"

    def _buckets(self, witness: Meeting) -> str:
        shared = f"{len(witness.buckets):,} of {self.tables:,} shared"
        if len(witness.buckets) in (0, self.tables):
            return shared
        return f"{shared}: {', '.join(map(str, witness.buckets))}"

    def _decision(self) -> str:
        about = self.document
        if about.duplicate_of is None or about.similarity is None:
            return f"kept: {self.rule}"
        how = "" if about.exact else " (estimated)"
        return (
            f"duplicate of {about.duplicate_of}, {about.similarity:.4f} similar{how}, cluster "
            f"{about.cluster}: {self.rule}"
        )


def explained_document(store: Store, point: Point, document: Document) -> DocumentExplanation:
    """A stored document, compared with its witness and with whom it shares a bucket."""
    number, options = document.number, point.signing.options
    witness = None if document.duplicate_of is None else document.cluster
    known = point.known(store, [number])
    with store.snapshot():
        rows = store.rows([number] if witness is None else [number, witness])
        if len(rows) < 1 + (witness is not None):
            raise Behind
        here = known.stored([number], [rows[number].content])
        met = known.leaders(here.keys, options.limit)[2].tolist()
        rows |= store.rows(sorted(set(met)))  # without those that came or went just now
        found = _meetings(point, known, here, number, witness, rows)
    identical = witness is not None and rows[witness].content == rows[number].content
    return DocumentExplanation(
        document,
        _rule(witness is not None, identical),
        measure_of(options),
        None if here.sets is None else int(here.sets.offsets[-1]),
        here.keys.shape[1],
        identical,
        next((one for one in found if one.number == witness), None),
        tuple(one for one in found if one.number != witness)[:NEAREST],
    )


def _meetings(
    point: Point,
    known: Known,
    here: Arrivals,
    number: int,
    witness: int | None,
    rows: dict[int, Row],
) -> list[Meeting]:
    """Of the rows the witness and those most like it, the most similar first."""
    numbers = np.array(sorted(rows.keys() - {number}), np.int64)
    if not len(numbers):
        return []
    pairs = lenient(point.decider).compared(here, np.zeros_like(numbers), numbers, known)
    best = np.argsort(-pairs.similarity, kind="stable").tolist()
    shown = [at for place, at in enumerate(best) if place < NEAREST or numbers[at] == witness]
    listed = numbers[shown].tolist()
    sets = known.sets([number, *listed])
    keys = known.stored(listed, [rows[other].content for other in listed]).keys
    return [
        Meeting(
            rows[other].id,
            other,
            max(float(pairs.similarity[at]), 0.0),
            bool(pairs.exact[at]),
            len(sets[other]) // 8 if other in sets else None,
            _common(sets[number], sets[other]) if {number, other} <= sets.keys() else None,
            tuple((np.flatnonzero(mine == here.keys[0]) + 1).tolist()),
        )
        for at, other, mine in zip(shown, listed, keys, strict=True)
    ]


def _common(one: bytes, other: bytes) -> int:
    """How many shingles two documents share; repeated ones as often as both have them."""
    a, often = np.unique(np.frombuffer(one, np.uint64), return_counts=True)
    b, as_often = np.unique(np.frombuffer(other, np.uint64), return_counts=True)
    _, mine, theirs = np.intersect1d(a, b, assume_unique=True, return_indices=True)
    return int(np.minimum(often[mine], as_often[theirs]).sum())


def _rule(copy: bool, identical: bool) -> str:
    if identical:
        return "its content is the same"
    if copy:
        return "the first similar one among the kept documents that shared a bucket with it"
    return "no kept document that shared a bucket with it was similar enough when it was judged"


def _similarity(other: Meeting) -> str:
    return f"{other.similarity:.4f}{'' if other.exact else ' (estimated)'}"
