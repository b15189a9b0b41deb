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
    """Collects texts, and answers them in a thread. Used by one event loop."""

    def __init__(self, answer: Callable[[list[str]], list[Answer]], executor: Executor) -> None:
        self._answer, self._executor = answer, executor
        self._waiting: deque[Waiting] = deque()
        self._busy = False
        """A call is under way, or about to begin."""

    def ask(self, text: str) -> asyncio.Future[Answer]:
        """The answer, later."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((text, future))
        if not self._busy:
            # Not at once: requests that came in with this one are read first.
            self._busy = True
            loop.call_soon(self._start)
        return future

    def _start(self) -> None:
        taken = self._taken()
        self._busy = bool(taken)
        if not taken:
            return
        texts, futures = [text for text, _ in taken], [future for _, future in taken]
        loop = asyncio.get_running_loop()
        try:
            work = loop.run_in_executor(self._executor, self._answer, texts)
        except RuntimeError as error:  # No thread can be had; the next ones try again.
            self._busy = False
            _fail(futures, error)
        else:
            work.add_done_callback(partial(self._finish, futures))

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
        if (error := work.exception()) is not None:
            _fail(futures, error)
        else:
            for future, answer in zip(futures, work.result(), strict=True):
                if not future.done():
                    future.set_result(answer)
        self._start()


def _fail(futures: list[asyncio.Future[Answer]], error: BaseException) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
