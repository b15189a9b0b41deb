"""Chunks to sketches, here or in worker processes; always in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from neardup.batch.memory import Memory
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


def sketched(
    chunks: Iterable[Chunk], work: ReadAndSketch, workers: int, memory: Memory
) -> Iterator[Sketched]:
    """Each chunk with its documents (without texts) and sketches, in order."""
    if workers == 1:
        for chunk in chunks:
            yield chunk, *work(chunk)
        return
    # Forking a process that has threads (Arrow's) can deadlock the child.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=end_with_parent)
    try:
        yield from _in_order(chunks, work, pool, 3 * workers)
        memory.note_workers()
    except BrokenProcessPool:
        raise NeardupError(
            "a worker process died, perhaps for lack of memory: try again with --workers 1"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _in_order(
    chunks: Iterable[Chunk], work: ReadAndSketch, pool: ProcessPoolExecutor, ahead: int
) -> Iterator[Sketched]:
    waiting: deque[tuple[Chunk, Future[tuple[Documents, Sketch]]]] = deque()
    for chunk in chunks:
        with _interrupts_held():
            waiting.append((chunk, pool.submit(work, chunk)))
        if len(waiting) > ahead:
            done, future = waiting.popleft()
            yield done, *future.result()
    while waiting:
        done, future = waiting.popleft()
        yield done, *future.result()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Start workers in here: they never see Ctrl-C, their parent does, and ends them.

    The parent sees it afterwards. In the middle it would leave a worker without its
    instructions, which would complain on the terminal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are none of our business
        return
    came: list[int] = []
    held = (signal.SIGINT, signal.SIGTERM)
    before = [(number, signal.signal(number, lambda n, _: came.append(n))) for number in held]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # workers inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before:
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


def end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
