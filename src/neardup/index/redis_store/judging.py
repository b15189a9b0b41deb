"""Judge documents by the members that their buckets had when they were appended.

Adding documents and judging the copies of a removed one again are the same from here on: numbers
that a document met, the states that these have, and the rules for which of them to wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.index.arrivals import Arrivals, select_arrivals
from neardup.index.decider import KEPT as NO_WITNESS
from neardup.index.postings import Integers, Keys, Numbers
from neardup.index.redis_store.buckets import Appended
from neardup.index.redis_store.documents import SharedDocuments
from neardup.index.redis_store.keyspace import COPY, GONE, KEPT, ORPHAN, PENDING, State
from neardup.index.redis_store.tables import list_leaders
from neardup.index.stats import Counters
from neardup.index.view import View

UNDECIDED: Final = (PENDING, ORPHAN)
FIRST_PAUSE, LONGEST_PAUSE = 0.001, 0.02


@dataclass
class BucketMeeting:
    """Documents with their numbers, and the numbers that each of them met in its buckets."""

    numbers: list[int]
    """In ascending order."""
    keys: NDArray[np.uint64]
    """The keys of their buckets, a row each."""
    met: list[set[int]]
    """For each document, all members of its buckets but those of this meeting."""
    members: dict[int, list[int]]
    """Key of a bucket -> its members before; buckets without any are left out."""
    states: dict[int, State]
    """Of all numbers that were met."""

    @classmethod
    def of(
        cls,
        numbers: list[int],
        keys: NDArray[np.uint64],
        appended: Appended,
        documents: SharedDocuments,
    ) -> BucketMeeting:
        """Look at the members that were met, and read their states."""
        columns, own = keys.shape[1], set(numbers)
        flat = keys.reshape(-1).tolist()
        met: list[set[int]] = [set() for _ in numbers]
        members: dict[int, list[int]] = {}
        for place, listed in appended.members.items():
            # Of two documents with one bucket, the second one has met the first one too.
            others = [number for number in listed if number not in own]
            if others:
                met[place // columns].update(others)
                members[flat[place]] = others
        all_met: set[int] = set().union(*met)
        return cls(numbers, keys, met, members, documents.states(sorted(all_met)))

    def update(self, documents: SharedDocuments, numbers: set[int]) -> None:
        """Read some of the states again."""
        self.states |= documents.states(sorted(numbers))

    def met_later(self, row: int) -> set[int]:
        """Return the higher numbers that a document met and that count."""
        number = self.numbers[row]
        return {
            each for each in self.met[row] if each > number and self.states[each].kind not in GONE
        }

    def undecided_before(self, rows: Sequence[int]) -> set[int]:
        """Return the lower numbers that these documents met and that are not decided."""
        return {
            each
            for row in rows
            for each in self.met[row]
            if each < self.numbers[row] and self.states[each].kind in UNDECIDED
        }

    def holders(self, row: int, column: int, kinds: Sequence[bytes]) -> list[int]:
        """Return the members of one of a document's buckets whose states are of these kinds."""
        listed = self.members.get(int(self.keys[row, column]), [])
        return sorted(each for each in set(listed) if self.states[each].kind in kinds)


@dataclass(frozen=True)
class MetLeaders:
    """The documents that the decider compares with: those that were met; see `CandidateSource`."""

    meeting: BucketMeeting
    view: View

    def leaders(self, keys: Keys, limit: int) -> tuple[Integers, Integers, Numbers]:
        """Return the first kept documents of each bucket."""
        states = self.meeting.states
        kept = {number for number, state in states.items() if state.kind == KEPT}
        flat = np.ascontiguousarray(keys).reshape(-1).tolist()
        met = self.meeting.members
        members = {place: met[key] for place, key in enumerate(flat) if key in met}
        return list_leaders(members, kept, keys.shape, limit)

    def first_shingles(self, numbers: Sequence[int], most: int) -> tuple[dict[int, bytes], int]:
        """Return the sorted shingles of the first documents; see `Store.first_blobs`."""
        return self.view.first_shingles(numbers, most)

    def signatures(self, numbers: Sequence[int]) -> NDArray[Any]:
        """Return the part of the documents' signatures that is compared, a row each."""
        return self.view.signatures(numbers)


def judge(
    meeting: BucketMeeting, rows: Sequence[int], arrivals: Arrivals, view: View, counters: Counters
) -> dict[int, State]:
    """Decide about documents of a meeting, by row: each is kept, or a copy.

    Args:
        meeting: The documents; all lower numbers that they met are decided.
        rows: The rows to decide about, in order.
        arrivals: The sketches of all documents of the meeting.
        view: Reads stored documents.
        counters: Count the work.
    """
    identical = _find_identical(meeting, rows, arrivals, view)
    rest = [row for row in rows if row not in identical]
    decided = dict(identical)
    if not rest:
        return decided
    begun = time.perf_counter()
    numbers = np.array([meeting.numbers[row] for row in rest], np.int64)
    chosen = select_arrivals(arrivals, rest)
    found = view.decider.decide(chosen, numbers, MetLeaders(meeting, view))
    counters.count_judged(len(rest), found, time.perf_counter() - begun)
    columns = found.witness.tolist(), found.similarity.tolist(), found.exact.tolist()
    for row, witness, similarity, exact, cosine in zip(rest, *columns, found.cosines, strict=True):
        copy = State(COPY, witness, similarity, int(exact), cosine=cosine)
        decided[row] = State(KEPT) if witness == NO_WITNESS else copy
    return decided


def _find_identical(
    meeting: BucketMeeting, rows: Sequence[int], arrivals: Arrivals, view: View
) -> dict[int, State]:
    """Return the states of documents that have the content of a kept one, by row."""
    column = arrivals.keys.shape[1]
    holders = {row: meeting.holders(row, column, [KEPT]) for row in rows}
    numbers = sorted({number for listed in holders.values() for number in listed})
    stored = view.store.rows(numbers) if numbers else {}
    identical = {}
    for row, listed in holders.items():
        content = arrivals.content[row].tobytes()
        same = (each for each in listed if each in stored and stored[each].content == content)
        if (first := next(same, None)) is not None:
            identical[row] = State(COPY, first, 1.0, 1)
    return identical


def wait_for(
    meeting: BucketMeeting,
    rows: Sequence[int],
    documents: SharedDocuments,
    lease: float,
    when_over: Callable[[set[int]], None],
) -> None:
    """Wait until all lower numbers that these documents met are decided.

    Args:
        meeting: The documents and the numbers that they met.
        rows: The rows that wait.
        documents: Reads states.
        lease: The seconds after which a number is not waited for any more, by this process's
            clock.
        when_over: Called with the numbers that are undecided when the lease is over.
    """
    begun, pause = time.monotonic(), FIRST_PAUSE
    while undecided := meeting.undecided_before(rows):
        if time.monotonic() - begun > lease:
            when_over(undecided)
            begun = time.monotonic()
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
        meeting.update(documents, undecided)
