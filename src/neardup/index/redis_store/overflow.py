"""Kept documents that a full bucket has no room for: it compares its first `limit` kept ones only.

They wait in a list of the bucket, and lead it when one of the first is removed. Buckets with such a
list are the hot ones; each partition lists them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from neardup.index.redis_store.buckets import Buckets
from neardup.index.redis_store.documents import Documents
from neardup.index.redis_store.keyspace import KEPT, Keyspace, pack_number, unpack_numbers
from neardup.index.redis_store.servers import Call, Servers


class Overflow:
    """The lists of all full buckets. Any thread may use it."""

    def __init__(
        self, servers: Servers, keyspace: Keyspace, buckets: Buckets, documents: Documents
    ) -> None:
        self._servers, self._keyspace = servers, keyspace
        self._buckets, self._documents = buckets, documents

    def add(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Move documents from their full bucket to its list.

        Args:
            pairs: The key of a bucket and a document, each.
        """
        if not pairs:
            return
        keys = np.array([key for key, _ in pairs], np.uint64)
        numbers = np.array([number for _, number in pairs], np.int64)
        calls = []
        for key, partition, (_, number) in zip(
            keys.tolist(), self._buckets.partitions_of(keys).tolist(), pairs, strict=True
        ):
            name, hot = self._list(partition, key), self._keyspace.hot(partition)
            calls.append(Call(name, (b"APPEND", name, pack_number(number))))
            calls.append(Call(hot, (b"SADD", hot, b"%016x" % key)))
        self._servers.run(calls)
        self._buckets.leave(keys, numbers)

    def take(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the document that is next to lead each of the buckets that have a list.

        It stays in the list, where it does no harm: those that lead are not taken again.
        """
        partitions = self._buckets.partitions_of(keys).tolist()
        names = [
            self._list(partition, key)
            for partition, key in zip(partitions, keys.tolist(), strict=True)
        ]
        replies = self._servers.run([Call(name, (b"GET", name)) for name in names])
        waiting = {
            place: set(unpack_numbers(reply)) for place, reply in enumerate(replies) if reply
        }
        if not waiting:
            return keys[:0], np.empty(0, np.int64)
        places = list(waiting)
        members = self._buckets.find(keys[places])
        numbers = sorted({number for listed in waiting.values() for number in listed})
        states = self._documents.states(numbers)
        found: list[tuple[int, int]] = []
        for at, place in enumerate(places):
            free = waiting[place].difference(members.get(at, ()))
            able = [number for number in free if states[number].kind == KEPT]
            if able:
                found.append((place, min(able)))
        chosen = keys[[place for place, _ in found]]
        return chosen, np.array([number for _, number in found], np.int64)

    def has(self, key: int, number: int) -> bool:
        """Whether the list of a full bucket has a document."""
        partition = int(self._buckets.partitions_of(np.array([key], np.uint64))[0])
        name = self._list(partition, key)
        listed = self._servers.run([Call(name, (b"GET", name))])[0]
        return bool(listed) and number in unpack_numbers(listed)

    def count(self) -> int:
        """Return how many buckets have, or had, more kept documents than the limit."""
        hot = [self._keyspace.hot(each) for each in range(self._keyspace.partitions)]
        return sum(self._servers.run([Call(key, (b"SCARD", key)) for key in hot]))

    def _list(self, partition: int, key: int) -> bytes:
        return self._keyspace.key(partition, f"o{key:016x}")
