"""Add the documents of files to an index, and write what is new of them as a run does.

The answers of the index are the decisions. A document that the index had before is a copy of
itself, unless it is of a run that was stopped (`additions.py`): then it is written by the decision
that the index has stored. So a run that was stopped, at any time, is right when it is run again.
"""

from __future__ import annotations

import secrets
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.column_check import check_columns
from neardup.corpus.columns import to_strings
from neardup.corpus.documents import Documents, make_strings
from neardup.corpus.read import Chunk, parse_chunk
from neardup.corpus.shards import Shard, cut_shards
from neardup.errors import UsageError
from neardup.first_look import MOST, FirstDocuments
from neardup.formats.blocks import BlockReader
from neardup.formatting import format_count
from neardup.index.additions import RUN_FIELD, Additions, Ranges, contains, file_token
from neardup.index.answer import REJECTED, Answer, SignalAnswer
from neardup.index.load import BAD_ID, TOGETHER, refuse_rejected
from neardup.index.open_index import OpenIndex
from neardup.index.stats import BucketSizes
from neardup.index.stored_corpus import IndexCorpus
from neardup.index.validation import is_valid_id
from neardup.index.view import View
from neardup.pipeline import record
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.job import Job
from neardup.pipeline.output import sync_output
from neardup.pipeline.run_inputs import describe_indexes
from neardup.pipeline.saved import write_lists
from neardup.pipeline.sketch_files import (
    SKETCHES_KIND,
    SketchedChunk,
    Sketches,
    SketchWriter,
)
from neardup.pipeline.stages.decide import RoundTally
from neardup.pipeline.stages.removed import RemovedDocuments
from neardup.pipeline.stages.tables import write_kept_files, write_tables
from neardup.pipeline.stored_shards import StoredShard
from neardup.pipeline.vector_inputs import place_vectors
from neardup.runtime import Progress, map_in_order
from neardup.sketcher import raw_lengths

UNDER_WAY: Final = 4
"""Chunks, and batches of them, that may wait for a commit while the next ones are sketched."""
FOLDER, WITNESSES = "answers", "witnesses"
EXACT, IDENTICAL = 1, 2
"""Bits of the column `flags`."""

Integers = NDArray[np.int64]


@dataclass
class ChunkAnswers:
    """The answers to a chunk of documents, when they come.

    places   the rows of those that were submitted
    rejected row -> reason, of the others
    """

    chunk: Chunk
    documents: Documents
    ids: list[str]
    places: list[int]
    rejected: dict[int, str]
    futures: list[Future[list[Answer]]]


class StoredCopy(NamedTuple):
    """The number of a stored document, and whether an earlier one has the same content."""

    number: int
    identical: bool


@dataclass
class ChunkDecisions:
    """The decisions about the rows of a chunk, as columns.

    number    of a kept document in the index; 0 for others
    witness   of a removed one, its number in the index; 0 for others
    cosine    of its vector and that of the witness; NaN where it is not known
    """

    number: Integers
    witness: Integers
    similarity: NDArray[np.float64]
    cosine: NDArray[np.float64]
    flags: NDArray[np.uint8]

    @classmethod
    def empty(cls, rows: int) -> ChunkDecisions:
        return cls(
            np.zeros(rows, np.int64),
            np.zeros(rows, np.int64),
            np.zeros(rows),
            np.full(rows, np.nan),
            np.zeros(rows, np.uint8),
        )

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        return {
            "number": self.number,
            "witness": self.witness,
            "similarity": self.similarity,
            "cosine": self.cosine,
            "flags": self.flags,
        }


