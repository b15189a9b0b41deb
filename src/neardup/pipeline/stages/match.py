"""Write to disk what is compared of each candidate: its shingles, or its signature.

Shingles are made again from the inputs, for candidates only: storing those of all documents would
take about as much disk as the texts. A document that has changed since it was sketched is detected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup.corpus.read import Chunk, parse_rows
from neardup.corpus.shards import Shard
from neardup.corpus.streams import changed_error
from neardup.formats.blocks import BlockReader
from neardup.pipeline.job import Job
from neardup.pipeline.merge_rows import MergedSets
from neardup.pipeline.set_files import (
    SETS_KIND,
    CandidateSets,
    Integers,
    SetWriter,
    sort_bags,
    sort_sets,
)
from neardup.pipeline.sketch_files import SketchBlock, Sketches, read_compared
from neardup.pipeline.stage_files import StageFiles, digest
from neardup.pipeline.stages.band import CANDIDATE
from neardup.pipeline.stages.rank import RankedDocuments
from neardup.pipeline.stored_shards import StoredShard
from neardup.runtime import Progress, map_in_order
from neardup.sketch.bulk import packed_shape
from neardup.sketcher import Sketcher
from neardup.text.arrays import Ragged

STORED_AT_ONCE = 512
"""Documents whose shingles are read from an index at a time."""


@dataclass(frozen=True)
class CandidateChunk:
    """The candidates of a chunk.

    size     the number of documents of the chunk
    rows     the candidates' rows in the chunk
    places   the same in the shard
    content  both halves of their content hashes
    """

    chunk: Chunk
    size: int
    rows: Integers
    places: Integers
    content: NDArray[np.uint64]


def shingle_candidates(wanted: CandidateChunk, shard: Shard, sketcher: Sketcher) -> Ragged:
    """Return the sorted sets, or bags, of a chunk's candidates; an error if one has changed."""
    documents = parse_rows(wanted.chunk, shard.reading.columns, wanted.rows, wanted.size)
    cut = sketcher.cut(documents)
    different = (wanted.content != cut.content.T).any(axis=0)
    if different.any():
        files = wanted.chunk.files
        raise changed_error(files[wanted.rows[different][0]] if len(files) > 1 else files[0])
    return sort_bags(cut.shingles) if sketcher.spec.of_bags else sort_sets(cut.shingles)


def find_candidate_chunks(
    sketches: Sketches, shard: int, chosen: Integers
) -> Iterator[CandidateChunk]:
    """Yield the chunks of a shard that contain chosen documents.

    `chosen` are places in the shard, in ascending order.
    """
    chunks = sketches.shards[shard].chunks()
    origin = int(sketches.starts[shard])
    for block in sketches.blocks_of(shard):
        start = block.start - origin
        content = block.column("content") if len(chosen) else None
        for count in block.chunks:
            chunk = next(chunks, None)
            if chunk is None:
                raise changed_error(sketches.shards[shard].files[-1])
            begin, end = np.searchsorted(chosen, [start, start + count])
            places = chosen[begin:end]
            if len(places) and content is not None:
                in_block = places - (block.start - origin)
                yield CandidateChunk(chunk, count, places - start, places, content[:, in_block])
            start += count


def gather_signatures(block: SketchBlock, chosen: Integers) -> Ragged:
    """Return the signatures of chosen documents of a block, one row each."""
    slots = np.ascontiguousarray(read_compared(block.file, block.number)[:, chosen].T)
    return Ragged(slots.reshape(-1), np.arange(len(slots) + 1, dtype=np.int64) * slots.shape[1])


