"""Work on as many cores as wanted. By threads: what takes the time, the kernels, has no GIL."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Work = TypeVar("Work")
Done = TypeVar("Done")

AHEAD = 4
"""Pieces of work a thread that may wait for their turn."""


def in_order(
    work: Iterable[Work], do: Callable[[Work], Done], workers: int
) -> Iterator[tuple[Work, Done]]:
    """Each piece of work and what came of it, in order, done by that many threads."""
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
