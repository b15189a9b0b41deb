"""Many may read at once, or one may write: for what takes microseconds, in one process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Guard:
    """Readers don't wait for readers. Who wants to write goes before those who come later."""

    def __init__(self) -> None:
        self._free = threading.Condition(threading.Lock())
        self._readers = 0
        self._writers = 0
        """Who writes, and who waits to."""

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._free:
            while self._writers:
                self._free.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._free:
                self._readers -= 1
                if not self._readers:
                    self._free.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One thread writes at a time; it is the same one, or whoever keeps it from others."""
        with self._free:
            self._writers += 1
            while self._readers:
                self._free.wait()
        try:
            yield
        finally:
            with self._free:
                self._writers -= 1
                self._free.notify_all()