class CandidateMatcher:
    """Writes the sets of candidates, a file for each shard."""

    def __init__(self, job: Job, folder: Path, ranked: RankedDocuments, progress: Progress) -> None:
        self._job, self._ranked, self._progress = job, ranked, progress
        self._stage = StageFiles(folder / "sets", SETS_KIND)
        self._exact = job.options.verify == "exact"
        # With --merge-rows, texts belong to rows, but signatures to documents.
        self._source = ranked.rows if self._exact else ranked.sketches
        self._names = [str(place) for place in range(len(self._source.files))]

    def run(self) -> CandidateSets | MergedSets:
        """Write the files that are missing, and return a reader of all sets."""
        sketches, exact = self._source, self._exact
        candidates = int(np.count_nonzero(self._ranked.state & CANDIDATE))
        self._progress.stage("shingling", candidates, "candidates")
        files: dict[int, BlockReader] = {}
        missing: list[tuple[int, NDArray[np.int64], str]] = []
        for place in range(len(sketches.files)):
            chosen = self._candidates(place)
            keys = self._ranked.keys
            basis = keys[place] if sketches is self._ranked.rows else keys
            key = digest(basis, exact, xxhash.xxh3_64_hexdigest(chosen.data))
            file = self._stage.find(self._names[place], key)
            if file is None:
                missing.append((place, chosen, key))
            else:
                files[place] = file
                self._progress.advance(len(chosen))
        for place in self._from_shingles(missing) if exact else self._from_sketches(missing):
            files[place] = self._stage.open(self._names[place])
        self._stage.remove_others(self._names)
        sets = CandidateSets(
            [files[place] for place in range(len(sketches.files))],
            sketches.starts,
            np.uint64 if exact else packed_shape(self._job.options.spec)[1],
            self._job.workers,
        )
        parts = self._ranked.parts
        return MergedSets(sets, parts) if exact and parts is not None else sets

    def _candidates(self, place: int) -> NDArray[np.int64]:
        """Return the candidates of shard number `place`, as places in it."""
        documents = np.arange(*self._source.starts[place : place + 2].tolist())
        if self._exact and self._ranked.parts is not None:
            documents = self._ranked.parts.document[documents].astype(np.int64)
        wanted = self._ranked.state[self._ranked.ranking.of(documents)] & CANDIDATE
        for block in self._source.blocks_of(place):
            start = block.start - int(self._source.starts[place])
            wanted[start : start + block.rows][~block.usable()] = 0
        return np.flatnonzero(wanted)

    def _from_shingles(self, missing: list[tuple[int, NDArray[np.int64], str]]) -> Iterator[int]:
        """Write shingles; yield the number of each shard when it is complete."""
        texts = []
        for place, chosen, key in missing:
            shard = self._source.shards[place]
            if not isinstance(shard, StoredShard):
                texts.append((place, chosen, key))
                continue
            writer = SetWriter(self._stage.path(self._names[place]), key)
            try:
                for start in range(0, len(chosen), STORED_AT_ONCE):
                    some = chosen[start : start + STORED_AT_ONCE]
                    writer.add(some, shard.shingles(some))
                    self._progress.advance(len(some))
                writer.close()
            finally:
                writer.abandon()
            yield place
        yield from self._from_texts(texts)

    def _from_texts(self, missing: list[tuple[int, NDArray[np.int64], str]]) -> Iterator[int]:
        """Write shingles, made of the texts; yield the number of each shard when it is complete."""
        job, sketches = self._job, self._source
        sketcher = job.sketcher

        def read_chunks() -> Iterator[tuple[int, str, CandidateChunk | None]]:
            for place, chosen, key in missing:
                if len(chosen):
                    for candidates in find_candidate_chunks(sketches, place, chosen):
                        yield place, key, candidates
                yield place, key, None

        def shingle(item: tuple[int, str, CandidateChunk | None]) -> Ragged | None:
            place, _, candidates = item
            if candidates is None:
                return None
            return shingle_candidates(candidates, sketches.shards[place], sketcher)

        writer: SetWriter | None = None
        try:
            for (place, key, candidates), rows in map_in_order(
                read_chunks(), shingle, job.budget.threads(job.workers)
            ):
                if writer is None:
                    writer = SetWriter(self._stage.path(self._names[place]), key)
                if candidates is None or rows is None:
                    sketches.shards[place].check()
                    writer.close()
                    writer = None
                    yield place
                    continue
                writer.add(candidates.places, rows)
                self._progress.advance(len(candidates.places))
        finally:
            if writer is not None:
                writer.abandon()

    def _from_sketches(self, missing: list[tuple[int, NDArray[np.int64], str]]) -> Iterator[int]:
        """Write signatures; yield the number of each shard when it is complete."""
        sketches = self._source
        for place, chosen, key in missing:
            writer = SetWriter(self._stage.path(self._names[place]), key)
            origin = int(sketches.starts[place])
            for block in sketches.blocks_of(place):
                begin, end = np.searchsorted(chosen, [block.start - origin, block.end - origin])
                if begin < end:
                    places = chosen[begin:end]
                    writer.add(places, gather_signatures(block, places - (block.start - origin)))
                    self._progress.advance(len(places))
            writer.close()
            yield place
