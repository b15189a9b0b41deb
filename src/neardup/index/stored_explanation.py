"""Explain a stored document of an index beside its witness, or two of them beside one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

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
from neardup.index.answer import Document
from neardup.index.arrivals import Arrivals, SignatureCodec
from neardup.index.explain import NEAREST, WIDTH, describe_numbers
from neardup.index.store import Row
from neardup.index.view import TablesBehind, View
from neardup.sketcher import words_of_vector
from neardup.verify import count_common


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
    cosine: float | None = None
    """The cosine of both vectors, beside the similarity of texts."""


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
    """Distinct shingles; where repeats count, all of them. None if it came without a text, and of
    vectors alone."""
    tables: int
    """The number of tables, and of its buckets."""
    identical: bool
    """Whether its witness has the same content."""
    witness: ComparedDocument | None
    others: tuple[ComparedDocument, ...]
    """Other kept documents that share a bucket with it now, the most similar first."""
    of_vectors: bool = False
    """Whether vectors alone are compared, so that similarities are cosines."""

    @property
    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(f"{name:{WIDTH}}{make_printable(value)}" for name, value in self._lines())

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield "document", f"{self.document.id}, number {self.document.number}"
        if not self.of_vectors:
            yield "shingles", "not stored" if self.shingles is None else f"{self.shingles:,}"
        if self.witness is not None:
            yield "witness", f"{self.witness.id}, number {self.witness.number}"
            yield "similarity", f"{_similarity(self.witness)} ({self.measure})"
            if not self.of_vectors:
                yield "shared", self._shared(self.witness)
            yield "buckets", self._buckets(self.witness)
        for place, other in enumerate(self.others):
            shared = "" if self.of_vectors else f"{self._shared(other)}, "
            buckets = f"{len(other.buckets):,} of {self.tables:,} buckets"
            compared = f"{_similarity(other)} {other.id}: {shared}{buckets}"
            yield ("" if place else "others"), compared
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
        likeness = describe_numbers(document, document.similarity, self.of_vectors)
        return (
            f"duplicate of {document.duplicate_of}, {likeness}{how}, "
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
        None
        if arrival.sets is None or options.spec.of_vectors
        else int(arrival.sets.offsets[-1]) - words_of_vector(options.spec.dimension),
        arrival.keys.shape[1],
        identical,
        next((one for one in compared if one.number == witness), None),
        tuple(one for one in compared if one.number != witness)[:NEAREST],
        options.spec.of_vectors,
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
    spec = view.options.spec
    pairs = view.decider.lenient().compare_pairs(arrival, np.zeros_like(numbers), numbers, view)
    best = view.rank_pairs(pairs).tolist()
    shown = [at for place, at in enumerate(best) if place < NEAREST or numbers[at] == witness]
    listed = numbers[shown].tolist()
    sets = _shingles_of(view, [number, *listed])
    others = view.stored_arrivals(listed, [rows[other].content for other in listed])
    own, keys = arrival.together().keys[0], others.together().keys
    return [
        ComparedDocument(
            rows[other].id,
            other,
            max(float(pairs.similarity[at]), -1.0 if spec.of_vectors else 0.0),
            bool(pairs.exact[at]),
            len(sets[other]) if other in sets else None,
            _shared_shingles(sets, number, other),
            tuple((np.flatnonzero(its_keys == own) + 1).tolist()),
            None if pairs.cosine is None else float(pairs.cosine[at]),
        )
        for at, other, its_keys in zip(shown, listed, keys, strict=True)
    ]


Sets = dict[int, NDArray[np.uint64]]


def _shingles_of(view: View, numbers: Sequence[int]) -> Sets:
    """Return the shingles of the documents that have some, without the vectors behind them."""
    spec = view.options.spec
    if spec.of_vectors:
        return {}
    words = words_of_vector(spec.dimension)
    sets = {n: np.frombuffer(data, np.uint64) for n, data in view.shingles(numbers).items()}
    return {number: each[: len(each) - words] for number, each in sets.items()}


def _shared_shingles(sets: Sets, one: int, other: int) -> int | None:
    """Count the shingles that two documents share; None if not both have stored shingles."""
    if one not in sets or other not in sets:
        return None
    return count_common(sets[one], sets[other])


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
        signal = options.vectors
        if signal is not None and not signal.finds and (one.cosine or 0.0) < signal.threshold:
            apart = (*apart, options.veto)
        facts = PairFacts(
            len(one.buckets),
            tables,
            one.similarity,
            one.exact,
            identical,
            apart,
            part,
            one.cosine,
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
    cosine = "" if other.cosine is None else f", cosine {format_similarity(other.cosine)}"
    return f"{format_similarity(other.similarity)}{'' if other.exact else ' (estimated)'}{cosine}"
