"""Pair the members of each bucket, up to a cap; write the similar pairs to pairs.parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.cluster import BUCKET_CAP
from neardup.formats import tables
from neardup.formats.tables import TableWriter
from neardup.pipeline.budget import Budget
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.job import Job
from neardup.pipeline.sorting import PAIRS_AT_ONCE, Sorter, split_pairs
from neardup.pipeline.stages.band import BucketFiles
from neardup.pipeline.stages.compare import LexicalComparer, PairComparer
from neardup.pipeline.stages.rank import RankedDocuments
from neardup.runtime import Progress

Integers = NDArray[np.int64]
PairColumns = tuple[Integers, Integers, NDArray[np.float64]]

MOST_WRITTEN = 100_000_000
"""Ten times those in memory: they are sorted and written on disk."""
NAMED_AT_ONCE = 1 << 17
"""Pairs whose names are in memory at once."""


def write_pairs(
    job: Job,
    folder: Path,
    catalogue: Catalogue,
    ranked: RankedDocuments,
    buckets: BucketFiles,
    compare: PairComparer,
    progress: Progress,
) -> dict[str, int]:
    """Write pairs.parquet; return how many pairs are in it, and how many beyond the limit."""
    progress.stage("pairing", len(ranked.state), "documents")
    copies, ends = _group_by_leader(ranked)
    found = Sorter(folder / "found", job.budget.share(4), carries=True)
    total = written = 0
    for leaders in _compare_leaders(job, folder, ranked, buckets, compare, ends):
        count, first, room = 1, 0, MOST_WRITTEN - written
        while first < count:
            a, b, similarity, count = kernels.spread_pairs(
                *leaders, copies, ends, first, min(PAIRS_AT_ONCE, room - first)
            )
            a, b = ranked.ranking.documents(a), ranked.ranking.documents(b)
            keys = np.minimum(a, b) << 32 | np.maximum(a, b)
            found.add(keys.view(np.uint64), similarity)
            first += len(a)
            if first == room:
                break
        total, written = total + count, written + first
    _write_table(folder / "pairs.parquet", catalogue, found)
    found.close()
    if total > written:
        progress.say(
            f"pairs.parquet has {written:,} of {total:,} similar pairs, which is the most: a "
            "higher threshold has fewer"
        )
    capped = sum(int(np.count_nonzero(batch.sizes > BUCKET_CAP)) for batch in buckets)
    return {
        "written": written,
        "limit": MOST_WRITTEN,
        "beyond_limit": total - written,
        "capped_buckets": capped,
    }


def _write_table(path: Path, catalogue: Catalogue, pairs: Sorter) -> None:
    """Write the pairs of documents, with their similarities."""
    with TableWriter(path, tables.PAIRS) as table:
        for keys, values in pairs:
            assert values is not None  # noqa: S101
            for start in range(0, len(keys), NAMED_AT_ONCE):
                part = keys[start : start + NAMED_AT_ONCE].view(np.int64)
                table.add(
                    {
                        "a": catalogue.names(part >> 32),
                        "b": catalogue.names(part & 0xFFFFFFFF),
                        "similarity": values[start : start + NAMED_AT_ONCE],
                    }
                )


def _group_by_leader(ranked: RankedDocuments) -> tuple[Integers, Integers]:
    """Return all documents grouped with their copies, and where the group of each rank begins."""
    documents = len(ranked.state)
    leader = np.where(ranked.state != 0, np.arange(documents, dtype=np.int32), np.int32(-1))
    for twins, _ in ranked.copies:
        copies = (twins & np.uint64(0xFFFFFFFF)).astype(np.int64)
        leader[copies] = (twins >> np.uint64(32)).astype(np.int32)
    order = np.argsort(leader, kind="stable")
    grouped = order[np.count_nonzero(leader < 0) :]
    sizes = np.bincount(leader[leader >= 0], minlength=documents)
    return grouped, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _compare_leaders(
    job: Job,
    folder: Path,
    ranked: RankedDocuments,
    buckets: BucketFiles,
    compare: PairComparer,
    ends: Integers,
) -> Iterator[PairColumns]:
    """Yield the similar pairs of documents that are no copies; first, those with copies, as a pair
    of their own."""
    copied = np.flatnonzero(np.diff(ends) > 1)
    yield copied, copied, np.ones(len(copied))
    own_roots = np.arange(len(ranked.state), dtype=np.uint32)
    for pairs in pair_members(
        buckets,
        own_roots,
        ranked.sketches.first_new,
        0,
        BUCKET_CAP,
        BUCKET_CAP,
        compare,
        folder,
        job.budget,
    ):
        left, right = split_pairs(pairs)
        similar = compare(left, right)
        enough = similar >= 0.0
        yield left[enough], right[enough], similar[enough]


def pair_members(
    buckets: BucketFiles,
    roots: NDArray[np.uint32],
    new: int,
    fresh: int,
    most: int,
    last: int,
    compare: PairComparer | LexicalComparer,
    folder: Path,
    budget: Budget,
) -> Iterator[NDArray[np.uint64]]:
    """Yield pairs of bucket members, sorted, without repeats, block by block.

    Each member number `fresh` to `most` of a bucket is paired with all later ones before number
    `last`, unless both have the same root, or both ranks are below `new`, or `compare` rules the
    pair out.
    """
    sorter = Sorter(folder / "members", budget.share(4))
    for batch in buckets:
        bucket = place = 0
        while bucket < len(batch.sizes):
            pairs, bucket, place = kernels.member_pairs(
                batch.members,
                batch.starts,
                roots,
                new,
                fresh,
                most,
                last,
                bucket,
                place,
                PAIRS_AT_ONCE,
            )
            sorter.add(compare.sift(pairs))
    for pairs, _ in sorter:
        yield from (
            pairs[start : start + PAIRS_AT_ONCE] for start in range(0, len(pairs), PAIRS_AT_ONCE)
        )
    sorter.close()
