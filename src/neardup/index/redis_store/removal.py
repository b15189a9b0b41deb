"""Remove documents from an index on Redis; their copies are judged again, under their own numbers.

A kept document that is removed is first marked: from then on nothing becomes a copy of it. Its
copies, the orphans, are appended to their buckets again and judged in order against all kept
documents, as in an index in a folder. Whoever is pending with a higher number than an orphan that
he met gives his number up; those with lower ones are waited for. Then the document is erased.

A process that fails in between leaves a removal that any other finishes: when it has waited for an
orphan for a whole lease, or by `finish_all`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neardup.index.redis_store.buckets import Buckets
from neardup.index.redis_store.decision_store import Change, DecisionStore
from neardup.index.redis_store.documents import Documents
from neardup.index.redis_store.judging import LONGEST_PAUSE, UNDECIDED, Meeting, judge, wait_for
from neardup.index.redis_store.keyspace import (
    ABANDONED,
    COPY,
    DELETED,
    KEPT,
    ORPHAN,
    PENDING,
    REMOVING,
    State,
    bucket_keys,
    content_keys,
)
from neardup.index.redis_store.overflow import Overflow
from neardup.index.stats import Counters
from neardup.index.view import View


@dataclass
class Removal:
    """Removes documents. Any thread may use it.

    `lease` has the seconds that it waits for others.
    """

    store: DecisionStore
    buckets: Buckets
    overflow: Overflow
    documents: Documents
    view: View
    counters: Counters
    lease: float

    def remove(self, numbers: Sequence[int]) -> int:
        """Remove documents; return how many there were."""
        return sum(self._remove(number) for number in numbers)

    def finish_all(self) -> int:
        """Finish the removals that other processes have left; return how many there were."""
        unfinished = self.store.unfinished()
        for number in unfinished:
            self._finish(number)
        return len(unfinished)

    def end_wait(self, undecided: set[int]) -> None:
        """End the wait for documents that were not decided in time."""
        states = self.documents.states(sorted(undecided))
        self._abandon([each for each, state in states.items() if state.kind == PENDING])
        if any(state.kind == ORPHAN for state in states.values()):
            self.finish_all()

    def _abandon(self, numbers: Sequence[int]) -> None:
        """Abandon the numbers of documents that are pending, or that have no state yet."""
        for expected in (PENDING, b""):
            self.store.settle([Change(number, expected, ABANDONED) for number in numbers])

    def _remove(self, number: int) -> bool:
        begun = time.monotonic()
        while True:
            state = self.documents.states([number])[number]
            if state.kind == KEPT:
                self.store.withdraw(number)
            if state.kind in (KEPT, REMOVING):
                self._finish(number)
                return state.kind == KEPT
            if state.kind == COPY:
                change = Change(number, state.pack(number), DELETED)
                if self.store.settle([change], durable=True)[0]:
                    self._erase(number)
                    return True
                continue  # it is an orphan now
            if state.kind not in UNDECIDED:
                return False
            if time.monotonic() - begun > self.lease:
                self.end_wait({number})
            time.sleep(LONGEST_PAUSE)

    def _finish(self, number: int) -> None:
        """Judge the copies of a document again that is being removed, and erase it."""
        self.judge_orphans_of(number, self.documents.members([number])[0])
        self._erase(number)

    def judge_orphans_of(self, number: int, members: Sequence[int]) -> None:
        """Judge the copies of a document again that is not kept any more.

        Args:
            number: The document that was kept.
            members: Those that are or were copies of it.
        """
        self._await(members)
        states = self.documents.states(members)
        copies = {
            each: state
            for each, state in states.items()
            if state.kind in (COPY, ORPHAN) and state.witness == number
        }
        self.store.settle(
            [
                Change(each, state.pack(each), state._replace(kind=ORPHAN).pack(each))
                for each, state in copies.items()
                if state.kind == COPY
            ]
        )
        self._judge_again(sorted(copies))

    def _await(self, members: Sequence[int]) -> None:
        """Wait for documents that have joined the cluster and have not stored this decision yet."""
        begun = time.monotonic()
        while True:
            states = self.documents.states(members)
            pending = [each for each, state in states.items() if state.kind == PENDING]
            if not pending:
                return
            if time.monotonic() - begun > self.lease:
                self._abandon(pending)
            time.sleep(LONGEST_PAUSE)

    def _judge_again(self, orphans: list[int]) -> None:
        """Judge orphans until all of them are decided."""
        while orphans:
            records = self.documents.records(orphans)
            arrivals = self.view.stored_arrivals(
                orphans, [records[number].content for number in orphans]
            )
            keys = np.column_stack([arrivals.keys, content_keys(arrivals.content)])
            repeated = np.repeat(np.array(orphans, np.int64), keys.shape[1])
            appended = self.buckets.append(keys.reshape(-1), repeated)
            meeting = Meeting.of(orphans, keys, appended, self.documents)
            rows = list(range(len(orphans)))
            self._preempt(meeting)
            wait_for(meeting, rows, self.documents, self.lease, self.end_wait)
            decided = judge(meeting, rows, arrivals, self.view, self.counters)
            self._settle({orphans[row]: state for row, state in decided.items()})
            states = self.documents.states(orphans)
            copies = [row for row, each in enumerate(orphans) if states[each].kind == COPY]
            chosen = keys[copies]
            self.buckets.leave(
                chosen.reshape(-1),
                np.repeat(np.array(orphans, np.int64)[copies], keys.shape[1]),
            )
            orphans = [each for each in orphans if states[each].kind == ORPHAN]

    def _preempt(self, meeting: Meeting) -> None:
        """Have everybody who is pending, and was met with a higher number, begin again."""
        later = {
            each
            for row in range(len(meeting.numbers))
            for each in meeting.met_later(row)
            if meeting.states[each].kind == PENDING
        }
        if later:
            self._abandon(sorted(later))
            meeting.update(self.documents, later)

    def _settle(self, decided: dict[int, State]) -> None:
        """Store the decisions about orphans, by number."""
        states = self.documents.states(sorted(decided))
        orphans = {each: state.pack(each) for each, state in states.items() if state.kind == ORPHAN}
        kept = [each for each in orphans if decided[each].kind == KEPT]
        self.store.settle(
            [Change(each, orphans[each], decided[each].pack(each)) for each in kept], durable=True
        )
        copies = [each for each in orphans if decided[each].kind == COPY]
        joined = self.store.join([(decided[each].witness or 0, each) for each in copies])
        self.store.settle(
            [
                Change(each, orphans[each], decided[each].pack(each))
                for each, is_kept in zip(copies, joined, strict=True)
                if is_kept
            ],
            durable=True,
        )

    def _erase(self, number: int) -> None:
        """Take a removed document out of all buckets, then erase what is stored of it."""
        record = self.documents.records([number]).get(number)
        if record is not None:
            content = np.frombuffer(record.content, np.uint64).reshape(1, 2)
            bands = self.view.codec.unpack([record.signature]).keys
            keys = bucket_keys(bands, content, [record.id])[0]
            self.buckets.leave(keys, np.full(len(keys), number, np.int64))
            self._refill(bands[0])
        self.store.erase([number], DELETED)

    def _refill(self, bands: np.ndarray) -> None:
        """Let documents lead that a full bucket had no room for."""
        keys, numbers = self.overflow.take(bands)
        if not len(keys):
            return
        members = self.buckets.append(keys, numbers).members
        later = {
            each for place, listed in members.items() for each in listed if each > numbers[place]
        }
        states = self.documents.states(sorted(later))
        self._abandon([each for each, state in states.items() if state.kind == PENDING])
