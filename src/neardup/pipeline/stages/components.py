"""Connected components of the similar pairs (`--cluster components`), and pairs of bucket members.

Needs four bytes a document in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.cluster import BUCKET_CAP
from neardup.pipeline.budget import Budget
from neardup.pipeline.packed_pairs import PAIRS_AT_ONCE, RoundTally, split_pairs
from neardup.pipeline.sorting import Records, Sorter
from neardup.pipeline.stages.band import BucketFiles
from neardup.pipeline.stages.compare import PairComparer

NO_LAST = np.iinfo(np.int64).max


def connect_components(
    buckets: BucketFiles,
    state: NDArray[np.uint8],
    new: int,
    compare: PairComparer,
    folder: Path,
    budget: Budget,
) -> tuple[Iterator[Records], RoundTally, NDArray[np.uint32]]:
    """Each removed document with the best-ranked one that it is connected with.

    A document is compared with the first BUCKET_CAP documents of its bucket. Also how it went, and
    the root of every document.
    """
    parent = np.arange(len(state), dtype=np.uint32)
    tally, fresh, most = RoundTally(), 0, 1
    largest = max((int(some.sizes.max(initial=0)) for some in buckets), default=0)
    while fresh < min(largest, BUCKET_CAP):
        for pairs in pair_members(buckets, parent, new, fresh, most, NO_LAST, folder, budget):
            left, right = split_pairs(pairs)
            similar = compare(left, right) >= 0.0
            kernels.join_all(parent, left[similar], right[similar])
            tally.verified += len(pairs)
            tally.similar += int(np.count_nonzero(similar))
        kernels.to_roots(parent)
        tally.rounds += 1
        fresh, most = most, min(2 * most, BUCKET_CAP)
    return _list_removed(parent, state, new, compare), tally, parent


def _list_removed(
    parent: NDArray[np.uint32], state: NDArray[np.uint8], new: int, compare: PairComparer
) -> Iterator[Records]:
    for start in range(new, len(parent), PAIRS_AT_ONCE):
        here = parent[start : start + PAIRS_AT_ONCE].astype(np.int64)
        gone = start + np.flatnonzero(here != np.arange(start, start + len(here)))
        witness = here[gone - start]
        state[gone] &= np.uint8(0xFE)
        keys = gone.astype(np.uint64) << np.uint64(32) | witness.astype(np.uint64) << np.uint64(1)
        yield keys, compare(witness, gone, least=0.0)


def pair_members(
    buckets: BucketFiles,
    roots: NDArray[np.uint32],
    new: int,
    fresh: int,
    most: int,
    last: int,
    folder: Path,
    budget: Budget,
) -> Iterator[NDArray[np.uint64]]:
    """Every pair of a bucket's members number `fresh` to `most` with later ones before `last`, of
    different roots, once, sorted, block by block; none of two ranks below `new`."""
    sorter = Sorter(folder / "members", budget.share(4))
    for some in buckets:
        bucket = place = 0
        while bucket < len(some.sizes):
            pairs, bucket, place = kernels.member_pairs(
                some.members,
                some.starts,
                roots,
                new,
                fresh,
                most,
                last,
                bucket,
                place,
                PAIRS_AT_ONCE,
            )
            sorter.add(pairs)
    for pairs, _ in sorter:
        yield from (
            pairs[start : start + PAIRS_AT_ONCE] for start in range(0, len(pairs), PAIRS_AT_ONCE)
        )
    sorter.close()
