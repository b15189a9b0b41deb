"""How did an index come to its answer? Every step of a query, with what it found and took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np

from neardup.index.answer import DUPLICATE, REJECTED, Answer, Document, SimilarDocument
from neardup.index.arrivals import Arrivals, ArrivalSketcher, SketchedTexts
from neardup.index.decider import Decider
from neardup.index.lookup import ALL
from neardup.index.store import Row
from neardup.index.view import TablesBehind, View
from neardup.options import Options
from neardup.result import is_by_distance, name_estimate, name_measure

NEAREST: Final = 5
"""So many candidates are shown."""
ANY_SIMILARITY: Final = 1e-300
WIDTH: Final = 14


@dataclass(frozen=True, slots=True)
class Explanation:
    """The steps to an answer; `str()` of it is a page to read. No text is in it."""

    answer: Answer
    rule: str
    """What decided."""
    shingles: int = 0
    """Different ones; where repeats count, all of them."""
    slots: int = 0
    identical: str | None = None
    """The id of the first document with the same content."""
    look_ups: int = 0
    """Keys, one a table."""
    buckets: tuple[int, ...] = ()
    """How many kept documents each bucket has that was found, the largest first."""
    full: int = 0
    """Buckets that have more of them than are compared with."""
    candidates: int = 0
    """Kept documents that it was compared with."""
    exactly: int = 0
    """How many of them by their shingles; the others by their signatures."""
    similar: int = 0
    nearest: tuple[SimilarDocument, ...] = ()
    """The candidates that are most like it, similar or not."""
    measure: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    """What each step took; `query` is all of it, as `Index.query` does it."""

    @property
    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON can say it."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.answer.status != REJECTED:
            yield self._step("shingles", f"{self.shingles:,}")
            yield self._step("slots", f"{self.slots:,}")
            same = "no document has this content"
            if self.identical is not None:
                same = f"{self.identical} has this content"
            yield self._step("identical", same)
            yield self._step("look-ups", self._looked_up())
            by_slots = self.candidates - self.exactly
            how = f"{self.exactly:,} by shingles, {by_slots:,} by signatures"
            yield self._step(
                "candidates",
                f"{self.candidates:,} compared ({how}), {self.similar:,} similar ({self.measure})",
            )
            for place, match in enumerate(self.nearest):
                about = "" if match.exact else " (estimated)"
                name = "" if place else "nearest"
                yield f"{name:{WIDTH}}{match.similarity:.4f} {match.id}{about}"
        yield f"{'decision':{WIDTH}}{self._decision()}"
        if "query" in self.seconds:
            yield f"{'time':{WIDTH}}{_milliseconds(self.seconds['query'])} for the whole query"

    def _looked_up(self) -> str:
        found = f"{self.look_ups:,} keys, {len(self.buckets):,} buckets found"
        if not self.buckets:
            return found
        return f"{found}, the largest with {self.buckets[0]:,} documents, {self.full:,} full"

    def _decision(self) -> str:
        answer = self.answer
        if answer.status != DUPLICATE or answer.similarity is None:
            return f"{answer.status}: {self.rule}"
        return (
            f"duplicate of {answer.duplicate_of}, {answer.similarity:.4f} similar, cluster "
            f"{answer.cluster}: {self.rule}"
        )

    def _step(self, name: str, found: str) -> str:
        return f"{name:{WIDTH}}{found}, {_milliseconds(self.seconds[name])}"


def explain_query(
    text: str, answer: Answer, seconds: float, view: View, sketcher: ArrivalSketcher
) -> Explanation:
    """The steps that led to the answer to a text, done again one by one."""
    laps = {"query": seconds}
    if answer.status == REJECTED:
        return Explanation(answer, f"{answer.reason}; there is nothing to compare", seconds=laps)
    options = view.options
    sketched = _sketch(text, view, sketcher, laps)
    arrivals, one = sketched.arrivals, np.zeros(1, np.int64)
    with _lap(laps, "identical"):
        same = view.rows_by_content(arrivals.content).get(0)
    with _lap(laps, "look-ups"):
        counts, _, _ = view.leaders(arrivals.keys, ALL)
    with _lap(laps, "candidates"):
        _, pairs = view.decider.compare_candidates(arrivals, one, view, stop_early=False)
    sizes = np.sort(counts[counts > 0])[::-1]
    similar = int(np.count_nonzero(pairs.similarity >= 0.0))
    return Explanation(
        answer,
        _rule(same is not None, len(pairs.rows), similar),
        0 if arrivals.sets is None else int(arrivals.sets.offsets[-1]),
        options.spec.slots,
        None if same is None else same.id,
        counts.size,
        tuple(sizes.tolist()),
        int(np.count_nonzero(sizes > options.limit)),
        len(pairs.rows),
        int(np.count_nonzero(pairs.exact)),
        similar,
        _nearest(view, sketched),
        measure_of(options),
        laps,
    )


def _sketch(
    text: str, view: View, sketcher: ArrivalSketcher, laps: dict[str, float]
) -> SketchedTexts:
    documents = sketcher.documents([text])
    with _lap(laps, "shingles"):
        cut = sketcher.sketcher.cut(documents)
    with _lap(laps, "slots"):
        return sketcher.arrivals(sketcher.sketcher.sketched(documents, cut), view.codec.lsh, {})


def _nearest(view: View, sketched: SketchedTexts) -> tuple[SimilarDocument, ...]:
    """The candidates with the greatest similarity, whatever the threshold."""
    _, pairs = lenient(view.decider).compare_candidates(
        sketched.arrivals, np.zeros(1, np.int64), view, stop_early=False
    )
    best = np.argsort(-pairs.similarity, kind="stable")[:NEAREST]
    return tuple(view.name_pairs(pairs, best))


def lenient(decider: Decider) -> Decider:
    """Says how similar documents are, whatever the threshold."""
    options = decider.options
    if options.verify == "exact":
        return replace(decider, options=replace(options, threshold=ANY_SIMILARITY))
    return replace(decider, options=replace(options, verify="none"))


def _rule(identical: bool, candidates: int, similar: int) -> str:
    if identical:
        return "a document with the same content is there, and its answer is given"
    if similar:
        which = "the only similar one" if similar == 1 else f"the first of {similar:,} similar ones"
        return f"{which} among the kept documents that share a bucket"
    if candidates:
        return "no kept document that shares a bucket is similar enough"
    return "no kept document shares a bucket"


def measure_of(options: Options) -> str:
    """What counts as similar, as people read it."""
    if options.verify == "none":
        return "a shared bucket is enough"
    if is_by_distance(options):
        return f"at most {options.hamming} bits differ"
    what = name_measure(options) if options.verify == "exact" else name_estimate(options)
    return f"{what} >= {options.threshold:g}"


@contextmanager
def _lap(laps: dict[str, float], name: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    laps[name] = time.perf_counter() - begun


def _milliseconds(seconds: float) -> str:
    return f"{1_000 * seconds:.2f} ms"


@dataclass(frozen=True, slots=True)
class ComparedDocument:
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
    witness: ComparedDocument | None
    others: tuple[ComparedDocument, ...]
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

    def _shared(self, other: ComparedDocument) -> str:
        if other.shared is None:
            return "not both have stored shingles"
        both = f"{self.shingles:,} here and {other.shingles:,} there"
        return f"{other.shared:,} shingles of {both}"

    def _buckets(self, witness: ComparedDocument) -> str:
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


def explain_stored(view: View, document: Document) -> DocumentExplanation:
    """A stored document, compared with its witness and with whom it shares a bucket."""
    number, options = document.number, view.codec.options
    witness = None if document.duplicate_of is None else document.cluster
    view = view.without([number])
    with view.store.snapshot():
        rows = view.store.rows([number] if witness is None else [number, witness])
        if len(rows) < 1 + (witness is not None):
            raise TablesBehind
        here = view.stored_arrivals([number], [rows[number].content])
        met = view.leaders(here.keys, options.limit)[2].tolist()
        rows |= view.store.rows(sorted(set(met)))  # without those that came or went just now
        found = _compare_with(view, here, number, witness, rows)
    identical = witness is not None and rows[witness].content == rows[number].content
    return DocumentExplanation(
        document,
        _document_rule(witness is not None, identical),
        measure_of(options),
        None if here.sets is None else int(here.sets.offsets[-1]),
        here.keys.shape[1],
        identical,
        next((one for one in found if one.number == witness), None),
        tuple(one for one in found if one.number != witness)[:NEAREST],
    )


def _compare_with(
    view: View,
    here: Arrivals,
    number: int,
    witness: int | None,
    rows: dict[int, Row],
) -> list[ComparedDocument]:
    """Of the rows the witness and those most like it, the most similar first."""
    numbers = np.array(sorted(rows.keys() - {number}), np.int64)
    if not len(numbers):
        return []
    pairs = lenient(view.decider).compare_pairs(here, np.zeros_like(numbers), numbers, view)
    best = np.argsort(-pairs.similarity, kind="stable").tolist()
    shown = [at for place, at in enumerate(best) if place < NEAREST or numbers[at] == witness]
    listed = numbers[shown].tolist()
    sets = view.shingles([number, *listed])
    keys = view.stored_arrivals(listed, [rows[other].content for other in listed]).keys
    return [
        ComparedDocument(
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


def _document_rule(copy: bool, identical: bool) -> str:
    if identical:
        return "its content is the same"
    if copy:
        return "the first similar one among the kept documents that shared a bucket with it"
    return "no kept document that shared a bucket with it was similar enough when it was judged"


def _similarity(other: ComparedDocument) -> str:
    return f"{other.similarity:.4f}{'' if other.exact else ' (estimated)'}"
