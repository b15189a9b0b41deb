"""Write to disk what is compared of each candidate: its shingles, or its signature.

Shingles are made again from the inputs, for candidates only: storing those of all documents would
take about as much disk as the texts. A document that has changed since it was sketched is detected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup.corpus.read import Chunk, parse_rows
from neardup.corpus.streams import changed_error
from neardup.formats.blocks import BlockReader
from neardup.pipeline.backends.backend import Advance
from neardup.pipeline.budget import Budget
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
from neardup.sketcher import Sketcher, append_vectors, pack_vectors
from neardup.text.arrays import Ragged

STORED_AT_ONCE = 512
"""Documents whose shingles are read from an index at a time."""


@dataclass(frozen=True)
class ShardCandidates:
    """The candidates of a shard, whose sets are to be written.

    number  of the shard
    chosen  the candidates' places in it, in ascending order
    key     of the file
    """

    number: int
    chosen: Integers
    key: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return str(self.number)


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


@dataclass(frozen=True)
class ShingleCandidates:
    """Reads candidates again, and writes their sorted shingles, a file for each shard."""

    sketches: Sketches
    sketcher: Sketcher
    stage: StageFiles
    budget: Budget

    def __call__(
        self, items: Iterable[ShardCandidates], threads: int, advance: Advance
    ) -> Iterator[int]:
        writer: SetWriter | None = None
        try:
            for (candidates, chunk), rows in map_in_order(
                self._read_chunks(items), self._shingle, self.budget.threads(threads)
            ):
                if writer is None:
                    writer = SetWriter(self.stage.path(candidates.name), candidates.key)
                if chunk is None or rows is None:
                    self.sketches.shards[candidates.number].check()
                    writer.close()
                    writer = None
                    yield candidates.number
                    continue
                writer.add(chunk.places, rows)
                advance(len(chunk.places))
        finally:
            if writer is not None:
                writer.abandon()

    def _read_chunks(
        self, items: Iterable[ShardCandidates]
    ) -> Iterator[tuple[ShardCandidates, CandidateChunk | None]]:
        """Yield the chunks that contain candidates, and None after the last chunk of each shard."""
        for candidates in items:
            if len(candidates.chosen):
                for chunk in self._find_chunks(candidates.number, candidates.chosen):
                    yield candidates, chunk
            yield candidates, None

    def _find_chunks(self, number: int, chosen: Integers) -> Iterator[CandidateChunk]:
        shard, origin = self.sketches.shards[number], int(self.sketches.starts[number])
        chunks = shard.chunks()
        for block in self.sketches.blocks_of(number):
            start, content = block.start - origin, block.column("content")
            for count in block.chunks:
                chunk = next(chunks, None)
                if chunk is None:
                    raise changed_error(shard.files[-1])
                begin, end = np.searchsorted(chosen, [start, start + count])
                places = chosen[begin:end]
                if len(places):
                    in_block = places - (block.start - origin)
                    yield CandidateChunk(chunk, count, places - start, places, content[:, in_block])
                start += count

    def _shingle(self, item: tuple[ShardCandidates, CandidateChunk | None]) -> Ragged | None:
        """Return what is compared of a chunk's candidates; an error if one has changed.

        That is their sorted sets or bags, and their vectors.
        """
        candidates, wanted = item
        if wanted is None:
            return None
        columns = self.sketches.shards[candidates.number].reading.columns
        documents = parse_rows(wanted.chunk, columns, wanted.rows, wanted.size)
        cut = self.sketcher.cut(documents)
        different = (wanted.content != cut.content.T).any(axis=0)
        if different.any():
            files = wanted.chunk.files
            raise changed_error(files[wanted.rows[different][0]] if len(files) > 1 else files[0])
        spec = self.sketcher.spec
        if spec.of_vectors:
            return cut.shingles
        rows = sort_bags(cut.shingles) if spec.of_bags else sort_sets(cut.shingles)
        vectors = documents.vectors
        return rows if vectors is None else append_vectors(rows, pack_vectors(vectors))


@dataclass(frozen=True)
class CopySignatures:
    """Writes the signatures of candidates, a file for each shard."""

    sketches: Sketches
    stage: StageFiles

    def __call__(
        self, items: Iterable[ShardCandidates], threads: int, advance: Advance
    ) -> Iterator[int]:
        for candidates, _ in map_in_order(items, self._write, threads):
            advance(len(candidates.chosen))
            yield candidates.number

    def _write(self, candidates: ShardCandidates) -> None:
        writer = SetWriter(self.stage.path(candidates.name), candidates.key)
        chosen, origin = candidates.chosen, int(self.sketches.starts[candidates.number])
        for block in self.sketches.blocks_of(candidates.number):
            begin, end = np.searchsorted(chosen, [block.start - origin, block.end - origin])
            if begin < end:
                places = chosen[begin:end]
                writer.add(places, gather_signatures(block, places - (block.start - origin)))
        writer.close()


def gather_signatures(block: SketchBlock, chosen: Integers) -> Ragged:
    """Return the signatures of chosen documents of a block, one row each."""
    slots = np.ascontiguousarray(read_compared(block.file, block.number)[:, chosen].T)
    return Ragged(slots.reshape(-1), np.arange(len(slots) + 1, dtype=np.int64) * slots.shape[1])


class CandidateMatcher:
    """Has the sets of candidates written, a file for each shard."""

    def __init__(self, job: Job, folder: Path, ranked: RankedDocuments, progress: Progress) -> None:
        self._job, self._ranked, self._progress = job, ranked, progress
        self._stage = StageFiles(folder / "sets", SETS_KIND)
        self._exact = job.options.verify == "exact"
        # With --merge-rows, texts belong to rows, but signatures to documents.
        self._source = ranked.rows if self._exact else ranked.sketches

    def run(self) -> CandidateSets | MergedSets:
        """Write the files that are missing, and return a reader of all sets."""
        sketches, exact = self._source, self._exact
        candidates = int(np.count_nonzero(self._ranked.state & CANDIDATE))
        self._progress.stage("shingling", candidates, "candidates")
        files: dict[int, BlockReader] = {}
        missing: list[ShardCandidates] = []
        for number in range(len(sketches.files)):
            wanted = self._find_candidates(number)
            file = self._stage.find(wanted.name, wanted.key)
            if file is None:
                missing.append(wanted)
            else:
                files[number] = file
                self._progress.advance(len(wanted.chosen))
        for number in self._write(missing):
            files[number] = self._stage.open(str(number))
        self._stage.remove_others(map(str, files))
        sets = CandidateSets(
            [files[number] for number in range(len(sketches.files))],
            sketches.starts,
            np.uint64 if exact else packed_shape(self._job.options.spec)[1],
            self._job.workers,
        )
        parts = self._ranked.parts
        return MergedSets(sets, parts) if exact and parts is not None else sets

    def _find_candidates(self, number: int) -> ShardCandidates:
        """Return the candidates of a shard."""
        documents = np.arange(*self._source.starts[number : number + 2].tolist())
        if self._exact and self._ranked.parts is not None:
            documents = self._ranked.parts.document[documents].astype(np.int64)
        wanted = self._ranked.state[self._ranked.ranking.of(documents)] & CANDIDATE
        for block in self._source.blocks_of(number):
            start = block.start - int(self._source.starts[number])
            wanted[start : start + block.rows][~block.usable()] = 0
        chosen = np.flatnonzero(wanted)
        keys = self._ranked.keys
        basis = keys[number] if self._source is self._ranked.rows else keys
        key = digest(basis, self._exact, xxhash.xxh3_64_hexdigest(chosen.data))
        return ShardCandidates(number, chosen, key)

    def _write(self, missing: list[ShardCandidates]) -> Iterator[int]:
        """Have files written; yield the number of each shard when it is complete."""
        job, sketches, stage = self._job, self._source, self._stage
        advance = self._progress.advance
        if not self._exact:
            copy = CopySignatures(sketches, stage)
            yield from job.backend.run(copy, missing, job.workers, advance)
            return
        texts = []
        for candidates in missing:
            shard = sketches.shards[candidates.number]
            if isinstance(shard, StoredShard):  # open in this process alone
                self._copy_stored(candidates, shard)
                yield candidates.number
            else:
                texts.append(candidates)
        work = ShingleCandidates(sketches, job.sketcher, stage, job.budget)
        yield from job.backend.run(work, texts, job.workers, advance)

    def _copy_stored(self, candidates: ShardCandidates, shard: StoredShard) -> None:
        """Write the shingles that a store has of candidates."""
        writer = SetWriter(self._stage.path(candidates.name), candidates.key)
        try:
            for start in range(0, len(candidates.chosen), STORED_AT_ONCE):
                places = candidates.chosen[start : start + STORED_AT_ONCE]
                writer.add(places, shard.shingles(places))
                self._progress.advance(len(places))
            writer.close()
        finally:
            writer.abandon()
