"""Which documents meet? Band by band, their keys are sorted; equal ones are a bucket.

A first look sorts the keys with the rank in their lowest bits, eight bytes a document, and finds
out who may meet; a second one is at their full keys, which are held or made again. Only buckets of
two documents or more are written. What does not fit into memory is handled in slices by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.lsh.bands import Tables
from neardup.lsh.buckets import meeting
from neardup.pipeline.budget import Budget
from neardup.pipeline.collapse import in_slice, slice_bits
from neardup.pipeline.ranks import Ranking
from neardup.pipeline.sketches import Sketches

KIND = "buckets"
AT_ONCE = 1 << 16
BYTES_EACH = 12
"""What sorting a document's key takes, about."""
BYTES_EACH_HELD = 32
"""The same, if the keys are held for the second look."""
BYTES_EACH_FOUND = 64
"""What grouping a document that may meet others takes, about."""


Keyed = tuple[NDArray[np.uint64], NDArray[np.int64]]


@dataclass(frozen=True)
class Buckets:
    """Some buckets of a band: ranks of members, ascending in each; where each begins; its key."""

    band: int
    members: NDArray[np.uint32]
    starts: NDArray[np.int64]
    keys: NDArray[np.uint64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.starts)


class BucketFiles:
    """The buckets of all bands, read one slice of a band at a time."""

    def __init__(self, files: list[BlockReader]) -> None:
        self._files = files

    def __iter__(self) -> Iterator[Buckets]:
        for file in self._files:
            for block in range(len(file)):
                sizes = file.read(block, "sizes")
                yield Buckets(
                    file.header["band"],
                    file.read(block, "members"),
                    np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
                    file.read(block, "keys"),
                )


@dataclass(frozen=True)
class Banding:
    """One band at a time to a file."""

    sketches: Sketches
    ranking: Ranking
    state: NDArray[np.uint8]
    tables: Tables
    path: Callable[[int], Path]
    key: str
    budget: Budget
    workers: int

    def __call__(self, band: int) -> BlockReader:
        room = self.budget.share(self.workers) // 2
        bits = slice_bits(len(self.sketches), BYTES_EACH, room)
        holds = len(self.sketches) * BYTES_EACH_HELD < room
        with BlockWriter(self.path(band), KIND, key=self.key, band=band) as writer:
            for wanted in range(1 << bits):
                held = list(self._blocks(band, bits, wanted)) if holds else None
                may_meet = self._may_meet(bits, held or self._blocks(band, bits, wanted))
                more = slice_bits(int(np.count_nonzero(may_meet)), BYTES_EACH_FOUND, room)
                for part in range(wanted << more, (wanted + 1) << more):
                    blocks = held or self._blocks(band, bits, wanted)
                    writer.add(self._buckets(*self._keys(bits + more, part, may_meet, blocks)))
            writer.close()
        return BlockReader(self.path(band), KIND)

    def _blocks(self, band: int, bits: int, wanted: int) -> Iterator[Keyed]:
        """Keys and ranks of those in a slice who take part, block by block."""
        for block in self.sketches.blocks:
            ranks = self.ranking.of(np.arange(block.start, block.end))
            keys = block.keys(self.tables, band)
            chosen = self.state[ranks] != 0
            if bits:
                chosen &= in_slice(keys, bits, wanted)
            yield keys[chosen], ranks[chosen]

    def _may_meet(self, bits: int, blocks: Iterable[Keyed]) -> NDArray[np.bool_]:
        """By rank: who shares the leading bits of a key with someone."""
        low = np.uint64((1 << max(len(self.sketches) - 1, 1).bit_length()) - 1)
        packed = self._packed(bits, low, blocks)
        packed.sort()
        found = np.zeros(len(self.state), bool)
        for start in range(0, len(packed), AT_ONCE):
            here = packed[start : start + AT_ONCE + 1]
            beside = np.flatnonzero((here[1:] ^ here[:-1]) <= low)
            found[(here[beside] & low).astype(np.int64)] = True
            found[(here[beside + 1] & low).astype(np.int64)] = True
        return found

    def _packed(self, bits: int, low: np.uint64, blocks: Iterable[Keyed]) -> NDArray[np.uint64]:
        """The keys of a slice with ranks in their lowest bits."""
        # Slices differ little in size, unless a bucket is hot.
        packed = np.empty((len(self.sketches) >> bits) * 9 // 8 + AT_ONCE, np.uint64)
        end = 0
        for keys, ranks in blocks:
            if end + len(keys) > len(packed):
                packed = np.concatenate([packed, np.empty(len(packed) // 4 + len(keys), np.uint64)])
            packed[end : end + len(keys)] = keys << np.uint64(bits) & ~low | ranks.view(np.uint64)
            end += len(keys)
        return packed[:end]

    def _keys(
        self, bits: int, wanted: int, among: NDArray[np.bool_], blocks: Iterable[Keyed]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Keys and ranks of some documents in a slice, best rank first."""
        keys, ranks = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)]
        for some, whose in blocks:
            chosen = among[whose]
            if bits:
                chosen &= in_slice(some, bits, wanted)
            keys.append(some[chosen])
            ranks.append(whose[chosen].astype(np.uint32))
        all_keys, all_ranks = np.concatenate(keys), np.concatenate(ranks)
        if self.ranking.order is not None:
            order = np.argsort(all_ranks)
            return all_keys[order], all_ranks[order]
        return all_keys, all_ranks

    def _buckets(
        self, keys: NDArray[np.uint64], ranks: NDArray[np.uint32]
    ) -> dict[str, NDArray[Any]]:
        """Those in which a new document is: the last member is the worst in rank."""
        places, sizes = meeting(keys)
        ends = np.cumsum(sizes)
        if self.sketches.first_new:
            has_new = ranks[places[ends - 1]] >= self.sketches.first_new
            places, sizes = places[np.repeat(has_new, sizes)], sizes[has_new]
            ends = np.cumsum(sizes)
        return {"members": ranks[places], "sizes": sizes, "keys": keys[places[ends - sizes]]}
