"""Shards to sketch files, on as many cores as wanted.

Reading usual lines and sketching are kernels that release the GIL, so threads share the chunks
of a shard without sending anything between processes. Files are written in order by the caller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from neardup.batch.sketches import Piece
from neardup.corpus.read import Chunk, parse
from neardup.corpus.shards import Shard
from neardup.dedup import Sketcher

Work = TypeVar("Work")
Done = TypeVar("Done")

AHEAD = 2
"""Pieces of work a thread that may wait for their turn."""


def read_and_sketch(chunk: Chunk, shard: Shard, sketcher: Sketcher) -> Piece:
    """What is done with a chunk of a shard."""
    documents = parse(chunk, shard.reading.columns)
    return Piece.of(chunk, documents, sketcher(documents))


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
