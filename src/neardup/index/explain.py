"""Explain an answer of an index: every step of a query, or a stored document beside its witness."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.explanation import (
    KEPT,
    REMOVED,
    DecidedDocument,
    PairFacts,
    PairVerdict,
    describe_rule,
    explain_pair,
    has_direction,
)
from neardup.formatting import format_similarity, make_printable
from neardup.index.answer import DUPLICATE, REJECTED, Answer, Document, SimilarDocument
from neardup.index.arrivals import Arrivals, ArrivalSketcher, SignatureCodec, SketchedTexts
from neardup.index.decider import Decider
from neardup.index.lookup import ALL
from neardup.index.store import Row
from neardup.index.view import TablesBehind, View
from neardup.sketcher import keep_apart
from neardup.verify import count_common

NEAREST: Final = 5
"""The number of candidates that are shown."""
ANY_SIMILARITY: Final = 1e-300
"""A threshold that every pair with a common shingle reaches."""
WIDTH: Final = 14
"""Width of the first column of a page."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The steps of a query; `str()` gives a page to read. It contains no text."""

    answer: Answer
    rule: str
    """The rule that decided."""
    shingles: int = 0
    """Distinct shingles; where repeats count, all shingles."""
    slots: int = 0
    """Slots of its sketch."""
    identical: str | None = None
    """The id of the first document with the same content."""
    look_ups: int = 0
    """Keys that were looked up, one a table."""
    buckets: tuple[int, ...] = ()
    """The sizes of its buckets that have kept documents, the largest first."""
    full: int = 0
    """Buckets with more kept documents than the limit."""
    candidates: int = 0
    """Kept documents that it was compared with."""
    exactly: int = 0
    """Candidates that were compared by shingles; the others by signatures."""
    similar: int = 0
    """Candidates that are similar."""
    nearest: tuple[SimilarDocument, ...] = ()
    """The most similar candidates, whether they reach the threshold or not."""
    measure: str = ""
    """The measure and its threshold."""
    seconds: dict[str, float] = field(default_factory=dict)
    """The time of each step; `query` is the time of `Index.query` as a whole."""

    @property
    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(map(make_printable, self._lines()))

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
                yield f"{name:{WIDTH}}{format_similarity(match.similarity)} {match.id}{about}"
        yield f"{'decision':{WIDTH}}{self._decision()}"
        if "query" in self.seconds:
            yield f"{'time':{WIDTH}}{_milliseconds(self.seconds['query'])} for the whole query"

    def _looked_up(self) -> str:
        counts = f"{self.look_ups:,} keys, {len(self.buckets):,} buckets found"
        if not self.buckets:
            return counts
        return f"{counts}, the largest with {self.buckets[0]:,} documents, {self.full:,} full"

    def _decision(self) -> str:
        answer = self.answer
        if answer.status != DUPLICATE or answer.similarity is None:
            return f"{answer.status}: {self.rule}"
        return (
            f"duplicate of {answer.duplicate_of}, "
            f"{format_similarity(answer.similarity)} similar, cluster "
            f"{answer.cluster}: {self.rule}"
        )

    def _step(self, name: str, result: str) -> str:
        return f"{name:{WIDTH}}{result}, {_milliseconds(self.seconds[name])}"


def explain_query(
    text: str,
    apart: NDArray[np.uint64] | None,
    answer: Answer,
    seconds: float,
    view: View,
    sketcher: ArrivalSketcher,
) -> Explanation:
    """Repeat the steps that led to an answer one by one, with their times.

    Args:
        text: The text that was queried.
        apart: The hash of its group, if the index has groups.
        answer: Its answer.
        seconds: How long the query took.
        view: The view that answered.
        sketcher: Sketches the text.
    """
    laps = {"query": seconds}
    if answer.status == REJECTED:
        return Explanation(answer, f"{answer.reason}; there is nothing to compare", seconds=laps)
    options = view.options
    sketched = _sketch(text, apart, view, sketcher, laps)
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
        describe_rule(options),
        laps,
    )


def _sketch(
    text: str,
    apart: NDArray[np.uint64] | None,
    view: View,
    sketcher: ArrivalSketcher,
    laps: dict[str, float],
) -> SketchedTexts:
    documents = sketcher.documents([text])
    with _lap(laps, "shingles"):
        cut = sketcher.sketcher.cut(documents)
    with _lap(laps, "slots"):
        sketch = sketcher.sketcher.sketched(documents, cut)
        sketch = sketch if apart is None else keep_apart(sketch, apart)
        return sketcher.arrivals(sketch, view.codec.lsh, {})


