"""A thread that works beside the requests, now and again, until it is stopped."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class Beside(ABC):
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
