"""Find repeated lines or paragraphs, and cut them from the documents that repeat them.

Of equal parts the first one is kept: by the rank of its document, then by its place in it. Equal
parts are found by sorting their hashes, in slices, and are then sorted back on disk. The result is
a file with a block for each block of the sketches:

    gone      a byte for each part, 1 if it is cut
    units     the number of parts that each document loses
    bytes     the bytes of these parts, line breaks included
    witness   for a document that loses all parts: the document that keeps its first part; -1 for
              others
    share     the share of such a document's parts that the witness keeps
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.pipeline.budget import Budget
from neardup.pipeline.exact_hashes import ExactSpec
from neardup.pipeline.job import Job
from neardup.pipeline.sketch_files import SketchBlock, Sketches
from neardup.pipeline.sorting import SortedStream, Sorter
from neardup.pipeline.stage_files import StageFiles
from neardup.pipeline.stages.rank import Ranking, count_slice_bits, group_equal_hashes, in_slice
from neardup.runtime import Progress
from neardup.text.shingle import remove_parts

CUTS_KIND = "cuts"
CUTS_FILE = "parts"
SORTED_PART_BYTES = 96
"""About the memory for sorting a part's hash."""

Integers = NDArray[np.int64]


def find_repeats(
    job: Job, folder: Path, sketches: Sketches, key: str, ranking: Ranking, progress: Progress
) -> BlockReader:
    """Write the file of cuts, unless an earlier attempt with this key did; return it."""
    total = sum(map(_count_parts, sketches.blocks))
    progress.stage("comparing", total, "parts")
    stage = StageFiles(folder / "cuts", CUTS_KIND)
    if (file := stage.find(CUTS_FILE, key)) is not None:
        progress.advance(total)
        return file
    sorter = Sorter(folder / "repeats", job.budget.share(4), carries=True)
    for numbers, kept_in in _find_repeated(sketches, ranking, total, job.budget):
        sorter.add(numbers.astype(np.uint64), kept_in.astype(np.float64))
        progress.advance(0)
    with BlockWriter(stage.path(CUTS_FILE), CUTS_KIND, key=key) as writer:
        for block, cut, kept_in in _split_by_block(sketches, sorter):
            writer.add(_decide_cuts(block, cut, kept_in))
            progress.advance(_count_parts(block))
        writer.close()
    sorter.close()
    return stage.open(CUTS_FILE)


def _count_parts(block: SketchBlock) -> int:
    """Return the number of compared parts of a block's documents."""
    return block.file.shape(block.number, "part_hashes")[1]


def _find_repeated(
    sketches: Sketches, ranking: Ranking, total: int, budget: Budget
) -> Iterator[tuple[Integers, Integers]]:
    """Yield the numbers of repeated parts, and the documents that keep them, slice by slice."""
    bits = count_slice_bits(total, SORTED_PART_BYTES, budget.share(3))
    for wanted in range(1 << bits):
        first, second, numbers, order = _read_slice(sketches, ranking, bits, wanted)
        members, starts, sizes = group_equal_hashes(first, second)
        if not len(members):
            continue
        order = order[members]
        best = np.repeat(np.minimum.reduceat(order, starts), sizes)
        is_repeat = best != order
        ranks = (best[is_repeat] >> np.uint64(32)).astype(np.int64)
        yield numbers[members[is_repeat]], ranking.documents(ranks)


