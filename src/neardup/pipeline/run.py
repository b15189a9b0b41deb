"""Run a job over local files: sketch, rank, band, match, decide, write.

Each stage leaves files in a work folder, so that a stopped run can resume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.inputs import InputFile
from neardup.corpus.standard_input import copy_standard_input, is_standard_input
from neardup.formats.blocks import remove_abandoned
from neardup.pipeline import record
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.decided import find_overrides, write_decided
from neardup.pipeline.earlier_answer import find_earlier_answer
from neardup.pipeline.job import Job
from neardup.pipeline.merge_rows import DocumentRows, merge_sketches
from neardup.pipeline.output import check_output, output_folder
from neardup.pipeline.output_file import OutputFile, check_file, output_file
from neardup.pipeline.record import finish_run
from neardup.pipeline.run_inputs import describe_earlier
from neardup.pipeline.run_progress import InterruptibleProgress, RecordedProgress, hold_signals
from neardup.pipeline.saved import save_sketches, write_lists
from neardup.pipeline.sources import count_by_source
from neardup.pipeline.stages.annotate import write_annotations
from neardup.pipeline.stages.band import band_documents
from neardup.pipeline.stages.compare import PairComparer
from neardup.pipeline.stages.decide import decide_documents
from neardup.pipeline.stages.decide_again import decide_again
from neardup.pipeline.stages.match import CandidateMatcher
from neardup.pipeline.stages.pairs import write_pairs
from neardup.pipeline.stages.rank import RankedDocuments, rank_and_collapse
from neardup.pipeline.stages.removed import RemovedDocuments, collect_removed
from neardup.pipeline.stages.sketch import SHARDS_FOLDER, SKETCHES_FOLDER, sketch_inputs
from neardup.pipeline.stages.tables import write_kept_files, write_tables
from neardup.pipeline.stages.veto import Undistinguished, write_vetoed
from neardup.runtime import Progress

MakeOutput = Callable[[Job, Path, Progress], record.FinishedRun]


def run_job(
    job: Job,
    progress: Progress,
    make: MakeOutput | None = None,
) -> record.FinishedRun:
    """Run the job. OUT is complete afterwards, or unchanged but for files that a resumed run uses.

    `make` writes everything that belongs into OUT; by default it is `find_near_duplicates`.
    """
    make = make or find_near_duplicates
    for hint in job.hints:
        progress.say(hint)
    if job.file is not None:
        return _run_to_file(job, job.file, progress, make)
    check_folder(job)
    with hold_signals() as obey, output_folder(job.out, job.force, job.can_resume) as folder:
        shown = InterruptibleProgress(RecordedProgress(progress, folder), obey)
        inputs = copy_standard_input(job.inputs, job.input_options, folder, shown)
        finished = make(replace(job, inputs=inputs), folder, shown)
        obey()
        if job.removed is not None:
            job.removed.write(folder)
    return finished


def check_folder(job: Job) -> None:
    """Refuse an output folder, or a list beside it, that a run reads or that is not its own."""
    inputs = _stored(job.inputs)
    check_output(job.out, inputs, job.folders, job.against)
    if job.removed is not None:
        job.removed.check_beside(job.out)
        check_file(job.removed.path, inputs, job.folders, job.force, job.against)


def _run_to_file(
    job: Job, file: OutputFile, progress: Progress, make: MakeOutput
) -> record.FinishedRun:
    """Run a job whose output is one file, or standard output."""
    file.check(_stored(job.inputs), job.folders, job.force, job.against)
    with output_file(file, job.force, job.can_resume) as folder:
        with hold_signals() as obey:
            shown = InterruptibleProgress(RecordedProgress(progress, folder), obey)
            inputs = copy_standard_input(job.inputs, job.input_options, folder, shown)
            kept_file = file.choose_format(inputs)
            kept_file.check(inputs)
            finished = make(replace(job, inputs=inputs, kept_file=kept_file), folder, shown)
            obey()
        # Signals take effect at once again: a reader of standard output may be slow.
        file.deliver(folder, kept_file.name)
    return finished


def _stored(inputs: Iterable[InputFile]) -> list[InputFile]:
    """Return the inputs that are files already: not standard input."""
    return [file for file in inputs if not is_standard_input(file)]


def find_near_duplicates(
    job: Job, folder: Path, progress: Progress, clock: record.StageClock | None = None
) -> record.FinishedRun:
    """Find near-duplicates, and write everything that belongs into OUT to `folder`.

    `clock` is that of a run which has begun already.
    """
    clock = clock or record.StageClock()
    with record.InputHasher(job.backend) as hasher:
        with clock.stage("sketch"):
            read = sketch_inputs(job, folder, progress)
            job, rows = read.job, read.sketches
            parts = DocumentRows.of(rows) if job.merge_rows else None
            sketches = (
                rows if parts is None else merge_sketches(job, rows, parts, folder / "merged")
            )
        catalogue = Catalogue.of(rows, parts)
        hasher.add(*catalogue.files[catalogue.new :])
        with clock.stage("rank"):
            classes = [sketches.first_new, *find_preferred(job, catalogue)]
            overrides = find_overrides(job, catalogue, lambda: hasher.inputs(catalogue), progress)
            ranked = rank_and_collapse(
                job, folder, sketches, rows, parts, read.keys, classes, progress, overrides
            )
        with clock.stage("band"):
            buckets = band_documents(job, folder, ranked, progress)
            others = Undistinguished.of(job, folder, ranked, progress)
        earlier = find_earlier_answer(job, catalogue, progress)
        if earlier is None:
            with clock.stage("match"):
                candidates = ranked if others is None else others.add_candidates(ranked)
                sets = CandidateMatcher(job, folder, candidates, progress).run()
                compare = PairComparer(job, sets, ranked.ranking, progress)
        verdicts = RemovedDocuments(
            folder, job.budget, job.options.keep_policy.keeps_none, job.options.has_two_signals
        )
        with clock.stage("decide"):
            if earlier is None:
                decided = decide_documents(job, folder, ranked, buckets, compare, progress)
            else:
                decided, compare = decide_again(job, folder, ranked, buckets, earlier, progress)
            exact, first_new = job.options.verify == "exact", sketches.first_new
            numbers = compare.numbers if job.options.has_two_signals else None
            leaders = collect_removed(
                verdicts, decided.pairs, ranked.copies, ranked.ranking, exact, first_new, numbers
            )
            verdicts.add_unwitnessed(ranked.dropped)
            sizes = record.BucketStatistics(buckets, job.options.limit, ranked.state, decided.roots)
            would_remove = None if others is None else others.decide(job, compare, progress)
        kept_documents = mark_kept(ranked)
        kept_documents[leaders] = False
        sources = count_by_source(job, catalogue, sketches, kept_documents)
        if job.annotate != "all":  # which removes nothing
            sources.check(job.limits)
        kept = catalogue.rows_kept(kept_documents)
        looked = read.first.describe(job.options)
        with clock.stage("tables"):
            summary = write_tables(
                folder, catalogue, sketches, verdicts, progress, overrides, job.options
            )
            if overrides is not None:
                write_decided(folder, catalogue, verdicts, first_new, overrides, kept_documents)
            vetoed = None
            if would_remove is not None:
                vetoed = write_vetoed(folder, catalogue, would_remove, kept, job.options)
            if parts is None:
                looked["scripts"] = read.scripts.decided(read.starts, kept_documents, verdicts)
        pairs = None
        if job.pairs:
            with clock.stage("pairs"):
                pairs = write_pairs(job, folder, catalogue, ranked, buckets, compare, progress)
        compare.forget()
        if job.kept:
            with clock.stage("filter"):
                notes, same = None, None
                if job.annotate is not None:
                    notes = folder / "annotations"
                    write_annotations(notes, catalogue, verdicts, len(sketches))
                elif earlier is not None:
                    same = earlier.kept_files(job, catalogue, kept)
                written = kept if job.annotate != "all" else mark_compared(ranked)
                write_kept_files(
                    job, folder / "kept", catalogue, written, progress, None, notes, same
                )
        counts = record.RunCounts(
            len(sketches) - first_new,
            verdicts.count,
            ranked.identical,
            decided.tally,
            summary.reasons,
            first_new,
            summary.tally.by_earlier,
            vetoed,
            ranked.ranking.undated,
            None if overrides is None else len(ranked.dropped),
            summary.tally.by_signal,
        )
        described = record.describe_run(job, counts)
        described["metrics"] |= sizes.metrics() | record.measure_empty_bins(
            job.options.spec, sketches
        )
        described |= sizes.describe(catalogue, ranked.ranking)
        described |= {"pairs": pairs, "skipped_files": read.skipped}
        described["not_documents"] = dict(rows.unread().most_common())
        described |= record.describe_ignored_lines(job.ignored)
        described |= looked
        if job.has_files or job.columns.source is not None:
            described["sources"] = sources.stated
        if overrides is not None:
            described["decisions"] = overrides.described
        if earlier is not None:
            described["decisions"]["judged_again"] = decided.judged
        described["inputs"] = hasher.inputs(catalogue)
        described |= describe_earlier(rows.shards[: rows.earlier])
        described |= job.backend.describe()
    finished = finish_run(
        job, folder, described, summary, clock, rows.shards[len(read.earlier.shards) :]
    )
    ranked.copies.close()
    verdicts.close()
    write_lists(folder, job.ignored, job.frequencies, job.centre)
    if job.save_sketches:
        counted = job.ignored, job.frequencies, job.centre
        save_sketches(
            folder / SHARDS_FOLDER,
            rows,
            kept,
            job.options.spec,
            *counted,
            tables=job.save_sketches == "parquet",
        )
        remove_abandoned(folder / SHARDS_FOLDER)
        (folder / SHARDS_FOLDER).rename(folder / SKETCHES_FOLDER)
    return finished


def find_preferred(job: Job, catalogue: Catalogue) -> list[int]:
    """Return the number of the first document of no preferred input; [] without --prefer."""
    if job.prefer is None:
        return []
    count = sum(map(job.prefers, catalogue.files[catalogue.new :]))
    first = int(catalogue.starts[catalogue.new + count])
    if catalogue.parts is None:
        return [first]
    # Documents are numbered by their first row.
    return [int(np.searchsorted(catalogue.parts.rows[catalogue.parts.starts[:-1]], first))]


def mark_compared(ranked: RankedDocuments) -> NDArray[np.bool_]:
    """Return for each document whether it is kept or a copy, and not rejected or dropped."""
    usable = [block.usable() for block in ranked.sketches.blocks]
    compared = np.concatenate([np.empty(0, bool), *usable])
    compared[ranked.dropped] = False
    return compared


def mark_kept(ranked: RankedDocuments) -> NDArray[np.bool_]:
    """Return for each document, in input order, whether it is kept."""
    kept_by_rank: NDArray[np.bool_] = (ranked.state & 1) == 1
    if ranked.ranking.order is None:
        return kept_by_rank
    kept = np.empty(len(kept_by_rank), bool)
    kept[ranked.ranking.order] = kept_by_rank
    return kept
