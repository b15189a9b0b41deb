"""One run over files: sketch, band, match, decide, filter.

Each stage leaves files in a work folder, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.shards import cut
from neardup.errors import InputError, RowError
from neardup.pipeline import decisions, record, saved
from neardup.pipeline.boilerplate import ignored_lines
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.earlier import Earlier
from neardup.pipeline.ending import complete, write_tables
from neardup.pipeline.interrupts import Interruptible, held
from neardup.pipeline.job import Job
from neardup.pipeline.making import Making
from neardup.pipeline.output import check_output, output_folder
from neardup.pipeline.pairs import write_pairs
from neardup.pipeline.parts import Parts, merged
from neardup.pipeline.room import check_room
from neardup.pipeline.sketches import Sketches
from neardup.pipeline.stages import (
    SHARDS,
    SKETCHES,
    Matching,
    Ranked,
    Sketching,
    band,
    comparing,
    decide,
    rank,
)
from neardup.pipeline.status import Recorded
from neardup.pipeline.verdicts import Verdicts, collect
from neardup.pipeline.weighing import document_frequencies
from neardup.runtime import Progress
from neardup.text.frequencies import Frequencies

Make = Callable[[Job, Path, Progress], record.Finished]
Signals = Callable[[], AbstractContextManager[Callable[[], None]]]


def run(
    job: Job, progress: Progress, make: Make | None = None, signals: Signals = held
) -> record.Finished:
    """Do the job; OUT is complete afterwards, or as it was but for what the next run can use.

    `make` writes everything that belongs into OUT; near-duplicates are found unless it is given.
    `signals` says when Ctrl-C is obeyed.
    """
    make = make or near_duplicates
    check_output(job.out, job.inputs, job.folders, job.against)
    with signals() as obey, output_folder(job.out, job.force) as folder:
        finished = make(job, folder, Interruptible(Recorded(progress, folder), obey))
        obey()
    return finished


def near_duplicates(job: Job, folder: Path, progress: Progress) -> record.Finished:
    """Everything that belongs into OUT."""
    clock = record.Clock()
    with record.Hashing() as hashing:
        with clock.stage("sketch"):
            read = sketched(job, folder, progress)
            job, rows = read.job, read.sketches
            parts = Parts.of(rows) if job.merge_rows else None
            sketches = rows if parts is None else merged(job, rows, parts, folder / "merged")
        catalogue = Catalogue.of(rows, parts)
        hashing.add(*catalogue.files[catalogue.new :])
        with clock.stage("rank"):
            classes = [sketches.first_new, *preferred(job, catalogue)]
            ranked = rank(job, folder, sketches, rows, parts, read.keys, classes, progress)
        with clock.stage("band"):
            buckets = band(job, folder, ranked, progress)
        with clock.stage("match"):
            compare = comparing(job, Matching(job, folder, ranked, progress).run(), ranked)
        verdicts = Verdicts(folder, job.budget)
        with clock.stage("decide"):
            decided = decide(job, folder, ranked, buckets, compare, progress)
            exact, new = job.options.verify == "exact", sketches.first_new
            collect(verdicts, decided.pairs, ranked.copies, ranked.ranking, exact, new)
            sizes = record.BucketRecord(buckets, job.options.limit, ranked.state, decided.roots)
        with clock.stage("tables"):
            told = write_tables(folder, catalogue, sketches, verdicts, progress)
        pairs = None
        if job.pairs:
            with clock.stage("pairs"):
                progress.stage("pairing", len(sketches), "documents")
                pairs = write_pairs(job, folder, catalogue, ranked, buckets, compare)
        kept = catalogue.rows_kept(kept_documents(ranked))
        if job.kept:
            with clock.stage("filter"):
                decisions.write_files(folder / "kept", catalogue, kept, job.workers, progress)
        counts = record.Counts(
            len(sketches) - new, verdicts.count, ranked.identical, decided.tally, told.reasons, new
        )
        made = record.describe(job, counts)
        made["metrics"] |= sizes.metrics() | record.empty_bins(job.options.spec, sketches)
        made |= sizes.describe(catalogue, ranked.ranking)
        made |= {"pairs": pairs, "skipped_files": read.skipped}
        made |= record.ignored_lines(job.ignored)
        made["inputs"] = hashing.inputs(catalogue)
    finished = complete(job, folder, made, told, clock, rows.shards[len(read.earlier.shards) :])
    ranked.copies.close()
    verdicts.close()
    if len(job.ignored):
        (folder / saved.IGNORED).write_bytes(job.ignored.to_bytes())
    if job.frequencies:
        (folder / saved.FREQUENCIES).write_bytes(job.frequencies.to_bytes())
    if job.save_sketches:
        saved.save(folder / SHARDS, rows, kept, job.options.spec, job.ignored, job.frequencies)
        (folder / SHARDS).rename(folder / SKETCHES)
    return finished


@dataclass(frozen=True)
class Read:
    """All documents, sketched; the job as it is now known; the files that had to be skipped."""

    job: Job
    earlier: Earlier
    sketches: Sketches
    keys: list[str]
    skipped: list[dict[str, Any]]


def sketched(job: Job, folder: Path, progress: Progress, making: Making | None = None) -> Read:
    """Everything that can be read, sketched; or what else is to be made of it."""
    earlier = Earlier.of(job.against)
    bad: dict[str, str] = {}
    sketching = Sketching(job, folder, progress, making)
    while True:
        try:
            shards = cut(job.in_order(), job.reading, set(bad))
            if not bad:
                check_room(job, folder, shards, progress, making)
            ignored = earlier.ignored
            if job.options.strip.lines is not None and not len(ignored):
                ignored = ignored_lines(job, folder, shards, progress)
            job = replace(job, options=job.options.ignoring(ignored.digest), ignored=ignored)
            frequencies = Frequencies()
            if job.options.weights == "tf-idf":
                frequencies = earlier.frequencies or document_frequencies(
                    job, folder, shards, progress
                )
            options = job.options.weighing(frequencies.stated)
            job = replace(job, options=options, frequencies=frequencies)
            exact = job.options.verify == "exact"
            earlier.check(job.storing, exact, job.columns.within)
            others = cut(earlier.inputs, replace(job.reading, columns=job.columns.plain))
            sketching.run(job, [*others, *shards])
            break
        except RowError:
            raise
        except InputError as error:
            if not job.skip_bad_files or error.file is None or error.file in bad:
                raise
            bad[error.file] = str(error)
            progress.say(f"skipped: {error}")
    sketches = Sketches(
        [*earlier.shards, *others, *shards],
        [*earlier.files, *sketching.files],
        len(earlier.shards) + len(others),
        earlier.kept,
    )
    skipped = [{"file": file, "reason": why} for file, why in bad.items()]
    return Read(job, earlier, sketches, [*earlier.keys, *sketching.keys], skipped)


def preferred(job: Job, catalogue: Catalogue) -> list[int]:
    """The number of the first document that is not in a preferred input, if some are."""
    if job.prefer is None:
        return []
    count = sum(map(job.prefers, catalogue.files[catalogue.new :]))
    first = int(catalogue.starts[catalogue.new + count])
    if catalogue.parts is None:
        return [first]
    # Documents are numbered by their first row.
    return [int(np.searchsorted(catalogue.parts.rows[catalogue.parts.starts[:-1]], first))]


def kept_documents(ranked: Ranked) -> NDArray[np.bool_]:
    """Which documents stay, in input order."""
    kept: NDArray[np.bool_] = (ranked.state & 1) == 1
    if ranked.ranking.order is None:
        return kept
    found = np.empty(len(kept), bool)
    found[ranked.ranking.order] = kept
    return found
