"""Write pairs.parquet: all similar pairs that share a bucket, in an exhaustive pass with a cap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.cluster import BUCKET_CAP
from neardup.formats import tables
from neardup.formats.tables import TableWriter
from neardup.in_memory import MAX_PAIRS
from neardup.pipeline.budget import Budget
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.job import Job
from neardup.pipeline.sorting import PAIRS_AT_ONCE, Sorter, split_pairs
from neardup.pipeline.stages.band import BucketFiles
from neardup.pipeline.stages.compare import PairComparer
from neardup.pipeline.stages.rank import RankedDocuments

Integers = NDArray[np.int64]
PairColumns = tuple[Integers, Integers, NDArray[np.float64]]


def write_pairs(
    job: Job,
    folder: Path,
    catalogue: Catalogue,
    ranked: RankedDocuments,
    buckets: BucketFiles,
    compare: PairComparer,
) -> dict[str, int]:
    """pairs.parquet; and how many pairs are in it, or are not."""
    copies, ends = _group_by_leader(ranked)
    parts: list[PairColumns] = []
    total = given = 0
    for left, right, similar in _compare_leaders(job, folder, ranked, buckets, compare, ends):
        a, b, found, many = kernels.spread_pairs(
            left, right, similar, copies, ends, MAX_PAIRS - given
        )
        a, b = ranked.ranking.documents(a), ranked.ranking.documents(b)
        parts.append((np.minimum(a, b), np.maximum(a, b), found))
        total, given = total + many, given + len(a)
    a, b, found = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((b, a))
    with TableWriter(folder / "pairs.parquet", tables.PAIRS) as table:
        table.add(
            {
                "a": catalogue.names(a[order]),
                "b": catalogue.names(b[order]),
                "similarity": found[order],
            }
        )
    capped = sum(int(np.count_nonzero(some.sizes > BUCKET_CAP)) for some in buckets)
    return {
        "written": given,
        "limit": MAX_PAIRS,
        "beyond_limit": total - given,
        "capped_buckets": capped,
    }


def _group_by_leader(ranked: RankedDocuments) -> tuple[Integers, Integers]:
    """The documents in the order of those that stand for them, and where each one's begin."""
    documents = len(ranked.state)
    leader = np.where(ranked.state != 0, np.arange(documents), -1)
    for twins, _ in ranked.copies:
        leader[(twins & np.uint64(0xFFFFFFFF)).astype(np.int64)] = (twins >> np.uint64(32)).astype(
            np.int64
        )
    taking = np.flatnonzero(leader >= 0)
    order = taking[np.argsort(leader[taking], kind="stable")]
    return order, np.searchsorted(leader[order], np.arange(documents + 1))


def _compare_leaders(
    job: Job,
    folder: Path,
    ranked: RankedDocuments,
    buckets: BucketFiles,
    compare: PairComparer,
    ends: Integers,
) -> Iterator[PairColumns]:
    copied = np.flatnonzero(np.diff(ends) > 1)
    yield copied, copied, np.ones(len(copied))
    everyone = np.arange(len(ranked.state), dtype=np.uint32)
    for pairs in pair_members(
        buckets, everyone, ranked.sketches.first_new, 0, BUCKET_CAP, BUCKET_CAP, folder, job.budget
    ):
        left, right = split_pairs(pairs)
        similar = compare(left, right)
        good = similar >= 0.0
        yield left[good], right[good], similar[good]


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
