"""A shadow: another operating point beside the current one. It judges the same documents and
answers the same queries, until it is promoted or dropped.

    index.shadow.start(threshold=0.7)
    index.shadow.report()
    index.shadow.promote(wait=True)

It follows the store in a thread of its own, so that no caller waits for it, or fails because of it.
To promote it, the writer thread lets it take in the rest, stores the decisions that differ in one
transaction, and goes on with its tables.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, Final, Protocol

import numpy as np

from neardup.errors import Busy, NeardupError, ParameterError, UsageError
from neardup.index.arrivals import Arrivals
from neardup.index.planner import CallRequest
from neardup.index.settings import SPEC_NAMES, IndexSettings, changed, stated
from neardup.index.shadow_trial import (
    ABSENT,
    KEPT,
    DecisionTable,
    Golden,
    QueryAgreement,
    ShadowThread,
    Trial,
)
from neardup.index.snapshot import SpillFolders
from neardup.index.stats import BucketSizes, Counters
from neardup.index.store import Store
from neardup.index.view import View
from neardup.index.writer import IndexWriter
from neardup.lsh.curve import TooFewSlots
from neardup.options import Options

EXAMPLES: Final = 10
"""So many documents of a kind are named."""


@dataclass(frozen=True)
class Example:
    """A document that one of the two removes."""

    id: str
    duplicate_of: str
    similarity: float


@dataclass(frozen=True)
class Agreement:
    """Of the same documents: what both decide, and what only one does."""

    both_kept: int
    both_removed: int
    only_current: int
    """Removed by the current one alone."""
    only_shadow: int
    another_witness: int
    """Of those that both remove: as copies of different documents."""
    only_current_examples: tuple[Example, ...]
    only_shadow_examples: tuple[Example, ...]


@dataclass(frozen=True)
class Score:
    """On labelled pairs: a pair is found if both documents are in one cluster."""

    pairs: int
    missing: int
    """Pairs of which a document is not there: they don't count."""
    duplicates: int
    found: int
    right: int

    @property
    def recall(self) -> float | None:
        """The share of the duplicates that are found; None if there are none."""
        return self.right / self.duplicates if self.duplicates else None

    @property
    def precision(self) -> float | None:
        """The share of what is found that are duplicates; None if nothing is."""
        return self.right / self.found if self.found else None


@dataclass(frozen=True)
class Side:
    """One of the two. What was counted of the current one is since the index was opened."""

    point: dict[str, Any]
    kept: int
    removed: int
    predicted_recall: float
    """Of pairs that are just similar enough."""
    judged: int
    """Documents and queries that are not identical to a document that was there."""
    candidates_per_document: float
    compared: int
    seconds_per_document: float
    """To judge it, without its sketch and its commit."""
    buckets: BucketSizes
    memory_bytes: int
    score: Score | None


