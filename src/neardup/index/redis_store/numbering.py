"""The numbers of new documents of this process: ranges that are taken from the index's counter.

The numbers of the next documents can be taken with the same commands that store the documents
before: they are there, then, without a round trip of their own. They wait for a moment only: when
other processes have higher numbers in a bucket, a lower one is given up.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from neardup.index.planner import check_number
from neardup.index.redis_store.decision_store import DecisionStore
from neardup.index.redis_store.scripts import load_script
from neardup.index.redis_store.servers import Call

MOST_RESERVED: Final = 8
"""Documents whose numbers are taken beforehand: for more of them a round trip takes little."""
RESERVED_SECONDS: Final = 1.0
"""How long they may wait: copies with higher numbers stay in their buckets as long at least."""
TAKEN_JUMP: Final = 1 << 20
"""Numbers that are passed over if one was given twice: a failover has lost what the counter had."""


class Numbers:
    """Takes numbers in ascending order. Any thread may use it."""

    def __init__(self, store: DecisionStore) -> None:
        self._store, self._guard = store, threading.Lock()
        self._least = 1
        self._reserved: list[int] = []
        self._since = 0.0

    def take(self, documents: int) -> list[int]:
        """Return numbers in order that no other document has or gets, and none in between."""
        with self._guard:
            if time.monotonic() - self._since > RESERVED_SECONDS:
                self._reserved = []
            numbers, self._reserved = self._reserved[:documents], self._reserved[documents:]
        if missing := documents - len(numbers):
            numbers += self._take_range(missing)
        if numbers[-1] - numbers[0] >= documents:  # others have taken some meanwhile
            numbers = self._take_range(documents)
        return numbers

    def _take_range(self, documents: int) -> list[int]:
        return _range(self._store.run([self._call(documents)])[0], documents)

    def reserving(self, documents: int) -> list[Call]:
        """Return the command that takes the numbers of as many more documents, if those are few."""
        few = documents <= MOST_RESERVED and not self._reserved
        return [self._call(documents)] if few else []

    def reserve(self, documents: int, last: int) -> None:
        """Have numbers ready that were taken.

        Args:
            documents: How many.
            last: The reply to the command: the last of them.
        """
        numbers = _range(last, documents)
        with self._guard:
            self._reserved, self._since = numbers, time.monotonic()

    def pass_over(self, taken: int) -> None:
        """Take no numbers up to one, and many after it: another document has it already."""
        with self._guard:
            self._least, self._reserved = taken + TAKEN_JUMP, []

    def _call(self, documents: int) -> Call:
        keyspace = self._store.keyspace
        return Call.of_script(
            load_script("allocate"),
            [keyspace.meta, keyspace.counter],
            [self._store.identity, documents, self._least],
        )


def _range(last: int, documents: int) -> list[int]:
    check_number(last)
    return list(range(last - documents + 1, last + 1))
