"""Sketch the documents of all inputs, shard by shard.

A `ChunkMaker` turns a chunk of documents into the rows of a sketch file: `SketchMaker` makes
sketches, `HashMaker` of `neardup exact` makes hashes. With `--strip lines` or `--weights tf-idf`,
lines or shingles are counted in a pass over the inputs before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, NoReturn, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.column_check import check_columns, check_new_columns, find_dimension
from neardup.corpus.documents import Documents
from neardup.corpus.inputs import InputFile, say_notes
from neardup.corpus.read import CHUNK, Chunk, parse_chunk
from neardup.corpus.shards import Shard, cut_shards
from neardup.corpus.streams import AGAIN, SKIP
from neardup.errors import FormatError, InputError, RowError
from neardup.first_look import FirstDocuments
from neardup.formats.blocks import BlockReader
from neardup.formatting import format_bytes
from neardup.lsh.planes import PlanePrediction
from neardup.pipeline.backends.backend import Advance
from neardup.pipeline.budget import Budget
from neardup.pipeline.disk_estimate import check_disk
from neardup.pipeline.earlier_corpus import EarlierCorpus
from neardup.pipeline.job import Job
from neardup.pipeline.sampled import ScriptSample, sample_scripts
from neardup.pipeline.saved import FREQUENCIES_FILE, IGNORED_FILE, read_frequencies, read_ignored
from neardup.pipeline.sketch_files import (
    SKETCHES_KIND,
    SignatureStorage,
    SketchedChunk,
    Sketches,
    SketchWriter,
    Specification,
)
from neardup.pipeline.sketch_tables import copy_tables, restore_sketches, table_beside
from neardup.pipeline.stage_files import StageFiles, digest, load_or_make, shard_key
from neardup.pipeline.stages.screen import SHARE_LEFT
from neardup.pipeline.stored_shards import StoredShard
from neardup.pipeline.vector_inputs import place_vectors
from neardup.pipeline.vector_sample import SampledLayout, expect_layout
from neardup.runtime import AHEAD, Progress, map_in_order
from neardup.sketch.hyperplane import digest_centre
from neardup.sketcher import Sketcher
from neardup.spec import VECTOR
from neardup.text.frequencies import Frequencies, FrequencyCounts
from neardup.text.lines import FrequentLines, IgnoredLines, LineCounts
from neardup.vector_layout import (
    CountedVectors,
    VectorLayout,
    counts_vectors,
    lay_out_vectors,
    read_centre,
)

CANDIDATE_SHARE = 0.3
"""About the share of documents that share a bucket with others: 0.1 on posts, 0.3 on manuals."""

UNITS_PER_BYTE = {"word": 1 / 6, "char": 1.0, "line": 1 / 40, "token": 1.0, VECTOR: 0.0}
SHORT_ROW = 128
"""Bytes of a short document as stored."""
BYTES_BESIDES_SLOTS = 60
"""Bytes of a document's sketch that are not slots: content hash, length, id."""
BYTES_OF_A_PAIR, BYTES_OF_A_MEMBER = 16, 12
"""Of a compared pair; of a document in a shared bucket, with its part of the bucket's own."""


class ChunkMaker(Protocol):
    """Makes the rows of a sketch file of a chunk of documents."""

    @property
    def spec(self) -> Specification: ...
    @property
    def basis(self) -> str:
        """A digest of everything that the rows depend on besides the documents."""

    def __call__(self, chunk: Chunk, documents: Documents) -> SketchedChunk: ...

    def room(self, documents: int, length: int) -> float:
        """Estimate the bytes on disk for `documents` with `length` bytes of text in total."""


@dataclass(frozen=True)
class SketchMaker:
    """Makes sketches; `exact` if the candidates' shingles will be stored as well.

    `dimension` is that of their vectors, which are stored with them; `found` what is expected of
    the planes of these, if they find candidates.
    """

    sketcher: Sketcher
    storage: SignatureStorage
    exact: bool
    dimension: int = 0
    found: PlanePrediction | None = None

    @property
    def spec(self) -> Specification:
        return self.sketcher.spec

    @property
    def basis(self) -> str:
        stated = self.storage.stated
        if not stated:
            return self.spec.fingerprint
        parts: list[Any] = [self.spec.fingerprint, stated, self.storage.keep_full]
        return digest(*parts, "keys only") if self.storage.keys_only else digest(*parts)

    def __call__(self, chunk: Chunk, documents: Documents) -> SketchedChunk:
        sketched = SketchedChunk.of(chunk, documents, self.sketcher(documents), self.storage)
        return replace(sketched, scripts=sample_scripts(documents.texts))

    def room(self, documents: int, length: int) -> float:
        """Estimate the bytes of the sketches, of the candidates' sets, and of what planes find."""
        spec = self.sketcher.spec
        slots = self.storage.size() * documents
        sets = 8 * length * UNITS_PER_BYTE[spec.unit] if self.exact else slots
        sets += 4 * self.dimension * documents
        share, each = CANDIDATE_SHARE, float(BYTES_BESIDES_SLOTS)
        if self.found is not None:
            share += (1.0 - share) * self.found.met
            pairs = self.found.compared * (SHARE_LEFT if spec.of_vectors and self.exact else 1.0)
            each += BYTES_OF_A_PAIR * pairs + BYTES_OF_A_MEMBER * self.found.members
        return slots + each * documents + share * sets


