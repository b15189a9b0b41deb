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

from neardup.keys import Key

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.service.metrics import Metrics

LOOK_SECONDS: Final = 1.0
SNAPSHOT_SECONDS: Final = 300.0


class BackgroundThread(ABC):
    """A thread that works and rests until it is stopped. It rests by waiting for `_stopped`.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the work under way."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    @abstractmethod
    def _run(self) -> None:
        """Work and rest until it is stopped."""


class Upkeep(BackgroundThread):
    """Looks after an index. A failure is logged and counted, and tried again.

    Args:
        index: to look after.
        metrics: count the failures.
        event: writes to the log.
        next_key: the secret key of a generation that may take the place of the current one.
        snapshot_seconds: between two snapshots.
    """

    def __init__(
        self,
        index: Index,
        metrics: Metrics,
        event: Callable[..., None],
        next_key: Key | None = None,
        snapshot_seconds: float = SNAPSHOT_SECONDS,
    ) -> None:
        self._index, self._metrics, self._event = index, metrics, event
        self._next_key, self._seconds = next_key, snapshot_seconds
        super().__init__("upkeep")

    def _run(self) -> None:
        written = time.monotonic()
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                if self._index.take_over(key=self._next_key):
                    self._event("generation_switched", fingerprint=self._index.spec.fingerprint)
                if time.monotonic() - written >= self._seconds:
                    written = time.monotonic()
                    if self._index.snapshot_if_due():
                        self._event("snapshot", sequence=self._index.sequence)
            except Exception as error:  # A full disk, no file handle, a missing key: it may pass.
                self._metrics.observe_upkeep_failure()
                self._event("upkeep_failed", error=type(error).__name__, message=str(error))
