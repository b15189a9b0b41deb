"""Remove documents from an index on Redis; their copies are judged again, under their own numbers.

A kept document that is removed is first marked: from then on nothing becomes a copy of it. Its
copies, the orphans, are appended to their buckets again and judged in order against all kept
documents, as in an index in a folder. Then the document is erased.

Of two documents that are judged at the same time, one of which has not met the other, only one may
be decided. A pending document that an orphan met, and that has a higher number, has to give that
number up. Another orphan with a higher number gets its next turn: a decision about it that was made
without the lower one is not stored any more, and it is judged again. Lower numbers are waited for.
An orphan that is about to become a copy of a document that is withdrawn gets its next turn, too.

The copies of a large cluster are judged in slices, in order: those of later slices are copies of
the withdrawn document until then.

A process that fails in between leaves a removal that any other finishes: when it has waited for an
orphan for a whole lease, or by `finish_all`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.index.redis_store.buckets import SharedBuckets
from neardup.index.redis_store.decision_store import Change, DecisionStore
from neardup.index.redis_store.documents import SharedDocuments
from neardup.index.redis_store.judging import (
    LONGEST_PAUSE,
    UNDECIDED,
    BucketMeeting,
    judge,
    wait_for,
)
from neardup.index.redis_store.keyspace import (
    ABANDONED,
    COPY,
    DELETED,
    KEPT,
    LAST_TURN,
    ORPHAN,
    PENDING,
    REMOVING,
    TOKEN_BYTES,
    Record,
    State,
    bucket_keys,
    content_keys,
    with_turns,
)
from neardup.index.redis_store.overflow import Overflow
from neardup.index.stats import Counters
from neardup.index.view import TablesBehind, View

JUDGED_TOGETHER: Final = 256
"""Copies of a removed document that are judged again together. In a bucket that all of them share,
each meets those before it, until those that are copies still have left it again."""


@dataclass
class SharedRemoval:
    """Removes documents. Any thread may use it.

    `lease` has the seconds that it waits for others.
    """

    store: DecisionStore
    buckets: SharedBuckets
    overflow: Overflow
    documents: SharedDocuments
    view: View
    counters: Counters
    lease: float

    def remove(self, numbers: Sequence[int]) -> int:
        """Remove documents; return how many there were."""
        return sum(self._remove(number) for number in numbers)

    def remove_copies(self, numbers: Sequence[int]) -> list[int]:
        """Remove the documents that are copies now, together; return which."""
        states = self.documents.states(numbers)
        return self._discard({each: state for each, state in states.items() if state.kind == COPY})

    def remove_kept(self, numbers: Sequence[int]) -> list[int]:
        """Remove the documents that are kept now, together; return which."""
        states = self.documents.states(numbers)
        return self._withdraw([each for each, state in states.items() if state.kind == KEPT])

    def finish_all(self) -> int:
        """Finish the removals that other processes have left; return how many there were."""
        unfinished = self.store.unfinished()
        self._finish(unfinished)
        return len(unfinished)

    def end_wait(self, undecided: set[int]) -> None:
        """End the wait for documents that were not decided in time."""
        states = self.documents.states(sorted(undecided))
        self._end_wait_inside(undecided)
        witnesses = sorted({state.witness or 0 for state in states.values() if state.witness})
        states = self.documents.states(witnesses)
        self._finish([each for each, state in states.items() if state.kind == REMOVING])

    def _end_wait_inside(self, undecided: set[int]) -> None:
        """End a wait while orphans are judged: of a removal that was left, only those waited for.

        They have lower numbers than those that wait, so that this ends.
        """
        states = self.documents.states(sorted(undecided))
        self._abandon([each for each, state in states.items() if state.kind == PENDING])
        self.judge_again([each for each, state in states.items() if state.kind == ORPHAN])

    def _abandon(self, numbers: Sequence[int]) -> None:
        """Abandon the numbers of documents that are pending, or that have no state yet."""
        for expected in (PENDING, b""):
            self.store.settle([Change(number, expected, ABANDONED) for number in numbers])

    def _remove(self, number: int) -> bool:
        begun = time.monotonic()
        while True:
            state = self.documents.states([number])[number]
            if state.kind == KEPT:
                if self._withdraw([number]):
                    return True
            elif state.kind == COPY:
                if self._discard({number: state}):
                    return True
            elif state.kind in UNDECIDED:
                if time.monotonic() - begun > self.lease:
                    self.end_wait({number})
                time.sleep(LONGEST_PAUSE)
            else:
                if state.kind == REMOVING:
                    self._finish([number])
                return False

    def _withdraw(self, kept: Sequence[int]) -> list[int]:
        """Remove documents that are kept still; return which. Others may lead full buckets then."""
        for number in kept:
            self._make_room(number)
        withdrawn = self.store.withdraw(kept, os.urandom(TOKEN_BYTES))
        removed = [each for each, done in zip(kept, withdrawn, strict=True) if done]
        self._finish(removed)
        return removed

    def _discard(self, copies: dict[int, State]) -> list[int]:
        """Remove copies that are in the same states still, by number; return which."""
        token = os.urandom(TOKEN_BYTES)  # tells this removal from another one at the same time
        changes = [
            Change(each, state.pack(each), DELETED + token) for each, state in copies.items()
        ]
        settled = self.store.settle(changes, durable=True)
        removed = [each for each, done in zip(copies, settled, strict=True) if done]
        self._leave(self._buckets_of(removed))
        self.store.erase(removed, DELETED)
        return removed

    def _make_room(self, number: int) -> None:
        """Have documents lead full buckets in the place of one that is about to be removed."""
        record = self.documents.records([number]).get(number)
        if record is None:
            return
        bands = self._keys_of(record)[:-2]
        held = self.buckets.hold(bands, number)
        keys, numbers = self.overflow.make_room(bands, held, self.view.options.limit)
        if not len(keys):
            return
        members = self.buckets.append(keys, numbers).members
        met = sorted({each for listed in members.values() for each in listed})
        states = self.documents.states(met)
        # They were appended before, and did not meet the document that leads the bucket now.
        self._abandon([each for each, state in states.items() if state.kind == PENDING])

    def _finish(self, numbers: Sequence[int]) -> None:
        """Judge the copies of documents again that are being removed, and erase those."""
        for number, members in zip(numbers, self.documents.members(numbers), strict=True):
            if members:
                self.judge_orphans_of(number, members)
        keys = self._buckets_of(numbers)
        # As long as it is in its buckets, who counted it as a leader must be told.
        self.buckets.release({number: listed[:-2] for number, listed in keys.items()})
        self._leave(keys)
        self.store.erase(numbers, DELETED)

    def judge_orphans_of(self, number: int, members: Sequence[int]) -> None:
        """Judge the copies of a document again that is not kept any more.

        Args:
            number: The document that was kept.
            members: Those that are or were copies of it, or are about to be.
        """
        self._await(members)
        states = self._end_judging(number, members)
        copies = sorted(each for each, state in states.items() if state.witness == number)
        for start in range(0, len(copies), JUDGED_TOGETHER):
            some = copies[start : start + JUDGED_TOGETHER]
            self.store.settle(
                [
                    Change(each, states[each].pack(each), states[each].judged_again.pack(each))
                    for each in some
                    if states[each].kind == COPY
                ]
            )
            self.judge_again(some)

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

    def _end_judging(self, number: int, members: Sequence[int]) -> dict[int, State]:
        """Have the orphans of others that have joined this cluster begin again; return all states.

        The process that judges them met the document while it was kept, and may store its decision
        only now.
        """
        ended: set[int] = set()
        while True:
            states = self.documents.states(members)
            joined = [
                each
                for each, state in states.items()
                if state.kind == ORPHAN and state.witness != number and each not in ended
            ]
            if not joined:
                return states
            done = self._begin_again({each: states[each] for each in joined})
            ended.update(done)

    def _begin_again(self, orphans: dict[int, State]) -> list[int]:
        """Give orphans their next turns; return those that are orphans in the same turn still."""
        changes = [
            Change(each, state.pack(each), state.judged_again.pack(each))
            for each, state in orphans.items()
        ]
        done = self.store.settle(changes)
        return [each for each, changed in zip(orphans, done, strict=True) if changed]

    def judge_again(self, numbers: Sequence[int]) -> None:
        """Judge the orphans among some documents until all of them are decided."""
        behind: float | None = None
        while True:
            states = self.documents.states(numbers)
            records = self.documents.records(numbers)
            orphans = {
                each: states[each]
                for each in sorted(numbers)
                if states[each].kind == ORPHAN and each in records
            }
            if not orphans:
                return
            try:
                self._judge(orphans, records)
                behind = None
            except TablesBehind:  # what they were compared with was removed
                behind = behind or time.monotonic()
                if time.monotonic() - behind > 2 * self.lease:
                    raise
                time.sleep(LONGEST_PAUSE)

    def _judge(self, orphans: dict[int, State], records: dict[int, Record]) -> None:
        """Judge orphans once; decisions about those that got another turn meanwhile are lost."""
        numbers = list(orphans)
        arrivals = self.view.stored_arrivals(numbers, [records[one].content for one in numbers])
        keys = np.column_stack([arrivals.keys, content_keys(arrivals.content)])
        columns = keys.shape[1]
        turns = np.array([state.turn for state in orphans.values()], np.int64)
        members = np.repeat(with_turns(np.array(numbers, np.int64), turns), columns)
        appended = self.buckets.append(keys.reshape(-1), members)
        meeting = BucketMeeting.of(numbers, keys, appended, self.documents)
        rows = list(range(len(numbers)))
        self._preempt(meeting)
        wait_for(meeting, rows, self.documents, self.lease, self._end_wait_inside)
        decided = judge(meeting, rows, arrivals, self.view, self.counters)
        self._settle(orphans, {numbers[row]: state for row, state in decided.items()})
        states = self.documents.states(numbers)
        copies = [row for row, each in enumerate(numbers) if states[each].kind == COPY]
        if copies:
            leaving = members.reshape(-1, columns)[copies]
            floor = max(numbers[row] for row in copies)
            self.buckets.leave(keys[copies].reshape(-1), leaving.reshape(-1), floor)

    def _preempt(self, meeting: BucketMeeting) -> None:
        """Have the undecided documents that were met, and have higher numbers, begin again."""
        met = {each for row in range(len(meeting.numbers)) for each in meeting.met_later(row)}
        pending = sorted(each for each in met if meeting.states[each].kind == PENDING)
        orphans = {each: meeting.states[each] for each in sorted(met)}
        orphans = {each: state for each, state in orphans.items() if state.kind == ORPHAN}
        while orphans:
            done = self._begin_again(orphans)
            now = self.documents.states([each for each in orphans if each not in done])
            orphans = {each: state for each, state in now.items() if state.kind == ORPHAN}
        if pending:
            self._abandon(pending)
        if met:
            meeting.update(self.documents, met)

    def _settle(self, orphans: dict[int, State], decided: dict[int, State]) -> None:
        """Store the decisions about orphans, by number, that are in the same turn still."""

        def change(each: int) -> Change:
            state = decided[each]._replace(turn=orphans[each].turn)
            return Change(each, orphans[each].pack(each), state.pack(each))

        kept = [each for each in decided if decided[each].kind == KEPT]
        self.store.settle([change(each) for each in kept], durable=True)
        copies = [each for each in decided if decided[each].kind == COPY]
        joined = self.store.join([(decided[each].witness or 0, each) for each in copies])
        ready = [each for each, is_kept in zip(copies, joined, strict=True) if is_kept]
        self.store.settle([change(each) for each in ready], durable=True)

    def _buckets_of(self, numbers: Sequence[int]) -> dict[int, NDArray[np.uint64]]:
        """Return the keys of all buckets of the documents that have a record."""
        records = self.documents.records(numbers)
        return {number: self._keys_of(record) for number, record in records.items()}

    def _leave(self, keys: dict[int, NDArray[np.uint64]]) -> None:
        """Take removed documents out of all their buckets."""
        if keys:
            members = np.repeat(np.array([*keys], np.int64), [*map(len, keys.values())])
            self.buckets.leave(np.concatenate([*keys.values()]), with_turns(members, LAST_TURN))

    def _keys_of(self, record: Record) -> NDArray[np.uint64]:
        """Return the keys of all buckets of a document; the last ones are not of bands."""
        content = np.frombuffer(record.content, np.uint64).reshape(1, 2)
        bands = self.view.codec.unpack([record.signature]).keys
        keys: NDArray[np.uint64] = bucket_keys(bands, content, [record.id])[0]
        return keys
