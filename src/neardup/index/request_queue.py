"""A queue of requests and the threads that carry them out: what every writer does alike."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import Final, TypeVar

from neardup.errors import Busy, OutputError, ServersUnavailable, UsageError
from neardup.index.planner import AddRequest, Request

MOST_WAITING: Final = 65_536
"""Default of the most documents that may wait for the writer thread."""
R = TypeVar("R", bound=Request)


class RequestQueue(ABC):
    """The queue of a writer, and its threads.

    Requests that arrive while others are carried out are carried out together, up to `together`
    documents. A subclass says how, and calls `start` when it is ready.

    With several `threads`, one at a time has the turn: it takes requests, and the next thread takes
    those after them when it has called `end_turn`. Only documents are added side by side; whatever
    else is requested waits for what was requested before.
    """

    together: int
    threads = 1

    def __init__(self, most_waiting: int) -> None:
        self.most_waiting = most_waiting
        self._waiting: deque[Request] = deque()
        self._size = 0
        self._closed = False
        self._changed = threading.Condition()
        self._turn = threading.Lock()
        self._holder: int | None = None
        """The thread that has the turn."""
        self._under_way = 0
        """The threads that carry out requests."""
        self._running = [
            threading.Thread(target=self._run, name="neardup-writer", daemon=True)
            for _ in range(self.threads)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._running:
            thread.start()

    @abstractmethod
    def execute(self, requests: list[Request]) -> None:
        """Carry out requests that were queued together, and set their futures."""

    @property
    def waiting(self) -> int:
        """The number of documents that are not committed yet."""
        return self._size

    def put(self, request: R) -> R:
        """Queue a request, whose future is set when it is done.

        Raises:
            Busy: If too many documents wait.
        """
        with self._changed:
            self._put(request)
        return request

    def _put(self, request: Request) -> None:
        """Queue a request; the caller holds the lock `_changed`."""
        if self._closed:
            raise UsageError("this index is closed: open it again")
        more = self._size + request.documents
        if self._size and request.documents and more > self.most_waiting:
            raise Busy(
                f"{self._size:,} documents wait to be added, {self.most_waiting:,} is the "
                "most: try again later"
            )
        self._waiting.append(request)
        self._size += request.documents
        self._changed.notify_all()

    def close(self) -> None:
        """Finish the queued requests, and accept no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._running:
            thread.join()

    def end_turn(self) -> None:
        """Let another thread take the requests that follow; nothing, if it has done so before."""
        if self._holder == threading.get_ident():
            self._holder = None
            self._turn.release()

    def _run(self) -> None:
        while requests := self._take_turn():
            try:
                self._finish(
                    [each for each in requests if each.done.set_running_or_notify_cancel()]
                )
            finally:
                self.end_turn()
                with self._changed:
                    self._under_way -= 1
                    self._size -= sum(request.documents for request in requests)
                    self._changed.notify_all()

    def _take_turn(self) -> list[Request]:
        """Wait for the turn and for requests; return them, or none when the queue is closed."""
        self._turn.acquire()
        self._holder = threading.get_ident()
        requests = self._next_requests()
        with self._changed:
            while requests and self._under_way and not isinstance(requests[0], AddRequest):
                self._changed.wait()
            self._under_way += bool(requests)
        if not requests:
            self.end_turn()
        return requests

    def _finish(self, requests: list[Request]) -> None:
        """Execute requests and set their futures; if one fails, each is tried alone."""
        try:
            if requests:
                self.execute(requests)
        except BaseException as error:  # it is raised in the callers that wait
            unfinished = [request for request in requests if not request.done.done()]
            if len(requests) == 1 or isinstance(error, (OutputError, ServersUnavailable)):
                for request in unfinished:
                    request.done.set_exception(error)
            else:
                for request in unfinished:
                    self._finish([request])

    def _next_requests(self) -> list[Request]:
        """Wait for a request; return it with those after it that can be committed together.

        The list is empty when the writer is closed and nothing waits.
        """
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            if not self._waiting:
                return []
            first = self._waiting.popleft()
            together, size = [first], first.documents
            while self._waiting and isinstance(first, AddRequest) and first.joins(self._waiting[0]):
                size += self._waiting[0].documents
                if size > self.together:
                    break
                together.append(self._waiting.popleft())
            return together
