"""Estimate the documents of a run and the disk space that it needs, by samples of its inputs.

The samples are spread over the inputs, inside of a file too where its format allows to begin there:
a corpus is often sorted, and the texts at its beginning are shorter or longer than the others.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.documents import Documents
from neardup.corpus.read import parse_chunk
from neardup.corpus.shards import Shard
from neardup.errors import InputError, OutputError
from neardup.first_look import MOST, FirstDocuments
from neardup.formatting import format_bytes, format_count
from neardup.pipeline.job import Job
from neardup.runtime import Progress
from neardup.sketcher import raw_lengths
from neardup.spec import Spec

if TYPE_CHECKING:
    from neardup.pipeline.stages.sketch import ChunkMaker

SAMPLES = 16
SAMPLE = 128 << 10
"""The approximate bytes of a sample."""
SEQUENCE = 8
"""The most chunks of a file that can be read only from its beginning: the first ones."""
SAMPLED_FILES = 32
"""The most text files of a sample: each must be opened."""
UNSURE = 0.1
"""The relative standard error of an estimate from which on it is stated as a range."""


class DocumentSample(NamedTuple):
    """Documents from a place of the inputs.

    Attributes:
        documents: The documents.
        stored: The stored bytes that were read for them.
        is_beginning: Whether its file goes on, and can be read only from its beginning.
    """

    documents: Documents
    stored: int
    is_beginning: bool = False


def read_samples(shards: Sequence[Shard]) -> Iterator[DocumentSample]:
    """Yield documents from up to SAMPLES places of the shards."""
    sizes = [shard.stored for shard in shards]
    ends, total = np.cumsum(sizes), sum(sizes)
    if not shards or total <= shards[0].reading.chunk:
        yield from (sample for shard in shards[:SAMPLES] for sample in _read(shard, SEQUENCE))
        return
    starts: Counter[Shard] = Counter()
    count = min(SAMPLES, total // (2 * SAMPLE) + 1)
    for offset in np.linspace(0, total, count, endpoint=False).astype(int).tolist():
        place = int(np.searchsorted(ends, offset, "right"))
        with suppress(InputError):  # the stage that reads everything reports it
            starts[shards[place].rest_from(offset - int(ends[place]) + sizes[place])] += 1
    for shard, places in starts.items():
        if places == 1 or shard.files[0].can_be_cut:
            yield from _read(_sized(shard), 1)
        else:  # several places of one file
            alone = replace(shard, files=shard.files[:1], stamps=shard.stamps[:1])
            yield from _read(alone, SEQUENCE)


def _sized(shard: Shard) -> Shard:
    """Return a shard whose first chunk has the size of a sample."""
    reading = replace(shard.reading, chunk=min(SAMPLE, shard.reading.chunk))
    few = slice(SAMPLED_FILES)
    return replace(shard, files=shard.files[few], stamps=shard.stamps[few], reading=reading)


def _read(shard: Shard, count: int) -> Iterator[DocumentSample]:
    """Yield the documents of the first chunks of a shard, chunk by chunk."""
    with suppress(InputError):
        chunks = list(islice(shard.chunks(), count + 1))
        is_one = len(shard.files) == 1 and not shard.files[0].can_be_cut
        is_beginning = count > 1 and is_one and len(chunks) > count
        for chunk in chunks[:count]:
            documents = parse_chunk(chunk, shard.reading.columns)
            yield DocumentSample(documents, chunk.stored, is_beginning)


@dataclass(frozen=True)
class DiskEstimate:
    """The estimated number of documents, and bytes of the work folder and of kept files.

    Attributes:
        documents: The number of documents.
        work: The bytes of the work folder.
        kept: The bytes of the kept files.
        least: The number of documents and all bytes that it may be at least.
        most: The same at most.
        beginning: Whether most of the inputs is in files of which only the beginning was looked at.
    """

    documents: int
    work: int
    kept: int
    least: tuple[int, int]
    most: tuple[int, int]
    beginning: bool = False

    @property
    def total(self) -> int:
        """All bytes."""
        return self.work + self.kept

    @property
    def counted(self) -> str:
        """How many documents there are, in words."""
        if self.beginning:
            return (
                f"perhaps {format_count(self.documents, 'document')} (by the beginning of files "
                "that can be read only from there)"
            )
        if self.least == self.most:
            return f"about {format_count(self.documents, 'document')}"
        return f"about {self.least[0]:,} to {self.most[0]:,} documents"

    @property
    def space(self) -> str:
        """How much disk space is needed, in words."""
        if self.beginning or self.least == self.most:
            return f"{'perhaps' if self.beginning else 'about'} {format_bytes(self.total)}"
        return f"about {format_bytes(self.least[1])} to {format_bytes(self.most[1])}"


def look_at_shards(shards: Sequence[Shard], spec: Spec) -> FirstDocuments:
    """Look at some documents of the shards, without an estimate."""
    first = FirstDocuments(spec)
    for sample in read_samples(shards):
        first.add(sample.documents.texts, MOST // min(len(shards), SAMPLES))
    return first


@dataclass(frozen=True)
class CorpusEstimate:
    """The estimated number of documents of shards, their length, and the error of the number.

    The error is the standard error, relative to the number. `missed` says that most samples are
    beginnings of files that can be read only from there.
    """

    documents: float = 0.0
    length: float = 0.0
    error: float = 0.0
    missed: bool = False

    @classmethod
    def of(
        cls, shards: Sequence[Shard], look: Callable[[pa.Array, int], None] | None = None
    ) -> CorpusEstimate:
        """Estimate by samples; `look` is called with texts and how many of them to look at."""
        stored = sum(shard.stored for shard in shards)
        samples = list(read_samples(shards))
        if look is not None:
            for sample in samples:
                look(sample.documents.texts, MOST // len(samples))
        files = [file for shard in shards for file in shard.files]
        if all(file.row.is_document for file in files):
            return cls(len(files), stored)
        counts = [len(sample.documents) for sample in samples]
        sizes = [sample.stored for sample in samples]
        length = sum(int(raw_lengths(sample.documents.texts).sum()) for sample in samples)
        read = sum(sizes)
        if not read:
            return cls()
        missed = sum(sample.is_beginning for sample in samples)
        scale = stored / read
        error = 0.0 if read >= stored else _ratio_error(np.array(counts), np.array(sizes))
        return cls(sum(counts) * scale, length * scale, error, 2 * missed > len(samples))


def _ratio_error(counts: NDArray[np.int64], sizes: NDArray[np.int64]) -> float:
    """Return the relative standard error of documents by bytes, from samples."""
    if len(counts) < 2 or not counts.sum():
        return 0.0
    expected = counts.sum() / sizes.sum() * sizes
    return float(np.std(counts - expected, ddof=1) / sqrt(len(counts)) / counts.mean())


def estimate_disk(
    job: Job,
    shards: Sequence[Shard],
    maker: ChunkMaker,
    first: FirstDocuments | None = None,
    earlier: Sequence[Shard] = (),
) -> DiskEstimate:
    """Estimate documents and disk space from samples.

    Args:
        job: The job.
        shards: The shards of the inputs.
        maker: Makes the rows of sketch files.
        first: Looks at the documents of the samples.
        earlier: The shards of files of an earlier corpus that are sketched too.
    """
    new = CorpusEstimate.of(shards, None if first is None else first.add)
    old = CorpusEstimate.of(earlier, None if first is None else first.add_earlier)
    others = sum(corpus.documents for corpus in job.stored)
    kept = sum(shard.stored for shard in shards) if job.kept else 0

    def work(documents: float) -> int:
        room = maker.room(round(documents), round(new.length))
        return round(room + maker.room(round(old.documents) + others, round(old.length)))

    unsure = 2 * new.error if new.error > UNSURE else 0.0
    ends = [max(new.documents * factor, 1.0) for factor in (1 - unsure, 1 + unsure)]
    rounded = [round(end, 2 - len(str(round(end)))) if unsure else end for end in ends]
    least, most = ((round(end), work(end) + kept) for end in rounded)
    return DiskEstimate(round(new.documents), work(new.documents), kept, least, most, new.missed)


def check_disk(
    job: Job,
    folder: Path,
    shards: Sequence[Shard],
    earlier: Sequence[Shard],
    progress: Progress,
    maker: ChunkMaker,
    first: FirstDocuments | None = None,
) -> None:
    """Report the disk space that the run will need; an error if less is free.

    Files of a stopped run in the work folder `folder` count as free. `first` looks at the documents
    that are read for it.
    """
    need = estimate_disk(job, shards, maker, first, earlier)
    place = next(path for path in (job.out, *job.out.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    reusable = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if need.documents:
        progress.say(
            f"{need.counted}: the run will need {need.space} of disk space, "
            f"{format_bytes(free)} are free"
        )
    if first is not None and (warning := first.warn_of_comparisons(job.options, need.documents)):
        progress.say(warning)
    least = min(need.total, need.least[1])
    if least > free + reusable:
        raise OutputError(
            f"{job.out}: the run will need {need.space} of disk space"
            f"{_describe_kept(need)}, {format_bytes(free)} are free: "
            f"{_cure(job, need, free + reusable)}"
        )


def _describe_kept(need: DiskEstimate) -> str:
    return f" ({format_bytes(need.kept)} of it for kept files)" if need.kept else ""


def _cure(job: Job, need: DiskEstimate, free: int) -> str:
    """Return what makes the run fit."""
    elsewhere = "choose an output on another disk, or free some space"
    if need.kept and need.work <= free and job.file is None:
        return f"{elsewhere}, or leave out the kept files with --no-kept"
    return elsewhere
