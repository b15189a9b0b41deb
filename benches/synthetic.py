"""Synthetic signatures with known answers through rank, band, match and decide.

No texts: sketch files are written as a run writes them, and pairs are verified by estimate. The
slots of a document are a function of its number. Each tenth document is a copy of an earlier one,
each of those has one copy at most, and some slots of a copy are others: so it is known exactly
which documents are removed, and for which.

    python -m synthetic make FOLDER DOCUMENTS
    python -m synthetic run FOLDER DOCUMENTS MEMORY WORKERS
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import InputFile
from neardup.corpus.shards import Reading, Shard
from neardup.formats.blocks import BlockReader
from neardup.formatting import parse_bytes
from neardup.options import Options
from neardup.pipeline.budget import Budget
from neardup.pipeline.job import Job
from neardup.pipeline.progress_display import PlainProgress
from neardup.pipeline.record import StageClock
from neardup.pipeline.sketch_files import (
    BLOCK_ROWS,
    SKETCHES_KIND,
    SketchedChunk,
    Sketches,
    SketchWriter,
)
from neardup.pipeline.stages.band import band_documents
from neardup.pipeline.stages.compare import PairComparer
from neardup.pipeline.stages.decide import decide_documents
from neardup.pipeline.stages.match import CandidateMatcher
from neardup.pipeline.stages.rank import rank_and_collapse
from neardup.pipeline.stages.removed import RemovedDocuments, collect_removed
from neardup.runtime import Progress

OPTIONS = Options(verify="estimate")
SLOTS = OPTIONS.spec.slots
COPY_EVERY = 10
SHARD_ROWS = 32 * BLOCK_ROWS
REPLACED = np.array([0, 0, 6, 12, 19, 25, 32, 64])
"""So many slots of a copy are others, by turns. Of the first kind, the content is the same."""

Numbers = NDArray[np.int64]


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: numbers that look random, in place."""
    values *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values ^= values >> np.uint64(shift)
        values *= np.uint64(factor)
    values ^= values >> np.uint64(31)
    return values


def table(numbers: Numbers, salt: int, width: int) -> NDArray[np.uint64]:
    """A row of random numbers for each of some numbers."""
    first = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(width) + np.uint64(salt << 48)
    return mixed(first[:, None] + np.arange(width, dtype=np.uint64))


def copies_in(documents: Numbers) -> Numbers:
    """Which of the documents are copies."""
    return documents[documents % COPY_EVERY == COPY_EVERY - 1]


def sources(copies: Numbers) -> Numbers:
    """Of which earlier document each is a copy."""
    turn = copies // COPY_EVERY
    return turn // 2 * COPY_EVERY + turn % 2


