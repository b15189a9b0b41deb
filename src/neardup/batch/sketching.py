"""Chunks to sketches, here or in worker processes; always in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import pyarrow as pa

from neardup.batch.memory import Memory
from neardup.batch.workers import Workers
from neardup.corpus.documents import Columns, Documents
from neardup.corpus.read import Chunk, parse
from neardup.dedup import Sketch, Sketcher


@dataclass(frozen=True)
class ReadAndSketch:
    """What is done with a chunk; sent to each worker."""

    columns: Columns
    sketcher: Sketcher

    def __call__(self, chunk: Chunk) -> tuple[Documents, Sketch]:
        documents = parse(chunk, self.columns)
        sketch = self.sketcher(documents)
        # The texts have done their work, and must not travel between processes.
        documents.texts = pa.nulls(0)
        return documents, sketch


Sketched = tuple[Chunk, Documents, Sketch]


def sketched(
    chunks: Iterable[Chunk], work: ReadAndSketch, count: int, memory: Memory
) -> Iterator[Sketched]:
    """Each chunk with its documents (without texts) and sketches, in order."""
    if count == 1:
        for chunk in chunks:
            yield chunk, *work(chunk)
        return
    workers = Workers(work, count)
    try:
        yield from _in_order(chunks, workers, 4 * count)
        memory.note_workers()
    finally:
        workers.end()


def _in_order(chunks: Iterable[Chunk], workers: Workers, ahead: int) -> Iterator[Sketched]:
    waiting: deque[tuple[Chunk, Future[tuple[Documents, Sketch]]]] = deque()
    for chunk in chunks:
        waiting.append((chunk, workers.submit(chunk)))
        if len(waiting) > ahead:
            done, future = waiting.popleft()
            yield done, *future.result()
    while waiting:
        done, future = waiting.popleft()
        yield done, *future.result()
