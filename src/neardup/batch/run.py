"""One run over files: sketch, band, match, decide, filter.

Each stage leaves files in a work folder, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.batch import decisions, record, samples
from neardup.batch.budget import peak_memory
from neardup.batch.catalogue import Catalogue
from neardup.batch.interrupts import Interruptible, held
from neardup.batch.job import Job, Progress
from neardup.batch.output import RUN, check_output, output_folder
from neardup.batch.pairs import write_pairs
from neardup.batch.sketching import Reading
from neardup.batch.stages import Matching, Ranked, Sketching, band, comparing, decide, rank
from neardup.batch.verdicts import Verdicts, collect
from neardup.corpus.shards import cut
from neardup.errors import InputError, RowError
from neardup.formats.tables import write_json

Make = Callable[[Job, Path, Progress], record.Finished]


def run(job: Job, progress: Progress, make: Make | None = None) -> record.Finished:
    """Do the job; OUT is complete afterwards, or as it was but for what the next run can use.

    `make` writes everything that belongs into OUT; near-duplicates are found unless it is given.
    """
    make = make or near_duplicates
    check_output(job.out, job.inputs, job.folders)
    with held() as obey, output_folder(job.out, job.force) as folder:
        finished = make(job, folder, Interruptible(progress, obey))
        obey()
    return finished


def near_duplicates(job: Job, folder: Path, progress: Progress) -> record.Finished:
    """Everything that belongs into OUT."""
    clock = record.Clock()
    with record.Hashing() as hashing:
        with clock.stage("sketch"):
            sketching, skipped = sketched(job, folder, progress)
        sketches = sketching.sketches
        catalogue = Catalogue.of(sketches)
        for file in catalogue.files:
            hashing.add(file)
        with clock.stage("rank"):
            ranked = rank(job, folder, sketches, sketching.keys, progress)
        with clock.stage("band"):
            buckets = band(job, folder, ranked, progress)
        with clock.stage("match"):
            compare = comparing(job, Matching(job, folder, ranked, progress).run(), ranked)
        with clock.stage("decide"):
            decided = decide(job, folder, ranked, buckets, compare, progress)
            verdicts = Verdicts(folder, job.budget)
            exact = job.options.verify == "exact"
            collect(verdicts, decided.pairs, ranked.copies, ranked.ranking, exact, 0)
            sizes = record.BucketRecord(buckets, job.options.limit, ranked.state, decided.roots)
        with clock.stage("tables"):
            progress.stage("writing tables", verdicts.count, "documents")
            decisions.write_removed(folder, catalogue, verdicts)
            largest = decisions.write_clusters(folder, catalogue, verdicts, samples.CLUSTERS)
            reasons = decisions.write_rejected(folder, catalogue)
            examples = samples.write(folder, job, catalogue, verdicts, largest)
        pairs = None
        if job.pairs:
            with clock.stage("pairs"):
                progress.stage("pairing", len(sketches), "documents")
                pairs = write_pairs(job, folder, catalogue, ranked, buckets, compare)
        if job.kept:
            with clock.stage("filter"):
                kept = kept_documents(ranked)
                decisions.write_files(folder / "kept", catalogue, kept, progress)
        counts = record.Counts(
            len(sketches), verdicts.count, ranked.identical, decided.tally, reasons
        )
        made = record.describe(job, counts)
        made["metrics"] |= sizes.metrics()
        made |= sizes.describe(catalogue, ranked.ranking)
        made |= {"pairs": pairs, "skipped_files": skipped, "inputs": hashing.inputs(catalogue)}
    for shard in sketches.shards:
        shard.check()
    made |= {
        "seconds": clock.seconds, "stages": clock.stages, "peak_memory_bytes": peak_memory(),
        "memory_budget_bytes": job.budget.total,
    }  # fmt: skip
    write_json(folder / RUN, made)
    job.finish(folder)
    ranked.copies.close()
    verdicts.close()
    return record.Finished(made, samples.named(catalogue, largest), examples)


def sketched(
    job: Job, folder: Path, progress: Progress, read: Reading | None = None
) -> tuple[Sketching, list[dict[str, Any]]]:
    """Everything that can be read, sketched; and the files that can't, if these may be skipped."""
    bad: dict[str, str] = {}
    sketching = Sketching(job, folder, progress, read)
    while True:
        try:
            sketching.run(cut(job.inputs, job.shard, set(bad)))
            return sketching, [{"file": file, "reason": why} for file, why in bad.items()]
        except RowError:
            raise
        except InputError as error:
            if not job.skip_bad_files or error.file is None or error.file in bad:
                raise
            bad[error.file] = str(error)
            progress.say(f"skipped: {error}")


def kept_documents(ranked: Ranked) -> NDArray[np.bool_]:
    """Which documents stay, in input order."""
    kept: NDArray[np.bool_] = (ranked.state & 1) == 1
    if ranked.ranking.order is None:
        return kept
    found = np.empty(len(kept), bool)
    found[ranked.ranking.order] = kept
    return found