def _nearest(view: View, sketched: SketchedTexts) -> tuple[SimilarDocument, ...]:
    """Return the candidates with the greatest similarity, whatever the threshold."""
    _, pairs = lenient(view.decider).compare_candidates(
        sketched.arrivals, np.zeros(1, np.int64), view, stop_early=False
    )
    best = np.argsort(-pairs.similarity, kind="stable")[:NEAREST]
    return tuple(view.name_pairs(pairs, best))


def lenient(decider: Decider) -> Decider:
    """Return a decider that gives the similarity of pairs below the threshold too."""
    options = decider.options
    if options.vectors is not None:
        options = options.unvetoed
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


@contextmanager
def _lap(laps: dict[str, float], name: str) -> Iterator[None]:
    """Store the duration of the block as `laps[name]`."""
    begun = time.perf_counter()
    yield
    laps[name] = time.perf_counter() - begun


def _milliseconds(seconds: float) -> str:
    return f"{1_000 * seconds:.2f} ms"


@dataclass(frozen=True, slots=True)
class ComparedDocument:
    """A kept document that the explained one is compared with."""

    id: str
    number: int
    similarity: float
    exact: bool
    shingles: int | None
    """The number of its shingles; None if it came without a text."""
    shared: int | None
    """Shingles that both have."""
    buckets: tuple[int, ...]
    """The tables, counted from 1, in which both are in one bucket."""


@dataclass(frozen=True, slots=True)
class DocumentExplanation:
    """A stored document beside its witness and others; `str()` gives a page to read.

    It contains no text.
    """

    document: Document
    rule: str
    """The rule that decided."""
    measure: str
    """The measure and its threshold."""
    shingles: int | None
    """Distinct shingles; where repeats count, all of them. None if it came without a text."""
    tables: int
    """The number of tables, and of its buckets."""
    identical: bool
    """Whether its witness has the same content."""
    witness: ComparedDocument | None
    others: tuple[ComparedDocument, ...]
    """Other kept documents that share a bucket with it now, the most similar first."""

    @property
    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(f"{name:{WIDTH}}{make_printable(value)}" for name, value in self._lines())

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield "document", f"{self.document.id}, number {self.document.number}"
        yield "shingles", "not stored" if self.shingles is None else f"{self.shingles:,}"
        if self.witness is not None:
            yield "witness", f"{self.witness.id}, number {self.witness.number}"
            yield "similarity", f"{_similarity(self.witness)} ({self.measure})"
            yield "shared", self._shared(self.witness)
            yield "buckets", self._buckets(self.witness)
        for place, other in enumerate(self.others):
            compared = f"{_similarity(other)} {other.id}: {self._shared(other)}"
            buckets = f"{len(other.buckets):,} of {self.tables:,} buckets"
            yield ("" if place else "others"), f"{compared}, {buckets}"
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
        document = self.document
        if document.duplicate_of is None or document.similarity is None:
            return f"kept: {self.rule}"
        how = "" if document.exact else " (estimated)"
        return (
            f"duplicate of {document.duplicate_of}, "
            f"{format_similarity(document.similarity)} similar{how}, "
            f"cluster {document.cluster}: {self.rule}"
        )


def explain_stored(view: View, document: Document) -> DocumentExplanation:
    """Compare a stored document with its witness and the kept documents of its buckets."""
    number, options = document.number, view.codec.options
    witness = None if document.duplicate_of is None else document.cluster
    view = view.without([number])
    with view.store.snapshot():
        rows = view.store.rows([number] if witness is None else [number, witness])
        if len(rows) < 1 + (witness is not None):
            raise TablesBehind
        arrival = view.stored_arrivals([number], [rows[number].content])
        leaders = view.leaders(arrival.keys, options.limit)[2].tolist()
        rows |= view.store.rows(sorted(set(leaders)))  # some may have been removed just now
        compared = _compare_with(view, arrival, number, witness, rows)
    identical = witness is not None and rows[witness].content == rows[number].content
    return DocumentExplanation(
        document,
        _document_rule(witness is not None, identical),
        describe_rule(options),
        None if arrival.sets is None else int(arrival.sets.offsets[-1]),
        arrival.keys.shape[1],
        identical,
        next((one for one in compared if one.number == witness), None),
        tuple(one for one in compared if one.number != witness)[:NEAREST],
    )


