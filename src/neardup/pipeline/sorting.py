"""Sort more 64-bit numbers than fit into memory; pack pairs of documents into such numbers.

Numbers that fit into memory are never written; others are written as sorted runs, which are merged.
Each number may carry a value. A pair of ranks u < v is the number v << 32 | u << 1 | hot, as in
`kernels/rounds.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.formats.blocks import BlockReader, BlockWriter

RUN_KIND = "run"
LEAST_BLOCK = 1 << 12
MERGED_AT_ONCE = 64
"""Runs that are merged at once: a block of each is in memory."""

PAIRS_KIND = "pairs"
PAIRS_AT_ONCE = 1 << 20

HOT = np.uint64(1)
"""The lowest bit of a pair: its documents share only buckets with more members than the limit."""

Keys = NDArray[np.uint64]
Values = NDArray[np.float64]
Records = tuple[Keys, Values | None]


class Sorter:
    """Sorts numbers that are added in any order; drops repeats unless numbers carry values.

    Uses about `memory` bytes. The rest is in files whose names begin with `path`, until `close`.
    """

    def __init__(self, path: Path, memory: int, carries: bool = False) -> None:
        self._path, self._carries = path, carries
        self._most = max(memory // (48 if carries else 24), LEAST_BLOCK)
        self._held: list[Records] = []
        self._count = 0
        self._runs: list[Path] = []
        self._written = 0

    def add(self, keys: Keys, values: Values | None = None) -> None:
        """Add numbers, with their values if they carry any."""
        self._held.append((keys, values))
        self._count += len(keys)
        if self._count > self._most:
            self._sort_held()
            if self._count > self._most // 2:
                self._spill()

    def _sort_held(self) -> None:
        """Sort the numbers in memory, and drop repeats."""
        self._held = [_sort_records(self._held, self._carries)]
        self._count = len(self._held[0][0])

    def _spill(self) -> None:
        """Write the numbers in memory, which are sorted, to a file."""
        self._runs.append(self._write_run(self._held))
        self._held, self._count = [], 0

    def _write_run(self, sorted_blocks: Iterable[Records]) -> Path:
        """Write sorted numbers to a new file, in blocks: merging has one of each run in memory."""
        path = self._path.with_name(f"{self._path.name}-{self._written}")
        self._written += 1
        step = max(self._most // MERGED_AT_ONCE, LEAST_BLOCK)
        with BlockWriter(path, RUN_KIND) as writer:
            for keys, values in sorted_blocks:
                for start in range(0, len(keys), step):
                    columns = {"keys": keys[start : start + step]}
                    writer.add(columns | _slice_values(values, start, start + step))
            writer.close()
        return path

    def __iter__(self) -> Iterator[Records]:
        """Yield all numbers in ascending order, block by block."""
        self._sort_held()
        if not self._runs:
            yield self._held[0]
            return
        if self._count:
            self._spill()
        while len(self._runs) > MERGED_AT_ONCE:
            merged = self._runs[:MERGED_AT_ONCE]
            path = self._write_run(self._merge(merged))
            self._runs = [*self._runs[MERGED_AT_ONCE:], path]
            _remove_files(merged)
        yield from self._merge(self._runs)

    def _merge(self, runs: Sequence[Path]) -> Iterator[Records]:
        return _merge_runs([SortedRun(BlockReader(path, RUN_KIND)) for path in runs], self._carries)

    def close(self) -> None:
        """Remove the files, and drop the numbers in memory."""
        _remove_files(self._runs)
        self._runs, self._held = [], []


def _remove_files(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


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
    """A file of sorted numbers, with one block of it in memory."""

    def __init__(self, file: BlockReader) -> None:
        self._file, self._next = file, 0
        self.keys: Keys = np.empty(0, np.uint64)
        self.values: Values | None = None
        self.refill()

    def refill(self) -> None:
        """Read the next block if the last one is used up."""
        if not len(self.keys) and self._next < len(self._file):
            self.keys = self._file.read(self._next, "keys")
            if self._file.has(self._next, "values"):
                self.values = self._file.read(self._next, "values")
            self._next += 1

    @property
    def is_last(self) -> bool:
        """Whether the block in memory is the last one."""
        return self._next == len(self._file)

    def until(self, last: int) -> Records:
        """Remove and return the numbers in memory up to and including `last`."""
        end = int(np.searchsorted(self.keys, np.uint64(last), side="right"))
        taken = self.keys[:end], None if self.values is None else self.values[:end]
        self.keys = self.keys[end:]
        self.values = None if self.values is None else self.values[end:]
        return taken


def _merge_runs(runs: list[SortedRun], carries: bool) -> Iterator[Records]:
    """Yield the numbers of all runs in ascending order.

    Up to the smallest last number of the blocks in memory, no number can follow from the files.
    """
    while runs := [run for run in runs if len(run.keys)]:
        last = min(
            (int(run.keys[-1]) for run in runs if not run.is_last),
            default=max(int(run.keys[-1]) for run in runs),
        )
        yield _sort_records([run.until(last) for run in runs], carries)
        for run in runs:
            run.refill()


class SortedStream:
    """Reads sorted blocks as far as needed, and returns numbers up to a bound."""

    def __init__(self, blocks: Iterator[Records]) -> None:
        self._blocks = blocks
        self._held: list[Records] = []
        self._count = 0

    def reach(self, count: int) -> int | None:
        """Return a bound with at most `count` numbers before it; None if no more are left."""
        while self._count <= count:
            block = next(self._blocks, None)
            if block is None:
                return None
            self._held.append(block)
            self._count += len(block[0])
        for keys, _ in self._held:
            if count < len(keys):
                break
            count -= len(keys)
        return int(keys[count])

    def until(self, bound: int | None) -> Records:
        """Remove and return the numbers before `bound`, a result of `reach`; all if it is None."""
        taken: list[Records] = []
        rest: list[Records] = []
        for keys, values in self._held:
            end = len(keys) if bound is None else int(np.searchsorted(keys, np.uint64(bound)))
            taken.append((keys[:end], None if values is None else values[:end]))
            if end < len(keys):
                rest.append((keys[end:], None if values is None else values[end:]))
        self._held = rest
        self._count = sum(len(keys) for keys, _ in rest)
        carried = [values for _, values in taken if values is not None]
        keys = np.concatenate([np.empty(0, np.uint64), *(keys for keys, _ in taken)])
        return keys, np.concatenate(carried) if carried else None


WHOLE_DOCUMENTS = 32
"""The bits of a number below its document's rank: see `cut_windows`."""


