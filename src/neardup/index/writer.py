"""The writer thread: judges documents, commits them, enters them into the tables, then answers.

Callers sketch documents in their own threads and queue them here. Requests that arrive during a
commit are judged and committed together by the next one. Nothing is entered into the tables before
it is stored, so a commit that fails leaves nothing to undo.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise

from neardup.errors import NeardupError
from neardup.index.lookup import LookupTables
from neardup.index.planner import (
    AddRequest,
    CallRequest,
    CommitPlan,
    CommitPlanner,
    RehomeSlice,
    RemoveRequest,
    RemoveSlice,
    Request,
)
from neardup.index.request_queue import R, RequestQueue
from neardup.index.stats import Counters
from neardup.index.store import CHECKPOINT_BYTES, Row, Store
from neardup.index.view import View


class IndexWriter(RequestQueue):
    """Writes to the store of a folder.

    Each commit is stored first, then entered into the tables, then acknowledged.
    """

    together = 2_048

    def __init__(
        self,
        store: Store,
        view: View,
        counters: Counters,
        clock: Callable[[], float],
        most_waiting: int,
        snapshot: Callable[[], object],
    ) -> None:
        super().__init__(most_waiting)
        self.store, self.counters = store, counters
        self.documents, self.kept = store.counts()
        self._planner = CommitPlanner(view, self.counters)
        self._clock = clock
        self._next = store.last_number() + 1
        self._successor: IndexWriter | None = None
        self._housekeeping = Housekeeping(store, snapshot)
        self.start()

    @property
    def view(self) -> View:
        """The view that documents are judged by."""
        return self._planner.view

    def change_view(self, view: View) -> None:
        """Judge by another operating point from now on. Called in the writer thread."""
        self._planner.view = view
        self.documents, self.kept = self.store.counts()

    def go_on_counting(self, counters: Counters) -> None:
        """Count on in the counters of the generation before."""
        self.counters = self._planner.counters = counters

    def number_after(self, other: Store) -> None:
        """Number new documents after those of another store. Called in the writer thread."""
        with self.store.transaction():
            self.store.number_after(other)
        self._next = self.store.last_number() + 1
        self.view.tables.mark_deleted((), self.store.last_change())

    def update(self, rows: Sequence[Row]) -> None:
        """Store other metadata for documents. Called in the writer thread."""
        self._commit(CommitPlan(updated=list(rows)))

    def hand_over(self, successor: IndexWriter) -> None:
        """Forward queued and later requests to another writer. Called in the writer thread."""
        with self._changed:
            self._successor, self._closed = successor, True
            queued = list(self._waiting)
            self._waiting.clear()
            self._size -= sum(request.documents for request in queued)
        for request in queued:
            self._forward(request, successor)

    def _forward(self, request: Request, successor: IndexWriter) -> None:
        """Pass a request on. Documents are sketched again: the specification may be another."""
        try:
            if not isinstance(request, AddRequest):
                successor.put(request)
            elif request.done.set_running_or_notify_cancel():
                request.resubmit_to_index()
        except NeardupError as error:
            request.done.set_exception(error)

    def put(self, request: R) -> R:
        """Queue a request here, or in the queue of the writer that has taken this one's place."""
        with self._changed:
            successor = self._successor
            if successor is None:
                self._put(request)
        if successor is not None:
            self._forward(request, successor)
        return request

    def close(self) -> None:
        """Finish the queued requests, and accept no more."""
        super().close()
        self._housekeeping.close()

    def execute(self, requests: list[Request]) -> None:
        first = requests[0]
        if isinstance(first, CallRequest):
            first.done.set_result(first.call())
        elif isinstance(first, AddRequest):
            self._add([request for request in requests if isinstance(request, AddRequest)])
        elif isinstance(first, RemoveRequest):
            first.done.set_result(self._remove(first.id))
        elif isinstance(first, RemoveSlice):
            first.done.set_result(self._remove_slice(first))
        else:
            first.done.set_result(self._rehome_slice(first))

    def _add(self, requests: list[AddRequest]) -> None:
        addition = self._planner.plan_addition(requests, self._next, float(self._clock()))
        self._commit(addition.plan)
        for request, answers in zip(requests, addition.answers(self.view), strict=True):
            self.counters.count_answers(answers)
            request.done.set_result(answers)

    def _remove(self, id: str) -> bool:
        plan = self._planner.plan_removal(id)
        if plan is None:
            return False
        self._commit(plan)
        self.counters.removed += 1
        return True

    def _remove_slice(self, request: RemoveSlice) -> list[int]:
        plan = self._planner.plan_removal_of(request.numbers, request.together)
        self._commit(plan)
        self.counters.removed += len(plan.removed)
        return list(plan.removed)

    def _rehome_slice(self, request: RehomeSlice) -> int:
        plan = self._planner.plan_rehoming(request.witness, request.copies, request.together)
        self._commit(plan)
        return len(plan.moved)

    def _commit(self, plan: CommitPlan) -> None:
        """Store the plan, then enter it into the tables."""
        if plan.is_empty:
            return
        begun = time.perf_counter()
        self._housekeeping.finish_checkpoint()
        with self.store.transaction():
            self._store(plan)
        if plan.added:
            self._next = max(self._next, plan.added[-1].number + 1)
        self._publish(plan)
        self.counters.commit_times.add(time.perf_counter() - begun)
        self._housekeeping.checkpoint_later()

    def _store(self, plan: CommitPlan) -> None:
        if plan.removed:
            self.store.remove(list(plan.removed))
        if plan.moved:
            self.store.move(plan.moved)
        if plan.updated:
            self.store.update(plan.updated, plan.updated_texts)
        if not plan.added or plan.arrivals is None:
            return
        self.store.add(plan.added)
        numbers = [row.number for row in plan.added]
        arrivals = plan.arrivals
        blobs = self.view.codec.pack(arrivals.keys, arrivals.compared, arrivals.apart)
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
        """Enter a stored plan into the tables and the counts."""
        sequence = self.store.last_change()
        if plan.rows:
            self.view.tables.enter(plan.rows, plan.keys, sequence, plan.removed)
        else:
            self.view.tables.mark_deleted(plan.removed, sequence)
        self.documents += len(plan.added) - len(plan.removed)
        self.kept += sum(row.witness is None for row in plan.rows)
        self.kept -= sum(row.witness is None for row in plan.removed.values())
        with suppress(NeardupError):  # a full disk: all is stored, the tables stay in memory
            if self.view.tables.spill_if_over_budget():
                self._housekeeping.merge_later(self.view.tables)


