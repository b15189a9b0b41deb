"""Count what became of the documents of each source: a file, or a value of --source.

Files that are one document each count by their folder. Values are counted by their hashes, in as
many passes over the sketches as the memory budget requires.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.inputs import InputFile
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.job import Job
from neardup.pipeline.sketch_files import SketchBlock, Sketches
from neardup.pipeline.stages.rank import in_slice
from neardup.sketcher import hash_groups
from neardup.source_counts import GroupCounts, SourceSummary, SourceTally, count_values

ALL = ""
"""The only source of documents that are in no files of the user's."""
BYTES_PER_SOURCE = 120
"""About the memory for counting a source by its hash, and for adding others to it."""
MORE_BITS = 2
LEAST_HELD = 1 << 16

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
    tally = SourceTally(job.columns.source, job.limits)
    if job.columns.source is None:
        return _sum_files(job, catalogue, _count_by_file(catalogue, sketches, kept), tally)
    most = max(job.budget.share(4) // BYTES_PER_SOURCE, 1)
    for groups in _count_by_value(sketches, kept, most):
        tally.add(groups)
    return tally.summary(lambda chosen: _read_values(sketches, chosen))


def _sum_files(
    job: Job, catalogue: Catalogue, counts: Integers, tally: SourceTally
) -> SourceSummary:
    """Return the summary of the sources that files are, by the counts of each file."""
    names = [source_of(file) if job.has_files else ALL for file in catalogue.files[catalogue.new :]]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    group = np.array([numbers[name] for name in names], np.int64)
    summed = np.zeros((3, len(numbers)), np.int64)
    for row, values in zip(summed, counts[:, catalogue.new :], strict=True):
        np.add.at(row, group, values)
    tally.add(GroupCounts(np.arange(len(numbers)), *summed))
    listed = list(numbers)
    return tally.summary(lambda chosen: [listed[number] for number in chosen])


def source_of(file: InputFile) -> str:
    """Return the source of a file: its name; of one that is a document, that of its folder."""
    if not file.row.is_document:
        return file.name
    return file.name.rpartition("/")[0] or "."


def _new_blocks(sketches: Sketches, kept: Mask) -> Iterator[tuple[SketchBlock, Mask, Mask]]:
    """Yield the blocks of new documents, which of these are kept, and which are removed."""
    for block in sketches.blocks:
        if block.start >= sketches.first_new and block.rows:
            stays = kept[block.start : block.end]
            yield block, stays, block.usable() & ~stays


def _count_by_file(catalogue: Catalogue, sketches: Sketches, kept: Mask) -> Integers:
    """Return for each file its new documents, the kept and the removed ones, as three rows."""
    starts = catalogue.starts
    counts = np.zeros((3, len(catalogue.files)), np.int64)
    for block, stays, goes in _new_blocks(sketches, kept):
        rows = catalogue.first_rows(np.arange(block.start, block.end))
        first, last = (np.searchsorted(starts, rows[[0, -1]], side="right") - 1).tolist()
        bounds = np.searchsorted(rows, starts[first : last + 2])
        counts[0, first : last + 1] += np.diff(bounds)
        for row, flags in ((1, stays), (2, goes)):
            summed = np.concatenate([[0], np.cumsum(flags)])
            counts[row, first : last + 1] += np.diff(summed[bounds])
    return counts


def _count_by_value(sketches: Sketches, kept: Mask, most: int) -> Iterator[GroupCounts]:
    """Yield the counts of all values of the column of sources, slice by slice of their hashes.

    With more than `most` values the slices get smaller, also while the first one is counted.
    """
    bits = wanted = 0
    while wanted < 1 << bits:
        known = HashedGroups(np.empty(0, np.uint64), np.empty((4, 0), np.int64))
        held = [known]
        for block, stays, goes in _new_blocks(sketches, kept):
            held.append(_count_block(block, stays, goes).inside(bits, wanted))
            # Not at each block: known sources would be sorted again and again.
            if sum(map(len, held[1:])) > min(len(known) + LEAST_HELD, most):
                known = HashedGroups.sum(held)
                while wanted == 0 and len(known) > most:
                    bits += MORE_BITS
                    known = known.inside(bits, 0)
                held = [known]
        yield GroupCounts(*HashedGroups.sum(held).groups)
        wanted += 1


@dataclass(frozen=True)
class HashedGroups:
    """Sources by their hashes, with counts as rows of `GroupCounts`."""

    hashes: NDArray[np.uint64]
    groups: Integers

    def __len__(self) -> int:
        return len(self.hashes)

    def inside(self, bits: int, wanted: int) -> HashedGroups:
        """Return those in a slice of the hashes."""
        chosen = in_slice(self.hashes, bits, wanted)
        return HashedGroups(self.hashes[chosen], self.groups[:, chosen])

    @classmethod
    def sum(cls, parts: Sequence[HashedGroups]) -> HashedGroups:
        """Return each source once, with its first document; parts are in the order of these."""
        hashes = np.concatenate([part.hashes for part in parts])
        groups = np.concatenate([part.groups for part in parts], axis=1)
        distinct, first, place = np.unique(hashes, return_index=True, return_inverse=True)
        summed = np.zeros((4, len(distinct)), np.int64)
        summed[0] = groups[0, first]
        for row in (1, 2, 3):
            np.add.at(summed[row], place, groups[row])
        return cls(distinct, summed)


def _count_block(block: SketchBlock, stays: Mask, goes: Mask) -> HashedGroups:
    """Return the counts of the sources of a block."""
    column = block.arrow("sources")
    numbers, counted = count_values(column, stays, goes)
    hashes = np.append(hash_groups(column.dictionary), np.uint64(0))[numbers]
    first, *counts = counted
    return HashedGroups(hashes, np.array([first + block.start, *counts]))


def _read_values(sketches: Sketches, documents: list[int]) -> list[str | None]:
    """Return the sources of documents, which are in ascending order."""
    values: list[str | None] = []
    numbers = np.array(documents, np.int64)
    for block in sketches.blocks:
        begin, end = np.searchsorted(numbers, [block.start, block.end]).tolist()
        if begin < end:
            column = block.arrow("sources")
            values += [column[row - block.start].as_py() for row in documents[begin:end]]
    return values
