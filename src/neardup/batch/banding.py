"""Which documents meet? Band by band, their keys are sorted; equal ones are a bucket.

Only buckets of two documents or more are written. A band whose keys don't fit into memory is
handled in slices by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.batch.budget import Budget
from neardup.batch.collapse import in_slice, slice_bits
from neardup.batch.ranks import Ranking
from neardup.batch.sketches import Sketches
from neardup.formats.blocks import Reader, Writer
from neardup.lsh.bands import meeting
from neardup.lsh.curve import Curve

KIND = "buckets"
BYTES_EACH = 56
"""What sorting a document's key takes, about."""


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

    def __init__(self, files: list[Reader]) -> None:
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
    curve: Curve
    path: Callable[[int], Path]
    key: str
    budget: Budget
    workers: int

    def __call__(self, band: int) -> Reader:
        room = self.budget.share(2 * self.workers)
        bits = slice_bits(len(self.sketches), BYTES_EACH, room)
        with Writer(self.path(band), KIND, key=self.key, band=band) as writer:
            for wanted in range(1 << bits):
                keys, ranks = self._slice(band, bits, wanted)
                writer.add(self._buckets(keys, ranks))
            writer.close()
        return Reader(self.path(band), KIND)

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

    def _slice(
        self, band: int, bits: int, wanted: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Keys and ranks of the documents that take part, best rank first."""
        keys, ranks = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)]
        for block in self.sketches.blocks:
            here = self.ranking.of(np.arange(block.start, block.end))
            found = block.band(band, self.curve.rows)
            chosen = np.flatnonzero((self.state[here] != 0) & in_slice(found, bits, wanted))
            keys.append(found[chosen])
            ranks.append(here[chosen].astype(np.uint32))
        all_keys, all_ranks = np.concatenate(keys), np.concatenate(ranks)
        if self.ranking.order is not None:
            order = np.argsort(all_ranks)
            return all_keys[order], all_ranks[order]
        return all_keys, all_ranks
