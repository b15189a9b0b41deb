"""What a service with an index on Redis does in the background: it watches the servers.

While they don't answer, or have lost the index, requests are refused at once instead of each of
them waiting; a failover, which takes some seconds, is waited for. Every second API keys are read
again, and rates exchanged with other services. Every minute removals are finished that a process
which failed has left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from neardup.errors import NeardupError, ServersUnavailable, state_reason
from neardup.index.redis_store.buckets import IndexVanished
from neardup.service.api_keys import ApiKeys
from neardup.service.background import BackgroundThread

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.service.metrics import Metrics

LOOK_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 3.0
"""How long the servers may be silent before requests are refused."""
FINISH_SECONDS: Final = 60.0


class ServersWatch(BackgroundThread):
    """Watches the servers of an index until it is stopped.

    Args:
        index: the index.
        keys: the API keys, which are read again.
        exchange: exchanges rates with other services.
        metrics: counts failures.
        event: writes an event to the log.
    """

    def __init__(
        self,
        index: Index,
        keys: ApiKeys,
        exchange: Callable[[], None],
        metrics: Metrics,
        event: Callable[..., None],
    ) -> None:
        self._index, self._keys, self._exchange = index, keys, exchange
        self._metrics, self._event = metrics, event
        self._answered = time.monotonic()
        self.outage: str | None = None
        """Why the servers can't be asked; None while they answer."""
        self.documents = len(index)
        super().__init__("servers")

    def _run(self) -> None:
        finished = time.monotonic()
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                self._look()
                if self.outage is None and time.monotonic() - finished >= FINISH_SECONDS:
                    finished = time.monotonic()
                    if removals := self._index.finish_removals():
                        self._event("removals_finished", removals=removals)
            except Exception as error:  # Damaged keys, a server that fails just now: it may pass.
                self._metrics.observe_upkeep_failure()
                reason = state_reason(error)
                self._event("upkeep_failed", error=type(error).__name__, message=reason)

    def _look(self) -> None:
        """Ask the servers for a sign of life, and read the keys."""
        try:
            self._index.ping()
            self.documents = len(self._index)
        except ServersUnavailable as error:
            if time.monotonic() - self._answered >= PATIENCE_SECONDS:
                self._refuse(error)
            return
        except IndexVanished as error:
            self._refuse(error)
            return
        self._answered = time.monotonic()
        if self.outage is not None:
            self.outage = None
            self._event("servers_back")
        self._keys.refresh()
        self._exchange()

    def _refuse(self, error: NeardupError) -> None:
        """Have requests refused from now on."""
        if self.outage is None:
            self.outage = str(error)
            self._event("servers_lost", message=self.outage)
