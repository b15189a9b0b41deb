"""Run `neardup exact`: remove exact duplicates of documents, paragraphs or lines.

The stages of `run.py` without sketches: hash, compare, tables, filter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import neardup
from neardup.corpus.documents import Columns
from neardup.corpus.rows import Edit, Integers
from neardup.corpus.streams import changed_error
from neardup.errors import UsageError
from neardup.formats import tables
from neardup.formats.tables import TableWriter
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.exact_filter import ExactFilter, filter_documents
from neardup.pipeline.exact_hashes import ExactSpec, HashMaker
from neardup.pipeline.exact_repeats import Cuts, find_repeats
from neardup.pipeline.job import Job
from neardup.pipeline.record import (
    LISTED_REASONS,
    FinishedRun,
    InputHasher,
    StageClock,
    describe_input_options,
    describe_limits,
    describe_undated,
    describe_unread,
    finish_run,
)
from neardup.pipeline.run import find_preferred, mark_kept
from neardup.pipeline.run_inputs import describe_reading
from neardup.pipeline.sorting import Records
from neardup.pipeline.sources import count_by_source
from neardup.pipeline.stage_files import digest
from neardup.pipeline.stages.rank import rank_and_collapse, rank_documents
from neardup.pipeline.stages.removed import RemovedDocuments, collect_removed
from neardup.pipeline.stages.sketch import SketchedInputs, sketch_inputs
from neardup.pipeline.stages.tables import write_kept_files, write_tables
from neardup.runtime import Progress


@dataclass(frozen=True)
class ExactDecision:
    """For each document, in input order, whether it is kept; and the parts to cut from documents.

    `filter` is the description of the filter for run.json; `undated` the number of documents
    without a date, if the keep policy compares dates.
    """

    kept: NDArray[np.bool_]
    cuts: Cuts | None = None
    filter: dict[str, Any] | None = None
    undated: int = 0


@dataclass(frozen=True)
class ExactDuplicates:
    """Finds exact duplicates, and writes everything that belongs into OUT: for `run_job`."""

    exact_spec: ExactSpec
    filtering: ExactFilter | None = None

    def __call__(self, job: Job, folder: Path, progress: Progress) -> FinishedRun:
        clock = StageClock()
        if self.exact_spec.unit != "document" and job.options.keep_policy.keeps_none:
            raise UsageError(
                "--keep none is about documents: use --unit document, or another policy"
            )
        if self.exact_spec.unit != "document":
            job = replace(job, columns=replace(job.columns, rewritten=True))
        with InputHasher(job.backend) as hasher:
            with clock.stage("hash"):
                if self.filtering is not None:
                    self.filtering.announce(job, self.exact_spec, progress)
                read = sketch_inputs(job, folder, progress, HashMaker(self.exact_spec))
            sketches = read.sketches
            catalogue = Catalogue.of(sketches)
            hasher.add(*catalogue.files)
            verdicts = RemovedDocuments(folder, job.budget, job.options.keep_policy.keeps_none)
            with clock.stage("compare"):
                classes = find_preferred(job, catalogue)
                decided = self._compare(job, folder, read, classes, verdicts, progress)
            sources = count_by_source(job, catalogue, sketches, decided.kept)
            sources.check(job.limits)
            with clock.stage("tables"):
                summary = write_tables(folder, catalogue, sketches, verdicts, progress)
                if decided.cuts is not None:
                    _write_cuts(folder, catalogue, decided.cuts)
            if job.kept:
                with clock.stage("filter"):
                    _write_kept(folder / "kept", job, catalogue, decided, progress)
            described = self._describe(job, len(sketches), verdicts.count, summary.reasons, decided)
            described |= {"skipped_files": read.skipped, "sources": sources.stated}
            described["inputs"] = hasher.inputs(catalogue)
            described |= job.backend.describe()
            described["not_documents"] = dict(read.sketches.unread().most_common())
        finished = finish_run(job, folder, described, summary, clock, sketches.shards)
        verdicts.close()
        return finished

    def _compare(
        self,
        job: Job,
        folder: Path,
        read: SketchedInputs,
        classes: list[int],
        verdicts: RemovedDocuments,
        progress: Progress,
    ) -> ExactDecision:
        if self.filtering is not None:
            result = filter_documents(self.filtering, job, read.sketches, verdicts, progress)
            return ExactDecision(result.kept, filter=result.described)
        compare = _compare_documents if self.exact_spec.unit == "document" else self._compare_parts
        return compare(job, folder, read, classes, verdicts, progress)

    def _compare_parts(
        self,
        job: Job,
        folder: Path,
        read: SketchedInputs,
        classes: list[int],
        verdicts: RemovedDocuments,
        progress: Progress,
    ) -> ExactDecision:
        """Cut repeated parts; remove documents that lose all parts."""
        ranking = rank_documents(read.sketches, job.options, classes)
        key = digest(read.keys, job.options.keep, classes)
        file = find_repeats(job, folder, read.sketches, key, ranking, progress)
        cuts = Cuts(read.sketches, file, self.exact_spec)
        for documents, witnesses, share in cuts.removed():
            verdicts.add(documents, witnesses, share, True)
        return ExactDecision(cuts.kept, cuts, undated=ranking.undated)

    def _describe(
        self, job: Job, documents: int, removed: int, reasons: Counter[str], decided: ExactDecision
    ) -> dict[str, Any]:
        """Return the specification, parameters and counts for run.json."""
        rejected, columns = reasons.total(), job.columns
        witnessed = self.filtering is None or self.filtering.kind == "set"
        whole = decided.cuts is None and witnessed
        cut = {} if decided.cuts is None else {"cut": asdict(decided.cuts.tally)}
        by_filter = {} if decided.filter is None else {"filter": decided.filter}
        return {
            "version": neardup.__version__,
            "spec": self.exact_spec.stated,
            "fingerprint": self.exact_spec.fingerprint,
            "parameters": {
                "keep": job.options.keep,
                "prefer": job.prefer,
                "text": columns.text,
                "id": columns.id,
                "within": columns.within,
                "workers": job.workers,
                "kept_files": job.kept,
                "strict": job.strict,
                "skip_bad_files": job.skip_bad_files,
                **describe_input_options(job),
                **describe_limits(job),
                "filter": None if self.filtering is None else self.filtering.kind,
            },
            "reading": describe_reading(job.reading),
            "counts": {
                "documents": documents,
                "kept": documents - removed - rejected,
                "removed": removed,
                "rejected": rejected,
                "identical": removed if whole else 0,
                **describe_undated(job.options, decided.undated),
            },
            **cut,
            **by_filter,
            "reasons": dict(reasons.most_common(LISTED_REASONS)),
            **describe_unread(job),
        }


def _compare_documents(
    job: Job,
    folder: Path,
    read: SketchedInputs,
    classes: list[int],
    verdicts: RemovedDocuments,
    progress: Progress,
) -> ExactDecision:
    """Keep the best-ranked of identical documents."""
    rows = read.sketches
    ranked = rank_and_collapse(job, folder, rows, rows, None, read.keys, classes, progress)
    no_pairs: Iterator[Records] = iter(())
    leaders = collect_removed(verdicts, no_pairs, ranked.copies, ranked.ranking, True, 0)
    ranked.copies.close()
    kept = mark_kept(ranked)
    kept[leaders] = False
    return ExactDecision(kept, undated=ranked.ranking.undated)


def _write_cuts(folder: Path, catalogue: Catalogue, cuts: Cuts) -> None:
    """Write cut.parquet: every document that loses parts, in input order."""
    with TableWriter(folder / "cut.parquet", tables.CUT) as table:
        for documents, units, size in cuts.documents():
            file, row = catalogue.place(documents)
            table.add(
                {
                    "id": catalogue.names(documents),
                    "file": file,
                    "row": row,
                    "units": units,
                    "bytes": size,
                }
            )


def _write_kept(
    folder: Path, job: Job, catalogue: Catalogue, decided: ExactDecision, progress: Progress
) -> None:
    edits = None
    if decided.cuts is not None:
        edits = _KeptEdits(catalogue, decided.cuts, job.columns.text)
    write_kept_files(job, folder, catalogue, decided.kept, progress, edits)


@dataclass(frozen=True)
class _KeptEdits:
    """Returns the rows of a file that get a shorter text, for the number of the file."""

    catalogue: Catalogue
    cuts: Cuts
    text: str

    def __call__(self, place: int) -> Edit:
        start, end = self.catalogue.starts[place : place + 2].tolist()

        def rewrite(rows: Integers, texts: pa.Array) -> pa.Array:
            shortened = self.cuts.rewrite(rows + start, texts)
            if shortened is None:
                raise changed_error(self.catalogue.files[place])
            return shortened

        return Edit(self.cuts.shorter[start:end], Columns(text=self.text, rewritten=True), rewrite)