@dataclass
class Adopted:
    """The documents that the index had before this run and that this run writes.

    own      ranges of those that may be adopted
    earlier  ranges of those that were written to the same path before
    first    the first number of the documents that this run adds itself
    numbers  those that are adopted
    refused  those of `earlier` that are in the inputs and not adopted
    left     the last document that is in the inputs and was not adopted; None if there is none
    """

    own: Ranges
    earlier: Ranges
    first: int
    numbers: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    left: int | None = None

    def adopt(self, number: int) -> bool:
        """Return whether a document is written here though the index had it; once for each."""
        if number >= self.first or number in self.numbers or not contains(self.own, number):
            self.left = number
            return False
        self.numbers.add(number)
        return True

    def refuse(self, number: int) -> None:
        """Count a kept document that is removed here as a copy of itself."""
        if number not in self.numbers and contains(self.earlier, number):
            self.refused.add(number)


def add_increment(
    opened: OpenIndex, job: Job, folder: Path, progress: Progress
) -> record.FinishedRun:
    """Add the documents of a job's inputs to an index, and write all of OUT to `folder`.

    `job.options` are those of the index.
    """
    generation = opened.generation
    generation.require_writer()
    _check_output(opened.path, job)
    additions = Additions.of(opened.path)
    additions.confirm()  # of a run before in this process
    adopted = Adopted(
        additions.own(job.out, job.force),
        additions.written_to(job.out),
        generation.store.last_number() + 1,
    )
    additions.begin(adopted.first)
    token = secrets.token_hex(16)
    try:
        finished = _write_increment(opened, job, folder, adopted, token, progress)
        if job.kept_file is not None:
            token = file_token(folder / "kept" / job.kept_file.name)
        sync_output(folder)  # or a power failure may lose rows that the index calls written
    except BaseException:
        # After what is queued: it is of this run, too.
        additions.stop(generation.between_commits(generation.store.last_number))
        raise
    rows = adopted.numbers if job.kept else None
    additions.finish(job.out, token, generation.store.last_number(), rows)
    if adopted.refused:
        progress.say(
            f"{format_count(len(adopted.refused), 'document')} of the inputs had been written to "
            f"{job.out} before, and not again: if these rows are lost, use --force"
        )
    return finished


def confirm_increment(index: Path, progress: Progress) -> None:
    """After a run: note whether its output is in place, and say if documents are in no output.

    Args:
        index: The folder of the index.
        progress: Receives the message.
    """
    if left := Additions.of(index).confirm():
        progress.say(
            f"no output has {format_count(left, 'document')} of {index}: a run was stopped, an "
            "output was replaced, or rows were not written; add the same inputs again with -o"
        )


def _check_output(index: Path, job: Job) -> None:
    """Refuse an OUT that can't be written again, or that is in the index."""
    if job.is_piped:
        raise UsageError(
            "an index can't forget what a broken pipe has lost: choose a file or a folder for -o"
        )
    if job.out.resolve().is_relative_to(index.resolve()):
        raise UsageError(f"{job.out} is inside the index {index}: choose another output")


def _write_increment(
    opened: OpenIndex, job: Job, folder: Path, adopted: Adopted, token: str, progress: Progress
) -> record.FinishedRun:
    clock, counters = record.StageClock(), opened.generation.counters
    earlier, compared, similar = (
        opened.generation.count_documents()[0],
        counters.compared,
        counters.similar,
    )
    with record.InputHasher(job.backend) as hasher:
        with clock.stage("index"):
            adder = IncrementAdder(opened, job, folder / FOLDER, adopted, progress)
            adder.run()
        with clock.stage("tables"):
            decided = adder.decided()
            catalogue = Catalogue.of(decided.sketches)
            hasher.add(*catalogue.files[catalogue.new :])
            two = job.options.has_two_signals
            verdicts = RemovedDocuments(folder, job.budget, has_cosines=two)
            identical = decided.collect(verdicts)
            summary = write_tables(
                folder, catalogue, decided.sketches, verdicts, progress, options=job.options
            )
        if job.kept:
            with clock.stage("filter"):
                write_kept_files(job, folder / "kept", catalogue, decided.kept(), progress)
        documents = len(decided.sketches) - decided.sketches.first_new
        tally = RoundTally(0, counters.compared - compared, counters.similar - similar)
        counts = record.RunCounts(
            documents,
            verdicts.count,
            identical,
            tally,
            summary.reasons,
            earlier,
            summary.tally.by_earlier,
        )
        described = record.describe_run(job, counts)
        described |= {
            "index": str(opened.path),
            RUN_FIELD: token,
            "indexed_before": adder.indexed_before,
            "written_before": Additions.of(opened.path).output_of(adopted.left),
            "pairs": None,
            "hot_buckets": [],
            "full_buckets": {"count": _count_full_buckets(opened, job), "listed": []},
            "skipped_files": [],
            "not_documents": dict(decided.sketches.unread().most_common()),
            **record.describe_ignored_lines(job.ignored),
            **adder.first.describe(job.options),
            "inputs": hasher.inputs(catalogue),
            **describe_indexes([opened.path]),
        }
    finished = record.finish_run(job, folder, described, summary, clock, adder.shards)
    verdicts.close()
    write_lists(folder, job.ignored, job.frequencies, job.centre)
    return finished


