"""Rank documents by the keep policy, then by input order; collapse identical ones.

Identical documents are found by sorting their content hashes, in as many slices by hash as the
memory budget requires.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.documents import concat_keep
from neardup.errors import UsageError
from neardup.in_memory import count_undated, order_by_policy
from neardup.lsh.buckets import RepeatedKeys, find_shared_keys
from neardup.options import Options
from neardup.overrides import Overrides
from neardup.pipeline.budget import Budget
from neardup.pipeline.job import Job
from neardup.pipeline.merge_rows import DocumentRows
from neardup.pipeline.sketch_files import SketchBlock, Sketches
from neardup.pipeline.sorting import Sorter
from neardup.runtime import Progress

Integers = NDArray[np.int64]
Ranks = NDArray[np.int64]
MAX_DOCUMENTS = 2**31
"""Two ranks and a bit fit into 64 bits."""


@dataclass(frozen=True)
class Ranking:
    """Maps documents to ranks and back. Without an order, a document's number is its rank.

    `undated` is the number of new documents without a date, if the policy compares dates.
    """

    order: NDArray[np.uint32] | None = None
    inverse: NDArray[np.uint32] | None = None
    undated: int = 0

    def documents(self, ranks: Integers) -> Integers:
        """Return the documents with these ranks."""
        return ranks if self.order is None else self.order[ranks].astype(np.int64)

    def of(self, documents: Integers) -> Integers:
        """Return the ranks of these documents."""
        return documents if self.inverse is None else self.inverse[documents].astype(np.int64)


def rank_documents(
    sketches: Sketches, options: Options, classes: list[int], preferred: Ranks | None = None
) -> Ranking:
    """Rank the documents by the keep policy, then by number.

    Args:
        sketches: The documents.
        options: The options, with the keep policy.
        classes: Document numbers: all documents before one of them rank before those after it.
        preferred: New documents that rank before all other new ones.
    """
    preferred = np.empty(0, np.int64) if preferred is None else preferred
    if len(sketches) >= MAX_DOCUMENTS:
        raise UsageError(
            f"{len(sketches):,} documents are more than one run can take ({MAX_DOCUMENTS:,}): "
            "split the input, and use --against"
        )
    policy, undated = options.keep_policy, 0
    if policy.name in ("first", "none") and not len(preferred):
        return Ranking()
    values = None
    if policy.column:
        values = concat_keep(
            block.arrow("keep") if block.start >= sketches.first_new else pa.nulls(block.rows)
            for block in sketches.blocks
        )
        undated = _count_undated(sketches, values) if policy.dates else 0
    order = order_by_policy(
        policy, len(sketches), lambda: _read_column(sketches, "lengths"), values
    )
    group = 2 * np.searchsorted(np.array(classes), order, side="right")
    group[np.isin(order, preferred) & (order >= sketches.first_new)] = 1
    by_rank: NDArray[np.uint32] = order[np.argsort(group, kind="stable")].astype(np.uint32)
    inverse = np.empty(len(by_rank), np.uint32)
    inverse[by_rank] = np.arange(len(by_rank), dtype=np.uint32)
    return Ranking(by_rank, inverse, undated)


def _count_undated(sketches: Sketches, values: pa.Array) -> int:
    usable = [block.usable() & (block.start >= sketches.first_new) for block in sketches.blocks]
    return count_undated(values, np.concatenate(usable)) if usable else 0


def _read_column(sketches: Sketches, name: str) -> Integers:
    return np.concatenate([block.column(name) for block in sketches.blocks] or [np.empty(0)])


BYTES_PER_HASH = 72
"""About the memory for sorting a document's hash."""


def collapse_identical(
    sketches: Sketches,
    ranking: Ranking,
    state: NDArray[np.uint8],
    copies: Sorter,
    budget: Budget,
    alone: Ranks | None = None,
) -> int:
    """Set `state` to 1 for usable documents that are no copies; return how many copies are new.

    Copies are added to `copies` with the best-ranked document that they are identical to, as one
    number: its rank << 32 | the copy's rank. The ranks in `alone` are no copies and have none.
    """
    for block in sketches.blocks:
        state[ranking.of(block.start + np.flatnonzero(block.usable()))] = 1
    count = 0
    alone = np.empty(0, np.int64) if alone is None else alone
    for leaders, twins in _find_copies(sketches, ranking, budget, alone):
        state[twins] = 0
        copies.add(leaders.astype(np.uint64) << np.uint64(32) | twins.astype(np.uint64))
        count += int(np.count_nonzero(twins >= sketches.first_new))
    return count


