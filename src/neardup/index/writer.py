"""The writer thread: judges, commits, publishes, then acknowledges.

Callers sketch documents in their own threads and leave them here. What has gathered while the last
commit was under way is judged and committed together. Nothing is entered into the tables before it
is stored, so that a commit that fails leaves nothing to undo.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Final, TypeVar

from neardup.errors import Busy, NeardupError, OutputError, UsageError
from neardup.index.lookup import LookupTables
from neardup.index.planner import AddRequest, CallRequest, CommitPlan, CommitPlanner, Request
from neardup.index.stats import Counters
from neardup.index.store import CHECKPOINT_BYTES, Store
from neardup.index.view import View

TOGETHER: Final = 2_048
"""The most documents of one commit, if they come in several requests."""
MOST_WAITING: Final = 65_536
W = TypeVar("W", bound=Request)


class IndexWriter:
    """The writer thread, and the requests that wait for it.

    Each commit is stored first, then entered into the tables, then acknowledged.
    """

    def __init__(
        self,
        store: Store,
        view: View,
        counters: Counters,
        clock: Callable[[], float],
        most_waiting: int,
        snapshot: Callable[[], object],
    ) -> None:
        self.store, self.counters = store, counters
        self.documents, self.kept = store.counts()
        self._planner = CommitPlanner(view, self.counters)
        self._clock, self.most_waiting = clock, most_waiting
        self._next = store.last_number() + 1
        self._waiting: deque[Request] = deque()
        self._size = 0
        self._closed = False
        self._successor: IndexWriter | None = None
        self._changed = threading.Condition()
        self._house = Housekeeping(store, snapshot)
        self._thread = threading.Thread(target=self._run, name="neardup-writer", daemon=True)
        self._thread.start()

    @property
    def view(self) -> View:
        """What documents are judged by."""
        return self._planner.view

    def change_view(self, view: View) -> None:
        """Judge by another operating point from now on; for the writer thread."""
        self._planner.view = view
        self.documents, self.kept = self.store.counts()

    def go_on_counting(self, counters: Counters) -> None:
        """Add to what was counted before."""
        self.counters = self._planner.counters = counters

    def number_after(self, other: Store) -> None:
        """Give larger numbers than another store has; for the writer thread."""
        with self.store.transaction():
            self.store.number_after(other)
        self._next = self.store.last_number() + 1
        self.view.tables.mark_deleted((), self.store.last_change())

    def hand_over(self, successor: IndexWriter) -> None:
        """Forward what waits, and what is still put here, to another; for the writer thread."""
        with self._changed:
            self._successor, self._closed = successor, True
            left = list(self._waiting)
            self._waiting.clear()
            self._size -= sum(work.documents for work in left)
        for work in left:
            self._forward(work, successor)

    def _forward(self, work: Request, successor: IndexWriter) -> None:
        """Documents are sketched again: the successor has another specification."""
        try:
            if not isinstance(work, AddRequest):
                successor.put(work)
            elif work.done.set_running_or_notify_cancel():
                work.resubmit_to_index()
        except NeardupError as error:
            work.done.set_exception(error)

    @property
    def waiting(self) -> int:
        """Documents that are not decided yet."""
        return self._size

    def put(self, work: W) -> W:
        """Leave a request; its future says when it is done."""
        if (successor := self._put(work)) is not None:
            self._forward(work, successor)
        return work

    def _put(self, work: Request) -> IndexWriter | None:
        """Accept a request; or return the writer that has taken this one's place."""
        with self._changed:
            if self._successor is not None:
                return self._successor
            if self._closed:
                raise UsageError("this index is closed: open it again")
            if self._size and work.documents and self._size + work.documents > self.most_waiting:
                raise Busy(
                    f"{self._size:,} documents wait to be added, {self.most_waiting:,} is the "
                    "most: try again later"
                )
            self._waiting.append(work)
            self._size += work.documents
            self._changed.notify()
        return None

    def close(self) -> None:
        """Finish what waits."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()
        self._house.close()

    def _run(self) -> None:
        while works := self._take():
            self._finish([work for work in works if work.done.set_running_or_notify_cancel()])
            with self._changed:
                self._size -= sum(work.documents for work in works)

    def _finish(self, works: list[Request]) -> None:
        """Do requests and acknowledge them; if one fails, each is done by itself."""
        try:
            if works:
                self._do(works)
        except BaseException as error:  # the callers that wait are told
            left = [work for work in works if not work.done.done()]
            if len(works) == 1 or isinstance(error, OutputError):
                for work in left:
                    work.done.set_exception(error)
            else:
                for work in left:
                    self._finish([work])

    def _take(self) -> list[Request]:
        """The next request, with those after it that can be committed together."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            if not self._waiting:
                return []
            first = self._waiting.popleft()
            taken, size = [first], first.documents
            while self._waiting and isinstance(first, AddRequest) and first.joins(self._waiting[0]):
                size += self._waiting[0].documents
                if size > TOGETHER:
                    break
                taken.append(self._waiting.popleft())
            return taken

    def _do(self, works: list[Request]) -> None:
        first = works[0]
        if isinstance(first, CallRequest):
            first.done.set_result(first.call())
        elif isinstance(first, AddRequest):
            self._add([work for work in works if isinstance(work, AddRequest)])
        else:
            first.done.set_result(self._remove(first.id))

    def _add(self, works: list[AddRequest]) -> None:
        addition = self._planner.plan_addition(works, self._next, float(self._clock()))
        self._commit(addition.plan)
        for work, answers in zip(works, addition.answers(self.view), strict=True):
            self.counters.count_answers(answers)
            work.done.set_result(answers)

    def _remove(self, id: str) -> bool:
        plan = self._planner.plan_removal(id)
        if plan is None:
            return False
        self._commit(plan)
        self.counters.removed += 1
        return True

    def _commit(self, plan: CommitPlan) -> None:
        """Store the plan, then enter it into the tables."""
        if not (plan.gone or plan.added):
            return
        begun = time.perf_counter()
        self._house.finish()
        with self.store.transaction():
            self._store(plan)
        if plan.added:
            self._next = max(self._next, plan.added[-1].number + 1)
        self._publish(plan)
        self.counters.commit_times.add(time.perf_counter() - begun)
        self._house.checkpoint_later()

    def _store(self, plan: CommitPlan) -> None:
        if plan.gone:
            self.store.remove(list(plan.gone))
        if plan.moved:
            self.store.move(plan.moved)
        if not plan.added or plan.arrivals is None:
            return
        self.store.add(plan.added)
        numbers = [row.number for row in plan.added]
        blobs = self.view.codec.pack(plan.arrivals.keys, plan.arrivals.compared)
        self.store.add_blobs("signatures", zip(numbers, blobs, strict=True))
        if (sets := plan.arrivals.sets) is not None:
            ends = sets.offsets.tolist()
            rows = (sets.data[begin:end] for begin, end in pairwise(ends))
            self.store.add_blobs("shingles", zip(numbers, rows, strict=True))
        texts = zip(numbers, plan.texts, strict=True)
        self.store.add_blobs(
            "texts", [(number, text) for number, text in texts if text is not None]
        )

    def _publish(self, plan: CommitPlan) -> None:
        sequence = self.store.last_change()
        if plan.rows:
            self.view.tables.enter(plan.rows, plan.keys, sequence, plan.gone)
        else:
            self.view.tables.mark_deleted(plan.gone, sequence)
        self.documents += len(plan.added) - len(plan.gone)
        self.kept += sum(row.witness is None for row in plan.rows)
        self.kept -= sum(row.witness is None for row in plan.gone.values())
        with suppress(NeardupError):  # a full disk: all is stored, the tables stay in memory
            if self.view.tables.settle():
                self._house.merge_later(self.view.tables)


