"""How a segment is written: postings in order, page after page, and what finds them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup import kernels
from neardup.formats.blocks import SUM, Writer
from neardup.index.tables.postings import Keys, Numbers
from neardup.membership.sizing import BloomShape

KIND: Final = "cold"
WORDS, COUNT, KEYS, ROOM = 512, 1, 2, 340
"""Of a page: its size, the places of the count and of the keys, how many postings it holds."""
BLOCK_PAGES = 1 << 10
RATE = 0.01
"""Of keys that are not there, the share that costs a page: 9.9 bits a key."""
NO_LIMIT = 2**62

Listed = tuple[Keys, Numbers]
"""Listed, as a key and a number each."""


def ordered(keys: Keys, numbers: Numbers) -> Listed:
    """Listed by key and number, each once.

    Those of a key are mostly in order already: sorting by both takes three times as long.
    """
    order = np.argsort(keys, kind="stable")
    sorted_keys, sorted_numbers = keys[order], numbers[order]
    equal = sorted_keys[1:] == sorted_keys[:-1]
    if (equal & (sorted_numbers[1:] < sorted_numbers[:-1])).any():
        order = np.lexsort((numbers, keys))
        sorted_numbers = numbers[order]
    repeated = equal & (sorted_numbers[1:] == sorted_numbers[:-1])
    if repeated.any():
        fresh = np.concatenate([[True], ~repeated])
        return sorted_keys[fresh], sorted_numbers[fresh]
    return sorted_keys, sorted_numbers


class SegmentWriter:
    """A segment that is being written, table by table; it takes its name when it is closed."""

    def __init__(self, path: Path, note: dict[str, Any]) -> None:
        self._probes = BloomShape.of(1, RATE).probes
        self._file = Writer(path, KIND, probes=self._probes, note=note)
        self._pages = 0
        self._tables: list[tuple[int, int, int]] = []
        self._lasts: list[Keys] = []
        self._filters: list[NDArray[np.uint64]] = []
        self._sizes: list[tuple[int, int, int]] = []

    def add_table(self, pieces: Iterable[Listed], buckets: int) -> None:
        """A table's postings in order, piece by piece; with at most so many buckets."""
        bits = np.zeros(BloomShape.of(max(buckets, 1), RATE).blocks * 8, np.uint64)
        sizes = _Sizes()
        held: list[Listed] = []
        waiting = postings = 0
        for keys, numbers in pieces:
            kernels.bloom_insert(bits, self._probes, sizes.add(keys), np.uint64(0), NO_LIMIT)
            held.append((keys, numbers))
            waiting, postings = waiting + len(keys), postings + len(keys)
            if waiting >= BLOCK_PAGES * ROOM:
                held = [self._write(held, waiting // ROOM * ROOM)]
                waiting = len(held[0][0])
        if waiting:
            self._write(held, waiting)
        counted = sizes.counted()
        self._sizes += [(len(self._tables), size, count) for size, count in counted]
        self._tables.append((postings, sum(count for _, count in counted), len(bits) // 8))
        self._filters.append(bits)

    def _write(self, held: list[Listed], count: int) -> Listed:
        """Write the first postings of those that are held; returns the rest."""
        keys, numbers = (np.concatenate(part) for part in zip(*held, strict=True))
        pages = packed(keys[:count], numbers[:count], self._pages)
        self._file.add({"pages": pages.reshape(-1)})
        self._pages += len(pages)
        self._lasts.append(keys[:count][np.append(np.arange(ROOM, count, ROOM), count) - 1])
        return keys[count:], numbers[count:]

    def close(self) -> None:
        """Complete the file; it is on the disk when this returns."""
        while self._filters:
            self._file.add({"filter": self._filters.pop(0)})
        self._file.add(
            {
                "tables": np.array(self._tables, np.int64).reshape(-1, 3),
                "lasts": np.concatenate([np.empty(0, np.uint64), *self._lasts]),
                "sizes": np.array(self._sizes, np.int64).reshape(-1, 3),
            }
        )
        self._file.close(durable=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self._file.__exit__(*about)


def packed(keys: Keys, numbers: Numbers, first: int) -> NDArray[np.uint64]:
    """Listed as pages, of which the first one has this number in the file."""
    full, rest = divmod(len(keys), ROOM)
    out = np.zeros((full + (rest > 0), WORDS), np.uint64)
    halves = out.view(np.uint32)
    out[:full, COUNT] = ROOM
    out[:full, KEYS : KEYS + ROOM] = keys[: full * ROOM].reshape(-1, ROOM)
    halves[:full, 2 * (KEYS + ROOM) :] = numbers[: full * ROOM].reshape(-1, ROOM)
    if rest:
        out[full, COUNT] = rest
        out[full, KEYS : KEYS + rest] = keys[full * ROOM :]
        halves[full, 2 * (KEYS + ROOM) :][:rest] = numbers[full * ROOM :]
    for number, page in enumerate(out, first):
        page[0] = page_sum(page.data.cast("B"), number)
    return out


def page_sum(page: memoryview, number: int) -> int:
    """The checksum of a page, by its number too: in another one's place it is wrong."""
    return xxhash.xxh3_64_intdigest(page[SUM.size :], number)


class _Sizes:
    """How many buckets of each size there are, from sorted keys that come in pieces."""

    def __init__(self) -> None:
        self._counted: Counter[int] = Counter()
        self._key: int | None = None
        self._open = 0

    def add(self, keys: Keys) -> Keys:
        """Count the buckets of a piece, of which the last one may go on; returns their keys."""
        if not len(keys):
            return keys
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        sizes = np.diff(starts, append=len(keys))
        if int(keys[0]) == self._key:
            sizes[0] += self._open
        elif self._open:
            self._counted[self._open] += 1
        values, counts = np.unique(sizes[:-1], return_counts=True)
        self._counted.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        self._key, self._open = int(keys[-1]), int(sizes[-1])
        return keys[starts]

    def counted(self) -> list[tuple[int, int]]:
        if self._open:
            self._counted[self._open] += 1
            self._open = 0
        return sorted(self._counted.items())