@dataclass(frozen=True)
class HashedRanks:
    """Documents by rank, and both halves of the content hash of each."""

    first: NDArray[np.uint64]
    second: NDArray[np.uint64]
    ranks: Ranks

    @classmethod
    def join(cls, parts: Sequence[HashedRanks]) -> HashedRanks:
        columns = ((part.first, part.second, part.ranks) for part in parts)
        return cls(*map(np.concatenate, zip(*columns, strict=True)))

    def copies(self) -> tuple[Ranks, Ranks]:
        """Return the best rank of the documents that each copy is identical to, and its own."""
        members, leaders = self._group()
        ranks = self.ranks[members]
        return leaders[leaders != ranks], ranks[leaders != ranks]

    def without_copies(self) -> HashedRanks:
        members, leaders = self._group()
        kept = np.ones(len(self.ranks), bool)
        kept[members[leaders != self.ranks[members]]] = False
        return HashedRanks(self.first[kept], self.second[kept], self.ranks[kept])

    def _group(self) -> tuple[Ranks, Ranks]:
        """Return the places of documents that share a hash, and the best rank that has it."""
        members, starts, sizes = group_equal_hashes(self.first, self.second)
        if not len(members):
            return members, members
        return members, np.repeat(np.minimum.reduceat(self.ranks[members], starts), sizes)


def _find_copies(
    sketches: Sketches, ranking: Ranking, budget: Budget, alone: Ranks
) -> Iterator[tuple[Ranks, Ranks]]:
    """Yield the ranks of copies, each with the best rank of its group, slice by slice.

    A slice is one batch, unless one document has so many copies that they don't fit.
    """
    room = budget.share(2)
    bits = count_slice_bits(len(sketches), BYTES_PER_HASH, room)
    for wanted in range(1 << bits):
        repeats = RepeatedKeys(len(sketches) >> bits, bits)
        for block in sketches.blocks:
            first, _ = block.column("content")
            repeats.add(first, _usable(block, first, bits, wanted))
        most = room // BYTES_PER_HASH
        read = partial(_read_batches, sketches, ranking, repeats, bits, wanted, most, alone)
        batches = read()
        batch, following = next(batches), next(batches, None)
        if following is None:
            yield batch.copies()
            continue
        best = batch.without_copies()
        while following is not None:
            best = HashedRanks.join([best, following]).without_copies()
            following = next(batches, None)
        for batch in read():
            yield HashedRanks.join([best, batch]).copies()


def _usable(
    block: SketchBlock, hashes: NDArray[np.uint64], bits: int, wanted: int
) -> NDArray[np.uint8]:
    """Return 1 for documents that take part and whose hashes are in a slice, 0 for others."""
    usable: NDArray[np.bool_] = block.usable() & in_slice(hashes, bits, wanted)
    return usable.view(np.uint8)


def _read_batches(
    sketches: Sketches,
    ranking: Ranking,
    repeats: RepeatedKeys,
    bits: int,
    wanted: int,
    most: int,
    alone: Ranks,
) -> Iterator[HashedRanks]:
    """Yield the usable documents of a slice that may have copies, at most about `most` at once.

    At least one batch. Those in `alone` are left out.
    """
    empty = np.empty(0, np.uint64)
    parts, count = [HashedRanks(empty, empty, np.empty(0, np.int64))], 0
    for block in sketches.blocks:
        if count >= most:
            batch, parts, count = HashedRanks.join(parts), [], 0
            yield batch
        first, second = block.column("content")
        chosen = repeats.find(first, _usable(block, first, bits, wanted))
        ranks = ranking.of(chosen + block.start)
        if len(alone):
            shared = ~np.isin(ranks, alone)
            chosen, ranks = chosen[shared], ranks[shared]
        parts.append(HashedRanks(first[chosen], second[chosen], ranks))
        count += len(chosen)
    batch, parts = HashedRanks.join(parts), []
    yield batch


