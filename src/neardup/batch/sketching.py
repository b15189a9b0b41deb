"""Chunks to sketches, on as many cores as wanted; always in order.

Reading usual lines and sketching are kernels that release the GIL, so threads share the work
without sending shingles between processes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from neardup.corpus.documents import Columns, Documents
from neardup.corpus.read import Chunk, parse
from neardup.dedup import Sketch, Sketcher

Sketched = tuple[Chunk, Documents, Sketch]
AHEAD = 2
"""Chunks a thread that may wait for their turn."""


@dataclass(frozen=True)
class ReadAndSketch:
    """What is done with a chunk."""

    columns: Columns
    sketcher: Sketcher

    def __call__(self, chunk: Chunk) -> tuple[Documents, Sketch]:
        documents = parse(chunk, self.columns)
        return documents, self.sketcher(documents)


def sketched(chunks: Iterable[Chunk], work: ReadAndSketch, workers: int) -> Iterator[Sketched]:
    """Each chunk with its documents and sketches, in order."""
    if workers == 1:
        for chunk in chunks:
            yield chunk, *work(chunk)
        return
    waiting: deque[tuple[Chunk, Future[tuple[Documents, Sketch]]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for chunk in chunks:
                waiting.append((chunk, pool.submit(work, chunk)))
                if len(waiting) > AHEAD * workers:
                    done, future = waiting.popleft()
                    yield done, *future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, *future.result()
        finally:
            pool.shutdown(cancel_futures=True)
