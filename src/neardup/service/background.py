"""Threads that work beside the requests, among them the upkeep of the index.

Upkeep switches to the generation that `neardup index reindex` has made, and writes a snapshot now
and then, so that the service starts in seconds even after it was killed.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from neardup.errors import NeardupError
from neardup.keys import Key

if TYPE_CHECKING:
    from neardup.index.index import Index


class BackgroundThread(ABC):
    """Waits by `_stopped`, so that it ends at once while it rests."""

    def __init__(self, name: str) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What is under way is waited for."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    @abstractmethod
    def _run(self) -> None:
        """Work and rest until it is stopped."""


LOOK_EVERY: Final = 1.0
SNAPSHOT_EVERY: Final = 300.0
"""Seconds."""


class Upkeep(BackgroundThread):
    """A thread that looks after an index. `next_key` is that of an index that may come."""

    def __init__(
        self,
        index: Index,
        event: Callable[..., None],
        next_key: Key | None = None,
        snapshot_every: float = SNAPSHOT_EVERY,
    ) -> None:
        self._index, self._event, self._next_key = index, event, next_key
        self._every = snapshot_every
        super().__init__("upkeep")

    def _run(self) -> None:
        written = time.monotonic()
        while not self._stopped.wait(LOOK_EVERY):
            try:
                if self._index.take_over(key=self._next_key):
                    self._event("went_over", fingerprint=self._index.spec.fingerprint)
                if time.monotonic() - written >= self._every:
                    written = time.monotonic()
                    if self._index.snapshot_if_due():
                        self._event("snapshot", sequence=self._index.sequence)
            except NeardupError as error:  # a full disk, a key that is missing: it may get better
                self._event("upkeep_failed", error=type(error).__name__, message=str(error))
