"""Buckets: the documents that share a key in one band.

`Buckets` are made once, by sorting all keys; `LiveBuckets` change while an index is queried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Buckets:
    """The buckets that hold two documents or more, and the documents that are in one.

    `numbers[i, band]` is the bucket of document `documents[i]`, or -1 where it is alone.
    Documents are in ascending order; buckets are numbered band by band.
    """

    documents: NDArray[np.int64]
    numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]
    band_of: NDArray[np.int64]
    key_of: NDArray[np.uint64]

    def members(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Each bucket's documents, as places in `documents`, ascending; and where it begins."""
        inside = self.numbers >= 0
        place, _ = np.nonzero(inside)
        order = np.argsort(self.numbers[inside], kind="stable")
        return place[order].astype(np.int64), np.concatenate([[0], np.cumsum(self.sizes)])


def group_by_key(keys: NDArray[np.uint64], rows: NDArray[np.int64] | None = None) -> Buckets:
    """Group documents by equal keys, band by band, by sorting.

    Document v has the keys of row v, or of row rows[v] when only some rows take part.
    """
    bands = keys.shape[1]
    documents = len(keys) if rows is None else len(rows)
    shared = np.zeros(documents, bool)
    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    sizes: list[NDArray[np.int64]] = []
    first_keys: list[NDArray[np.uint64]] = []
    total = 0
    for band in range(bands):
        column = np.ascontiguousarray(keys[:, band] if rows is None else keys[rows, band])
        members, size = find_shared_keys(column)
        shared[members] = True
        found.append((members, np.repeat(np.arange(len(size)), size) + total))
        sizes.append(size)
        first_keys.append(column[members[np.cumsum(size) - size]])
        total += len(size)
    chosen = np.flatnonzero(shared)
    place = np.empty(documents, np.int64)
    place[chosen] = np.arange(len(chosen))
    numbers = np.full((len(chosen), bands), -1, np.int64)
    for band, (members, number) in enumerate(found):
        numbers[place[members], band] = number
    band_of = np.repeat(np.arange(bands), [len(size) for size in sizes])
    return Buckets(
        chosen, numbers, np.concatenate(sizes), band_of.astype(np.int64), np.concatenate(first_keys)
    )


def find_shared_keys(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places whose key is there more than once, bucket by bucket, and the buckets' sizes.

    Buckets are in the order of their keys, places in a bucket are ascending. Sorting values is
    five times as fast as sorting places by value, so the place replaces the lowest bits of the
    key. Only what is not alone then is looked at in full.
    """
    if not len(keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    low = np.uint64((1 << max(len(keys) - 1, 1).bit_length()) - 1)
    packed = keys & ~low
    packed |= np.arange(len(keys), dtype=np.uint64)
    packed.sort()
    places = (packed[_in_runs((packed[1:] ^ packed[:-1]) <= low)] & low).astype(np.int64)
    if not places.size:
        return places, places
    found = keys[places]
    if (found[1:] < found[:-1]).any():  # some differ in their lowest bits only
        order = np.argsort(found, kind="stable")
        places, found = places[order], found[order]
    equal = found[1:] == found[:-1]
    inside = _in_runs(equal)
    starts = np.flatnonzero(np.concatenate([[True], ~equal])[inside])
    places = places[inside]
    return places, np.diff(starts, append=len(places))


def _in_runs(equal: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of sorted values, of which `equal` says whether the next one is the same: which have one."""
    inside = np.zeros(len(equal) + 1, bool)
    inside[1:] = equal
    inside[:-1] |= equal
    return inside


class LiveBuckets:
    """One dict a table, from a key to the numbers of those who have it.

    Most buckets have one member: it stands there bare, which takes a third of the memory. Not for
    several threads at once: the owner locks.
    """

    def __init__(self, tables: int) -> None:
        self._tables: list[dict[int, int | set[int]]] = [{} for _ in range(tables)]

    def add(self, member: int, keys: Sequence[int]) -> None:
        """Put a new member into its bucket of each table."""
        for table, key in zip(self._tables, keys, strict=True):
            there = table.setdefault(key, member)
            if isinstance(there, set):
                there.add(member)
            elif there != member:
                table[key] = {there, member}

    def remove(self, member: int, keys: Sequence[int]) -> None:
        """Take a member out again; `keys` are those that it was added with."""
        for table, key in zip(self._tables, keys, strict=True):
            there = table[key]
            if not isinstance(there, set):
                del table[key]
                continue
            there.remove(member)
            if len(there) == 1:
                table[key] = there.pop()

    def members(self, places: Iterable[tuple[int, int]]) -> set[int]:
        """Everyone in these buckets, each the number of a table and a key."""
        found: set[int] = set()
        for table, key in places:
            there = self._tables[table].get(key)
            if there is None:
                continue
            if isinstance(there, set):
                found |= there
            else:
                found.add(there)
        return found

    def sizes(self) -> list[dict[int, int]]:
        """For each table, its keys and how many members have them."""
        return [
            {key: len(there) if isinstance(there, set) else 1 for key, there in table.items()}
            for table in self._tables
        ]
