"""Collect what is compared of each candidate: its shingles, or its signature.

Shingles are made again from the input, for candidates alone: storage those of all documents would
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
from neardup.pipeline.sketch_files import (
    SketchBlock,
    Sketches,
    read_compared,
)
from neardup.pipeline.stage_files import StageFiles, digest
from neardup.pipeline.stages.band import (
    CANDIDATE,
)
from neardup.pipeline.stages.rank import (
    RankedDocuments,
)
from neardup.runtime import Progress, map_in_order
from neardup.sketch.bulk import packed_shape
from neardup.sketcher import Sketcher
from neardup.text.arrays import Ragged


@dataclass(frozen=True)
class CandidateChunk:
    """The candidates of a chunk: their rows in it, and in the shard; their content hashes."""

    chunk: Chunk
    size: int
    rows: Integers
    places: Integers
    content: NDArray[np.uint64]


def shingle_candidates(wanted: CandidateChunk, shard: Shard, sketcher: Sketcher) -> Ragged:
    """The sorted sets, or bags, of a chunk's candidates."""
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
    """The chunks of a shard that hold any of the chosen documents (places in it, ascending)."""
    chunks = sketches.shards[shard].chunks()
    origin = int(sketches.starts[shard])
    for block in sketches.blocks_of(shard):
        start = block.start - origin
        content = block.column("content") if len(chosen) else None
        for count in block.chunks:
            chunk = next(chunks, None)
            if chunk is None:
                raise changed_error(sketches.shards[shard].files[-1])
            here = chosen[np.searchsorted(chosen, start) : np.searchsorted(chosen, start + count)]
            if len(here) and content is not None:
                in_block = here - (block.start - origin)
                yield CandidateChunk(chunk, count, here - start, here, content[:, in_block])
            start += count


def gather_signatures(block: SketchBlock, chosen: Integers) -> Ragged:
    """The signatures of some documents of a block, one row each."""
    slots = np.ascontiguousarray(read_compared(block.file, block.number)[:, chosen].T)
    return Ragged(slots.reshape(-1), np.arange(len(slots) + 1, dtype=np.int64) * slots.shape[1])


# -- match --------------------------------------------------------------------------------------


class CandidateMatcher:
    """The sets of candidates, made again from the input, shard by shard."""

    def __init__(self, job: Job, folder: Path, ranked: RankedDocuments, progress: Progress) -> None:
        self._job, self._ranked, self._progress = job, ranked, progress
        self._stage = StageFiles(folder / "sets", SETS_KIND)
        self._exact = job.options.verify == "exact"
        # Texts are in rows, sketches of documents.
        self._source = ranked.rows if self._exact else ranked.sketches
        self._names = [str(place) for place in range(len(self._source.files))]

    def run(self) -> CandidateSets | MergedSets:
        sketches, exact = self._source, self._exact
        amount = int(np.count_nonzero(self._ranked.state & CANDIDATE))
        self._progress.stage("shingling", amount, "candidates")
        files: dict[int, BlockReader] = {}
        missing: list[tuple[int, NDArray[np.int64], str]] = []
        for place in range(len(sketches.files)):
            chosen = self._candidates(place)
            keys = self._ranked.keys
            depends = keys[place] if sketches is self._ranked.rows else keys
            key = digest(depends, exact, xxhash.xxh3_64_hexdigest(chosen.data))
            file = self._stage.find(self._names[place], key)
            if file is None:
                missing.append((place, chosen, key))
            else:
                files[place] = file
                self._progress.advance(len(chosen))
        for place in self._from_texts(missing) if exact else self._from_sketches(missing):
            files[place] = self._stage.open(self._names[place])
        self._stage.only(self._names)
        sets = CandidateSets(
            [files[place] for place in range(len(sketches.files))],
            sketches.starts,
            np.uint64 if exact else packed_shape(self._job.options.spec)[1],
            self._job.workers,
        )
        parts = self._ranked.parts
        return MergedSets(sets, parts) if exact and parts is not None else sets

    def _candidates(self, place: int) -> NDArray[np.int64]:
        """The candidates of a shard, as places in it."""
        here = np.arange(*self._source.starts[place : place + 2].tolist())
        if self._exact and self._ranked.parts is not None:
            here = self._ranked.parts.document[here].astype(np.int64)
        wanted = self._ranked.state[self._ranked.ranking.of(here)] & CANDIDATE
        for block in self._source.blocks_of(place):
            start = block.start - int(self._source.starts[place])
            wanted[start : start + block.rows][~block.usable()] = 0
        return np.flatnonzero(wanted)

    def _from_texts(self, missing: list[tuple[int, NDArray[np.int64], str]]) -> Iterator[int]:
        job, sketches = self._job, self._source
        sketcher = job.sketcher

        def wanted() -> Iterator[tuple[int, str, CandidateChunk | None]]:
            for place, chosen, key in missing:
                if len(chosen):
                    for some in find_candidate_chunks(sketches, place, chosen):
                        yield place, key, some
                yield place, key, None

        def do(item: tuple[int, str, CandidateChunk | None]) -> Ragged | None:
            place, _, some = item
            if some is None:
                return None
            return shingle_candidates(some, sketches.shards[place], sketcher)

        writer: SetWriter | None = None
        try:
            for (place, key, some), rows in map_in_order(
                wanted(), do, job.budget.threads(job.workers)
            ):
                if writer is None:
                    writer = SetWriter(self._stage.path(self._names[place]), key)
                if some is None or rows is None:
                    sketches.shards[place].check()
                    writer.close()
                    writer = None
                    yield place
                    continue
                writer.add(some.places, rows)
                self._progress.advance(len(some.places))
        finally:
            if writer is not None:
                writer.abandon()

    def _from_sketches(self, missing: list[tuple[int, NDArray[np.int64], str]]) -> Iterator[int]:
        sketches = self._source
        for place, chosen, key in missing:
            writer = SetWriter(self._stage.path(self._names[place]), key)
            origin = int(sketches.starts[place])
            for block in sketches.blocks_of(place):
                begin, end = np.searchsorted(chosen, [block.start - origin, block.end - origin])
                if begin < end:
                    here = chosen[begin:end]
                    writer.add(here, gather_signatures(block, here - (block.start - origin)))
                    self._progress.advance(len(here))
            writer.close()
            yield place
