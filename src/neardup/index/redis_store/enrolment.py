"""Add documents to an index on Redis, beside any number of other processes that do.

    1  take a range of numbers, with none of another document in between
    2  store the documents as pending
    3  append each to its buckets and read their members, in one atomic step for each bucket
    4  a document that met a higher number that counts gives its own number up, and begins again
    5  wait until all lower numbers that were met are decided; set those that are not decided in
       time to abandoned
    6  decide by the definition, against the kept documents that were met
    7  set pending to kept or to copy, if it is pending still; otherwise begin again

Why the answer is that of a batch run in the order of the numbers: take m < n, both decided, in one
bucket. If m was appended first, n has met it and waited for it. If n was appended first, m has met
a higher number and gave its own up. So a document that is decided has met all lower numbers that
count.

Copies leave their buckets a while after they were decided. A lower number that is appended later
could miss them; the floor of the partition tells, and such a number is given up, too. (A kept
document that leaves a full bucket needs no floor: a number that is lower than all of the leaders
meets one of them, and for the other numbers it makes no difference.)

A number that stays undecided is abandoned by a process that has waited for it for a whole lease, by
the clock of that process alone. Its document was not acknowledged.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import NeardupError, ServersUnavailable
from neardup.index.redis_store.buckets import Appended, SharedBuckets
from neardup.index.redis_store.decision_store import Change, DecisionStore
from neardup.index.redis_store.documents import SharedDocuments
from neardup.index.redis_store.enrolment_batch import SENT_BYTES, EnrolmentBatch, divide
from neardup.index.redis_store.judging import BucketMeeting, judge, wait_for
from neardup.index.redis_store.keyspace import (
    ABANDONED,
    COPY,
    KEPT,
    PENDING,
    STORED,
    TOKEN_BYTES,
    State,
    bucket_keys,
    offset_of,
)
from neardup.index.redis_store.numbering import Numbers
from neardup.index.redis_store.overflow import Overflow
from neardup.index.redis_store.removal import SharedRemoval
from neardup.index.redis_store.scripts import load_script
from neardup.index.redis_store.servers import Call, NotReplicated
from neardup.index.stats import Counters
from neardup.index.store import Row
from neardup.index.view import TablesBehind, View

TIDY_SECONDS: Final = 1.0
"""How long copies stay in their buckets: longer than others take from a number to its buckets."""
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.1


@dataclass(frozen=True)
class Enrolled:
    """What became of a document."""

    row: Row
    """The stored document; an earlier one with the same id and content if `again`."""
    again: bool = False
    conflict: bool = False
    """Another document has its id: it was not added."""


@dataclass
class Leaving:
    """Documents that leave buckets, since a point in time."""

    since: float
    keys: NDArray[np.uint64]
    numbers: NDArray[np.int64]
    floor: int


@dataclass
class Enrolment:
    """Adds batches of documents. For one thread.

    `lease` has the seconds that it waits for others; those of one process share their `numbers`.
    """

    store: DecisionStore
    buckets: SharedBuckets
    overflow: Overflow
    documents: SharedDocuments
    view: View
    counters: Counters
    removal: SharedRemoval
    lease: float
    numbers: Numbers
    _token: bytes = field(default_factory=lambda: os.urandom(TOKEN_BYTES))
    _leaving: list[Leaving] = field(default_factory=list)

    def add(
        self, new: EnrolmentBatch, when_appended: Callable[[], None], *, replacing: bool = False
    ) -> list[Enrolled]:
        """Judge and store documents; return what became of each when all is durable.

        Args:
            new: The documents.
            when_appended: Called when they are in their buckets: others get higher numbers then.
            replacing: Remove documents that have one of the ids and another content.
        """
        done: dict[int, Enrolled] = {}
        rows = list(range(len(new.ids)))
        if not rows:
            return []
        behind: float | None = None
        for attempt in count():
            try:
                rows = self._attempt(new, rows, done, when_appended, replacing)
                behind = None
            except TablesBehind:  # what it was compared with is being removed, or damaged
                behind = behind or time.monotonic()
                if time.monotonic() - behind > 2 * self.lease:
                    raise
            if not rows:
                break
            longest = min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)
            time.sleep(random.uniform(0, longest))  # noqa: S311  # no secret
        with suppress(NeardupError):  # the documents are stored; later is soon enough
            self.tidy(time.monotonic() - TIDY_SECONDS)
        return [done[row] for row in range(len(new.ids))]

    def _attempt(
        self,
        new: EnrolmentBatch,
        rows: list[int],
        done: dict[int, Enrolled],
        when_appended: Callable[[], None],
        replacing: bool,
    ) -> list[int]:
        """Add documents under new numbers; return the rows of those that have to begin again."""
        part = new.select(rows)
        numbers = self.numbers.take(len(rows))
        attempt = _Attempt(self, part, numbers)
        # Buckets must not get the number of another document, so this comes first.
        if refused := self._begin(part, numbers):
            attempt.give_up([row for row in range(len(rows)) if row not in refused])
            return rows
        columns = attempt.keys.shape[1]
        repeated = np.repeat(np.array(numbers, np.int64), columns)
        try:
            appended = self.buckets.append(attempt.keys.reshape(-1), repeated, durable=True)
            when_appended()
            outcome = attempt.run(appended, replacing)
        except BaseException as error:  # or other processes would wait for these numbers
            if isinstance(error, NotReplicated) or not isinstance(error, ServersUnavailable):
                with suppress(NeardupError):
                    attempt.give_up(range(len(rows)))
            raise
        done |= {rows[place]: each for place, each in outcome.items()}
        return [row for place, row in enumerate(rows) if place not in outcome]

    @property
    def pending(self) -> bytes:
        """The state of documents that this process is adding."""
        return PENDING + self._token

    def _begin(self, new: EnrolmentBatch, numbers: list[int]) -> set[int]:
        """Store documents as pending; return the places of those whose numbers they can't have."""
        packed = new.pack(numbers, self.view)
        sizes = [sum(map(len, each)) for each in packed]
        parts, calls, keyspace = divide(numbers, sizes), [], self.store.keyspace
        for places in parts:
            first = numbers[places[0]]
            columns = [keyspace.of_document(letter, first) for letter in "srht"]
            keys = [keyspace.partition_meta(keyspace.partition_of(first)), *columns]
            arguments: list[Any] = [self.store.identity, self.pending]
            for place in places:
                arguments += [offset_of(numbers[place]), *packed[place]]
            calls.append(Call.of_script(load_script("begin"), keys, arguments))
        calls += self.numbers.reserving(len(numbers))
        turns = [calls] if sum(sizes) <= SENT_BYTES else [[call] for call in calls]
        replies = [reply for turn in turns for reply in self.store.run(turn)]
        if len(replies) > len(parts):
            self.numbers.reserve(len(numbers), replies.pop())
        refused: set[int] = set()
        for places, reply in zip(parts, replies, strict=True):
            refused |= {places[at if at >= 0 else -1 - at] for at in reply}
            if any(at >= 0 for at in reply):  # the counter has lost numbers in a failover
                self.numbers.pass_over(numbers[-1])
        return refused

    # Buckets that documents have to leave

    def leave_later(
        self, keys: NDArray[np.uint64], numbers: NDArray[np.int64], floor: int = 0
    ) -> None:
        """Have documents leave buckets a while from now; both arrays are of the same length."""
        if len(keys):
            self._leaving.append(Leaving(time.monotonic(), keys, numbers, floor))

    def tidy(self, until: float | None = None) -> None:
        """Take documents out of the buckets that they were to leave until a point in time."""
        due = [each for each in self._leaving if until is None or each.since <= until]
        if not due:
            return
        keys = np.concatenate([each.keys for each in due])
        numbers = np.concatenate([each.numbers for each in due])
        self.buckets.leave(keys, numbers, max(each.floor for each in due))
        self._leaving = self._leaving[len(due) :]


