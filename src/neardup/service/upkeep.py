"""What a service does for its index beside the requests.

It goes over to what `neardup index reindex` has made, and writes a snapshot now and then, so that
it starts in seconds even after it was killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from neardup.errors import NeardupError
from neardup.keys import Key
from neardup.service.beside import Beside

if TYPE_CHECKING:
    from neardup.index.index import Index

LOOK_EVERY: Final = 1.0
SNAPSHOT_EVERY: Final = 300.0
"""Seconds."""


class Upkeep(Beside):
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