def _count_full_buckets(opened: OpenIndex, job: Job) -> int:
    """Count the buckets of the index in which not every document is compared."""
    return BucketSizes.of(opened.generation.view.tables, job.options.limit).full


class IncrementAdder:
    """Adds the documents of a job to an index, and writes the answers to files, one a shard."""

    def __init__(
        self, opened: OpenIndex, job: Job, folder: Path, adopted: Adopted, progress: Progress
    ) -> None:
        self._opened, self._folder = opened, folder
        self._adopted, self._progress = adopted, progress
        check_columns(job.inputs, job.columns)
        shards = cut_shards(job.inputs, job.reading)
        self._job, self.shards = place_vectors(job, folder, shards, progress)
        self.indexed_before = 0
        self.first = FirstDocuments(job.options.spec)
        self._uncommitted: deque[Future[list[Answer]]] = deque()
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped
        folder.mkdir(mode=0o700)

    def run(self) -> None:
        """Add all documents."""
        columns = self._job.columns

        def parse(item: tuple[int, Chunk | None]) -> Documents | None:
            return None if item[1] is None else parse_chunk(item[1], columns)

        self._progress.stage("indexing", sum(shard.stored for shard in self.shards), "bytes")
        waiting: deque[ChunkAnswers | None] = deque()
        writer: SketchWriter | None = None
        file, row, place = None, 0, 0

        def finish() -> None:
            nonlocal writer, place
            if writer is None:
                writer = self._writer(place)
            if (answers := waiting.popleft()) is None:
                self.shards[place].check()
                writer.close()
                writer, place = None, place + 1
            else:
                writer.add(self._decided(answers))
                self._progress.advance(answers.chunk.stored)

        try:
            for (_, chunk), documents in map_in_order(
                self._chunks(), parse, self._job.budget.threads(self._job.workers)
            ):
                if chunk is None or documents is None:
                    waiting.append(None)
                else:
                    if chunk.files[0] != file:
                        file, row = chunk.files[0], 0
                    waiting.append(self._submit(chunk, documents, row))
                    row += len(documents)
                while len(waiting) > UNDER_WAY:
                    finish()
            while waiting:
                finish()
        finally:
            if writer is not None:
                writer.abandon()

    def _chunks(self) -> Iterator[tuple[int, Chunk | None]]:
        """Yield the chunks of all shards, and None after the last chunk of each."""
        for place, shard in enumerate(self.shards):
            for chunk in shard.chunks():
                yield place, chunk
            yield place, None

    def _path(self, place: int) -> Path:
        return self._folder / str(place)

    def _writer(self, place: int) -> SketchWriter:
        return SketchWriter(self._path(place), self._job.options.spec, "", self.shards[place])

    def _submit(self, chunk: Chunk, documents: Documents, first_row: int) -> ChunkAnswers:
        """Submit the usable documents of a chunk; one without an id is called by file and row."""
        own, named = to_strings(documents.ids).to_pylist(), not chunk.files[0].row.has_columns
        ids = [
            f"{chunk.files[0].name}:{first_row + row}" if id is None else id
            for row, id in enumerate(own)
        ]
        bad = {row: BAD_ID for row, id in enumerate(ids) if not is_valid_id(id)}
        rejected = bad | documents.rejected
        if self._job.strict:
            refuse_rejected([(ids[row], reason) for row, reason in sorted(rejected.items())])
        places = [row for row in range(len(ids)) if row not in rejected]
        columns, column = self._job.columns, documents.texts
        if not self.first.complete:
            self.first.add(column, MOST)
        texts, within = column.to_pylist(), documents.within
        groups = None if within is None else within.to_pylist()
        futures = []
        for start in range(0, len(places), TOGETHER):
            rows = places[start : start + TOGETHER]
            while len(self._uncommitted) >= UNDER_WAY:
                self._uncommitted.popleft().result()
            future = self._opened.generation.submit_texts(
                [ids[row] for row in rows],
                None if columns.textless else [texts[row] for row in rows],
                [None] * len(rows),
                None if groups is None else [groups[row] for row in rows],
                None if documents.vectors is None else documents.vectors[rows],
                generated=[named or own[row] is None for row in rows],
            )
            self._uncommitted.append(future)
            futures.append(future)
        return ChunkAnswers(chunk, documents, ids, places, rejected, futures)

    def _decided(self, waiting: ChunkAnswers) -> SketchedChunk:
        """Return the decisions about the documents of a chunk, as rows to write."""
        answered = (answer for future in waiting.futures for answer in future.result())
        answers = dict(zip(waiting.places, answered, strict=True))
        rejected = waiting.rejected | {
            row: answer.reason or "" for row, answer in answers.items() if answer.status == REJECTED
        }
        if self._job.strict:
            refuse_rejected([(waiting.ids[row], why) for row, why in sorted(rejected.items())])
        decided = ChunkDecisions.empty(len(waiting.documents))
        stored = self._stored_copies(
            [str(answer.id) for answer in answers.values() if answer.again or answer.is_copy]
        )
        for row, answer in answers.items():
            if answer.cluster is None:  # rejected
                continue
            known = stored.get(str(answer.id))
            was_written = answer.again and known and not self._adopted.adopt(known.number)
            if not answer.is_copy and not was_written:
                decided.number[row] = answer.cluster
                continue
            if known and was_written and not answer.is_copy:
                self._adopted.refuse(known.number)
            self.indexed_before += bool(was_written)
            decided.witness[row] = answer.cluster
            decided.similarity[row] = 1.0 if answer.similarity is None else answer.similarity
            identical = was_written or (known is not None and known.identical)
            if isinstance(answer, SignalAnswer) and answer.cosine is not None:
                decided.cosine[row] = answer.cosine
            decided.flags[row] = EXACT * answer.exact | IDENTICAL * bool(identical)
        return SketchedChunk(
            {"lengths": raw_lengths(waiting.documents.texts), **decided.columns},
            waiting.documents.ids,
            None,
            rejected,
            len(waiting.documents),
            waiting.chunk.files,
            unread=waiting.chunk.unread,
        )

    def _stored_copies(self, ids: Sequence[str]) -> dict[str, StoredCopy]:
        """Return the numbers of stored documents, and whether an earlier one is identical."""

        def find(view: View) -> dict[str, StoredCopy]:
            rows = list(view.rows_by_id(ids).values())
            if not rows:
                return {}
            contents = np.frombuffer(b"".join(row.content for row in rows), np.uint64)
            first = view.rows_by_content(contents.reshape(-1, 2))
            return {
                row.id: StoredCopy(row.number, first[at].number < row.number)
                for at, row in enumerate(rows)
            }

        return self._opened.generation.answer(find)

    def decided(self) -> DecidedRows:
        """Return all decisions, with the documents of the index that are witnesses."""
        files = [BlockReader(self._path(place), SKETCHES_KIND) for place in range(len(self.shards))]
        return DecidedRows.of(Sketches(self.shards, files), self._write_witnesses)

    def _write_witnesses(self, numbers: Integers) -> tuple[Shard, BlockReader]:
        """Write the ids of documents of the index, as those of an earlier corpus."""
        generation = self._opened.generation
        corpus = IndexCorpus(self._opened.path, generation.store, generation.settings)
        rows = generation.store.rows(numbers.tolist())
        ids = make_strings([rows[number].id for number in numbers.tolist()])
        shard = StoredShard.of(corpus, numbers, self._job.columns)
        writer = SketchWriter(self._folder / WITNESSES, self._job.options.spec, "", shard)
        lengths = np.zeros(len(numbers), np.int64)
        writer.add(SketchedChunk({"lengths": lengths}, ids, None, {}, len(numbers), shard.files))
        writer.close()
        return shard, BlockReader(self._folder / WITNESSES, SKETCHES_KIND)


