"""Texts that are asked about at the same time are answered together.

One call of the index for many texts costs little more than one for a single text, and a thread
is woken once instead of many times. Nobody waits for others: what has come while a call was under
way is what the next one answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final

from neardup.index.answer import Answer

MOST: Final = 64
MOST_CHARACTERS: Final = 1 << 20
"""A call with more text than this would keep others waiting."""
Waiting = tuple[str, "asyncio.Future[Answer]"]


class Together:
    """Collects texts, answers them in threads. Used by one event loop."""

    def __init__(
        self, answer: Callable[[list[str]], list[Answer]], executor: Executor, at_once: int
    ) -> None:
        self._answer, self._executor, self._at_once = answer, executor, at_once
        self._waiting: deque[Waiting] = deque()
        self._under_way = 0
        self._planned = False

    def __len__(self) -> int:
        """How many texts wait."""
        return len(self._waiting)

    def ask(self, text: str) -> asyncio.Future[Answer]:
        """The answer, later."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((text, future))
        if self._under_way < self._at_once and not self._planned:
            # Not at once: requests that came in with this one are read first.
            self._planned = True
            loop.call_soon(self._start)
        return future

    def _start(self) -> None:
        self._planned = False
        taken = self._taken()
        if not taken:
            return
        self._under_way += 1
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._executor, self._answer, [text for text, _ in taken])
        work.add_done_callback(partial(self._finish, [future for _, future in taken]))

    def _taken(self) -> list[Waiting]:
        taken: list[Waiting] = []
        room = MOST_CHARACTERS
        while self._waiting and len(taken) < MOST and room > 0:
            text, future = self._waiting.popleft()
            if not future.done():  # Given up by its request.
                taken.append((text, future))
                room -= len(text)
        return taken

    def _finish(
        self, futures: list[asyncio.Future[Answer]], work: asyncio.Future[list[Answer]]
    ) -> None:
        self._under_way -= 1
        if (error := work.exception()) is not None:
            for future in futures:
                if not future.done():
                    future.set_exception(error)
        else:
            for future, answer in zip(futures, work.result(), strict=True):
                if not future.done():
                    future.set_result(answer)
        if self._waiting and not self._planned:
            self._start()
