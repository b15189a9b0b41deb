"""Moves the log into the file, and merges tables on disk, beside the one who writes.

A log that is moved to its end starts again from its beginning. That never happens while somebody
goes on writing, so the writer moves the last part, which is short, between commits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from neardup.errors import NeardupError
from neardup.index.store import CHECKPOINT_BYTES, Store
from neardup.index.tables.derived import Derived


class Housekeeping:
    """A thread of its own."""

    def __init__(self, store: Store, snapshot: Callable[[], object]) -> None:
        self._store, self._snapshot = store, snapshot
        self._wanted, self._closed = threading.Event(), False
        self._rest = False
        self._spilled: Derived | None = None
        self._thread = threading.Thread(target=self._run, name="neardup-checkpoint", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """After a commit: is it time?"""
        if not self._rest and self._store.wal_bytes > CHECKPOINT_BYTES:
            self._wanted.set()

    def finish(self) -> None:
        """Before a commit: move what is left."""
        if self._rest:
            self._rest = False
            self._checkpoint()

    def tidy(self, derived: Derived) -> None:
        """After tables went to disk: there may be too many files."""
        self._spilled = derived
        self._wanted.set()

    def close(self) -> None:
        self._closed = True
        self._wanted.set()
        self._thread.join()

    def _run(self) -> None:
        while self._wanted.wait() and not self._closed:
            self._wanted.clear()
            spilled, self._spilled = self._spilled, None
            if spilled is not None and spilled.cold is not None:
                with suppress(NeardupError, OSError):  # a full disk: there are more files
                    self._snapshot()
                    spilled.cold.merge(spilled.dead)
            if self._store.wal_bytes > CHECKPOINT_BYTES:
                self._checkpoint()
                self._rest = True

    def _checkpoint(self) -> None:
        # On a full disk the log gets longer and nothing is lost; the next commit says so.
        with suppress(NeardupError):
            self._store.checkpoint()
