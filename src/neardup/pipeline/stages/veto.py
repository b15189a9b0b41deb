"""Find the documents that only --distinguish or --unless keeps; write them to vetoed.parquet.

The documents are decided twice: as if the option were not given, for this list, and with it. Both
decisions compare the same sets of shingles; identical documents and buckets are their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup.formats import tables
from neardup.formats.tables import TableWriter
from neardup.options import Options
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.job import Job
from neardup.pipeline.stages.band import CANDIDATE, BucketFiles, band_documents
from neardup.pipeline.stages.compare import LexicalComparer, PairComparer
from neardup.pipeline.stages.decide import decide_documents
from neardup.pipeline.stages.rank import RankedDocuments, rank_and_collapse
from neardup.pipeline.stages.removed import RemovedDocuments, collect_removed
from neardup.pipeline.stages.tables import (
    CatalogueLookup,
    removed_columns,
    signal_columns,
    write_samples,
)
from neardup.runtime import Progress

FOLDER = "undistinguished"
SAMPLED = 10
"""The number of vetoed documents whose texts the report shows."""


@dataclass
class Undistinguished:
    """The documents as they would be decided without --distinguish or --unless.

    folder   for the files of the stages
    ranked   the documents in the same order, with more identical copies
    buckets  those of documents that nothing distinguishes
    """

    folder: Path
    ranked: RankedDocuments
    buckets: BucketFiles

    @classmethod
    def of(
        cls, job: Job, folder: Path, ranked: RankedDocuments, progress: Progress
    ) -> Undistinguished | None:
        """Collapse and band the documents once more; None if no option keeps similar ones."""
        if not job.vetoes:
            return None
        folder = folder / FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        sketches = ranked.sketches.undistinguished()
        other = rank_and_collapse(
            job,
            folder,
            sketches,
            ranked.rows,
            None,
            ranked.keys,
            ranked.classes,
            progress,
            ranked.overrides,
        )
        return cls(folder, other, band_documents(job, folder, other, progress))

    def add_candidates(self, ranked: RankedDocuments) -> RankedDocuments:
        """Return the ranked documents with the candidates of both decisions."""
        return replace(ranked, state=ranked.state | self.ranked.state & CANDIDATE)

    def decide(self, job: Job, compare: PairComparer, progress: Progress) -> RemovedDocuments:
        """Return the documents that would be removed."""
        ranked, options = self.ranked, job.options
        keeps_none, two = options.keep_policy.keeps_none, options.has_two_signals
        removed = RemovedDocuments(self.folder, job.budget, keeps_none, two)
        judge: PairComparer | LexicalComparer = compare
        if options.vetoes_by_vectors:
            judge = LexicalComparer(compare, options.threshold)
        decided = decide_documents(job, self.folder, ranked, self.buckets, judge, progress)
        exact, first_new = options.verify == "exact", ranked.sketches.first_new
        numbers = compare.numbers if two else None
        collect_removed(
            removed, decided.pairs, ranked.copies, ranked.ranking, exact, first_new, numbers
        )
        ranked.copies.close()
        return removed


def write_vetoed(
    folder: Path,
    catalogue: Catalogue,
    removed: RemovedDocuments,
    kept: NDArray[np.bool_],
    options: Options,
) -> int:
    """Write vetoed.parquet, and the texts of some to vetoed-samples.parquet; return how many.

    Args:
        folder: The folder that becomes OUT.
        catalogue: The names and places of the documents.
        removed: The documents that would be removed without the option.
        kept: For each document whether it is kept.
        options: The options of the run.
    """
    count = 0
    sampled: dict[int, list[tuple[float, int]]] = {}
    two = options.has_two_signals
    schema = tables.VETOED_WITH_COSINE if two else tables.VETOED
    with TableWriter(folder / "vetoed.parquet", schema) as table:
        for batch in removed:
            batch = batch.take(kept[batch.documents])
            columns = removed_columns(catalogue, batch)
            table.add(columns | (signal_columns(options, batch) if two else {}))
            count += len(batch.documents)
            for document, witness, similarity in zip(
                batch.documents.tolist(),
                batch.witnesses.tolist(),
                batch.similarity.tolist(),
                strict=True,
            ):
                if len(sampled) == SAMPLED:
                    break
                # One of each witness: the others often differ from it in the same place.
                sampled.setdefault(witness, [(similarity, document)])
    witnesses = [(witness, 1) for witness in sampled]
    lookup = CatalogueLookup(catalogue)
    write_samples(folder / "vetoed-samples.parquet", lookup, witnesses, sampled)
    removed.close()
    return count
