"""API keys of an index on Redis: a hash beside it, which all services read every second.

{NAME:c}keys has a field for each key, its name, with what the file of `api_keys.py` has of it; and
the field `:version`, which stays when the last key is revoked: from the first key on, one is
required.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import orjson

from neardup.errors import FormatError
from neardup.index.redis_store.address import RedisAddress
from neardup.index.redis_store.keyspace import Keyspace
from neardup.index.redis_store.ring_servers import connect
from neardup.index.redis_store.servers import Call
from neardup.service.api_keys import VERSION, ApiKey, KeyList, read_key

VERSION_FIELD: Final = b":version"


class SharedKeys(KeyList):
    """The keys of an index on servers, as they were when they were read last.

    `read` never waits for the servers: a thread of the service calls `refresh`.
    """

    def __init__(self, address: RedisAddress) -> None:
        self.where = str(address)
        self._key = Keyspace(address.name, 1).key("c", "keys")
        self._servers = connect(address)
        self._keys: list[ApiKey] | None = None
        self.refresh()

    def read(self) -> list[ApiKey] | None:
        """Return the keys, ordered by time; None if there were never any."""
        return self._keys

    def refresh(self) -> None:
        """Read the keys again. If they are damaged, none is accepted until they are mended."""
        (listed,) = self._servers.run([Call(self._key, (b"HGETALL", self._key))])
        found = dict(zip(listed[::2], listed[1::2], strict=True))
        if not found:
            # A deleted hash does not open a service that required keys.
            self._keys = None if self._keys is None else []
            return
        try:
            if int(found.pop(VERSION_FIELD)) != VERSION:
                raise ValueError("version")
            keys = [read_key(orjson.loads(value)) for value in found.values()]
        except (ValueError, KeyError, TypeError):
            self._keys = []
            raise FormatError(
                f"the API keys of {self.where} are damaged, or of a newer neardup: restore the "
                f"servers' data, or delete {self._key.decode()} and add keys again"
            ) from None
        self._keys = sorted(keys, key=lambda each: each.created)

    def add(self, key: ApiKey) -> bool:
        """Store a key, unless there is one of this name."""
        field, value = key.name.encode(), orjson.dumps(asdict(key))
        *_, stored = self._servers.run(
            [
                Call(self._key, (b"HSETNX", self._key, VERSION_FIELD, VERSION)),
                Call(self._key, (b"HSETNX", self._key, field, value)),
                Call(self._key, (b"HGET", self._key, field)),
            ],
            durable=True,
        )
        self.refresh()
        return bool(stored == value)

    def remove(self, name: str) -> bool:
        """Remove a key; return whether there was one of this name."""
        self.refresh()
        known = any(key.name == name for key in self._keys or [])
        self._servers.run([Call(self._key, (b"HDEL", self._key, name.encode()))], durable=True)
        self.refresh()
        return known

    def close(self) -> None:
        """Close the connections."""
        self._servers.close()