class Housekeeping:
    """Moves the log into the file, and merges tables on disk, in a thread beside the writer's.

    A log that has been moved as a whole starts again from its beginning. That never happens while
    commits go on, so the writer thread moves the last part, which is short, between two commits.
    """

    def __init__(self, store: Store, snapshot: Callable[[], object]) -> None:
        self._store, self._snapshot = store, snapshot
        self._wake, self._closed = threading.Event(), False
        self._rest = False
        self._spilled: LookupTables | None = None
        self._thread = threading.Thread(target=self._run, name="neardup-checkpoint", daemon=True)
        self._thread.start()

    def checkpoint_later(self) -> None:
        """After a commit: is it time?"""
        if not self._rest and self._store.wal_bytes > CHECKPOINT_BYTES:
            self._wake.set()

    def finish(self) -> None:
        """Before a commit: move what is left."""
        if self._rest:
            self._rest = False
            self._checkpoint()

    def merge_later(self, tables: LookupTables) -> None:
        """After tables went to disk: there may be too many files."""
        self._spilled = tables
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while self._wake.wait() and not self._closed:
            self._wake.clear()
            spilled, self._spilled = self._spilled, None
            if spilled is not None and spilled.cold is not None:
                with suppress(NeardupError, OSError):  # a full disk: there are more files
                    self._snapshot()
                    spilled.cold.merge(spilled.dead)
            if self._store.wal_bytes > CHECKPOINT_BYTES:
                self._checkpoint()
                self._rest = True

    def _checkpoint(self) -> None:
        # On a full disk the log gets longer and nothing is lost; the next commit says so.
        with suppress(NeardupError):
            self._store.checkpoint()
