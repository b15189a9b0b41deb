"""Which documents have this key? The slow truth of the index's tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def put(table: dict[int, list[int]], keys: Iterable[int], numbers: Iterable[int]) -> None:
    """Enter documents; those that are there stay. Buckets are in ascending order."""
    for key, number in zip(keys, numbers, strict=True):
        table[key] = sorted({*table.get(key, ()), number})


def find(table: dict[int, list[int]], key: int, dead: Collection[int], limit: int) -> list[int]:
    """The first `limit` documents of a key that are not dead."""
    return [number for number in table.get(key, ()) if number not in dead][:limit]
