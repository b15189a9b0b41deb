"""The time of an index on Redis: that of one of its servers, so that no process's clock matters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from neardup.index.redis_store.servers import Call, Servers

ASK_SECONDS: Final = 60.0
"""Seconds after which the server is asked again; in between, time is counted on."""


class ServerClock:
    """Returns the time of the server that has a key, in seconds since 1970. Any thread may use it.

    Args:
        servers: The servers.
        key: The key, which need not exist.
        monotonic: Returns seconds of a clock that is never set, by which time is counted on.
    """

    def __init__(
        self, servers: Servers, key: bytes, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._servers, self._key, self._monotonic = servers, key, monotonic
        self._asked: tuple[float, float] | None = None
        """The time of the server, and when it was asked by `monotonic`."""

    def __call__(self) -> float:
        asked, now = self._asked, self._monotonic()
        if asked is None or now - asked[1] >= ASK_SECONDS:
            seconds, microseconds = self._servers.run([Call(self._key, (b"TIME",))])[0]
            now = self._monotonic()
            asked = self._asked = int(seconds) + int(microseconds) / 10**6, now
        return asked[0] + now - asked[1]
