"""Rates that hold for all services of an index on Redis together.

Each service gives tokens by its own buckets, without waiting for anybody. Every second it adds what
it gave to a count on the servers, and takes from its buckets what the others gave meanwhile:

    {NAME:c}rate:KIND:CLIENT    tokens that all services have given; forgotten after a minute
    (KIND: key, source, key-bytes or source-bytes)

So a client may exceed its rate for about a second for each service, and not longer.
"""

from __future__ import annotations

from typing import Final

from neardup.index.redis_store.address import RedisAddress
from neardup.index.redis_store.keyspace import Keyspace
from neardup.index.redis_store.ring_servers import connect
from neardup.index.redis_store.scripts import load_script
from neardup.index.redis_store.servers import Call

KNOWN_SECONDS: Final = 10.0
"""How long a client is asked about that has sent nothing here."""
Client = tuple[str, str]
"""The kind of the rate, and the name."""


class SharedRates:
    """Exchanges what clients have taken with other services. Used by one thread."""

    def __init__(self, address: RedisAddress) -> None:
        self._keyspace = Keyspace(address.name, 1)
        self._servers = connect(address)
        self._counts: dict[Client, tuple[int, float]] = {}
        """The count of each client when it was read last, and when it was active here last."""

    def exchange(self, taken: dict[Client, int], now: float) -> dict[Client, int]:
        """Tell what clients have taken here since the last call; return what they took elsewhere.

        Args:
            taken: Tokens by client.
            now: The time, in seconds.
        """
        active = {
            client: at for client, (_, at) in self._counts.items() if now - at < KNOWN_SECONDS
        }
        active |= dict.fromkeys(taken, now)
        script = load_script("rate")
        calls = [
            Call.of_script(script, [self._keyspace.key("c", ":".join(("rate", *client)))], [cost])
            for client, cost in ((each, taken.get(each, 0)) for each in active)
        ]
        counts = dict(zip(active, map(int, self._servers.run(calls)), strict=True))
        elsewhere = {
            client: count - self._counts[client][0] - taken.get(client, 0)
            for client, count in counts.items()
            if client in self._counts
        }
        self._counts = {client: (count, active[client]) for client, count in counts.items()}
        return {client: cost for client, cost in elsewhere.items() if cost > 0}

    def close(self) -> None:
        """Close the connections."""
        self._servers.close()
