"""Count what became of the documents of each source: a file, or a value of --source.

Files that are one document each count by their folder. Values are counted by their hashes, in as
many passes over the sketches as the memory budget requires.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.inputs import InputFile
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.job import Job
from neardup.pipeline.sketch_files import Sketches
from neardup.source_counts import GroupCounts, SourceSummary, SourceTally

ALL = ""
"""The only source of documents that are in no files of the user's."""

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


def count_by_source(
    job: Job, catalogue: Catalogue, sketches: Sketches, kept: Mask
) -> SourceSummary:
    """Return what became of the new documents of each source.

    Args:
        job: The job, which says what a source is.
        catalogue: The files of the documents.
        sketches: The documents, which say what was rejected.
        kept: For each document whether it is kept.
    """
    tally = SourceTally(None, job.limits)
    names = [source_of(file) if job.has_files else ALL for file in catalogue.files[catalogue.new :]]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    group = np.array([numbers[name] for name in names], np.int64)
    counts = _count_by_file(catalogue, sketches, kept)[:, catalogue.new :]
    summed = np.zeros((3, len(numbers)), np.int64)
    for row, values in zip(summed, counts, strict=True):
        np.add.at(row, group, values)
    tally.add(GroupCounts(np.arange(len(numbers)), *summed))
    listed = list(numbers)
    return tally.summary(lambda chosen: [listed[number] for number in chosen])


def source_of(file: InputFile) -> str:
    """Return the source of a file: its name; of one that is a document, that of its folder."""
    if not file.row.is_document:
        return file.name
    return file.name.rpartition("/")[0] or "."


def _count_by_file(catalogue: Catalogue, sketches: Sketches, kept: Mask) -> Integers:
    """Return for each file its new documents, the kept and the removed ones, as three rows."""
    starts = catalogue.starts
    counts = np.zeros((3, len(catalogue.files)), np.int64)
    for block in sketches.blocks:
        if block.start < sketches.first_new or not block.rows:
            continue
        rows = catalogue.first_rows(np.arange(block.start, block.end))
        first, last = (np.searchsorted(starts, rows[[0, -1]], side="right") - 1).tolist()
        bounds = np.searchsorted(rows, starts[first : last + 2])
        stays = kept[block.start : block.end]
        goes = block.usable() & ~stays
        counts[0, first : last + 1] += np.diff(bounds)
        for row, flags in ((1, stays), (2, goes)):
            summed = np.concatenate([[0], np.cumsum(flags)])
            counts[row, first : last + 1] += np.diff(summed[bounds])
    return counts
