"""How did an index come to its answer? Every step of a query, with what it found and took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np

from neardup.index.answer import DUPLICATE, REJECTED, Answer, Match
from neardup.index.asking import matches
from neardup.index.deciding import Decider
from neardup.index.finding import rows_like
from neardup.index.sketching import Sketched, Sketching
from neardup.index.store import Store
from neardup.index.tables.derived import ALL
from neardup.index.work import Point
from neardup.options import Options
from neardup.result import by_distance, estimated, measured

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
    nearest: tuple[Match, ...] = ()
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


def explained(
    text: str, answer: Answer, seconds: float, store: Store, point: Point, sketching: Sketching
) -> Explanation:
    """The steps that led to the answer to a text, done again one by one."""
    laps = {"query": seconds}
    if answer.status == REJECTED:
        return Explanation(answer, f"{answer.reason}; there is nothing to compare", seconds=laps)
    options = point.signing.options
    sketched = _sketched(text, point, sketching, laps)
    arrivals, one = sketched.arrivals, np.zeros(1, np.int64)
    with _lap(laps, "identical"):
        same = rows_like(store, point, arrivals.content).get(0)
    known = point.known(store)
    with _lap(laps, "look-ups"):
        counts, _, _ = known.leaders(arrivals.keys, ALL)
    with _lap(laps, "candidates"):
        _, pairs = point.decider.meetings(arrivals, one, known)
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
        _nearest(store, point, sketched),
        measure_of(options),
        laps,
    )


def _sketched(text: str, point: Point, sketching: Sketching, laps: dict[str, float]) -> Sketched:
    documents = sketching.documents([text])
    with _lap(laps, "shingles"):
        cut = sketching.sketcher.cut(documents)
    with _lap(laps, "slots"):
        return sketching.sketches(sketching.sketcher.sketched(documents, cut), point, {})


def _nearest(store: Store, point: Point, sketched: Sketched) -> tuple[Match, ...]:
    """The candidates with the greatest similarity, whatever the threshold."""
    _, pairs = lenient(point.decider).meetings(
        sketched.arrivals, np.zeros(1, np.int64), point.known(store)
    )
    best = np.argsort(-pairs.similarity, kind="stable")[:NEAREST]
    return tuple(matches(store, pairs, best))


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
    if by_distance(options):
        return f"at most {options.hamming} bits differ"
    what = measured(options) if options.verify == "exact" else estimated(options)
    return f"{what} >= {options.threshold:g}"


@contextmanager
def _lap(laps: dict[str, float], name: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    laps[name] = time.perf_counter() - begun


def _milliseconds(seconds: float) -> str:
    return f"{1_000 * seconds:.2f} ms"
