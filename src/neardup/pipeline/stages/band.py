"""Group documents into buckets: in each band, documents with equal keys share a bucket.

A first pass counts keys by their leading bits, and so finds the documents that may share a bucket;
a second pass sorts their keys. Only buckets of two or more documents are written. Keys are counted,
and sorted, in slices if memory is short.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.lsh.bands import Tables
from neardup.lsh.buckets import RepeatedKeys, find_shared_keys
from neardup.pipeline.backends.backend import Advance
from neardup.pipeline.budget import Budget
from neardup.pipeline.job import Job
from neardup.pipeline.sketch_files import SketchBlock, Sketches
from neardup.pipeline.stage_files import StageFiles, digest
from neardup.pipeline.stages.rank import RankedDocuments, count_slice_bits, in_slice
from neardup.runtime import Progress, map_in_order

BUCKETS_KIND = "buckets"
BYTES_PER_KEY = 12
"""About the memory for counting a document's key, and for sorting those that are repeated."""
BYTES_PER_HELD_KEY = 32
"""The same, if the keys stay in memory for the second pass."""
BYTES_PER_CANDIDATE = 64
"""About the memory for grouping a document that may share a bucket."""

Keys = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
BlockKeys = tuple[int, Keys, Bytes]
"""The first document of a block, the keys of all, and what is not 0 for those that take part."""


@dataclass(frozen=True)
class BucketSlice:
    """Buckets of a band.

    members  ranks, ascending in each bucket
    starts   where the members of each bucket begin, and the end of all
    keys     one for each bucket
    """

    band: int
    members: NDArray[np.uint32]
    starts: NDArray[np.int64]
    keys: NDArray[np.uint64]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.starts)


class BucketFiles:
    """The buckets of all bands, read from files one slice of a band at a time."""

    def __init__(self, files: list[BlockReader]) -> None:
        self._files = files

    def __iter__(self) -> Iterator[BucketSlice]:
        for file in self._files:
            for block in range(len(file)):
                sizes = file.read(block, "sizes")
                yield BucketSlice(
                    file.header["band"],
                    file.read(block, "members"),
                    np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
                    file.read(block, "keys"),
                )


@dataclass(frozen=True)
class BucketsWithSame:
    """Buckets, and one more for each class of documents that are the same."""

    buckets: Iterable[BucketSlice]
    same: BucketSlice

    def __iter__(self) -> Iterator[BucketSlice]:
        yield from self.buckets
        yield self.same


@dataclass(frozen=True)
class TouchedBuckets:
    """The buckets that have one of some documents, by rank."""

    buckets: Iterable[BucketSlice]
    touched: NDArray[np.bool_]

    def __iter__(self) -> Iterator[BucketSlice]:
        for batch in self.buckets:
            if len(batch.sizes):
                chosen = np.logical_or.reduceat(self.touched[batch.members], batch.starts[:-1])
                sizes = batch.sizes[chosen]
                yield BucketSlice(
                    batch.band,
                    batch.members[np.repeat(chosen, batch.sizes)],
                    np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
                    batch.keys[chosen],
                )

    def hold(self, room: int) -> Iterable[BucketSlice]:
        """Return these buckets in memory, if they take at most `room` bytes."""
        held: list[BucketSlice] = []
        size = 0
        for batch in self:
            held.append(batch)
            size += batch.members.nbytes + batch.starts.nbytes + batch.keys.nbytes
            if size > room:
                return self
        return held

    def members(self) -> NDArray[np.bool_]:
        """Return which documents are in these buckets, or among the touched ones."""
        found = self.touched.copy()
        for batch in self:
            found[batch.members] = True
        return found