@dataclass(frozen=True)
class DecidedRows:
    """The decisions about all rows, behind the documents of the index that are witnesses.

    kept_numbers  of the kept rows, their numbers in the index, sorted
    kept_rows     these rows, in the same order
    witnesses     the numbers of the witnesses that are in no row, sorted
    """

    sketches: Sketches
    kept_numbers: Integers
    kept_rows: Integers
    witnesses: Integers

    @classmethod
    def of(
        cls, rows: Sketches, write: Callable[[Integers], tuple[Shard, BlockReader]]
    ) -> DecidedRows:
        """Join rows with their witnesses that are not among them, which `write` writes."""
        numbers, places, needed = ([np.empty(0, np.int64)] for _ in range(3))
        for block in rows.blocks:
            number, witness = block.column("number"), block.column("witness")
            numbers.append(number[number > 0])
            places.append(np.flatnonzero(number > 0) + block.start)
            needed.append(np.unique(witness[witness > 0]))
        number, place = np.concatenate(numbers), np.concatenate(places)
        order = np.argsort(number, kind="stable")
        witnesses = np.setdiff1d(np.concatenate(needed), number)
        if len(witnesses):
            shard, file = write(witnesses)
            rows = Sketches([shard, *rows.shards], [file, *rows.files], 1)
        return cls(rows, number[order], place[order] + rows.first_new, witnesses)

    def kept(self) -> NDArray[np.bool_]:
        """Return for each document, witnesses included, whether it is kept."""
        kept = np.zeros(len(self.sketches), bool)
        kept[self.kept_rows] = True
        return kept

    def collect(self, verdicts: RemovedDocuments) -> int:
        """Add the removed documents; return how many are identical to another one."""
        count = 0
        for block in self.sketches.blocks:
            if block.start < self.sketches.first_new:
                continue
            witness, flags = block.column("witness"), block.column("flags")
            similarity, cosine = block.column("similarity"), block.column("cosine")
            for exact in (0, EXACT):
                chosen = np.flatnonzero((witness > 0) & ((flags & EXACT) == exact))
                found = self._documents(witness[chosen])
                removed = chosen + block.start
                verdicts.add(removed, found, similarity[chosen], bool(exact), cosine[chosen])
            count += int(np.count_nonzero(flags & IDENTICAL))
        return count

    def _documents(self, numbers: Integers) -> Integers:
        """Return the documents of the run that have these numbers in the index."""
        if not len(self.kept_numbers):
            return np.searchsorted(self.witnesses, numbers)
        place = np.searchsorted(self.kept_numbers, numbers).clip(max=len(self.kept_numbers) - 1)
        in_rows = self.kept_numbers[place] == numbers
        return np.where(in_rows, self.kept_rows[place], np.searchsorted(self.witnesses, numbers))
