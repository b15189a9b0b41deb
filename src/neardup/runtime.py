"""What all rooms use to run: the cache folder, warnings, a pool of threads, and progress."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol, TypeVar

quiet = False
compiling_seconds = 0.0
"""How long this process has compiled kernels: no rate and no estimate of progress counts it."""


def _print_warning(message: str) -> None:
    print(f"neardup: {message}", file=sys.stderr, flush=True)


say: Callable[[str], None] = _print_warning
"""Where warnings are written: to stderr; a service writes them to its log."""


def cache_home() -> Path:
    """Return the user's cache folder of neardup."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neardup"


@cache
def private_folder() -> Path:
    """Return a cache folder of this process, removed at its end."""
    # Not a name that others could guess: they could put their own code there.
    private = tempfile.mkdtemp(prefix="neardup-kernels-")
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return Path(private)


Work = TypeVar("Work")
Done = TypeVar("Done")

AHEAD = 4
"""Pieces of work that may be submitted ahead, for each thread."""


def map_in_order(
    work: Iterable[Work], do: Callable[[Work], Done], workers: int
) -> Iterator[tuple[Work, Done]]:
    """Yield each piece of work with its result, in order, computed by `workers` threads."""
    if workers == 1:
        for piece in work:
            yield piece, do(piece)
        return
    waiting: deque[tuple[Work, Future[Done]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for piece in work:
                waiting.append((piece, pool.submit(do, piece)))
                if len(waiting) > AHEAD * workers:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def map_reporting(
    work: Iterable[Work],
    do: Callable[[Work, Callable[[int], None]], Done],
    workers: int,
    advance: Callable[[int], None],
) -> Iterator[Done]:
    """Yield the result of each piece of work, in order, computed by `workers` threads.

    For pieces that take long: their progress is shown meanwhile, and they stop where they report it
    if this is abandoned.

    Args:
        work: The pieces.
        do: Does one; its second argument is called, in its thread, with the amount that was done.
        workers: The number of threads.
        advance: Called with these amounts in the thread of the caller.
    """
    reported: SimpleQueue[int] = SimpleQueue()
    abandoned = threading.Event()

    def report(amount: int) -> None:
        if abandoned.is_set():
            raise CancelledError
        reported.put(amount)

    waiting: deque[Future[Done]] = deque()

    def take(most: int) -> Iterator[Done]:
        """Yield results until at most so many pieces are waiting."""
        while len(waiting) > most:
            advance(reported.get())
            while waiting and waiting[0].done():
                yield waiting.popleft().result()

    with ThreadPoolExecutor(workers) as pool:
        try:
            for piece in work:
                waiting.append(pool.submit(do, piece, report))
                waiting[-1].add_done_callback(lambda _: reported.put(0))
                yield from take(AHEAD * workers)
            yield from take(0)
            while not reported.empty():
                advance(reported.get())
        finally:
            abandoned.set()
            pool.shutdown(cancel_futures=True)


class Progress(Protocol):
    """A display of how far a long run has come: stages, steps and messages.

    `total` of a stage is None if it is not known in advance.
    """

    def stage(self, name: str, total: int | None, unit: str) -> None: ...
    def advance(self, amount: int) -> None: ...
    def say(self, message: str) -> None: ...


class Silent:
    """Progress that shows nothing."""

    def stage(self, name: str, total: int | None, unit: str) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass

    def say(self, message: str) -> None:
        pass


SILENT = Silent()
