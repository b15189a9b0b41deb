"""Pair the members of each bucket, up to a cap; write the similar pairs to pairs.parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.cluster import BUCKET_CAP
from neardup.formats import tables
from neardup.formats.tables import TableWriter, to_arrow
from neardup.pipeline.budget import Budget
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.job import Job
from neardup.pipeline.sorting import PAIRS_AT_ONCE, Sorter, split_pairs
from neardup.pipeline.stages.band import BucketFiles
from neardup.pipeline.stages.compare import LexicalComparer, PairComparer
from neardup.pipeline.stages.rank import RankedDocuments
from neardup.pipeline.stages.tables import spread_to_known
from neardup.runtime import Progress

Integers = NDArray[np.int64]
PairColumns = tuple[NDArray[Any], ...]
"""Two documents of each pair, their similarity, and with two signals their cosine."""

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
    compare.hold_all()
    copies, ends = _group_by_leader(ranked)
    found = [Sorter(folder / "found", job.budget.share(4), carries=True)]
    if job.options.has_two_signals:
        found.append(Sorter(folder / "found-cosines", job.budget.share(4), carries=True))
    total = written = 0
    for left, right, *numbers in _compare_leaders(job, folder, ranked, buckets, compare, ends):
        count, first, room = 1, 0, MOST_WRITTEN - written
        while first < count:
            most, begin = min(PAIRS_AT_ONCE, room - first), first
            for sorter, values in zip(found, numbers, strict=True):
                a, b, spread, count = kernels.spread_pairs(
                    left, right, values, copies, ends, begin, most
                )
                a, b = ranked.ranking.documents(a), ranked.ranking.documents(b)
                keys = np.minimum(a, b) << 32 | np.maximum(a, b)
                sorter.add(keys.view(np.uint64), spread)
            first += len(a)
            if first == room:
                break
        total, written = total + count, written + first
    _write_table(folder / "pairs.parquet", catalogue, found)
    for sorter in found:
        sorter.close()
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


def _write_table(path: Path, catalogue: Catalogue, found: list[Sorter]) -> None:
    """Write the pairs of documents, with their similarities; with two signals their cosines, too.

    Args:
        path: The file.
        catalogue: The names of the documents.
        found: The pairs with their similarities, and the same pairs with their cosines.
    """
    schema = tables.PAIRS if len(found) == 1 else tables.PAIRS_WITH_COSINE
    with TableWriter(path, schema) as table:
        for (keys, values), *others in zip(*found, strict=True):
            assert values is not None  # noqa: S101
            for start in range(0, len(keys), NAMED_AT_ONCE):
                some = slice(start, start + NAMED_AT_ONCE)
                part = keys[some].view(np.int64)
                columns = {
                    "a": catalogue.names(part >> 32),
                    "b": catalogue.names(part & 0xFFFFFFFF),
                    "similarity": values[some],
                }
                for _, cosines in others:
                    assert cosines is not None  # noqa: S101
                    known = ~np.isnan(cosines[some])
                    columns["cosine"] = spread_to_known(known, to_arrow(cosines[some][known]))
                table.add(columns)


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
    of their own. With two signals also their cosines, NaN of identical documents."""
    copied, two = np.flatnonzero(np.diff(ends) > 1), job.options.has_two_signals
    ones = np.ones(len(copied))
    yield (copied, copied, ones, np.full(len(copied), np.nan)) if two else (copied, copied, ones)
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
        left, right, similar = left[enough], right[enough], similar[enough]
        if two:
            yield left, right, similar, compare.numbers(left, right)[:, 1].copy()
        else:
            yield left, right, similar


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
