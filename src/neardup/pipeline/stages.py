"""The stages of a run, each from files to files: sketch, band, match, decide.

Every file is made from others by a function of its own, and used again if it is still valid when
a run goes on. What a stage leaves in memory is small: a byte or two for each document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup.corpus.read import Chunk
from neardup.corpus.shards import Shard
from neardup.errors import RowError
from neardup.formats.blocks import BlockReader
from neardup.formatting import format_bytes
from neardup.pipeline import banding, candidates
from neardup.pipeline.banding import Banding, BucketFiles
from neardup.pipeline.candidates import (
    Sets,
    SetWriter,
    Wanted,
    shingle_again,
    signature_rows,
    wanted_of,
)
from neardup.pipeline.collapse import collapse
from neardup.pipeline.comparing import Comparing
from neardup.pipeline.components import connected
from neardup.pipeline.job import Job
from neardup.pipeline.making import Making, read_and_make, sketches_of
from neardup.pipeline.parts import MergedSets, Parts
from neardup.pipeline.ranks import Ranking, ranked
from neardup.pipeline.rounds import KIND as KIND_OF_PAIRS
from neardup.pipeline.rounds import VERIFIED, Rounds, Tally
from neardup.pipeline.sketches import KIND, Piece, Sketches, SketchWriter
from neardup.pipeline.sorting import Records, Sorter
from neardup.pipeline.work import Stage, digest, shard_key
from neardup.runtime import Progress, map_in_order
from neardup.sketch.bulk import compared_shape
from neardup.text.arrays import Ragged

CANDIDATE = np.uint8(2)
SHARDS, SKETCHES = "shards", "sketches"


@dataclass
class Ranked:
    """The sketched documents, ranked, copies set aside.

    rows   the rows that documents are made of; without `parts`, each is one
    state  a byte for each rank: 0 takes no part, bit 0 kept, bit 1 in a bucket with others
    """

    sketches: Sketches
    rows: Sketches
    parts: Parts | None
    keys: list[str]
    classes: list[int]
    ranking: Ranking
    state: NDArray[np.uint8]
    copies: Sorter
    identical: int

    @property
    def basis(self) -> list[Any]:
        """What the documents and their classes depend on."""
        return [self.keys, self.classes, self.parts is not None]


# -- sketch -------------------------------------------------------------------------------------


class Sketching:
    """Reads and sketches what is not sketched yet, shard by shard."""

    def __init__(
        self, job: Job, folder: Path, progress: Progress, making: Making | None = None
    ) -> None:
        self._job, self._progress = job, progress
        self._given = making
        self._making = making or sketches_of(job)
        self._stage = Stage(folder / SHARDS, KIND, job.out / SKETCHES)
        self._files: dict[str, BlockReader] = {}
        self._shards: list[Shard] = []
        self.keys: list[str] = []

    @property
    def files(self) -> list[BlockReader]:
        """The sketches of all shards."""
        return [self._files[key] for key in self.keys]

    def run(self, job: Job, shards: list[Shard]) -> None:
        """Sketch these shards; called again, it goes on."""
        self._job, self._shards = job, shards
        self._making = self._given or sketches_of(job)
        self.keys = [shard_key(shard, self._making.basis) for shard in shards]
        total = sum(shard.stored for shard in shards)
        self._progress.stage("reading", total, "bytes")
        for key in self.keys:
            if key not in self._files and (file := self._stage.find(key, key)):
                self._files[key] = file
        self._stage.only(self._files)
        missing = [place for place, key in enumerate(self.keys) if key not in self._files]
        if self._files:
            done = total - sum(shards[place].stored for place in missing)
            self._progress.say(
                f"going on: {format_bytes(done)} of {format_bytes(total)} are read already"
            )
            self._progress.advance(done)
        self._sketch(missing)

    def _sketch(self, missing: list[int]) -> None:
        making = self._making

        def do(item: tuple[int, Chunk | None]) -> Piece | None:
            place, chunk = item
            return None if chunk is None else read_and_make(chunk, self._shards[place], making)

        writer: SketchWriter | None = None
        try:
            for (place, chunk), piece in map_in_order(
                self._chunks(missing), do, self._job.budget.threads(self._job.workers)
            ):
                if writer is None:
                    writer = self._writer(place)
                if piece is None or chunk is None:
                    self._finish(place, writer)
                    writer = None
                    continue
                if self._job.strict and piece.rejected:
                    self._refuse(place, piece, writer)
                writer.add(piece)
                self._progress.advance(chunk.stored)
        finally:
            if writer is not None:
                writer.abandon()

    def _chunks(self, missing: list[int]) -> Iterator[tuple[int, Chunk | None]]:
        """The chunks of the missing shards; None after the last of each."""
        for place in missing:
            for chunk in self._shards[place].chunks():
                yield place, chunk
            yield place, None

    def _writer(self, place: int) -> SketchWriter:
        key = self.keys[place]
        return SketchWriter(self._stage.path(key), self._making.spec, key, self._shards[place])

    def _finish(self, place: int, writer: SketchWriter) -> None:
        self._shards[place].check()
        writer.close()
        self._files[self.keys[place]] = self._stage.open(self.keys[place])

    def _refuse(self, place: int, piece: Piece, writer: SketchWriter) -> None:
        """Stop at the first document that can't be used."""
        row, reason = min(piece.rejected.items())
        file = piece.files[0] if len(piece.files) == 1 else piece.files[row]
        row = row if len(piece.files) == 1 else 0
        for before, shard in enumerate(self._shards[:place]):
            if file in shard.files:
                row += self._files[self.keys[before]].note["rows"][shard.files.index(file)]
        raise RowError(
            f"{file.name}, row {row + writer.rows_of(file)}: {reason}. "
            "Mend it, or run without --strict to set such rows aside"
        )


