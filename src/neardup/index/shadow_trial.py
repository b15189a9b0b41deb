"""A trial of another operating point: it judges all documents of a store again, in order.

Nothing is sketched again: signatures and shingles are stored. Each step reads one state of the
store: the next documents, and the changes to documents that have been judged. So building the trial
and following the index are the same. Documents are judged, and orphaned copies judged again, by the
commit planner. The decisions are held in memory, by number; `OverlaidStore` is the store with them.

`ShadowThread` runs a trial in the background.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import state_reason
from neardup.index.arrivals import Arrivals, SignatureCodec
from neardup.index.decider import Decider
from neardup.index.planner import CommitPlan, CommitPlanner
from neardup.index.postings import Integers
from neardup.index.settings import IndexSettings
from neardup.index.snapshot import SpillFolders
from neardup.index.stats import Counters
from neardup.index.store import MOVED, REMOVED, Row, Store
from neardup.index.view import TablesBehind, View
from neardup.index.writer import IndexWriter

Golden = Sequence[tuple[str, str, bool]]
"""Two ids, and whether the documents are duplicates."""
LOOK_AGAIN: Final = 0.02
"""Seconds between two reads of the store when it has no changes."""
PAUSE: Final = 0.001
"""Seconds between two steps, so that other threads get the lock."""
SHARE: Final = 0.1
"""The largest share of the time that is spent on queries."""
ROOM: Final = 1 << 12
"""Documents that a new table has room for."""
KEPT: Final = 0
"""The witness of a kept document; documents are numbered from 1."""
ABSENT: Final = 2**32 - 1
"""The witness of a number without a document."""
AT_ONCE: Final = 2_048
"""Documents of a step."""
CHANGES_AT_ONCE: Final = 8_192


class DecisionTable:
    """The decision about each document at one operating point, by number.

    One thread writes, without a lock: readers may see a part of its change.

    Args:
        has_cosines: Whether decisions have a cosine beside the similarity.
    """

    def __init__(self, has_cosines: bool = False) -> None:
        self.witness: NDArray[np.uint32] = np.full(ROOM, ABSENT, np.uint32)
        self.similarity: NDArray[np.float64] = np.zeros(ROOM)
        self.exact: NDArray[np.uint8] = np.ones(ROOM, np.uint8)
        self.cosine: NDArray[np.float64] | None = np.full(ROOM, np.nan) if has_cosines else None

    @property
    def nbytes(self) -> int:
        cosines = 0 if self.cosine is None else self.cosine.nbytes
        return self.witness.nbytes + self.similarity.nbytes + self.exact.nbytes + cosines

    def put(self, rows: Sequence[Row]) -> None:
        """Enter the decisions about documents."""
        if not rows:
            return
        numbers = np.array([row.number for row in rows], np.int64)
        self._reach(int(numbers.max()))
        self.witness[numbers] = [row.witness or KEPT for row in rows]
        self.similarity[numbers] = [row.similarity or 0.0 for row in rows]
        self.exact[numbers] = [row.exact for row in rows]
        if self.cosine is not None:
            self.cosine[numbers] = [np.nan if row.cosine is None else row.cosine for row in rows]

    def forget(self, numbers: Sequence[int]) -> None:
        """Delete the decisions about removed documents."""
        self.witness[list(numbers)] = ABSENT

    def has(self, number: int) -> bool:
        """Return whether there is a decision about a document."""
        return number < len(self.witness) and self.witness[number] != ABSENT

    def judged(self, row: Row) -> Row:
        """Return the document with its decision in this table."""
        witness = int(self.witness[row.number])
        if witness == KEPT:
            return row._replace(witness=None, similarity=None, exact=1, cosine=None)
        cosine = np.nan if self.cosine is None else float(self.cosine[row.number])
        return row._replace(
            witness=witness,
            similarity=float(self.similarity[row.number]),
            exact=int(self.exact[row.number]),
            cosine=None if np.isnan(cosine) else cosine,
        )

    def clusters(self, numbers: Sequence[int]) -> list[int]:
        """Return the cluster of each document: its witness, or itself if it is kept."""
        witnesses = self.witness[list(numbers)].tolist()
        return [witness or number for number, witness in zip(numbers, witnesses, strict=True)]

    def differing(self, other: DecisionTable) -> Integers:
        """Return the documents whose decision in `other` differs; both have the same documents."""
        differs = self.witness != other.witness
        differs |= (self.witness != KEPT) & (
            (self.similarity != other.similarity) | (self.exact != other.exact)
        )
        if self.cosine is not None and other.cosine is not None:
            same = (self.cosine == other.cosine) | (np.isnan(self.cosine) & np.isnan(other.cosine))
            differs |= (self.witness != KEPT) & ~same
        return np.flatnonzero(differs & (self.witness != ABSENT))

    def _reach(self, number: int) -> None:
        if number < len(self.witness):
            return
        room = max(number + 1, 2 * len(self.witness)) - len(self.witness)
        self.similarity = np.append(self.similarity, np.zeros(room))
        self.exact = np.append(self.exact, np.ones(room, np.uint8))
        if self.cosine is not None:
            self.cosine = np.append(self.cosine, np.full(room, np.nan))
        self.witness = np.append(self.witness, np.full(room, ABSENT, np.uint32))  # last: see `has`


class OverlaidStore:
    """The judged documents of a store, with the decisions of a table."""

    def __init__(self, store: Store, decisions: DecisionTable) -> None:
        self._store, self._decisions = store, decisions

    def snapshot(self) -> AbstractContextManager[None]:
        return self._store.snapshot()

    def rows(self, numbers: Sequence[int]) -> dict[int, Row]:
        rows = self._store.rows(numbers)
        return {
            number: self._decisions.judged(row)
            for number, row in rows.items()
            if self._decisions.has(number)
        }

    def witnesses(self, numbers: Sequence[int]) -> dict[int, int | None]:
        return {number: row.witness for number, row in self.rows(numbers).items()}

    def blobs(self, table: str, numbers: Sequence[int]) -> dict[int, bytes]:
        return self._store.blobs(table, numbers)

    def first_blobs(
        self, table: str, numbers: Sequence[int], most: int
    ) -> tuple[dict[int, bytes], int]:
        return self._store.first_blobs(table, numbers, most)


class Trial:
    """Another operating point with its tables and decisions. `step` needs the lock `lock`."""

    def __init__(self, store: Store, cold: SpillFolders, settings: IndexSettings) -> None:
        self.options, self._store, self._cold = settings.options, store, cold
        self._decider = Decider(settings.options, settings.frequencies.weights)
        self._codec = SignatureCodec.of(settings)
        self.lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        """Start again from the first document."""
        self.counters = Counters()
        two = self.options.has_two_signals
        self.current, self.own = DecisionTable(two), DecisionTable(two)
        overlaid = OverlaidStore(self._store, self.own)
        tables = self._cold.create_empty(self.options)
        self.view = View(overlaid, tables, self._codec, self._decider)
        self._planner = CommitPlanner(self.view, self.counters)
        self._last_number = 0
        self._last_change: int | None = None
        self.judged = 0
        self.complete = False
        """Whether it has been in step with the store once since it began."""

    @property
    def nbytes(self) -> int:
        return self.view.tables.nbytes + self.current.nbytes + self.own.nbytes

    def step(self) -> bool:
        """Judge the next changes and documents; return False if it is in step with the store."""
        with self._store.snapshot():
            last = self._store.last_change()
            if last == self.view.tables.sequence:
                self.complete = True
                return False
            if self._last_change is not None and self._store.first_change() > self._last_change + 1:
                self._begin()
            self._follow_changes(last)
            rows = self._store.rows_after(self._last_number, AT_ONCE)
            if rows:
                self._judge(rows)
                self._last_number = rows[-1].number
            tables = self.view.tables
            if tables.spill_if_over_budget() and tables.cold:
                tables.cold.merge(tables.dead)
            if len(rows) < AT_ONCE:
                tables.sequence = last
                self.complete = True
            return True

    def differing(self) -> list[Row]:
        """Return the documents whose stored decision differs, with the decision of the trial."""
        return list(self.view.store.rows(self.own.differing(self.current).tolist()).values())

    def _follow_changes(self, last: int) -> None:
        """Follow the changes, up to `last`, to documents that have been judged."""
        removed, moved = [], []
        while self._last_change is not None and (
            changes := self._store.changes(self._last_change, CHANGES_AT_ONCE)
        ):
            self._last_change = changes[-1].seq
            judged = [change for change in changes if self.own.has(change.number)]
            removed += [change.number for change in judged if change.op == REMOVED]
            moved += [change.number for change in judged if change.op == MOVED]
        self._last_change = last
        if removed:
            self._remove(removed)
        self.current.put(list(self._store.rows(moved).values()))

    def _remove(self, numbers: list[int]) -> None:
        rows = {number: self.own.judged(_removed_row(number)) for number in numbers}
        plan = CommitPlan(removed=rows)
        self._planner.judge(plan, [], None, [])
        tables = self.view.tables
        if plan.moved:
            tables.enter(plan.moved, plan.keys, tables.sequence, numbers)
        else:
            tables.mark_deleted(numbers, tables.sequence)
        for decisions in (self.own, self.current):
            decisions.forget(numbers)
        self.judged -= len(numbers)
        self.own.put(plan.moved)

    def _judge(self, rows: Sequence[Row]) -> None:
        """Judge documents; those with shingles and those without are judged apart."""
        numbers, contents = [row.number for row in rows], [row.content for row in rows]
        arrivals = self.view.stored_arrivals(numbers, contents)
        if arrivals.sets is None and (shingles := self.view.store.blobs("shingles", numbers)):
            for _, batch in groupby(rows, lambda row: row.number in shingles):
                self._judge(list(batch))
            return
        plan = CommitPlan(arrivals=arrivals)
        verdicts = self._planner.judge(plan, contents, arrivals, numbers)
        judged = [
            row._replace(**verdict._asdict()) for row, verdict in zip(rows, verdicts, strict=True)
        ]
        self.view.tables.enter(judged, plan.keys, self.view.tables.sequence)
        self.own.put(judged)
        self.current.put(rows)
        self.judged += len(rows)


def _removed_row(number: int) -> Row:
    """Return a row for a document that is no longer stored."""
    return Row(number, "", b"", None, None, 1, 0.0, None)


@dataclass
class QueryAgreement:
    """Counts of the queries that both operating points have answered from the same documents."""

    queries: int = 0
    both: int = 0
    """Queries that both answered as a copy."""
    neither: int = 0
    only_current: int = 0
    only_shadow: int = 0
    current_seconds: float = 0.0
    shadow_seconds: float = 0.0

    def count(self, current: set[int], shadow: set[int], queries: int) -> None:
        """Count queries; `current` and `shadow` are the rows that each answered as copies."""
        self.queries += queries
        self.both += len(current & shadow)
        self.neither += queries - len(current | shadow)
        self.only_current += len(current - shadow)
        self.only_shadow += len(shadow - current)


class ShadowThread:
    """A trial with its thread, which pauses half of the time while documents wait to be added."""

    def __init__(self, trial: Trial, golden: Golden, writer: IndexWriter) -> None:
        self.trial, self.golden, self.agreement, self._writer = (
            trial,
            golden,
            QueryAgreement(),
            writer,
        )
        self.failure: str | None = None
        self._stopped, self._counting = threading.Event(), threading.Lock()
        self._begun = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="neardup-shadow", daemon=True)
        self._thread.start()

    @property
    def state(self) -> str:
        """`building`, `in step` or `failed`."""
        if self.failure is not None:
            return "failed"
        return "in step" if self.trial.complete else "building"

    def wait(self, seconds: float = inf) -> None:
        """Wait until it is in step, has failed or is stopped, at most `seconds`."""
        until = time.monotonic() + seconds
        while self.state == "building" and time.monotonic() < until:
            if self._stopped.wait(LOOK_AGAIN):
                return

    def stop(self) -> None:
        """Make no more steps. The caller holds the trial's lock, or joins the thread."""
        self._stopped.set()

    def join(self) -> None:
        """Stop, and wait for the thread."""
        self.stop()
        self._thread.join()

    def catch_up(self) -> None:
        """Judge all remaining changes. The caller holds the trial's lock; nothing is written."""
        try:
            while self.trial.step():
                pass
        except Exception as error:
            self.fail(error)
            raise

    def fail(self, error: Exception) -> None:
        """Stop, and keep the reason for the report: callers of the index don't fail."""
        self.failure = state_reason(error)
        self.stop()

    def _run(self) -> None:
        pause = PAUSE
        while not self._stopped.wait(pause):
            with self.trial.lock:
                if self._stopped.is_set():
                    return
                begun = time.perf_counter()
                try:
                    more = self.trial.step()
                except Exception as error:  # the report has it; the index goes on without
                    self.fail(error)
                    return
            took = time.perf_counter() - begun
            pause = max(PAUSE if more else LOOK_AGAIN, took if self._writer.waiting else 0.0)

    def observe_query(
        self, arrivals: Arrivals, copies: Iterable[int], seconds: float, sequence: int
    ) -> None:
        """Answer the texts of a query, and compare; see `Shadow.observe_query`.

        Queries are skipped if the trial is of another change than `sequence`, or if they have
        taken more than their share of the time.
        """
        trial, spent = self.trial, self.agreement.shadow_seconds
        view, begun = trial.view, time.perf_counter()
        if spent > SHARE * (time.monotonic() - self._begun) or view.tables.sequence != sequence:
            return
        if not trial.options.spec.narrow:
            arrivals = arrivals.with_bands(view.codec.lsh)
        try:
            shadow_copies = view.find_copies(arrivals, trial.counters)
        except TablesBehind:
            return
        took = time.perf_counter() - begun
        if view.tables.sequence != sequence:
            return
        with self._counting:
            self.agreement.count(set(copies), set(shadow_copies), len(arrivals))
            self.agreement.current_seconds += seconds
            self.agreement.shadow_seconds += took
