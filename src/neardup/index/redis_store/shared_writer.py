"""The threads that add documents of this process to an index on Redis, and remove some."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from neardup.errors import NeardupError
from neardup.index.answer import REJECTED, Answer
from neardup.index.arrivals import join_arrivals, select_arrivals
from neardup.index.planner import (
    CONFLICT,
    AddRequest,
    CallRequest,
    RemoveRequest,
    Request,
    sort_arrivals,
)
from neardup.index.redis_store.enrolment import Enrolled, Enrolment
from neardup.index.redis_store.enrolment_batch import EnrolmentBatch
from neardup.index.request_queue import RequestQueue
from neardup.index.stats import Counters
from neardup.index.store import Row
from neardup.index.view import TablesBehind, View, answer_from_row

T = TypeVar("T")
PAUSE: Final = 0.01
"""Seconds between two looks at documents whose witness is being removed."""


class SharedWriter(RequestQueue):
    """Carries out requests by the protocol of `enrolment.py`.

    While one thread decides about documents, the other appends the next ones: so that their numbers
    are in the order of the requests, the latter begins when the former has appended its own.
    """

    together = 256
    threads = 2

    def __init__(
        self,
        enrolments: Sequence[Enrolment],
        view: View,
        counters: Counters,
        clock: Callable[[], float],
        most_waiting: int,
    ) -> None:
        super().__init__(most_waiting)
        self._enrolments, self._view = list(enrolments), view
        self._idle, self._lease = list(enrolments), self._enrolments[0].lease
        self._counters, self._clock = counters, clock
        self.start()

    def close(self) -> None:
        """Finish the queued requests, accept no more, and tidy up the buckets."""
        super().close()
        for enrolment in self._enrolments:
            with suppress(NeardupError):  # copies that stay in their buckets do no harm
                enrolment.tidy()

    def execute(self, requests: list[Request]) -> None:
        first, enrolment = requests[0], self._idle.pop()
        try:
            if isinstance(first, CallRequest):
                first.done.set_result(first.call())
            elif isinstance(first, AddRequest):
                added = [request for request in requests if isinstance(request, AddRequest)]
                self._add(enrolment, added)
            elif isinstance(first, RemoveRequest):
                first.done.set_result(self._remove(enrolment, first.id))
        finally:
            self._idle.append(enrolment)

    def _remove(self, enrolment: Enrolment, id: str) -> bool:
        row = self._patiently(lambda: self._view.rows_by_id([id]).get(id))
        removed = row is not None and enrolment.removal.remove([row.number]) > 0
        self._counters.removed += removed
        return removed

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask again while documents are judged again; after a lease, finish what others left."""
        begun, finished = time.monotonic(), False
        while True:
            try:
                return ask()
            except TablesBehind:
                waited = time.monotonic() - begun
                if waited > 2 * self._lease:
                    raise
                if waited > self._lease and not finished:
                    self._enrolments[0].removal.finish_all()
                    finished = True
                time.sleep(PAUSE)

    def _add(self, enrolment: Enrolment, requests: list[AddRequest]) -> None:
        begun = time.perf_counter()
        arrivals = join_arrivals([request.arrivals for request in requests])
        each = [(request, place) for request in requests for place in request.places]
        ids = [request.ids[place] for request, place in each]
        contents = [row.tobytes() for row in arrivals.content]
        replacing = requests[0].replace
        # Documents of this batch alone: stored ones are met in the buckets of their ids.
        kinds = sort_arrivals(ids, contents, {}, replacing=replacing)
        fresh, latest = kinds.fresh, [kinds.last.get(at, at) for at in kinds.fresh]
        new = EnrolmentBatch(
            select_arrivals(arrivals, fresh),
            [ids[at] for at in fresh],
            [each[at][0].metadata[each[at][1]] for at in latest],
            [_text(*each[at]) for at in latest],
            float(self._clock()),
        )
        listed = enrolment.add(new, self.end_turn, replacing=replacing)
        enrolled = dict(zip(fresh, listed, strict=True))
        for at, other in kinds.again.items():
            if isinstance(other, int) and other in enrolled:
                enrolled[at] = _repeated(enrolled[other])
        answers = self._answers(ids, enrolled, kinds.refused)
        self._counters.commit_times.add(time.perf_counter() - begun)
        start = 0
        for request in requests:
            given = [
                Answer(id, REJECTED, reason=request.rejected.get(place))
                for place, id in enumerate(request.ids)
            ]
            for place, answer in zip(request.places, answers[start:], strict=False):
                given[place] = answer
            start += len(request.places)
            self._counters.count_answers(given)
            request.done.set_result([self._view.name_signal(answer) for answer in given])

    def _answers(
        self, ids: list[str], enrolled: dict[int, Enrolled], refused: dict[int, str]
    ) -> list[Answer]:
        """Return the answers to all documents that have sketches, in order."""
        rows = {at: each.row for at, each in enrolled.items() if not each.conflict}
        witnesses = self._witness_ids(rows)
        answers = []
        for at, id in enumerate(ids):
            if at in rows:
                answer = answer_from_row(rows[at], witnesses, again=enrolled[at].again)
                answers.append(self._view.name_signal(answer, rows[at].cosine))
            else:
                answers.append(Answer(id, REJECTED, reason=refused.get(at, CONFLICT)))
        return answers

    def _witness_ids(self, rows: dict[int, Row]) -> dict[int, str]:
        """Return the ids of witnesses by number.

        Rows whose witness was removed meanwhile are replaced by what they are now.
        """
        found: dict[int, str] = {}

        def look() -> None:
            own = {row.number: row.id for row in rows.values()}
            found.update(self._view.witness_ids(rows.values(), own))
            lost = {
                at: row
                for at, row in rows.items()
                if row.witness is not None and row.witness not in found
            }
            if lost:
                now = self._view.store.rows([row.number for row in lost.values()])
                rows.update(
                    {
                        at: now.get(row.number, row._replace(witness=None))
                        for at, row in lost.items()
                    }
                )
                raise TablesBehind  # they may have other witnesses

        self._patiently(look)
        return found


def _repeated(found: Enrolled) -> Enrolled:
    return Enrolled(found.row, again=True, conflict=found.conflict)


def _text(request: AddRequest, place: int) -> bytes | None:
    return None if request.texts is None else request.texts[place]