# -- rank, collapse -----------------------------------------------------------------------------


def rank(
    job: Job,
    folder: Path,
    sketches: Sketches,
    rows: Sketches,
    parts: Parts | None,
    keys: list[str],
    classes: list[int],
    progress: Progress,
) -> Ranked:
    """Rank the documents; identical ones collapse. See `ranked` for the classes."""
    progress.stage("ranking", len(sketches), "documents")
    ranking = ranked(sketches, job.options, classes)
    state = np.zeros(len(sketches), np.uint8)
    copies = Sorter(folder / "copies", job.budget.share(4))
    identical = collapse(sketches, ranking, state, copies, job.budget)
    progress.advance(len(sketches))
    return Ranked(sketches, rows, parts, keys, classes, ranking, state, copies, identical)


# -- band ---------------------------------------------------------------------------------------


def band(job: Job, folder: Path, ranked: Ranked, progress: Progress) -> BucketFiles:
    """The buckets of each band; documents in them are marked as candidates."""
    stage, tables = Stage(folder / "buckets", banding.KIND), job.options.tables
    key = digest(ranked.basis, job.options.keep, tables.stated)
    progress.stage("banding", tables.count, "bands")
    # Fewer threads rather than slices: each slice reads the band again.
    fits = job.budget.share() // max(len(ranked.sketches) * banding.BYTES_EACH * 2, 1)
    workers = max(min(job.workers, tables.count, fits), 1)
    make = Banding(
        ranked.sketches,
        ranked.ranking,
        ranked.state,
        tables,
        lambda number: stage.path(str(number)),
        key,
        job.budget,
        workers,
    )
    files = []
    for _, file in map_in_order(
        range(tables.count), lambda number: stage.find(str(number), key) or make(number), workers
    ):
        files.append(file)
        progress.advance(1)
    stage.only(str(number) for number in range(tables.count))
    buckets = BucketFiles(files)
    for some in buckets:
        ranked.state[some.members] |= CANDIDATE
    return buckets


# -- match --------------------------------------------------------------------------------------


class Matching:
    """The sets of candidates, made again from the input, shard by shard."""

    def __init__(self, job: Job, folder: Path, ranked: Ranked, progress: Progress) -> None:
        self._job, self._ranked, self._progress = job, ranked, progress
        self._stage = Stage(folder / "sets", candidates.KIND)
        self._exact = job.options.verify == "exact"
        # Texts are in rows, sketches of documents.
        self._source = ranked.rows if self._exact else ranked.sketches
        self._names = [str(place) for place in range(len(self._source.files))]

    def run(self) -> Sets | MergedSets:
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
        sets = Sets(
            [files[place] for place in range(len(sketches.files))],
            sketches.starts,
            np.uint64 if exact else compared_shape(self._job.options.spec)[1],
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

        def wanted() -> Iterator[tuple[int, str, Wanted | None]]:
            for place, chosen, key in missing:
                if len(chosen):
                    for some in wanted_of(sketches, place, chosen):
                        yield place, key, some
                yield place, key, None

        def do(item: tuple[int, str, Wanted | None]) -> Ragged | None:
            place, _, some = item
            if some is None:
                return None
            return shingle_again(some, sketches.shards[place], sketcher)

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
                    writer.add(here, signature_rows(block, here - (block.start - origin)))
                    self._progress.advance(len(here))
            writer.close()
            yield place


# -- decide -------------------------------------------------------------------------------------


def comparing(job: Job, sets: Sets | MergedSets, ranked: Ranked) -> Comparing:
    """Compares candidates by their sets."""
    return Comparing(
        sets, ranked.ranking, job.options, job.budget, job.workers, job.frequencies.weights
    )


@dataclass(frozen=True)
class Decided:
    """The pairs of witness and removed document, in rank order of the latter; and how it went."""

    pairs: Iterator[Records]
    tally: Tally
    roots: NDArray[np.uint32] | None = None
    """Of connected components: the best-ranked document that each is connected with."""


def decide(
    job: Job,
    folder: Path,
    ranked: Ranked,
    buckets: BucketFiles,
    compare: Comparing,
    progress: Progress,
) -> Decided:
    """Who stays: by stars, or by connected components."""
    progress.stage("deciding", job.options.limit.bit_length() + 1, "rounds")
    options = job.options
    key = digest(
        ranked.basis,
        options.keep,
        options.tables.stated,
        options.threshold,
        options.verify,
        options.measure,
        options.cluster,
        options.limit,
    )
    new = ranked.sketches.first_new
    stage = Stage(folder / "pairs", KIND_OF_PAIRS)
    stage.only([VERIFIED] if stage.find(VERIFIED, key) else [])
    if options.cluster == "components":
        return Decided(*connected(buckets, ranked.state, new, compare, stage.folder, job.budget))
    rounds = Rounds(
        buckets,
        ranked.state,
        options.limit,
        compare,
        stage.folder,
        key,
        job.budget,
        progress.advance,
        new,
    )
    return Decided(rounds.run(), rounds.tally)