def cut_windows(
    streams: list[SortedStream], most: int, bits: int = WHOLE_DOCUMENTS
) -> Iterator[int | None]:
    """Yield bounds that cut streams of pairs into windows of about `most` pairs of each stream.

    Args:
        streams: What is cut; the caller takes everything before each bound.
        most: More than this many pairs of a stream are in a window only if they can't be parted.
        bits: Numbers that differ in their lowest `bits` only are in one window: all pairs of a
            document; with 0 a window may end anywhere.

    Yields:
        The bounds, None at last.
    """
    last = 0
    while True:
        ahead = [bound for stream in streams if (bound := stream.reach(most)) is not None]
        if not ahead:
            yield None
            return
        bound = min(ahead) >> bits << bits
        if bound > last:
            yield (last := bound)
        else:
            most *= 2  # the pairs of a single document are more than `most`


@dataclass(frozen=True)
class MergedPairs:
    """Known and wanted pairs in order, with three flags for each.

    known    it was known before
    current  it is wanted now
    fresh    it is new, or known as hot and now not hot
    """

    pairs: Keys
    known: NDArray[np.bool_]
    current: NDArray[np.bool_]
    fresh: NDArray[np.bool_]


def merge_pairs(wanted: Keys, known: Keys) -> MergedPairs:
    """Merge wanted pairs into known ones. Both are sorted, without repeats."""
    return MergedPairs(*kernels.merge_pairs(wanted, known))


def read_pairs(path: Path) -> Iterator[Records]:
    """Yield the pairs in a file and their similarities, block by block."""
    file = BlockReader(path, PAIRS_KIND)
    for block in range(len(file)):
        yield file.read(block, "keys"), file.read(block, "values")


def split_pairs(pairs: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ranks of the better-ranked and of the other document of each pair."""
    better = (pairs & np.uint64(0xFFFFFFFF)) >> np.uint64(1)
    return better.astype(np.int64), (pairs >> np.uint64(32)).astype(np.int64)


def drop_repeats(wanted: Keys) -> Keys:
    """Return each of sorted pairs once; not as hot if it shares any bucket that is not hot."""
    fresh = np.ones(len(wanted), bool)
    fresh[1:] = (wanted[1:] | HOT) != (wanted[:-1] | HOT)
    return wanted[fresh]