def _read_slice(
    sketches: Sketches, ranking: Ranking, bits: int, wanted: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the parts whose hashes are in a slice: both halves of the hash, the number in input
    order, and rank of the document << 32 | place in it."""
    empty = np.empty(0, np.uint64)
    columns: list[tuple[NDArray[Any], ...]] = [(empty, empty, np.empty(0, np.int64), empty)]
    start = 0
    for block in sketches.blocks:
        hashes = block.column("part_hashes")
        chosen = np.flatnonzero(in_slice(hashes[0], bits, wanted))
        columns.append((*hashes[:, chosen], chosen + start, _order_parts(block, ranking)[chosen]))
        start += hashes.shape[1]
    first, second, numbers, order = (
        np.concatenate(column) for column in zip(*columns, strict=True)
    )
    return first, second, numbers, order


def _order_parts(block: SketchBlock, ranking: Ranking) -> NDArray[np.uint64]:
    """Return rank of the document << 32 | place in it, for each part of a block."""
    counts = block.column("part_counts")
    ranks = ranking.of(np.arange(block.start, block.end)).astype(np.uint64)
    firsts = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) - np.repeat(firsts, counts)
    order: NDArray[np.uint64] = np.repeat(ranks, counts) << np.uint64(32) | places.astype(np.uint64)
    return order


def _split_by_block(
    sketches: Sketches, sorter: Sorter
) -> Iterator[tuple[SketchBlock, Integers, Integers]]:
    """Yield for each block the places of the parts to cut, and the documents that keep them."""
    stream, start = SortedStream(iter(sorter)), 0
    for block in sketches.blocks:
        size = _count_parts(block)
        stream.reach(size)  # at most all parts of the block are cut
        numbers, documents = stream.until(start + size)
        kept_in = np.empty(0) if documents is None else documents
        yield block, numbers.astype(np.int64) - start, kept_in.astype(np.int64)
        start += size


def _decide_cuts(block: SketchBlock, cut: Integers, kept_in: Integers) -> dict[str, NDArray[Any]]:
    """Return the columns of a block of cuts: see the head of this file."""
    counts, rows = block.column("part_counts"), block.rows
    row_of = np.repeat(np.arange(rows), counts)[cut]
    gone = np.zeros(_count_parts(block), np.uint8)
    gone[cut] = 1
    units = np.bincount(row_of, minlength=rows)
    empty = np.flatnonzero((units > 0) & (units == block.column("all_parts")))
    witness, share = np.full(rows, -1, np.int64), np.zeros(rows)
    witness[empty] = kept_in[np.searchsorted(row_of, empty)]
    in_witness = np.bincount(row_of, witness[row_of] == kept_in, rows)
    share[empty] = in_witness[empty] / units[empty]
    sizes = np.bincount(row_of, block.column("part_sizes")[cut], rows).astype(np.int64)
    return {
        "gone": gone,
        "units": units.astype(np.int64),
        "bytes": sizes,
        "witness": witness,
        "share": share,
    }


@dataclass
class CutTally:
    """Counts of cuts, for run.json.

    found    all parts, the short ones too
    short    parts that are too short to be compared
    cut      parts that were cut, with `bytes` bytes
    shorter  kept documents that lose parts
    """

    found: int = 0
    short: int = 0
    cut: int = 0
    bytes: int = 0
    shorter: int = 0


class Cuts:
    """The cuts of all documents.

    kept     for each document whether it is kept: usable, and not all of it is cut
    shorter  for each document whether it is kept and loses parts
    """

    def __init__(self, sketches: Sketches, file: BlockReader, exact_spec: ExactSpec) -> None:
        self._sketches, self._file, self._exact_spec = sketches, file, exact_spec
        self._latest: tuple[int, NDArray[np.uint8], Integers] | None = None
        self.kept, self.shorter = np.zeros(len(sketches), bool), np.zeros(len(sketches), bool)
        self.tally = CutTally()
        for block, number in self._blocks():
            self._count(block, number)

    def _count(self, block: SketchBlock, number: int) -> None:
        units, rows = self._file.read(number, "units"), slice(block.start, block.end)
        self.kept[rows] = block.usable() & (self._file.read(number, "witness") < 0)
        self.shorter[rows] = self.kept[rows] & (units > 0)
        all_parts, tally = int(block.column("all_parts").sum()), self.tally
        tally.found += all_parts
        tally.short += all_parts - _count_parts(block)
        tally.cut += int(units.sum())
        tally.bytes += int(self._file.read(number, "bytes").sum())
        tally.shorter += int(np.count_nonzero(self.shorter[rows]))

    def _blocks(self) -> Iterator[tuple[SketchBlock, int]]:
        """Yield the blocks of sketches, each with the number of its block of cuts."""
        yield from zip(self._sketches.blocks, range(len(self._file)), strict=True)

    def documents(self) -> Iterator[tuple[Integers, Integers, Integers]]:
        """Yield all documents that lose parts, in input order; how many parts, and bytes."""
        for block, number in self._blocks():
            units = self._file.read(number, "units")
            rows = np.flatnonzero(units)
            yield rows + block.start, units[rows], self._file.read(number, "bytes")[rows]

    def removed(self) -> Iterator[tuple[Integers, Integers, NDArray[np.float64]]]:
        """Yield the documents that lose all parts, their witnesses, and the share kept there."""
        for block, number in self._blocks():
            witness = self._file.read(number, "witness")
            rows = np.flatnonzero(witness >= 0)
            yield rows + block.start, witness[rows], self._file.read(number, "share")[rows]

    def rewrite(self, documents: Integers, texts: pa.Array) -> pa.Array | None:
        """Return the texts of documents, which are in ascending order, without the cut parts.

        None if these are not the texts that were compared.
        """
        parts = self._exact_spec.parts(texts)
        flags = [np.empty(0, np.uint8), *self._flags(documents)]
        if not np.array_equal(np.diff(parts.firsts), [len(parts_cut) for parts_cut in flags[1:]]):
            return None
        return remove_parts(parts, np.concatenate(flags))

    def _flags(self, documents: Integers) -> Iterator[NDArray[np.uint8]]:
        """Yield for each document the bytes that are 1 for cut parts."""
        starts = [block.start for block in self._sketches.blocks]
        numbers = np.searchsorted(starts, documents, side="right") - 1
        for document, number in zip(documents.tolist(), numbers.tolist(), strict=True):
            gone, firsts = self._block(number)
            place = document - starts[number]
            yield gone[firsts[place] : firsts[place + 1]]

    def _block(self, number: int) -> tuple[NDArray[np.uint8], Integers]:
        """Return the flags of a block, and where each document's begin. Caches one block."""
        latest = self._latest  # another thread may replace it at any time
        if latest is None or latest[0] != number:
            counts = self._sketches.blocks[number].column("part_counts")
            firsts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            self._latest = latest = number, self._file.read(number, "gone"), firsts
        return latest[1:]
