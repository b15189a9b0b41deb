"""How several segments become one: postings in order, some pages of each in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from neardup.index.tables.postings import Dead
from neardup.index.tables.segment import Segment
from neardup.index.tables.segment_writer import Listed, SegmentWriter, ordered

NOTHING: Final[Listed] = np.empty(0, np.uint64), np.empty(0, np.uint32)
LARGEST: Final = (2**64 - 1, 2**32 - 1)


def merged(parts: list[Segment], path: Path, dead: Dead) -> Segment:
    """One segment of several. The dead are left out."""
    with SegmentWriter(path, parts[-1].note) as writer:
        for table in range(parts[0].tables):
            most = sum(int(part.table_buckets[table]) for part in parts)
            runs = [_Run(part.walk(table)) for part in parts]
            writer.add_table((_living(piece, dead) for piece in _in_order(runs)), most)
        writer.close()
    return Segment(path)


class _Run:
    """Listed in order, of which some are in memory."""

    def __init__(self, pieces: Iterator[Listed]) -> None:
        self._pieces = pieces
        self.keys, self.numbers = next(pieces, NOTHING)
        self._next = next(pieces, None)

    @property
    def bound(self) -> tuple[int, int] | None:
        """The last posting in memory, if more follow."""
        return None if self._next is None else (int(self.keys[-1]), int(self.numbers[-1]))

    def until(self, bound: tuple[int, int]) -> Listed:
        """Take out what is in memory up to and including a posting."""
        key, number = np.uint64(bound[0]), np.uint32(bound[1])
        start, end = np.searchsorted(self.keys, key), np.searchsorted(self.keys, key, "right")
        end = start + np.searchsorted(self.numbers[start:end], number, "right")
        taken = self.keys[:end], self.numbers[:end]
        self.keys, self.numbers = self.keys[end:], self.numbers[end:]
        if not len(self.keys) and self._next is not None:
            (self.keys, self.numbers), self._next = self._next, next(self._pieces, None)
        return taken


def _in_order(runs: list[_Run]) -> Iterator[Listed]:
    """Up to the least of the last postings in memory, nothing smaller can follow."""
    while any(len(run.keys) for run in runs):
        bound = min((run.bound for run in runs if run.bound is not None), default=LARGEST)
        taken = [run.until(bound) for run in runs]
        keys, numbers = (np.concatenate(part) for part in zip(*taken, strict=True))
        yield ordered(keys, numbers)


def _living(piece: Listed, dead: Dead) -> Listed:
    keys, numbers = piece
    alive = np.ones(len(numbers), bool)
    known = numbers < len(dead)
    alive[known] = dead[numbers[known]] == 0
    return keys[alive], numbers[alive]
