"""Turns: the threads and the writer are shared fairly among parties.

A party is an API key or, without one, an address. Requests that have to wait do so in a queue for
each party, and the parties take turns: one that sends a thousand requests delays another one's by
one turn, not by a thousand. All of it is used by one event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class FairQueue(Generic[Item]):
    """A queue for each party, from which one item of each is taken in turn.

    >>> queue = FairQueue()
    >>> for item in ("a1", "a2", "a3", "b1"):
    ...     queue.put(item[0], item)
    >>> [queue.take(), queue.take(), queue.take(), queue.take(), bool(queue)]
    ['a1', 'b1', 'a2', 'a3', False]
    """

    def __init__(self) -> None:
        self._items: OrderedDict[str, deque[Item]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._items)

    def put(self, party: str, item: Item) -> None:
        self._items.setdefault(party, deque()).append(item)

    def take(self) -> Item:
        """Remove the oldest item of the party whose turn it is."""
        party, items = next(iter(self._items.items()))
        item = items.popleft()
        if items:
            self._items.move_to_end(party)
        else:
            del self._items[party]
        return item


class Turns:
    """Bounds the size of what is under way; what has to wait is admitted in turns.

    Something is admitted as long as there is any room, so that one larger than the room is too.

    Args:
        room: the size of what may be under way.
    """

    def __init__(self, room: int) -> None:
        self._free = room
        self._waiting: FairQueue[tuple[int, asyncio.Future[None]]] = FairQueue()

    @asynccontextmanager
    async def take(self, party: str, size: int = 1) -> AsyncIterator[None]:
        """Wait for a turn, and hold it.

        Args:
            party: the key or the address that asks.
            size: the room that it takes.
        """
        if self._free > 0:
            self._free -= size
        else:
            await self._wait(party, size)
        try:
            yield
        finally:
            self._release(size)

    async def _wait(self, party: str, size: int) -> None:
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(party, (size, admitted))
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():  # It came to its turn meanwhile.
                self._release(size)
            raise

    def _release(self, size: int) -> None:
        self._free += size
        while self._free > 0 and self._waiting:
            waiting, admitted = self._waiting.take()
            if not admitted.done():  # A cancelled request is skipped.
                self._free -= waiting
                admitted.set_result(None)


class FairPool:
    """Threads that the parties use in turns.

    Args:
        threads: their number.
        name: the name of the threads.
    """

    def __init__(self, threads: int, name: str) -> None:
        self.threads = ThreadPoolExecutor(threads, name)
        self._turns = Turns(threads)

    async def run(self, party: str, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, which runs in a thread when it is the party's turn."""
        async with self._turns.take(party):
            return await asyncio.get_running_loop().run_in_executor(self.threads, work)
