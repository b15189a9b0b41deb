"""Identical documents collapse first: who stands for whom?

Sorted by content hash, a slice of the hashes at a time, as many slices as the memory asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.lsh.buckets import meeting
from neardup.pipeline.budget import Budget
from neardup.pipeline.ranks import Ranking
from neardup.pipeline.sketches import Sketches
from neardup.pipeline.sorting import Sorter

BYTES_EACH = 72
"""What sorting a document's hash takes, about."""

Ranks = NDArray[np.int64]


def collapse(
    sketches: Sketches, ranking: Ranking, state: NDArray[np.uint8], copies: Sorter, budget: Budget
) -> int:
    """Mark the usable documents in `state`, but for copies; those go to `copies` with the document
    that stands for them, as one number: its rank << 32 | the copy's rank. Returns how many of
    them are new."""
    for block in sketches.blocks:
        state[ranking.of(block.start + np.flatnonzero(block.usable()))] = 1
    count = 0
    for leaders, doubles in _identical(sketches, ranking, budget):
        state[doubles] = 0
        copies.add(leaders.astype(np.uint64) << np.uint64(32) | doubles.astype(np.uint64))
        count += int(np.count_nonzero(doubles >= sketches.first_new))
    return count


def _identical(
    sketches: Sketches, ranking: Ranking, budget: Budget
) -> Iterator[tuple[Ranks, Ranks]]:
    """Ranks of the best of identical documents and of their copies, slice by slice."""
    for first, second, documents in _slices(sketches, budget):
        members, starts, sizes = equal_hashes(first, second)
        ranks = ranking.of(documents[members])
        if len(ranks):
            leaders = np.repeat(np.minimum.reduceat(ranks, starts), sizes)
            double = leaders != ranks
            yield leaders[double], ranks[double]


def equal_hashes(
    first: NDArray[np.uint64], second: NDArray[np.uint64]
) -> tuple[Ranks, Ranks, Ranks]:
    """The places of hashes that are there more than once, group by group; where each group
    begins, and its size. Hashes come as halves. A group may be of one that only seemed equal."""
    members, sizes = meeting(first)
    starts = np.cumsum(sizes) - sizes
    if (second[members] != np.repeat(second[members[starts]], sizes)).any():
        # Half of a hash is shared by what is not identical.
        order = np.lexsort((members, second[members], first[members]))
        members = members[order]
        fresh = np.concatenate(
            [[True], (np.diff(second[members]) != 0) | (np.diff(first[members]) != 0)]
        )
        starts = np.flatnonzero(fresh)
        sizes = np.diff(starts, append=len(members))
    return members, starts, sizes


def _slices(
    sketches: Sketches, budget: Budget
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64], Ranks]]:
    """Both halves of the content hashes of usable documents, and these, in slices by hash."""
    bits = slice_bits(len(sketches), BYTES_EACH, budget.share(2))
    for wanted in range(1 << bits):
        parts: list[tuple[NDArray[Any], ...]] = []
        for block in sketches.blocks:
            content = block.column("content")
            chosen = np.flatnonzero(block.usable() & in_slice(content[0], bits, wanted))
            parts.append((*content[:, chosen], chosen + block.start))
        if not parts:
            return
        first, second, documents = (np.concatenate(column) for column in zip(*parts, strict=True))
        yield first, second, documents.astype(np.int64)


def slice_bits(documents: int, each: int, room: int) -> int:
    """How many leading bits of a hash tell slices apart that fit."""
    return max((documents * each // room).bit_length(), 0)


def in_slice(hashes: NDArray[np.uint64], bits: int, wanted: int) -> NDArray[np.bool_]:
    """Which hashes begin with these bits."""
    if bits == 0:
        return np.ones(len(hashes), bool)
    found: NDArray[np.bool_] = np.equal(hashes >> np.uint64(64 - bits), np.uint64(wanted))
    return found
