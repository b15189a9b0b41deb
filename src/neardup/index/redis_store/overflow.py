"""Kept documents that a full bucket has no room for: it compares its first `limit` kept ones only.

They wait in a list of the bucket, and lead it when one of the first is removed: before that is
withdrawn, so that at any moment the first kept ones are in the bucket. Two removals know of each
other, and none counts on a leader that leaves; but that leads, too, since its removal may fail. A
document is not moved to the list if a leader is about to be removed, or if a removal was begun or
ended after the leaders were counted. Buckets with such a list are the hot ones; each partition
lists them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from neardup.index.redis_store.buckets import Held, SharedBuckets
from neardup.index.redis_store.documents import SharedDocuments
from neardup.index.redis_store.keyspace import KEPT, Keyspace, unpack_numbers
from neardup.index.redis_store.servers import Call, Servers


class Overflow:
    """The lists of all full buckets. Any thread may use it."""

    def __init__(
        self,
        servers: Servers,
        keyspace: Keyspace,
        buckets: SharedBuckets,
        documents: SharedDocuments,
    ) -> None:
        self._servers, self._keyspace = servers, keyspace
        self._buckets, self._documents = buckets, documents

    def add(self, pairs: Sequence[tuple[int, int, int]]) -> None:
        """Move documents from their full bucket to its list.

        Args:
            pairs: The key of a bucket, a document, and how many removals had been begun in the
                partition, or had ended, when the leaders of the bucket were counted.
        """
        if pairs:
            keys = np.array([key for key, _, _ in pairs], np.uint64)
            numbers, removals = np.array([pair[1:] for pair in pairs], np.int64).T
            self._buckets.move_out(keys, numbers, removals)

    def make_room(
        self, keys: NDArray[np.uint64], held: Held, limit: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Choose the documents that are to lead full buckets from which others are removed.

        They stay in the lists, where they do no harm: those that lead are not chosen again.

        Args:
            keys: The keys of the buckets.
            held: The members of the buckets, and those that are about to be removed from them.
            limit: How many kept documents lead a bucket.

        Returns:
            The keys of the buckets that get a document, and the document of each.
        """
        partitions = self._buckets.partitions_of(keys).tolist()
        names = [
            self._keyspace.overflow(partition, key)
            for partition, key in zip(partitions, keys.tolist(), strict=True)
        ]
        replies = self._servers.run([Call(name, (b"GET", name)) for name in names])
        waiting = {
            place: set(unpack_numbers(reply)) for place, reply in enumerate(replies) if reply
        }
        members = {place: set(held.members.get(place, ())) for place in waiting}
        numbers: set[int] = set().union(*waiting.values(), *members.values())
        states = self._documents.states(sorted(numbers))
        kept = {number for number, state in states.items() if state.kind == KEPT}
        found: list[tuple[int, int]] = []
        for place, listed in waiting.items():
            able = sorted(kept & (listed | members[place]))
            leading = _first_staying(able, held.leaving[place], limit)
            found += [(place, number) for number in leading if number not in members[place]]
        chosen = keys[[place for place, _ in found]]
        return chosen, np.array([number for _, number in found], np.int64)

    def has(self, key: int, number: int) -> bool:
        """Whether the list of a full bucket has a document."""
        partition = int(self._buckets.partitions_of(np.array([key], np.uint64))[0])
        name = self._keyspace.overflow(partition, key)
        listed = self._servers.run([Call(name, (b"GET", name))])[0]
        return bool(listed) and number in unpack_numbers(listed)

    def count(self) -> int:
        """Return how many buckets have, or had, more kept documents than the limit."""
        hot = [self._keyspace.hot(each) for each in range(self._keyspace.partitions)]
        return sum(self._servers.run([Call(key, (b"SCARD", key)) for key in hot]))


def _first_staying(numbers: Sequence[int], leaving: set[int], count: int) -> Sequence[int]:
    """Return the first numbers, so that `count` of them are not among those that leave."""
    staying = 0
    for place, number in enumerate(numbers):
        if staying == count:
            return numbers[:place]
        staying += number not in leaving
    return numbers
