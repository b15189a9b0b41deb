"""What would another operating point have said? It judges all documents of a store, in order.

Nothing is made of texts again: signatures and shingles are stored. A step takes the next documents,
and what happened meanwhile to those before them, as one reader sees the store at one time. So to
build and to follow are the same. Documents are judged in the way of who writes. One that is
removed leaves its copies to others, also in the way of who writes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from numpy.typing import NDArray

from neardup.index.deciding import Decider
from neardup.index.known import Signing
from neardup.index.planning import Plan, Planner
from neardup.index.shadow.decisions import Decisions, Overlaid
from neardup.index.snapshot import Cold
from neardup.index.store import MOVED, REMOVED, Row, Store
from neardup.index.work import Counters, Point
from neardup.options import Options

AT_ONCE: Final = 2_048
CHANGES_AT_ONCE: Final = 8_192


class Trial:
    """Another operating point with its tables and decisions. Whoever holds `lock` may step."""

    def __init__(
        self, store: Store, cold: Cold, options: Options, weights: NDArray[Any] | None
    ) -> None:
        self.options, self._store, self._cold = options, store, cold
        self._decider, self._signing = Decider(options, weights), Signing(options)
        self.lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        """From the first document on."""
        self.counters = Counters()
        self.point = Point(self._decider, self._signing, self._cold.emptied(self.options))
        self.current, self.own = Decisions(), Decisions()
        self.stored = Overlaid(self._store, self.own)
        self._planner = Planner(self.stored, self.point, self.counters)
        self._reached = 0
        self._heard: int | None = None
        self.judged = 0
        self.complete = False
        """Whether it was in step once, since the beginning."""

    @property
    def nbytes(self) -> int:
        return self.point.derived.nbytes + self.current.nbytes + self.own.nbytes

    def step(self) -> bool:
        """Take what comes next; False if there is nothing, and it is in step with the store."""
        with self._store.snapshot():
            last = self._store.last_change()
            if last == self.point.derived.sequence:
                self.complete = True
                return False
            if self._heard is not None and self._store.first_change() > self._heard + 1:
                self._begin()
            self._hear(last)
            rows = self._store.rows_after(self._reached, AT_ONCE)
            if rows:
                self._judge(rows)
                self._reached = rows[-1].number
            derived = self.point.derived
            if derived.settle() and derived.cold:
                derived.cold.merge(derived.dead)
            if len(rows) < AT_ONCE:
                derived.sequence = last
                self.complete = True
            return True

    def differing(self) -> list[Row]:
        """The documents of which something else is stored, as they are to be."""
        return list(self.stored.rows(self.own.differing(self.current).tolist()).values())

    def _hear(self, last: int) -> None:
        """What happened to documents that were judged already."""
        removed, moved = [], []
        while self._heard is not None and (
            changes := self._store.changes(self._heard, CHANGES_AT_ONCE)
        ):
            self._heard = changes[-1].seq
            known = [change for change in changes if self.own.has(change.number)]
            removed += [change.number for change in known if change.op == REMOVED]
            moved += [change.number for change in known if change.op == MOVED]
        self._heard = last
        if removed:
            self._remove(removed)
        self.current.put(list(self._store.rows(moved).values()))

    def _remove(self, numbers: list[int]) -> None:
        plan = Plan(gone={number: self.own.judged(_gone(number)) for number in numbers})
        self._planner.judge(plan, [], None, [])
        derived = self.point.derived
        if plan.moved:
            derived.enter(plan.moved, plan.keys, derived.sequence, numbers)
        else:
            derived.bury(numbers, derived.sequence)
        for decisions in (self.own, self.current):
            decisions.forget(numbers)
        self.judged -= len(numbers)
        self.own.put(plan.moved)

    def _judge(self, rows: Sequence[Row]) -> None:
        """Judge documents. Only such that all have shingles, or none, are judged together."""
        numbers, contents = [row.number for row in rows], [row.content for row in rows]
        arrivals = self.point.known(self.stored).stored(numbers, contents)
        if arrivals.sets is None and (having := self.stored.blobs("shingles", numbers)):
            for _, some in groupby(rows, lambda row: row.number in having):
                self._judge(list(some))
            return
        plan = Plan(arrivals=arrivals)
        verdicts = self._planner.judge(plan, contents, arrivals, numbers)
        judged = [
            row._replace(**verdict._asdict()) for row, verdict in zip(rows, verdicts, strict=True)
        ]
        self.point.derived.enter(judged, plan.keys, self.point.derived.sequence)
        self.own.put(judged)
        self.current.put(rows)
        self.judged += len(rows)


def _gone(number: int) -> Row:
    """A document of which nothing is stored any more."""
    return Row(number, "", b"", None, None, 1, 0.0, None)
