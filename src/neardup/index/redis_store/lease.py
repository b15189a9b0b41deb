"""A lease: of several processes, one at a time has it, and does some work for all of them.

The one that has it stores its token and a count that goes up with each `hold`. A process that has
seen the same value for as long as the lease lasts, by its own clock, takes it over: so no clocks
are compared, and a server's clock may be set. Two may work at once for a moment, if one of them was
halted; the work must allow that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from neardup.index.redis_store.keyspace import TOKEN_BYTES
from neardup.index.redis_store.scripts import load_script
from neardup.index.redis_store.servers import Call, Servers


class Lease:
    """A lease, as one process sees it. Used by one thread.

    Args:
        servers: The servers.
        key: The key that has the lease.
        seconds: How long it lasts after a `hold`.
        monotonic: Returns seconds of a clock that is never set.
    """

    def __init__(
        self,
        servers: Servers,
        key: bytes,
        seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._servers, self._key, self._seconds = servers, key, seconds
        self._monotonic = monotonic
        self._token, self._count = os.urandom(TOKEN_BYTES).hex(), 0
        self._held: bytes | None = None
        self._stored = self._seen = b""
        self._since = 0.0
        """When the value of another process was seen first."""

    def hold(self) -> bool:
        """Keep the lease, or take it if nobody has it; return whether this process has it now."""
        if self._held is not None and self._take(self._held):
            return True
        if self._take(b""):
            return True
        now = self._monotonic()
        if self._stored != self._seen:
            self._seen, self._since = self._stored, now
        elif now - self._since >= self._seconds:
            return self._take(self._seen)
        return False

    def release(self) -> None:
        """Give the lease back, if this process has it."""
        if self._held is not None:
            held, self._held = self._held, None
            self._run(held, b"")

    def _take(self, expected: bytes) -> bool:
        """Store the next value of this process in the place of the expected one."""
        self._count += 1
        wanted = f"{self._token}:{self._count}".encode()
        self._stored = self._run(expected, wanted)
        self._held = wanted if self._stored == wanted else None
        return self._held is not None

    def _run(self, expected: bytes, wanted: bytes) -> bytes:
        call = Call.of_script(load_script("lease"), [self._key], [expected, wanted])
        return bytes(self._servers.run([call])[0])
