"""Worker processes that do one kind of work, and whose death is noticed.

Python's own pool waits for ever when a worker is killed (by the system, for lack of memory)
while it sends a large result. Here every worker has a pipe of its own, of which it holds the
only other end: when either side dies, the other one reads the end of the file.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from neardup.errors import NeardupError

Work = Callable[[Any], Any]

AHEAD = 2
"""Tasks that a worker is given at a time, so that it need not wait for the next one."""


class Worker:
    """One process. Any thread may call it; it answers in the order of the calls."""

    def __init__(self, work: Work) -> None:
        # Forking a process that has threads (Arrow's) can deadlock the child.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        self._process.start()
        theirs.close()
        self._sending, self._receiving = threading.Lock(), threading.Lock()

    def __call__(self, task: Any) -> Any:
        try:
            # Hand over hand: who sends first also receives first, and while one waits for its
            # answer the next can send. Neither side ever blocks the other by writing.
            with self._sending:
                self._connection.send(task)
                self._receiving.acquire()
            try:
                answer = self._connection.recv()
            finally:
                self._receiving.release()
        except (EOFError, OSError):
            raise NeardupError(
                "a worker process died, perhaps for lack of memory: try again with --workers 1"
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        self._process.terminate()
        self._process.join()


def _serve(connection: Connection, work: Work) -> None:
    try:
        while True:
            task = connection.recv()
            try:
                answer = work(task)
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = error
            connection.send(answer)
    except (EOFError, OSError):
        pass  # the parent is gone


class Workers:
    """Some processes, for tasks in any order."""

    def __init__(self, work: Work, count: int) -> None:
        with _deaf():
            self._workers = [Worker(work) for _ in range(count)]
        self._free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers * AHEAD:
            self._free.put(worker)
        self._threads = ThreadPoolExecutor(count * AHEAD)

    def submit(self, task: Any) -> Future[Any]:
        return self._threads.submit(self._do, task)

    def _do(self, task: Any) -> Any:
        worker = self._free.get()
        try:
            return worker(task)
        finally:
            self._free.put(worker)

    def end(self) -> None:
        """End all processes, whatever they are doing."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.end()
        self._threads.shutdown()


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that start in here never see Ctrl-C: their parent does, and ends them."""
    # Python starts this helper with the first process, and unblocks SIGINT when it has.
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