def group_equal_hashes(
    first: NDArray[np.uint64], second: NDArray[np.uint64]
) -> tuple[Ranks, Ranks, Ranks]:
    """Return the places of hashes that occur more than once, group by group; the beginning and the
    size of each group.

    Hashes are given by their halves. A group may have one member, if only its first half is shared.
    """
    members, sizes = find_shared_keys(first)
    starts = np.cumsum(sizes) - sizes
    if (second[members] != np.repeat(second[members[starts]], sizes)).any():
        # Different hashes share their first half: group by both.
        order = np.lexsort((members, second[members], first[members]))
        members = members[order]
        fresh = np.concatenate(
            [[True], (np.diff(second[members]) != 0) | (np.diff(first[members]) != 0)]
        )
        starts = np.flatnonzero(fresh)
        sizes = np.diff(starts, append=len(members))
    return members, starts, sizes


def count_slice_bits(documents: int, each: int, room: int) -> int:
    """Return by how many leading bits of a hash to slice, so that a slice fits into `room` bytes.

    `each` is the memory for one of the `documents`.
    """
    return max((documents * each // room).bit_length(), 0)


def in_slice(hashes: NDArray[np.uint64], bits: int, wanted: int) -> NDArray[np.bool_]:
    """Return for each hash whether its `bits` leading bits are the number `wanted`."""
    if bits == 0:
        return np.ones(len(hashes), bool)
    inside: NDArray[np.bool_] = np.equal(hashes >> np.uint64(64 - bits), np.uint64(wanted))
    return inside


@dataclass
class RankedDocuments:
    """The sketched documents in rank order, without identical copies.

    rows       the sketches of rows; with --merge-rows, documents have several
    parts      with --merge-rows: the rows of each document
    keys       of the sketch files
    classes    see `rank_documents`
    state      a byte for each rank: 0 takes no part, bit 0 kept, bit 1 candidate
    copies     see `collapse_identical`
    identical  the number of new copies
    overrides  what people decided
    dropped    the new documents that were dropped by decisions, which take no part
    """

    sketches: Sketches
    rows: Sketches
    parts: DocumentRows | None
    keys: list[str]
    classes: list[int]
    ranking: Ranking
    state: NDArray[np.uint8]
    copies: Sorter
    identical: int
    overrides: Overrides | None = None
    dropped: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def basis(self) -> list[Any]:
        """Everything that the documents and their ranks depend on, for the keys of stage files."""
        said = [] if self.overrides is None else [self.overrides.digest]
        return [self.keys, self.classes, self.parts is not None, *said]


def rank_and_collapse(
    job: Job,
    folder: Path,
    sketches: Sketches,
    rows: Sketches,
    parts: DocumentRows | None,
    keys: list[str],
    classes: list[int],
    progress: Progress,
    overrides: Overrides | None = None,
) -> RankedDocuments:
    """Rank the documents, and collapse identical ones. See `rank_documents` for the classes."""
    progress.stage("ranking", len(sketches), "documents")
    preferred = None if overrides is None else overrides.preferred
    ranking = rank_documents(sketches, job.options, classes, preferred)
    state = np.zeros(len(sketches), np.uint8)
    copies = Sorter(folder / "copies", job.budget.share(4))
    alone = None if overrides is None else ranking.of(overrides.documents)
    identical = collapse_identical(sketches, ranking, state, copies, job.budget, alone)
    progress.advance(len(sketches))
    ranked = RankedDocuments(
        sketches, rows, parts, keys, classes, ranking, state, copies, identical, overrides
    )
    return ranked if overrides is None else _drop_documents(ranked, overrides)


def _drop_documents(ranked: RankedDocuments, overrides: Overrides) -> RankedDocuments:
    """Take the documents out that were dropped by decisions."""
    usable = overrides.dropped[ranked.state[ranked.ranking.of(overrides.dropped)] != 0]
    ranked.state[ranked.ranking.of(usable)] = 0
    return replace(ranked, dropped=usable[usable >= ranked.sketches.first_new])