class _Attempt:
    """Documents under the numbers of one attempt."""

    def __init__(self, enrolment: Enrolment, new: EnrolmentBatch, numbers: list[int]) -> None:
        self._enrolment, self._new, self._numbers = enrolment, new, numbers
        self.keys = bucket_keys(new.arrivals.keys, new.arrivals.content, new.ids)
        self._documents, self._removal = enrolment.documents, enrolment.removal
        self._floors = np.zeros(len(numbers), np.int64)

    def run(self, appended: Appended, replacing: bool) -> dict[int, Enrolled]:
        """Return what became of the documents, by place, without those that must begin again."""
        self._floors = appended.floors.reshape(self.keys.shape).max(axis=1)
        meeting = BucketMeeting.of(self._numbers, self.keys, appended, self._documents)
        rows = self._go_on(meeting, list(range(len(self._numbers))))
        while True:
            wait_for(meeting, rows, self._documents, self._enrolment.lease, self._removal.end_wait)
            remaining = self._go_on(meeting, rows)
            if remaining == rows:
                break
            rows = remaining
        done, rows = self._stored_ids(meeting, rows, replacing)
        decided = judge(
            meeting, rows, self._new.arrivals, self._enrolment.view, self._enrolment.counters
        )
        kept = sorted(row for row, state in decided.items() if state.kind == KEPT)
        full = self._full(meeting, kept)
        settled = self._settle(decided, kept, chained=bool(full))
        self._leave_full(meeting, full, [row for row in kept if row in settled], appended)
        return done | settled

    def _go_on(self, meeting: BucketMeeting, rows: list[int]) -> list[int]:
        """Give up the numbers of documents that met a higher one; return the rows of the others."""
        lost = {
            row for row in rows if self._numbers[row] < self._floors[row] or meeting.met_later(row)
        }
        self.give_up(sorted(lost))
        return [row for row in rows if row not in lost]

    def give_up(self, rows: Sequence[int]) -> None:
        """Abandon the numbers of documents that are pending still."""
        if not rows:
            return
        store, pending = self._enrolment.store, self._enrolment.pending
        given = store.settle([Change(self._numbers[row], pending, ABANDONED) for row in rows])
        rows = [row for row, done in zip(rows, given, strict=True) if done]
        store.erase([self._numbers[row] for row in rows], ABANDONED)
        self._leave_later(rows, self.keys.shape[1])

    def _leave_later(self, rows: Sequence[int], columns: int, floor: int = 0) -> None:
        """Have documents leave the first of their buckets."""
        chosen = self.keys[list(rows), :columns]
        numbers = np.repeat(np.array([self._numbers[row] for row in rows], np.int64), columns)
        self._enrolment.leave_later(chosen.reshape(-1), numbers, floor)

    def _stored_ids(
        self, meeting: BucketMeeting, rows: list[int], replacing: bool
    ) -> tuple[dict[int, Enrolled], list[int]]:
        """Look for documents that have the ids; return the answers to those that are not added.

        Returns also the rows of those whose ids are free. Documents that are replaced are removed,
        and the new ones begin again.
        """
        column = self.keys.shape[1] - 1
        holders = {row: meeting.holders(row, column, STORED) for row in rows}
        stored = self._documents.rows(sorted({one for each in holders.values() for one in each}))
        done: dict[int, Enrolled] = {}
        replaced: list[int] = []
        ended: list[int] = []
        for row, listed in holders.items():
            same = [stored[one] for one in listed if one in stored]
            same = [one for one in same if one.id == self._new.ids[row]]
            if not same:
                continue
            ended.append(row)
            if same[0].content == self._new.arrivals.content[row].tobytes():
                if not replacing or self._update(same[0].number, row):
                    done[row] = Enrolled(same[0], again=True)
            elif replacing:
                replaced.append(same[0].number)
            else:
                done[row] = Enrolled(same[0], conflict=True)
        self.give_up(ended)
        if replaced:
            self._removal.remove(replaced)
        return done, [row for row in rows if row not in set(ended)]

    def _update(self, number: int, row: int) -> bool:
        """Give a stored document the metadata and the text of a new one with the same content."""
        record = self._documents.records([number]).get(number)
        if record is None:
            return False
        record = record._replace(metadata=self._new.metadata[row])
        return self._enrolment.store.update(number, record, self._new.texts[row])

    def _settle(
        self, decided: dict[int, State], kept: Sequence[int], *, chained: bool
    ) -> dict[int, Enrolled]:
        """Store decisions; return those that were stored, by row. The others begin again.

        The decisions are `chained` if some of these documents are not compared with others because
        their bucket is full: if one of its leaders is not stored, others lead it, and those that
        come after it were compared with the wrong ones.
        """
        copies = [row for row, state in decided.items() if state.kind == COPY]
        done = self._store(decided, kept, chained=chained)
        if chained and (lost := set(kept) - set(done)):
            copies = [row for row in copies if row < min(lost)]
        # Copies of documents of this attempt join after those are kept.
        joined = self._enrolment.store.join(
            [(decided[row].witness or 0, self._numbers[row]) for row in copies]
        )
        is_kept = dict(zip(copies, joined, strict=True))
        done += self._store(decided, [row for row in copies if is_kept[row]])
        self.give_up(sorted(set(decided) - set(done)))
        ended = [row for row in done if decided[row].kind == COPY]
        if ended:
            floor = max(self._numbers[row] for row in ended)
            self._leave_later(ended, self.keys.shape[1] - 1, floor)
        return {row: Enrolled(self._row(row, decided[row])) for row in done}

    def _store(
        self, decided: dict[int, State], rows: Sequence[int], *, chained: bool = False
    ) -> list[int]:
        """Store decisions; return the rows of those that were pending still.

        The decisions are `chained` if none is stored after one that is not.
        """
        numbers, pending = self._numbers, self._enrolment.pending
        settled = self._enrolment.store.settle(
            [Change(numbers[row], pending, decided[row].pack(numbers[row])) for row in rows],
            durable=True,
            chained=chained,
        )
        return [row for row, done in zip(rows, settled, strict=True) if done]

    def _full(self, meeting: BucketMeeting, kept: Sequence[int]) -> list[int]:
        """Return the buckets that may have more kept documents than the limit with these."""
        limit, bands = self._enrolment.view.options.limit, self.keys.shape[1] - 2
        longest = max(map(len, meeting.members.values()), default=0)
        if len(kept) + longest <= limit:
            return []
        shared, counts = np.unique(self.keys[list(kept), :bands], return_counts=True)
        crowded = counts + longest > limit
        listed = zip(shared[crowded].tolist(), counts[crowded].tolist(), strict=True)
        return [key for key, count in listed if count + len(meeting.members.get(key, ())) > limit]

    def _leave_full(
        self,
        meeting: BucketMeeting,
        full: Sequence[int],
        kept: Sequence[int],
        appended: Appended,
    ) -> None:
        """Have kept documents leave the buckets that have as many leaders as they may.

        Args:
            meeting: The documents of this attempt.
            full: The buckets that may have more than that.
            kept: The rows of the documents that are kept now, in order.
            appended: What the buckets had before.
        """
        limit, bands = self._enrolment.view.options.limit, self.keys.shape[1] - 2
        removals = appended.removals.reshape(self.keys.shape)
        states, moved = meeting.states, []
        for key in full:
            met = meeting.members.get(key, ())
            leaders = {each for each in met if states[each].kind == KEPT}
            for row in kept:
                columns = np.flatnonzero(self.keys[row, :bands] == np.uint64(key))
                if len(columns):
                    number = self._numbers[row]
                    if sum(each < number for each in leaders) >= limit:
                        moved.append((key, number, int(removals[row, columns[0]])))
                    leaders.add(number)
        self._enrolment.overflow.add(moved)

    def _row(self, row: int, state: State) -> Row:
        new = self._new
        return Row(
            self._numbers[row],
            new.ids[row],
            new.arrivals.content[row].tobytes(),
            state.witness,
            state.similarity,
            state.exact,
            new.added,
            new.metadata[row],
            state.cosine,
        )
