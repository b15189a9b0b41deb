"""Buckets whose members come and go, for an index that is queried while it changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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
