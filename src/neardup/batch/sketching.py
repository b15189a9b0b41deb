"""Chunks to sketches, here or in worker processes; always in order."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

import pyarrow as pa

from neardup.corpus.documents import Columns, Documents
from neardup.corpus.read import Chunk, parse
from neardup.dedup import Sketch, Sketcher
from neardup.errors import NeardupError


@dataclass(frozen=True)
class ReadAndSketch:
    """What is done with a chunk; sent to each worker with it."""

    columns: Columns
    sketcher: Sketcher

    def __call__(self, chunk: Chunk) -> tuple[Documents, Sketch]:
        documents = parse(chunk, self.columns)
        sketch = self.sketcher(documents)
        # The texts have done their work, and must not travel between processes.
        documents.texts = pa.nulls(0)
        return documents, sketch


Sketched = tuple[Chunk, Documents, Sketch]


def sketched(chunks: Iterable[Chunk], work: ReadAndSketch, workers: int) -> Iterator[Sketched]:
    """Each chunk with its documents (without texts) and sketches, in order."""
    if workers == 1:
        for chunk in chunks:
            yield chunk, *work(chunk)
        return
    # Forking a process that has threads (Arrow's) can deadlock the child.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context) as pool:
        waiting: deque[tuple[Chunk, Future[tuple[Documents, Sketch]]]] = deque()
        try:
            for chunk in chunks:
                waiting.append((chunk, pool.submit(work, chunk)))
                if len(waiting) > 3 * workers:
                    done, future = waiting.popleft()
                    yield done, *future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, *future.result()
        except BrokenProcessPool:
            raise NeardupError(
                "a worker process died, perhaps for lack of memory: try again with --workers 1"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)
