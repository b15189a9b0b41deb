"""Buckets: the documents that share a key in one band.

`Buckets` are made once, by sorting all keys; `LiveBuckets` change while an index is queried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neardup import kernels


@dataclass(frozen=True)
class Buckets:
    """The buckets of two documents or more, and the documents in them.

    Attributes:
        documents: The documents that are in a bucket, ascending.
        numbers: `numbers[i, band]` is the bucket of `documents[i]`, or -1 if no other document
            has its key. Buckets are numbered band by band.
        sizes: The number of documents of each bucket.
        band_of: The band of each bucket.
        key_of: The key of each bucket.
    """

    documents: NDArray[np.int64]
    numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]
    band_of: NDArray[np.int64]
    key_of: NDArray[np.uint64]

    def members(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return each bucket's members as places in `documents`, ascending, and its start."""
        inside = self.numbers >= 0
        place, _ = np.nonzero(inside)
        order = np.argsort(self.numbers[inside], kind="stable")
        return place[order].astype(np.int64), np.concatenate([[0], np.cumsum(self.sizes)])


def group_by_key(keys: NDArray[np.uint64], rows: NDArray[np.int64] | None = None) -> Buckets:
    """Group documents by equal keys, band by band, by sorting.

    Args:
        keys: One row of keys a document, a column a band.
        rows: The rows to group; document v has the keys of row rows[v]. None for all rows.
    """
    bands = keys.shape[1]
    documents = len(keys) if rows is None else len(rows)
    shared = np.zeros(documents, bool)
    groups: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    sizes: list[NDArray[np.int64]] = []
    first_keys: list[NDArray[np.uint64]] = []
    total = 0
    for band in range(bands):
        column = np.ascontiguousarray(keys[:, band] if rows is None else keys[rows, band])
        members, size = find_shared_keys(column)
        shared[members] = True
        groups.append((members, np.repeat(np.arange(len(size)), size) + total))
        sizes.append(size)
        first_keys.append(column[members[np.cumsum(size) - size]])
        total += len(size)
    chosen = np.flatnonzero(shared)
    place = np.empty(documents, np.int64)
    place[chosen] = np.arange(len(chosen))
    numbers = np.full((len(chosen), bands), -1, np.int64)
    for band, (members, number) in enumerate(groups):
        numbers[place[members], band] = number
    band_of = np.repeat(np.arange(bands), [len(size) for size in sizes])
    return Buckets(
        chosen, numbers, np.concatenate(sizes), band_of.astype(np.int64), np.concatenate(first_keys)
    )


def find_shared_keys(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows whose key occurs more than once, bucket by bucket, and the buckets' sizes.

    Buckets are in the order of their keys, rows in a bucket ascend. Sorting values is five times
    as fast as sorting rows by value, so the row replaces the lowest bits of its key. Only rows that
    share the other bits are then compared by their whole keys.
    """
    if not len(keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    low = np.uint64((1 << max(len(keys) - 1, 1).bit_length()) - 1)
    packed = keys & ~low
    packed |= np.arange(len(keys), dtype=np.uint64)
    packed.sort()
    rows = (packed[_in_runs((packed[1:] ^ packed[:-1]) <= low)] & low).astype(np.int64)
    if not rows.size:
        return rows, rows
    whole = keys[rows]
    if (whole[1:] < whole[:-1]).any():  # keys that differ in their lowest bits only
        order = np.argsort(whole, kind="stable")
        rows, whole = rows[order], whole[order]
    equal = whole[1:] == whole[:-1]
    inside = _in_runs(equal)
    starts = np.flatnonzero(np.concatenate([[True], ~equal])[inside])
    rows = rows[inside]
    return rows, np.diff(starts, append=len(rows))


def _in_runs(equal: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which values have an equal neighbour; equal[i] compares values i and i + 1."""
    inside = np.zeros(len(equal) + 1, bool)
    inside[1:] = equal
    inside[:-1] |= equal
    return inside


class RepeatedKeys:
    """Tells which of many keys may occur repeatedly, in one or two bytes a key, without sorting.

    A key falls into one of four to eight times as many cells by its leading bits, so that one in
    four to eight seems to be repeated and is not.

    Args:
        most: About the most keys that will be added.
        skipped: The number of leading bits that all keys have in common.
    """

    def __init__(self, most: int, skipped: int = 0) -> None:
        bits = max(most - 1, 1).bit_length() + 2
        self._cells = np.zeros(1 << (bits - 2), np.uint8)
        self._skipped, self._shift = skipped, 64 - bits

    def add(self, keys: NDArray[np.uint64], chosen: NDArray[np.uint8]) -> int:
        """Add the keys where `chosen` is not 0; return how many fell into a cell with others.

        At most twice as many as all calls return in total will be found.
        """
        again: int = kernels.count_keys(keys, chosen, self._cells, self._skipped, self._shift)
        return again

    def find(self, keys: NDArray[np.uint64], chosen: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the places of chosen keys that may occur repeatedly among all that were added."""
        places: NDArray[np.int64] = kernels.find_repeats(
            keys, chosen, self._cells, self._skipped, self._shift
        )
        return places


class LiveBuckets:
    """Buckets that change: for each table a dict from a key to the members that have it.

    A bucket with one member, as most have, is the bare number, which takes a third of the memory of
    a set. Not thread-safe: the owner locks.
    """

    def __init__(self, tables: int) -> None:
        self._tables: list[dict[int, int | set[int]]] = [{} for _ in range(tables)]

    def add(self, member: int, keys: Sequence[int]) -> None:
        """Add a new member to its bucket in each table; `keys` has one key a table."""
        for table, key in zip(self._tables, keys, strict=True):
            bucket = table.setdefault(key, member)
            if isinstance(bucket, set):
                bucket.add(member)
            elif bucket != member:
                table[key] = {bucket, member}

    def remove(self, member: int, keys: Sequence[int]) -> None:
        """Remove a member; `keys` are the keys that it was added with."""
        for table, key in zip(self._tables, keys, strict=True):
            bucket = table[key]
            if not isinstance(bucket, set):
                del table[key]
                continue
            bucket.remove(member)
            if len(bucket) == 1:
                table[key] = bucket.pop()

    def members(self, places: Iterable[tuple[int, int]]) -> set[int]:
        """Return the members of several buckets, each given as a table's number and a key."""
        members: set[int] = set()
        for table, key in places:
            bucket = self._tables[table].get(key)
            if bucket is None:
                continue
            if isinstance(bucket, set):
                members |= bucket
            else:
                members.add(bucket)
        return members

    def sizes(self) -> list[dict[int, int]]:
        """Return, for each table, the number of members of each key."""
        return [
            {key: len(bucket) if isinstance(bucket, set) else 1 for key, bucket in table.items()}
            for table in self._tables
        ]