@dataclass(frozen=True)
class GroupBands:
    """Groups documents into the buckets of bands, and writes a file for each band.

    ranks  the rank of each document; None if it is its number
    """

    sketches: Sketches
    ranks: NDArray[np.uint32] | None
    state: Bytes
    tables: Tables
    stage: StageFiles
    key: str
    budget: Budget

    def __call__(self, items: Iterable[int], threads: int, advance: Advance) -> Iterator[int]:
        # Fewer threads rather than slices: each slice reads the band again.
        fits = self.budget.share() // max(len(self.sketches) * BYTES_PER_KEY * 2, 1)
        threads = max(min(threads, fits), 1)
        for band, _ in map_in_order(items, lambda band: self._write(band, threads), threads):
            advance(1)
            yield band

    def _write(self, band: int, threads: int) -> None:
        """Write the buckets of a band, while other threads write those of others."""
        room = self.budget.share(threads) // 2
        bits = count_slice_bits(len(self.sketches), BYTES_PER_KEY, room)
        keys_fit = len(self.sketches) * BYTES_PER_HELD_KEY < room
        path = self.stage.path(str(band))
        with BlockWriter(path, BUCKETS_KIND, shared=True, key=self.key, band=band) as writer:
            for wanted in range(1 << bits):
                held = list(self._blocks(band, bits, wanted)) if keys_fit else None
                repeats, again = RepeatedKeys(len(self.sketches) >> bits, bits), 0
                for _, keys, chosen in held or self._blocks(band, bits, wanted):
                    again += repeats.add(keys, chosen)
                more = count_slice_bits(2 * again, BYTES_PER_CANDIDATE, room)
                for part in range(wanted << more, (wanted + 1) << more):
                    blocks = held or self._blocks(band, bits, wanted)
                    found = self._find(repeats, bits + more if more else 0, part, blocks)
                    writer.add(self._buckets(*found))
            writer.close()

    def _blocks(self, band: int, bits: int, wanted: int) -> Iterator[BlockKeys]:
        """Yield the keys of all blocks; the documents of a slice take part."""
        for block in self.sketches.blocks:
            keys, takes_part = block.keys(self.tables, band), self._states(block)
            yield block.start, keys, _in_slice(takes_part, keys, bits, wanted)

    def _states(self, block: SketchBlock) -> Bytes:
        """Return the state of each document of a block."""
        if self.ranks is None:
            return self.state[block.start : block.end]
        return self.state[self.ranks[block.start : block.end]]

    def _find(
        self, repeats: RepeatedKeys, bits: int, wanted: int, blocks: Iterable[BlockKeys]
    ) -> tuple[Keys, NDArray[np.uint32]]:
        """Return keys and ranks of the documents in a slice that may share a bucket, by rank."""
        found, documents = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        for start, keys, chosen in blocks:
            places = repeats.find(keys, _in_slice(chosen, keys, bits, wanted))
            found.append(keys[places])
            documents.append(places + start)
        all_keys, ranks = np.concatenate(found), np.concatenate(documents).astype(np.uint32)
        if self.ranks is None:
            return all_keys, ranks
        ranks = self.ranks[ranks]
        order = np.argsort(ranks)
        return all_keys[order], ranks[order]

    def _buckets(self, keys: Keys, ranks: NDArray[np.uint32]) -> dict[str, NDArray[Any]]:
        """Return the columns of the buckets that have a new member, which then is the last one."""
        places, sizes = find_shared_keys(keys)
        ends = np.cumsum(sizes)
        if self.sketches.first_new:
            has_new = ranks[places[ends - 1]] >= self.sketches.first_new
            places, sizes = places[np.repeat(has_new, sizes)], sizes[has_new]
            ends = np.cumsum(sizes)
        return {"members": ranks[places], "sizes": sizes, "keys": keys[places[ends - sizes]]}


def _in_slice(chosen: Bytes, keys: Keys, bits: int, wanted: int) -> Bytes:
    """Return what is 0 for documents that are not chosen, or whose keys are not in a slice."""
    return chosen if bits == 0 else chosen * in_slice(keys, bits, wanted)


def same_buckets(ranked: RankedDocuments) -> BucketSlice:
    """Return a bucket for each class of documents that people called the same."""
    said = [] if ranked.overrides is None else ranked.overrides.classes
    classes = [np.sort(ranked.ranking.of(members)) for members in said]
    parts = [ranks[ranked.state[ranks] != 0] for ranks in classes]
    parts = [part for part in parts if len(part) > 1]
    return BucketSlice(
        -1,
        np.concatenate([np.empty(0, np.int64), *parts]).astype(np.uint32),
        np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64),
        np.arange(len(parts), dtype=np.uint64),
    )


CANDIDATE = np.uint8(2)
"""The bit of a document's state that marks it as a member of a bucket."""


def band_documents(
    job: Job, folder: Path, ranked: RankedDocuments, progress: Progress
) -> BucketFiles:
    """Write the buckets of each band; mark their members in `ranked.state` as candidates."""
    stage, tables = StageFiles(folder / "buckets", BUCKETS_KIND), job.options.hash_tables
    key = digest(ranked.basis, job.options.keep, tables.stated)
    progress.stage("banding", tables.count, "bands")
    files = {band: stage.find(str(band), key, band=band) for band in range(tables.count)}
    missing = [band for band, file in files.items() if file is None]
    progress.advance(tables.count - len(missing))
    work = GroupBands(
        ranked.sketches, ranked.ranking.inverse, ranked.state, tables, stage, key, job.budget
    )
    for band in job.backend.run(work, missing, job.workers, progress.advance):
        files[band] = stage.open(str(band))
    stage.remove_others(map(str, files))
    buckets = BucketFiles([file for file in files.values() if file is not None])
    for batch in BucketsWithSame(buckets, same_buckets(ranked)):
        ranked.state[batch.members] |= CANDIDATE
    return buckets