def default_maker(job: Job, layout: SampledLayout | None = None) -> SketchMaker:
    """Return the maker of sketches for this job.

    Args:
        job: The job.
        layout: The planes that are expected of its vectors, before these are counted.
    """
    exact, dimension = job.options.verify == "exact", job.columns.dimension or 0
    if layout is None:
        return SketchMaker(job.sketcher, job.storage, exact, dimension)
    job = replace(job, options=layout.apply(job.options), centre=layout.layout.centre)
    return SketchMaker(job.sketcher, job.storage, exact, dimension, layout.found)


def make_chunk(chunk: Chunk, shard: Shard, maker: ChunkMaker) -> SketchedChunk:
    """Parse a chunk, and make its rows of the sketch file."""
    made = maker(chunk, parse_chunk(chunk, shard.reading.columns))
    made.unread = chunk.unread
    return made


SHARDS_FOLDER, SKETCHES_FOLDER, STORED_FOLDER = "shards", "sketches", "stored"


@dataclass(frozen=True)
class SketchedShard:
    """What is known of a shard besides its file.

    scripts  of the first documents of each chunk, with the row of the first
    refused  with --strict: the first rejected document, for which there is no file: its own file,
             its row among those of that file in the shard, the reason
    """

    key: str
    scripts: list[tuple[int, NDArray[np.int64] | None]]
    refused: tuple[InputFile, int, str] | None = None


