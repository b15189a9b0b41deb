"""Indexes on a Redis server that all tests of a process share, each under a name of its own."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import neardup
from neardup import Index
from neardup.index.redis_store.address import RedisAddress
from neardup.index.redis_store.keyspace import Keyspace
from neardup.index.redis_store.ring_servers import connect
from neardup.index.redis_store.shared_generation import read_meta
from support import batch_engine
from support.redis_servers import RedisServer, redis_server

_names = count()


@cache
def shared_server(number: int = 0) -> RedisServer:
    """A server that ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="neardup-redis-"))
    stack = ExitStack()
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    server = stack.enter_context(redis_server(folder, appendonly=False))
    atexit.register(stack.close)
    return server


def fresh_address(server: RedisServer | None = None) -> str:
    """The address of an index that does not exist."""
    return f"{(server or shared_server()).url}?name=index-{next(_names)}"


def fresh_ring(count: int = 3) -> str:
    """The address of an index that does not exist, on some servers that are no cluster."""
    return ring_of(range(count), f"index-{next(_names)}")


def ring_of(numbers: Iterable[int], name: str) -> str:
    """The address of an index on some of the shared servers."""
    servers = ",".join(shared_server(number).address for number in numbers)
    return f"redis://{servers}?ring&name={name}"


class Raw:
    """The keys of an index as an administrator sees them, to look at or to break."""

    def __init__(self, address: str) -> None:
        parsed = RedisAddress.parse(address)
        self.servers = connect(parsed)
        self.client: Any = self.servers._client(parsed.servers[0])
        meta = read_meta(self.servers)
        assert meta is not None, f"there is no index at {address}"
        self.keyspace = Keyspace(parsed.name, int(meta["partitions"]))

    def keys(self, rest: str) -> list[bytes]:
        """All keys whose part after the hash tag matches a pattern."""
        return sorted(
            self.client.scan_iter(match=f"{{{self.keyspace.name}:*}}{rest}", count=10_000)
        )

    def buckets(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        """The key of the slice, the key and the members of each bucket."""
        for slice in self.keys("b*"):
            for key, members in self.client.hgetall(slice).items():
                yield slice, key, members

    def field(self, letter: str, number: int) -> tuple[bytes, bytes]:
        """Where a column of a document is."""
        return self.keyspace.of_document(letter, number), str(number % 64).encode()

    def get(self, letter: str, number: int) -> bytes:
        return self.client.hget(*self.field(letter, number))

    def set(self, letter: str, number: int, value: bytes) -> None:
        self.client.hset(*self.field(letter, number), value)

    def delete(self, letter: str, number: int) -> None:
        assert self.client.hdel(*self.field(letter, number)) == 1

    def close(self) -> None:
        self.servers.close()


def check_order_of_numbers(index: Index, texts: Mapping[str, str]) -> int:
    """What is stored is the answer of a batch run in the order of the numbers.

    Args:
        index: The index, of the small operating point.
        texts: The text of each document that may be there, by its id.

    Returns:
        How many copies there are.
    """
    rows = index._opened.generation._documents.rows_after(0, 1 << 30)
    assert len({row.id for row in rows}) == len(rows), "an id is there twice"
    ids = {row.number: row.id for row in rows}
    same = ("threshold", "limit", "verify", "measure")
    point = batch_engine.SMALL | {name: getattr(index.options, name) for name in same}
    result = neardup.dedup([texts[row.id] for row in rows], **point)
    want = {rows[one.id].id: (rows[one.witness].id, one.similarity) for one in result.removed}
    got = {
        row.id: (ids.get(row.witness), row.similarity) for row in rows if row.witness is not None
    }
    assert got == want
    return len(got)