def _compare_with(
    view: View,
    arrival: Arrivals,
    number: int,
    witness: int | None,
    rows: dict[int, Row],
) -> list[ComparedDocument]:
    """Compare the document `number` with `rows`; return the witness and the most similar ones.

    The most similar one is first.
    """
    numbers = np.array(sorted(rows.keys() - {number}), np.int64)
    if not len(numbers):
        return []
    pairs = lenient(view.decider).compare_pairs(arrival, np.zeros_like(numbers), numbers, view)
    best = np.argsort(-pairs.similarity, kind="stable").tolist()
    shown = [at for place, at in enumerate(best) if place < NEAREST or numbers[at] == witness]
    listed = numbers[shown].tolist()
    sets = view.shingles([number, *listed])
    others = view.stored_arrivals(listed, [rows[other].content for other in listed])
    own, keys = arrival.together().keys[0], others.together().keys
    return [
        ComparedDocument(
            rows[other].id,
            other,
            max(float(pairs.similarity[at]), 0.0),
            bool(pairs.exact[at]),
            len(sets[other]) // 8 if other in sets else None,
            _shared_shingles(sets, number, other),
            tuple((np.flatnonzero(its_keys == own) + 1).tolist()),
        )
        for at, other, its_keys in zip(shown, listed, keys, strict=True)
    ]


def _shared_shingles(sets: dict[int, bytes], one: int, other: int) -> int | None:
    """Count the shingles that two documents share; None if not both have stored shingles."""
    if one not in sets or other not in sets:
        return None
    return count_common(*(np.frombuffer(sets[number], np.uint64) for number in (one, other)))


def explain_stored_pair(view: View, a: Document, b: Document) -> PairVerdict:
    """Compare two stored documents with one another."""
    options = view.codec.options
    # A copy is compared with its witness; of others, the one that came later is the arrival.
    is_later = a.duplicate_of == b.id or (b.duplicate_of != a.id and a.number > b.number)
    later, sooner = (a, b) if is_later else (b, a)
    part = (0 if is_later else 1) if has_direction(options) else None
    with view.store.snapshot():
        rows = view.store.rows([a.number, b.number])
        if len(rows) < len({a.number, b.number}):
            raise TablesBehind
        arrival = view.stored_arrivals([later.number], [rows[later.number].content])
        compared = _compare_with(view, arrival, later.number, sooner.number, rows)
        numbers = [a.number, b.number]
        both = view.stored_arrivals(numbers, [rows[number].content for number in numbers])
    facts = PairFacts(arrival.keys.shape[1], arrival.keys.shape[1], 1.0, True, True)
    apart = tuple(_kept_apart(view.codec, both.apart))
    content = both.together().content
    for one in compared:
        identical = bool((content[0] == content[1]).all())
        tables = arrival.keys.shape[1]
        facts = PairFacts(
            len(one.buckets), tables, one.similarity, one.exact, identical, apart, part
        )
    return explain_pair(options, _decided(a), _decided(b), facts)


def _kept_apart(codec: SignatureCodec, apart: NDArray[np.uint64] | None) -> Iterator[str]:
    """Yield the options that keep two documents apart, by their hashes."""
    if apart is None:
        return
    groups, distinguish = codec.groups(apart), codec.options.distinguish
    if groups is not None and groups[0] != groups[1]:
        yield "--within"
    if distinguish and apart[0, -1] != apart[1, -1]:
        yield f"--distinguish {distinguish}"


def _decided(document: Document) -> DecidedDocument:
    status = KEPT if document.duplicate_of is None else REMOVED
    return DecidedDocument(document.id, status, document.duplicate_of)


def _document_rule(copy: bool, identical: bool) -> str:
    if identical:
        return "its content is the same"
    if copy:
        return "the first similar one among the kept documents that shared a bucket with it"
    return "no kept document that shared a bucket with it was similar enough when it was judged"


def _similarity(other: ComparedDocument) -> str:
    return f"{format_similarity(other.similarity)}{'' if other.exact else ' (estimated)'}"