def amounts(copies: Numbers) -> Numbers:
    """How many slots of each copy are others."""
    return REPLACED[copies // COPY_EVERY % len(REPLACED)]


def replaced(copies: Numbers) -> NDArray[np.bool_]:
    """Which slots of each copy are others."""
    order = table(copies, 2, SLOTS).argsort(axis=1).argsort(axis=1)
    found: NDArray[np.bool_] = order < amounts(copies)[:, None]
    return found


def signatures(documents: Numbers) -> NDArray[np.uint32]:
    return table(documents, 1, SLOTS // 2).view(np.uint32)


def piece(documents: Numbers, file: InputFile) -> SketchedChunk:
    slots, content = signatures(documents), table(documents, 3, 2)
    copies = copies_in(documents)
    at = copies - documents[0]
    slots[at] = np.where(replaced(copies), slots[at], signatures(sources(copies)))
    same = copies // COPY_EVERY % len(REPLACED) == 0
    content[at[same]] = table(sources(copies[same]), 3, 2)
    columns = {
        "slots": np.ascontiguousarray(slots.T),
        "content": np.ascontiguousarray(content.T),
        "lengths": np.full(len(documents), 3000),
    }
    ids = pa.array(documents).cast(pa.string()).cast(pa.large_string())
    return SketchedChunk(columns, ids, None, {}, len(documents), (file,))


def steps(count: int, size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, size):
        yield start, min(start + size, count)


def shards_of(count: int) -> list[Shard]:
    """Files that never were, one a shard."""
    names = [f"{start}.jsonl" for start, _ in steps(count, SHARD_ROWS)]
    files = [InputFile(Path(name), name, name, "jsonl", None) for name in names]
    return [Shard((file,), ((0, 0),), Reading(Columns())) for file in files]


def make(folder: Path, count: int, progress: Progress) -> None:
    """The sketch files; whole, or not there."""
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    progress.stage("making", count, "signatures")
    for shard, (start, end) in zip(shards_of(count), steps(count, SHARD_ROWS)):
        name = shard.files[0].name
        writer = SketchWriter(part / name, OPTIONS.spec, name, shard)
        for first, last in steps(end - start, BLOCK_ROWS):
            writer.add(piece(np.arange(start + first, start + last), shard.files[0]))
            progress.advance(last - first)
        writer.close()
    part.rename(folder)


def run(made: Path, folder: Path, count: int, job: Job, progress: Progress) -> dict[str, object]:
    """The stages on what was made, in a folder for their files; how long, how much, how right."""
    shards = shards_of(count)
    keys = [shard.files[0].name for shard in shards]
    sketches = Sketches(shards, [BlockReader(made / key, SKETCHES_KIND) for key in keys])
    clock, disk = StageClock(), {"sketch": used(made)}
    with clock.stage("rank"):
        ranked = rank_and_collapse(job, folder, sketches, sketches, None, keys, [], progress)
    disk["rank"] = used(folder)
    with clock.stage("band"):
        buckets = band_documents(job, folder, ranked, progress)
    disk["band"] = used(folder)
    with clock.stage("match"):
        sets = CandidateMatcher(job, folder, ranked, progress).run()
        compare = PairComparer(job, sets, ranked.ranking, progress)
    disk["match"] = used(folder)
    with clock.stage("decide"):
        decided = decide_documents(job, folder, ranked, buckets, compare, progress)
        verdicts = RemovedDocuments(folder, job.budget)
        collect_removed(verdicts, decided.pairs, ranked.copies, ranked.ranking, False, 0)
    disk["decide"] = used(folder)
    return {
        "seconds": clock.seconds["total"],
        "stages": clock.stages,
        "disk": disk,
        "removed": verdicts.count,
        "comparisons": decided.tally.verified,
        "rounds": decided.tally.rounds,
        "wrong": wrong(verdicts, count),
    }


def used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def wrong(verdicts: RemovedDocuments, count: int) -> int:
    """How many documents are removed and should not be, or for another one, or not and should."""
    expected = np.zeros(count, bool)
    for start, end in steps(count, BLOCK_ROWS):
        copies = copies_in(np.arange(start, end))
        expected[copies] = should_go(copies)
    errors = 0
    for some in verdicts:
        good = expected[some.documents] & (some.witnesses == sources(some.documents))
        errors += int(np.count_nonzero(~good))
        expected[some.documents] = False
    return errors + int(np.count_nonzero(expected))


def should_go(copies: Numbers) -> NDArray[np.bool_]:
    """Similar enough, and the same in at least one whole band."""
    curve = OPTIONS.curve
    bands = replaced(copies)[:, : curve.slots].reshape(len(copies), curve.bands, curve.rows)
    similar = (SLOTS - amounts(copies)) / SLOTS >= OPTIONS.threshold
    found: NDArray[np.bool_] = similar & ~bands.any(axis=2).all(axis=1)
    return found


def main(task: str, made: Path, count: int, memory: str = "4GB", workers: str = "1") -> None:
    progress = PlainProgress()
    if task == "make":
        make(made, count, progress)
        return
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        job = Job(
            [], Path(folder), OPTIONS, Columns(), int(workers), budget=Budget(parse_bytes(memory))
        )
        print(json.dumps(run(made, Path(folder), count, job, progress)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
