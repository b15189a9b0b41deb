"""Sort more 64-bit numbers than fit into memory: sorted runs on disk, merged.

Numbers that fit are never written. Each number may carry a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup.formats.blocks import BlockReader, BlockWriter

RUN_KIND = "run"
LEAST_BLOCK = 1 << 12

PAIRS_KIND = "pairs"
PAIRS_AT_ONCE = 1 << 20

HOT = np.uint64(1)
"""The lowest bit of a pair: its documents share only buckets with more members than the limit."""

Keys = NDArray[np.uint64]
Values = NDArray[np.float64]
Records = tuple[Keys, Values | None]


class Sorter:
    """Takes numbers in any order; gives them back sorted, without repeats unless they carry values.

    Holds about `memory` bytes. What does not fit is in files whose names begin with `path`; they
    go when it is closed.
    """

    def __init__(self, path: Path, memory: int, carries: bool = False) -> None:
        self._path, self._carries = path, carries
        self._most = max(memory // (48 if carries else 24), LEAST_BLOCK)
        self._held: list[Records] = []
        self._count = 0
        self._runs: list[Path] = []

    def add(self, keys: Keys, values: Values | None = None) -> None:
        """Take some numbers in."""
        self._held.append((keys, values))
        self._count += len(keys)
        if self._count > self._most:
            self._settle()
            if self._count > self._most // 2:
                self._spill()

    def _settle(self) -> None:
        """Sort what is held."""
        self._held = [_sort_records(self._held, self._carries)]
        self._count = len(self._held[0][0])

    def _spill(self) -> None:
        path = self._path.with_name(f"{self._path.name}-{len(self._runs)}")
        keys, values = self._held[0]
        # Merging needs a block of every run at a time.
        step = max(self._most // 64, LEAST_BLOCK)
        with BlockWriter(path, RUN_KIND) as writer:
            for start in range(0, len(keys), step):
                columns = {"keys": keys[start : start + step]}
                writer.add(columns | _slice_values(values, start, start + step))
            writer.close()
        self._runs.append(path)
        self._held, self._count = [], 0

    def __iter__(self) -> Iterator[Records]:
        """Everything, in ascending order, block by block."""
        self._settle()
        if not self._runs:
            yield self._held[0]
            return
        if self._count:
            self._spill()
        yield from _merge_runs(
            [SortedRun(BlockReader(path, RUN_KIND)) for path in self._runs], self._carries
        )

    def close(self) -> None:
        """Forget everything."""
        for path in self._runs:
            path.unlink(missing_ok=True)
        self._runs, self._held = [], []


def _slice_values(values: Values | None, start: int, end: int) -> dict[str, Values]:
    return {} if values is None else {"values": values[start:end]}


def _sort_records(held: Sequence[Records], carries: bool) -> Records:
    keys = np.concatenate([keys for keys, _ in held]) if held else np.empty(0, np.uint64)
    if not carries:
        keys.sort()
        return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys, None
    values = [values for _, values in held if values is not None]
    order = np.argsort(keys, kind="stable")
    return keys[order], np.concatenate(values)[order] if values else np.empty(0)


class SortedRun:
    """A sorted file, of which a block is in memory."""

    def __init__(self, file: BlockReader) -> None:
        self._file, self._next = file, 0
        self.keys: Keys = np.empty(0, np.uint64)
        self.values: Values | None = None
        self.refill()

    def refill(self) -> None:
        """The next block, if the last one is used up."""
        if not len(self.keys) and self._next < len(self._file):
            self.keys = self._file.read(self._next, "keys")
            if self._file.has(self._next, "values"):
                self.values = self._file.read(self._next, "values")
            self._next += 1

    @property
    def is_last(self) -> bool:
        return self._next == len(self._file)

    def until(self, last: int) -> Records:
        """What is in memory up to and including a number."""
        end = int(np.searchsorted(self.keys, np.uint64(last), side="right"))
        taken = self.keys[:end], None if self.values is None else self.values[:end]
        self.keys = self.keys[end:]
        self.values = None if self.values is None else self.values[end:]
        return taken


def _merge_runs(runs: list[SortedRun], carries: bool) -> Iterator[Records]:
    """Up to the least last number of the blocks in memory, nothing smaller can follow."""
    while runs := [run for run in runs if len(run.keys)]:
        last = min(
            (int(run.keys[-1]) for run in runs if not run.is_last),
            default=max(int(run.keys[-1]) for run in runs),
        )
        yield _sort_records([run.until(last) for run in runs], carries)
        for run in runs:
            run.refill()


class SortedStream:
    """Sorted blocks, read as far as wanted."""

    def __init__(self, blocks: Iterator[Records]) -> None:
        self._blocks = blocks
        self._keys: Keys = np.empty(0, np.uint64)
        self._values: Values | None = None

    def reach(self, count: int) -> int | None:
        """The number before which there are `count` more at most; None if so many are left."""
        while len(self._keys) <= count:
            block = next(self._blocks, None)
            if block is None:
                return None
            keys, values = block
            if values is not None:
                held = self._values if self._values is not None else np.empty(0)
                self._values = np.concatenate([held, values])
            self._keys = np.concatenate([self._keys, keys])
        return int(self._keys[count])

    def until(self, bound: int | None) -> Records:
        """What comes before a number, which `reach` has given; everything for None."""
        end = (
            len(self._keys) if bound is None else int(np.searchsorted(self._keys, np.uint64(bound)))
        )
        taken = self._keys[:end], None if self._values is None else self._values[:end]
        self._keys = self._keys[end:]
        self._values = None if self._values is None else self._values[end:]
        return taken


def cut_windows(streams: list[SortedStream], most: int) -> Iterator[int | None]:
    """Bounds that cut the streams between documents, with about `most` pairs of each in between."""
    last = 0
    while True:
        ahead = [bound for stream in streams if (bound := stream.reach(most)) is not None]
        if not ahead:
            yield None
            return
        bound = min(ahead) >> 32 << 32
        if bound > last:
            yield (last := bound)
        else:
            most *= 2  # a single document has so many


@dataclass(frozen=True)
class MergedPairs:
    """Pairs in order: which were known, which are wanted now, which are new or count anew."""

    pairs: Keys
    known: NDArray[np.bool_]
    current: NDArray[np.bool_]
    fresh: NDArray[np.bool_]


def merge_pairs(wanted: Keys, known: Keys) -> MergedPairs:
    """Wanted pairs among those that are known; both are in order, each pair is there once."""
    place = np.searchsorted(known | HOT, wanted & ~HOT)
    there = place < len(known)
    there[there] = (known[place[there]] | HOT) == (wanted[there] | HOT)
    mine, new = place[there], place[~there]
    pairs = known.copy()
    pairs[mine] &= wanted[there] | ~HOT
    current = np.zeros(len(known), bool)
    current[mine] = True
    return MergedPairs(
        np.insert(pairs, new, wanted[~there]),
        np.insert(np.ones(len(known), bool), new, False),
        np.insert(current, new, True),
        np.insert(pairs != known, new, True),
    )


def read_pairs(path: Path) -> Iterator[Records]:
    """The pairs in a file, and their similarities."""
    file = BlockReader(path, PAIRS_KIND)
    for block in range(len(file)):
        yield file.read(block, "keys"), file.read(block, "values")


def split_pairs(pairs: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The better-ranked and the other document of each pair."""
    left = (pairs & np.uint64(0xFFFFFFFF)) >> np.uint64(1)
    return left.astype(np.int64), (pairs >> np.uint64(32)).astype(np.int64)


def drop_repeats(wanted: Keys) -> Keys:
    """Each pair once; it counts always if it is once in a bucket that is not hot."""
    fresh = np.ones(len(wanted), bool)
    fresh[1:] = (wanted[1:] | HOT) != (wanted[:-1] | HOT)
    return wanted[fresh]