@dataclass(frozen=True)
class ShadowReport:
    """The current operating point and the one beside it."""

    state: str
    """`building`, `in step`, or `failed`."""
    reason: str | None
    """Why it failed."""
    judged: int
    documents: int
    """`judged` of so many documents have been looked at."""
    behind: int
    """Changes that the shadow has not taken in yet."""
    current: Side
    shadow: Side
    agreement: Agreement
    asked: QueryAgreement

    @property
    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON can say it."""
        found = asdict(self)
        for name, side in (("current", self.current), ("shadow", self.shadow)):
            if side.score is not None:
                found[name]["score"] |= {
                    "recall": side.score.recall,
                    "precision": side.score.precision,
                }
        return found


def side(
    view: View, counters: Counters, decisions: DecisionTable, nbytes: int, score: Score | None
) -> Side:
    """What is said of one of the two."""
    options = view.decider.options
    judged = max(counters.judged, 1)
    there = decisions.witness[decisions.witness != ABSENT]
    kept = int(np.count_nonzero(there == KEPT))
    return Side(
        stated(options),
        kept,
        len(there) - kept,
        options.meeting.probability(options.threshold),
        counters.judged,
        counters.candidates / judged,
        counters.compared,
        counters.judge_seconds / judged,
        BucketSizes.of(view.tables, options.limit),
        nbytes,
        score,
    )


def agreement(view: View, trial: Trial) -> Agreement:
    """Document by document."""
    current, shadow = trial.current.witness, trial.own.witness
    kept, kept_too = current == KEPT, shadow == KEPT
    both_removed = ~kept & ~kept_too & (current != ABSENT)
    only_current, only_shadow = ~kept & kept_too, kept & ~kept_too
    return Agreement(
        int(np.count_nonzero(kept & kept_too)),
        int(np.count_nonzero(both_removed)),
        int(np.count_nonzero(only_current)),
        int(np.count_nonzero(only_shadow)),
        int(np.count_nonzero(both_removed & (current != shadow))),
        _examples(view, trial.current, np.flatnonzero(only_current)[:EXAMPLES].tolist()),
        _examples(view, trial.own, np.flatnonzero(only_shadow)[:EXAMPLES].tolist()),
    )


def _examples(view: View, decisions: DecisionTable, numbers: list[int]) -> tuple[Example, ...]:
    rows = [decisions.judged(row) for _, row in sorted(view.store.rows(numbers).items())]
    ids = view.witness_ids(rows, {})
    return tuple(
        Example(row.id, ids[row.witness], row.similarity or 0.0)
        for row in rows
        if row.witness in ids
    )


def scores(view: View, trial: Trial, golden: Golden) -> tuple[Score, Score] | tuple[None, None]:
    """Of the current one and of the other, if there are labelled pairs."""
    if not golden:
        return None, None
    rows = view.rows_by_id([id for pair in golden for id in pair[:2]])
    numbers = {id: row.number for id, row in rows.items() if trial.own.has(row.number)}
    pairs = [
        (numbers[a], numbers[b], same) for a, b, same in golden if a in numbers and b in numbers
    ]
    return (_score(trial.current, pairs, len(golden)), _score(trial.own, pairs, len(golden)))


def _score(decisions: DecisionTable, pairs: list[tuple[int, int, bool]], given: int) -> Score:
    labels = [same for _, _, same in pairs]
    left = decisions.clusters([a for a, _, _ in pairs])
    right = decisions.clusters([b for _, b, _ in pairs])
    found = [a == b for a, b in zip(left, right, strict=True)]
    good = sum(f and same for f, same in zip(found, labels, strict=True))
    return Score(len(pairs), given - len(pairs), sum(labels), sum(found), good)


BANDS: Final = ("bands", "rows", "tables")


class ShadowedGeneration(Protocol):
    """The generation that has the current operating point."""

    settings: IndexSettings

    def snapshot(self) -> int: ...


class Shadow:
    """At most one other operating point. Any thread."""

    def __init__(
        self, generation: ShadowedGeneration, store: Store, writer: IndexWriter, cold: SpillFolders
    ) -> None:
        self._generation, self._store, self._writer, self._cold = generation, store, writer, cold
        cold.forget_others(
            generation.settings.options
        )  # of one that was there when a process ended
        self._changing = threading.Lock()
        self._following: ShadowThread | None = None

    def start(self, *, golden: Golden = (), **point: Any) -> None:
        """Judge all documents at another operating point too, beside what goes on.

        `point` is what differs: threshold, recall, bands, rows, tables, limit, verify, measure,
        hamming, blocks. Bands are chosen again if a threshold, a recall or a measure is given, and
        no bands. `golden` are pairs of ids with whether they are duplicates.
        """
        with self._changing:
            if self._following is not None:
                raise UsageError("there is a shadow already: promote it or drop it first")
            settings, pairs = self._generation.settings, _pairs(golden)
            options = _beside(settings.options, point)
            trial = Trial(self._store, self._cold, options, settings.frequencies.weights)
            self._following = ShadowThread(trial, pairs, self._writer)

    def wait(self, seconds: float = inf) -> bool:
        """Until it is in step with the index; whether it is."""
        following = self._require()
        following.wait(seconds)
        return following.state == "in step"

    def report(self) -> ShadowReport:
        """How it compares with the current one."""
        with self._changing:  # it is not closed meanwhile
            return self._report(self._require(), self._writer.view)

    def _report(self, following: ShadowThread, current: View) -> ShadowReport:
        trial = following.trial
        with trial.lock, self._store.snapshot():
            behind = self._store.last_change() - trial.view.tables.sequence
            mine, its = scores(current, trial, following.golden)
            return ShadowReport(
                following.state,
                following.failure,
                trial.judged,
                self._writer.documents,
                behind,
                side(current, self._writer.counters, trial.current, current.tables.nbytes, mine),
                side(trial.view, trial.counters, trial.own, trial.nbytes, its),
                agreement(current, trial),
                replace(following.agreement),
            )

    def promote(self, *, wait: bool = False) -> int:
        """Make it the current one, at once or not at all; of how many documents the answer changed.

        With `wait` it is waited for if it is not in step yet.
        """
        following = self._require()
        if wait:
            following.wait()
        work = CallRequest(lambda: self._cut_over(following))
        self._writer.put(work)
        moved: int = work.done.result()
        with suppress(NeardupError):  # without one, tables are built again at the next start
            self._generation.snapshot()
        return moved

    def drop(self) -> None:
        """Forget it."""
        self._require()
        self.close()

    def close(self) -> None:
        """Forget it, if there is one."""
        with self._changing:
            if self._following is not None:
                self._following.join()
                self._following = None
                self._cold.forget_others(self._generation.settings.options)

    def observe_query(
        self, arrivals: Arrivals, copies: Iterable[int], seconds: float, sequence: int
    ) -> None:
        """Ask it what was asked of the index, which found these copies. Never fails."""
        following = self._following
        if following is None or following.state != "in step" or not len(arrivals):
            return
        try:
            following.observe_query(arrivals, copies, seconds, sequence)
        except Exception as error:
            following.fail(error)

    @property
    def nbytes(self) -> int:
        following = self._following
        return 0 if following is None else following.trial.nbytes

    def _require(self) -> ShadowThread:
        if (following := self._following) is None:
            raise UsageError("there is no shadow: start one first")
        return following

    def _cut_over(self, following: ShadowThread) -> int:
        """For the thread that writes."""
        with self._changing:
            if self._following is not following:
                raise UsageError("the shadow was promoted or dropped meanwhile: start another")
            if following.failure is not None:
                raise UsageError(
                    f"the shadow has failed ({following.failure}): drop it and start another"
                )
            trial = following.trial
            if following.state == "building":
                raise Busy(
                    f"the shadow has judged {trial.judged:,} of {self._writer.documents:,} "
                    "documents: wait for it (wait=True), or try again later"
                )
            with trial.lock:
                following.catch_up()
                settings = replace(self._generation.settings, options=trial.options)
                moved = trial.differing()
                with self._store.transaction():
                    # First: who follows must not enter what moved into tables that are others now.
                    self._store.note_retuned()
                    self._store.move(moved)
                    self._store.set_meta("point", settings.stored["point"])
                trial.view.tables.sequence = self._store.last_change()
                # The decisions are stored now: the overlay would hide documents that come later.
                self._writer.change_view(replace(trial.view, store=self._store))
                self._generation.settings = settings
                following.stop()
            self._following = None
            self._cold.forget_others(trial.options)
            return len(moved)


def _beside(options: Options, given: dict[str, Any]) -> Options:
    """The other operating point."""
    given = {name: value for name, value in given.items() if value is not None}
    for name in SPEC_NAMES:
        if name in given:
            raise ParameterError(
                f"{name} belongs to the specification, which documents are stored by: index them "
                "anew (neardup index reindex)"
            )
    if options.spec.narrow and not given.keys() & set(BANDS):
        given["tables"] = stated(options)["tables"]
    try:
        wanted = changed(options, given)
    except TooFewSlots as error:
        cure = f"neardup index reindex --slots {error.curve.slots}"
        raise TooFewSlots(error.curve, error.slots, cure) from None
    if stated(wanted) == stated(options):
        raise ParameterError("this is the operating point of the index already: say what differs")
    if options.spec.narrow and wanted.hash_tables != options.hash_tables:
        raise ParameterError(
            f"slots of {options.spec.bits} bits have lost what bands are made of: leave out bands, "
            "rows and tables, or index the documents anew (neardup index reindex)"
        )
    return wanted


def _pairs(golden: Golden) -> Golden:
    try:
        return tuple((str(a), str(b), bool(same)) for a, b, same in golden)
    except (TypeError, ValueError):
        raise ParameterError(
            "golden pairs are two ids and whether these are duplicates: (id, id, True)"
        ) from None