class Housekeeping:
    """A thread beside the writer's that checkpoints the log and merges tables on disk.

    SQLite starts the log again from its beginning only after a checkpoint of all of it. That never
    happens while commits go on, so the writer thread checkpoints the last part, which is short,
    between two commits.
    """

    def __init__(self, store: Store, snapshot: Callable[[], object]) -> None:
        self._store, self._snapshot = store, snapshot
        self._wake, self._closed = threading.Event(), False
        self._unfinished = False
        """Whether the writer thread has to checkpoint the last part."""
        self._spilled: LookupTables | None = None
        self._thread = threading.Thread(target=self._run, name="neardup-checkpoint", daemon=True)
        self._thread.start()

    def checkpoint_later(self) -> None:
        """After a commit: start a checkpoint if the log is long."""
        if not self._unfinished and self._store.wal_bytes > CHECKPOINT_BYTES:
            self._wake.set()

    def finish_checkpoint(self) -> None:
        """Before a commit: checkpoint the last part of the log."""
        if self._unfinished:
            self._unfinished = False
            self._checkpoint()

    def merge_later(self, tables: LookupTables) -> None:
        """After tables were spilled: merge their files if there are too many."""
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
                with suppress(NeardupError, OSError):  # a full disk: the files stay apart
                    self._snapshot()
                    spilled.cold.merge(spilled.dead)
            if self._store.wal_bytes > CHECKPOINT_BYTES:
                self._checkpoint()
                self._unfinished = True

    def _checkpoint(self) -> None:
        # On a full disk the log grows and nothing is lost; the next commit fails with the reason.
        with suppress(NeardupError):
            self._store.checkpoint()