@dataclass(frozen=True)
class SketchShards:
    """Reads and sketches shards, given with their keys, and writes a file for each."""

    maker: ChunkMaker
    stage: StageFiles
    budget: Budget
    strict: bool

    def __call__(
        self, items: Iterable[tuple[str, Shard]], threads: int, advance: Advance
    ) -> Iterator[SketchedShard]:
        def sketch(piece: tuple[str, Shard, Chunk | None]) -> SketchedChunk | None:
            _, shard, chunk = piece
            return None if chunk is None else make_chunk(chunk, shard, self.maker)

        writer: SketchWriter | None = None
        scripts: list[tuple[int, NDArray[np.int64] | None]] = []
        row = 0
        try:
            for (key, shard, chunk), made in map_in_order(
                _chunks_of_shards(items), sketch, self.budget.threads(threads, self._each_thread())
            ):
                if writer is None:
                    writer = SketchWriter(self.stage.path(key), self.maker.spec, key, shard)
                    scripts, row = [], 0
                if made is None or chunk is None:
                    shard.check()
                    writer.close()
                    writer = None
                    yield SketchedShard(key, scripts)
                    continue
                if self.strict and made.rejected:
                    refused = _first_rejected(made, writer)
                    writer.abandon()
                    yield SketchedShard(key, [], refused)
                    return
                writer.add(made)
                scripts.append((row, made.scripts))
                row += made.rows
                advance(chunk.stored)
        finally:
            if writer is not None:
                writer.abandon()

    def _each_thread(self) -> int:
        """Return the bytes for a thread with the sketches of its chunks, if documents are short.

        Two copies of a chunk are in work, AHEAD in the queue, and two in the block that is written.
        """
        return int((AHEAD + 4) * self.maker.room(CHUNK // SHORT_ROW, 0))


def _first_rejected(made: SketchedChunk, writer: SketchWriter) -> tuple[InputFile, int, str]:
    """Return the file, the row and the reason of the first rejected document of a chunk."""
    row, reason = min(made.rejected.items())
    file = made.files[0] if len(made.files) == 1 else made.files[row]
    row = row if len(made.files) == 1 else 0
    return file, row + writer.rows_of(file), reason


def _chunks_of_shards(
    shards: Iterable[tuple[str, Shard]],
) -> Iterator[tuple[str, Shard, Chunk | None]]:
    """Yield the chunks of the shards, and None after the last chunk of each."""
    for key, shard in shards:
        for chunk in shard.chunks():
            yield key, shard, chunk
        yield key, shard, None


class ShardSketcher:
    """Has the shards sketched that have no sketch file yet."""

    def __init__(
        self, job: Job, folder: Path, progress: Progress, maker: ChunkMaker | None = None
    ) -> None:
        self._progress, self._custom_maker = progress, maker
        self._saved = (job.repeats or job.out) / SKETCHES_FOLDER
        self._stage = StageFiles(folder / SHARDS_FOLDER, SKETCHES_KIND, self._saved)
        self._files: dict[str, BlockReader] = {}
        self._shards: list[Shard] = []
        self.keys: list[str] = []
        self.scripts = ScriptSample()

    @property
    def files(self) -> list[BlockReader]:
        """The sketch files of all shards, in order."""
        return [self._files[key] for key in self.keys]

    def run(self, job: Job, shards: list[Shard]) -> None:
        """Sketch these shards. A second call, with other shards, reuses the files of the first."""
        self._shards = shards
        maker = self._custom_maker or default_maker(job)
        self.keys = [shard_key(shard, maker.basis) for shard in shards]
        total = sum(shard.stored for shard in shards)
        self._progress.stage("reading", total, "bytes")
        for key in self.keys:
            self._restore(key)
            # A shard in which no line begins has a file of no blocks, which is false.
            if key not in self._files and (file := self._stage.find(key, key)) is not None:
                self._files[key] = file
        self._stage.remove_others(self._files)
        missing = [place for place, key in enumerate(self.keys) if key not in self._files]
        if self._files:
            done = total - sum(shards[place].stored for place in missing)
            self._progress.say(
                f"resuming: {format_bytes(done)} of {format_bytes(total)} are already read"
            )
            self._progress.advance(done)
        work = SketchShards(maker, self._stage, job.budget, job.strict)
        items = [(self.keys[place], shards[place]) for place in missing]
        sketched = job.backend.run(work, items, job.workers, self._progress.advance)
        for place, shard in zip(missing, sketched, strict=True):
            if shard.refused is not None:
                self._refuse(place, *shard.refused)
            self._files[shard.key] = self._stage.open(shard.key)
            for row, scripts in shard.scripts:
                self.scripts.add(shard.key, row, scripts)
        if job.strict:
            self._refuse_rejected(sorted(set(range(len(shards))) - set(missing)))

    def _restore(self, key: str) -> None:
        """Make the sketch file again of one that an earlier run has saved as a table."""
        table, path = table_beside(self._saved / key), self._stage.path(key)
        if table.is_file() and not path.exists():
            with suppress(FormatError, FileNotFoundError):  # it is damaged: the shard is read
                restore_sketches(table, path)

    def _refuse_rejected(self, places: list[int]) -> None:
        """Raise an error at the first rejected document of shards that were sketched before."""
        for place in places:
            shard, sketched = self._shards[place], self._files[self.keys[place]]
            starts = np.concatenate([[0], np.cumsum(sketched.note["rows"])])
            for documents, reasons in Sketches([shard], [sketched]).rejected():
                at = int(np.searchsorted(starts, documents[0], "right")) - 1
                row = int(documents[0] - starts[at])
                self._refuse(place, shard.files[at], row, reasons[0])

    def _refuse(self, place: int, file: InputFile, row: int, reason: str) -> NoReturn:
        """Raise an error with the file and the row of a rejected document.

        Args:
            place: The number of its shard.
            file: Its file.
            row: Its row among those of the file that are in the shard.
            reason: Why it was rejected.
        """
        for before, shard in enumerate(self._shards[:place]):
            if file in shard.files:
                row += self._files[self.keys[before]].note["rows"][shard.files.index(file)]
        raise RowError(
            f"{file.name}, row {row}: {reason}. "
            "Fix the row, or drop --strict to collect bad rows in rejected.parquet"
        )


def find_ignored_lines(
    job: Job, folder: Path, shards: list[Shard], progress: Progress
) -> IgnoredLines:
    """Return the lines that occur in more than the requested share of the documents.

    The list is stored in the work folder, so that a resumed run need not count again.
    """
    share, spec = job.options.strip.lines, job.options.spec
    if share is None:
        return IgnoredLines()
    key = digest([shard_key(shard, spec.fingerprint) for shard in shards], str(share))

    def find() -> IgnoredLines:
        begin = partial(LineCounts, spec, key=job.key)
        counts: LineCounts = _count(job, shards, begin, _add_lines, "counting lines", progress)
        frequent: FrequentLines = _count(
            job, shards, partial(counts.above, share), _add_lines, "comparing lines", progress
        )
        return frequent.freeze()

    return load_or_make(folder / "lines", IGNORED_FILE, key, read_ignored, find)


def count_document_frequencies(
    job: Job, folder: Path, shards: list[Shard], progress: Progress
) -> Frequencies:
    """Return in how many of the new documents each shingle occurs.

    The counts are stored in the work folder, so that a resumed run need not count again.
    """
    job = replace(job, options=job.options.weighing(""), frequencies=Frequencies())
    key = digest([shard_key(shard, job.options.spec.fingerprint) for shard in shards])

    def count() -> Frequencies:
        add = partial(_add_shingles, job.sketcher)
        counted: FrequencyCounts = _count(
            job, shards, FrequencyCounts, add, "counting shingles", progress
        )
        return counted.freeze()

    return load_or_make(folder / "weights", FREQUENCIES_FILE, key, read_frequencies, count)


def _count_frequent(
    job: Job, folder: Path, shards: list[Shard], earlier: EarlierCorpus, progress: Progress
) -> Job:
    """Return the job with its ignored lines and document frequencies.

    They are those of the earlier corpus, if it has any, else counted if an option requires them.
    """
    ignored = earlier.ignored
    if job.options.strip.lines is not None and not len(ignored):
        ignored = find_ignored_lines(job, folder, shards, progress)
    job = replace(job, options=job.options.ignoring(ignored.digest), ignored=ignored)
    frequencies = Frequencies()
    if job.options.weights == "tf-idf":
        frequencies = earlier.frequencies or count_document_frequencies(
            job, folder, shards, progress
        )
    options = job.options.weighing(frequencies.stated)
    job = replace(job, options=options, frequencies=frequencies)
    return (
        job
        if job.options.vectors is None
        else _count_vectors(job, folder, shards, earlier, progress)
    )


LAYOUT_FILE = "layout"


def _count_vectors(
    job: Job, folder: Path, shards: list[Shard], earlier: EarlierCorpus, progress: Progress
) -> Job:
    """Return the job with the layout of its vectors: that of the earlier corpus, or counted.

    The layout is stored in the work folder, so that a resumed run need not count again.
    """
    dimension = job.columns.dimension or 1
    before = earlier.planes
    spec = None if before is None else before[0]
    signal = job.options.vectors
    stated = None if signal is None else signal.stated
    centre = None
    if signal is not None and signal.centre is not None:  # the file may have changed
        centre = digest_centre(read_centre(signal.centre, dimension))
    keys = [shard_key(shard, job.options.spec.fingerprint) for shard in shards]
    settled = None if spec is None else spec.vectors
    key = digest(keys, stated, job.options.recall, settled, centre)

    def lay_out() -> VectorLayout:
        counted: CountedVectors | None = None
        if counts_vectors(job.options, spec):
            add = CountedVectors.add
            counted = _count(job, shards, CountedVectors, add, "counting vectors", progress)
        return lay_out_vectors(job.options, dimension, counted, before)

    layout = load_or_make(folder / "vectors", LAYOUT_FILE, key, _read_layout, lay_out)
    bits = None if spec is None else spec.planes
    return replace(job, options=layout.apply(job.options, dimension, bits), centre=layout.centre)


def _read_layout(folder: Path) -> VectorLayout:
    return VectorLayout.from_bytes((folder / LAYOUT_FILE).read_bytes())


class Counts(Protocol):
    """Counts of documents, to which those of others can be added."""

    def merge(self, other: Self, /) -> None: ...


AnyCounts = TypeVar("AnyCounts", bound=Counts)


@dataclass(frozen=True)
class CountDocuments(Generic[AnyCounts]):
    """Reads shards once, and yields one value, the counts of all their documents.

    begin  makes counts of no documents
    add    adds those of a batch, on several threads at once
    """

    begin: Callable[[], AnyCounts]
    add: Callable[[AnyCounts, Documents], None]
    budget: Budget

    def __call__(
        self, items: Iterable[Shard], threads: int, advance: Advance
    ) -> Iterator[AnyCounts]:
        counts = self.begin()

        def read(item: tuple[Shard, Chunk]) -> None:
            shard, chunk = item
            self.add(counts, parse_chunk(chunk, shard.reading.columns))

        chunks = ((shard, chunk) for shard in items for chunk in shard.chunks())
        for (_, chunk), _ in map_in_order(chunks, read, self.budget.threads(threads)):
            advance(chunk.stored)
        yield counts


def _add_lines(counts: LineCounts | FrequentLines, documents: Documents) -> None:
    counts.add(documents.texts)


def _add_shingles(sketcher: Sketcher, counts: FrequencyCounts, documents: Documents) -> None:
    counts.add(sketcher.cut(documents).shingles)


def _merge(counts: AnyCounts, others: AnyCounts) -> AnyCounts:
    counts.merge(others)
    return counts


def _count(
    job: Job,
    shards: list[Shard],
    begin: Callable[[], AnyCounts],
    add: Callable[[AnyCounts, Documents], None],
    stage: str,
    progress: Progress,
) -> AnyCounts:
    """Return the counts of all documents; `stage` is shown as the name of this pass."""
    progress.stage(stage, sum(shard.stored for shard in shards), "bytes")
    work = CountDocuments(begin, add, job.budget)
    return job.backend.reduce(work, shards, _merge, job.workers, progress.advance)


@dataclass(frozen=True)
class SketchedInputs:
    """The sketches of all documents.

    job      with the ignored lines and document frequencies that were found
    keys     of the sketch files
    skipped  the files that could not be read, with the reasons
    first    the first documents of some shards
    scripts  the scripts of documents that were sketched now, not before a run was stopped
    """

    job: Job
    earlier: EarlierCorpus
    sketches: Sketches
    keys: list[str]
    skipped: list[dict[str, Any]]
    first: FirstDocuments
    scripts: ScriptSample

    @property
    def starts(self) -> dict[str, int]:
        """The number of the first document of each new shard, by its key."""
        starts, earlier = self.sketches.starts.tolist(), self.sketches.earlier
        return dict(zip(self.keys[earlier:], starts[earlier:-1], strict=True))


def _write_stored(job: Job, folder: Path) -> list[tuple[StoredShard, BlockReader, str]]:
    """Write the sketches of the indexes that are earlier corpora to files, or find them there."""
    if not job.stored:
        return []
    stage = StageFiles(folder / STORED_FOLDER, SKETCHES_KIND)
    written = []
    for corpus in job.stored:
        corpus.check(job.options, job.columns)
        written.append(corpus.write_sketches(stage, job.columns.plain))
        job.storage.check(written[-1][1], str(corpus.path))
    stage.remove_others(key for _, _, key in written)
    return written


def sketch_inputs(
    job: Job, folder: Path, progress: Progress, maker: ChunkMaker | None = None
) -> SketchedInputs:
    """Sketch the earlier corpus and all inputs; or make what `maker` makes of them.

    With --skip-bad-files, starts again without a file that can't be read.
    """
    earlier = EarlierCorpus.of(job.against, job.input_options, job.stored)
    say_notes(earlier.inputs, progress)
    bad: dict[str, str] = {}
    sketcher = ShardSketcher(job, folder, progress, maker)
    first = FirstDocuments(job.options.spec)
    while True:
        try:
            if job.options.vectors is not None:
                files = [file for file in job.ordered_inputs() if file.name not in bad]
                job = replace(job, columns=find_dimension(files, job.columns))
            shards = cut_shards(job.ordered_inputs(), job.reading, set(bad))
            job, shards = place_vectors(job, folder, shards, progress)
            earlier_shards = cut_shards(
                earlier.inputs, replace(job.reading, columns=job.columns.plain)
            )
            if not bad:
                check_columns(job.inputs, job.columns)
                if job.annotate is not None:
                    check_new_columns(job.inputs)
                look = None if maker else first
                made_by = maker or default_maker(job, expect_layout(job, shards))
                check_disk(job, folder, shards, earlier_shards, progress, made_by, look)
            job = _count_frequent(job, folder, shards, earlier, progress)
            earlier.check(job.storage, job.options.verify == "exact", job.columns)
            stored = _write_stored(job, folder)
            sketcher.run(job, [*earlier_shards, *shards])
            break
        except RowError:
            raise
        except InputError as error:
            if not job.skip_bad_files or error.file is None or error.file in bad:
                raise
            bad[error.file] = str(error).replace(SKIP, AGAIN)
            progress.say(f"skipped: {bad[error.file]}")
    sketches = Sketches(
        [*earlier.shards, *(shard for shard, _, _ in stored), *earlier_shards, *shards],
        [*copy_tables(earlier.files, folder), *(file for _, file, _ in stored), *sketcher.files],
        len(earlier.shards) + len(stored) + len(earlier_shards),
        earlier.kept,
    )
    skipped = [{"file": file, "reason": reason} for file, reason in bad.items()]
    keys = [*earlier.keys, *(key for _, _, key in stored), *sketcher.keys]
    return SketchedInputs(job, earlier, sketches, keys, skipped, first, sketcher.scripts)
