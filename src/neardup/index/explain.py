"""Explain an answer of an index to a query: every step, with what it found and took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.explanation import describe_rule
from neardup.formatting import format_similarity, make_printable
from neardup.index.answer import (
    DUPLICATE,
    REJECTED,
    Answer,
    Document,
    SignalAnswer,
    SignalDocument,
    SignalDocumentWithText,
    SignalSimilarDocument,
    SimilarDocument,
)
from neardup.index.arrivals import ArrivalSketcher, SketchedTexts, Texts, VectorRows
from neardup.index.lookup import ALL
from neardup.index.view import View
from neardup.sketcher import keep_apart, words_of_vector

NEAREST: Final = 5
"""The number of candidates that are shown."""
WIDTH: Final = 14
"""Width of the first column of a page."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The steps of a query; `str()` gives a page to read. It contains no text."""

    answer: Answer
    rule: str
    """The rule that decided."""
    shingles: int = 0
    """Distinct shingles; where repeats count, all shingles. None of vectors alone."""
    slots: int = 0
    """Slots of its sketch; of vectors alone its planes."""
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
    numbers: int = 0
    """The numbers of its vector."""
    of_vectors: bool = False
    """Whether vectors alone are compared, so that similarities are cosines."""

    @property
    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON; without vectors none about them."""
        said = asdict(self)
        if not self.numbers:
            del said["numbers"], said["of_vectors"]
        return said

    def __str__(self) -> str:
        return "\n".join(map(make_printable, self._lines()))

    def _lines(self) -> Iterator[str]:
        if self.answer.status != REJECTED:
            if self.of_vectors:
                yield self._step("shingles", f"{self.numbers:,} numbers", "vector")
                yield self._step("slots", f"{self.slots:,}", "planes")
            else:
                both = f", and {self.numbers:,} numbers of a vector" if self.numbers else ""
                yield self._step("shingles", f"{self.shingles:,}{both}")
                yield self._step("slots", f"{self.slots:,}")
            same = "no document has this content"
            if self.identical is not None:
                same = f"{self.identical} has this content"
            yield self._step("identical", same)
            yield self._step("look-ups", self._looked_up())
            by_slots = self.candidates - self.exactly
            how = f"{self.exactly:,} by shingles, {by_slots:,} by signatures"
            if self.numbers:
                how = "by vectors" if self.of_vectors else "by shingles and vectors"
            yield self._step(
                "candidates",
                f"{self.candidates:,} compared ({how}), {self.similar:,} similar ({self.measure})",
            )
            for place, match in enumerate(self.nearest):
                about = "" if match.exact else " (estimated)"
                if isinstance(match, SignalSimilarDocument) and match.cosine is not None:
                    by = f", similar by {match.by}" if match.by else ""
                    about = f" (cosine {format_similarity(match.cosine)}{by})"
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
        likeness = describe_numbers(answer, answer.similarity, self.of_vectors)
        return (
            f"duplicate of {answer.duplicate_of}, {likeness}, cluster {answer.cluster}: {self.rule}"
        )

    def _step(self, name: str, result: str, shown: str = "") -> str:
        return f"{shown or name:{WIDTH}}{result}, {_milliseconds(self.seconds[name])}"


def describe_numbers(found: Answer | Document, similarity: float, of_vectors: bool) -> str:
    """Return how similar a copy is to its witness, by both signals if there are two.

    Args:
        found: The answer, or the stored document.
        similarity: Its similarity.
        of_vectors: Whether that is the cosine of vectors, which alone are compared.
    """
    shown = format_similarity(similarity)
    if of_vectors:
        return f"cosine {shown}"
    if not isinstance(found, SignalAnswer | SignalDocument | SignalDocumentWithText):
        return f"{shown} similar"
    cosine = "" if found.cosine is None else f", cosine {format_similarity(found.cosine)}"
    return f"{shown} similar{cosine}, by {found.by}"


def explain_query(
    texts: Texts,
    vectors: VectorRows,
    apart: NDArray[np.uint64] | None,
    answer: Answer,
    seconds: float,
    view: View,
    sketcher: ArrivalSketcher,
) -> Explanation:
    """Repeat the steps that led to an answer one by one, with their times.

    Args:
        texts: The text that was queried, alone; None if documents need none.
        vectors: Its vector, alone; None without vectors.
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
    sketched = _sketch(texts, vectors, apart, view, sketcher, laps)
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
        0
        if arrivals.sets is None
        else int(arrivals.sets.offsets[-1]) - words_of_vector(options.spec.dimension),
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
        options.spec.dimension,
        options.spec.of_vectors,
    )


def _sketch(
    texts: Texts,
    vectors: VectorRows,
    apart: NDArray[np.uint64] | None,
    view: View,
    sketcher: ArrivalSketcher,
    laps: dict[str, float],
) -> SketchedTexts:
    documents = sketcher.documents(texts, vectors)
    with _lap(laps, "shingles"):
        cut = sketcher.sketcher.cut(documents)
    with _lap(laps, "slots"):
        sketch = sketcher.sketcher.sketched(documents, cut)
        sketch = sketch if apart is None else keep_apart(sketch, apart)
        return sketcher.arrivals(sketch, view.codec.lsh, {})


def _nearest(view: View, sketched: SketchedTexts) -> tuple[SimilarDocument, ...]:
    """Return the candidates with the greatest similarity, whatever the threshold."""
    _, pairs = view.decider.lenient().compare_candidates(
        sketched.arrivals, np.zeros(1, np.int64), view, stop_early=False
    )
    return tuple(view.name_pairs(pairs, view.rank_pairs(pairs)[:NEAREST]))


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
