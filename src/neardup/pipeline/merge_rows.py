"""Merge rows with the same id into one document (`--merge-rows`).

The sketch of a union is the slot-wise minimum of its rows' sketches. Merged sketches are written to
ordinary sketch files, so that later stages work on documents. Needs twelve bytes a row in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from neardup import kernels
from neardup.corpus.documents import concat_keep
from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.formats.tables import to_arrow
from neardup.in_memory import by_value
from neardup.pipeline.job import Job
from neardup.pipeline.set_files import CandidateSets, sort_sets
from neardup.pipeline.sketch_files import EMPTY, SKETCHES_KIND, SketchBlock, Sketches, pack_column
from neardup.sketch.bulk import empty_columns, fill_merged
from neardup.text.arrays import Ragged, view_strings

Integers = NDArray[np.int64]

SLOTS_AT_ONCE = 1 << 20
"""Slots of rows that are in memory at once while they are merged."""


@dataclass(frozen=True)
class DocumentRows:
    """Documents and their rows. Documents are numbered in the order of their first rows.

    document  the document of each row
    rows      all rows, sorted by document; those of document d begin at starts[d]
    """

    document: NDArray[np.uint32]
    rows: NDArray[np.uint32]
    starts: Integers

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, rows: Sketches) -> DocumentRows:
        """Group rows with the same id; rows of an earlier corpus are not grouped with new ones."""
        first, second = _hash_ids(rows)
        is_new = np.arange(len(first)) >= rows.first_new
        order = np.lexsort((second, first, is_new))  # stable: a document's first row comes first
        fresh = np.ones(len(order), bool)
        for half in (first, second, is_new):
            fresh[1:] &= half[order[1:]] == half[order[:-1]]
        fresh[1:] = ~fresh[1:]
        by_first_row = np.argsort(np.argsort(order[fresh]))
        document = np.empty(len(order), np.uint32)
        document[order] = by_first_row[np.cumsum(fresh) - 1]
        in_order = np.argsort(document, kind="stable").astype(np.uint32)
        starts = np.searchsorted(document[in_order], np.arange(len(by_first_row) + 1))
        return cls(document, in_order, starts.astype(np.int64))

    def rows_of(self, documents: Integers) -> Ragged:
        """Return the rows of each document, in ascending order."""
        sizes = self.starts[documents + 1] - self.starts[documents]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        places = np.repeat(self.starts[documents] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return Ragged(self.rows[places].astype(np.int64), offsets)

    def first_rows(self, documents: Integers) -> Integers:
        """Return the first row of each document."""
        return self.rows[self.starts[documents]].astype(np.int64)


def _hash_ids(rows: Sketches) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return both halves of 128-bit hashes of the rows' ids; unique ones for rows without an id."""
    halves: list[tuple[NDArray[np.uint64], NDArray[np.uint64]]] = []
    for block in rows.blocks:
        ids = block.arrow("ids")
        text = view_strings(ids)
        first = kernels.hash_rows(text.data, text.offsets, np.uint64(1))
        second = kernels.hash_rows(text.data, text.offsets, np.uint64(2))
        without_id = np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))
        first[without_id], second[without_id] = 0, block.start + without_id
        halves.append((first, second))
    empty = np.empty(0, np.uint64)
    return (
        np.concatenate([empty, *(first for first, _ in halves)]),
        np.concatenate([empty, *(second for _, second in halves)]),
    )


def merge_sketches(job: Job, rows: Sketches, parts: DocumentRows, folder: Path) -> Sketches:
    """Merge the sketches of rows into those of documents, a window of documents at a time."""
    folder.mkdir(mode=0o700, exist_ok=True)
    step = max(job.budget.share(4) // (8 * job.options.spec.slots + 200), 1)
    files = []
    new = int(parts.document[rows.first_new]) if rows.first_new < len(rows) else len(parts)
    for begin, end in [*_split_range(0, new, step), *_split_range(new, len(parts), step)]:
        path = folder / str(begin)
        with BlockWriter(path, SKETCHES_KIND, key="") as writer:
            columns, stated = _merge_window(job, rows, parts, begin, end)
            writer.add(columns, chunks=[end - begin], **stated)
            writer.close(rows=[end - begin])
        files.append(BlockReader(path, SKETCHES_KIND))
    earlier = len(list(_split_range(0, new, step)))
    return Sketches([], files, earlier)


def _split_range(begin: int, end: int, step: int) -> Iterator[tuple[int, int]]:
    for start in range(begin, end, step):
        yield start, min(start + step, end)


def _merge_window(
    job: Job, rows: Sketches, parts: DocumentRows, begin: int, end: int
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the columns and the note of a block for documents `begin` to `end`."""
    window = MergeWindow(job, end - begin)
    for block in rows.blocks:
        documents = parts.document[block.start : block.end].astype(np.int64)
        in_window = np.flatnonzero((documents >= begin) & (documents < end))
        if in_window.size:
            window.add(block, in_window, documents[in_window] - begin)
    return window.columns(), {"reasons": window.reasons} | window.empty_slots()


def find_first_rows(documents: Integers) -> Integers:
    """Return the place of the first occurrence of each document in a sorted list."""
    return np.flatnonzero(np.concatenate([[True], documents[1:] != documents[:-1]]))


class MergeWindow:
    """Consecutive documents whose rows are being merged."""

    def __init__(self, job: Job, count: int) -> None:
        self._job = job
        self._slots = empty_columns(job.options.spec, count)
        self._lengths = np.zeros(count, np.int64)
        self._usable = np.zeros(count, bool)
        self._reason = np.zeros(count, np.uint32)
        self._content: list[tuple[Integers, NDArray[np.uint64]]] = []
        self._keep: list[tuple[Integers, pa.Array]] = []
        self._apart: NDArray[np.uint64] | None = None
        self._has_apart = np.zeros(count, bool)
        self.reasons: list[str] = []

    def add(self, block: SketchBlock, rows: Integers, documents: Integers) -> None:
        """Add rows of a block; `documents` has the place of each row's document in the window."""
        order = np.argsort(documents, kind="stable")
        rows, documents = rows[order], documents[order]
        usable = block.usable()[rows]
        self._merge_slots(block, rows[usable], documents[usable])
        np.add.at(self._lengths, documents[usable], block.column("lengths")[rows[usable]])
        self._usable[documents[usable]] = True
        self._content.append((documents[usable], block.column("content")[:, rows[usable]]))
        self._note_reasons(block, rows[~usable], documents[~usable])
        if block.file.has(block.number, "keep"):
            values = block.arrow("keep").take(to_arrow(rows))
            null = pa.scalar(None, values.type)
            self._keep.append((documents, pc.if_else(pa.array(usable), values, null)))
        if block.file.has(block.number, "apart"):
            if self._apart is None:
                self._apart = np.zeros(len(self._usable), np.uint64)
            # The value of the first row counts; blocks, and rows in a block, come in order.
            starts = find_first_rows(documents)
            distinct = documents[starts]
            unset = ~self._has_apart[distinct]
            self._apart[distinct[unset]] = block.column("apart")[rows[starts[unset]]]
            self._has_apart[distinct] = True

    def _merge_slots(self, block: SketchBlock, rows: Integers, documents: Integers) -> None:
        if not len(rows):
            return
        starts = find_first_rows(documents)
        distinct = documents[starts]
        step = max(SLOTS_AT_ONCE // block.rows, 1)
        for first in range(0, len(self._slots), step):
            part = slice(first, min(first + step, len(self._slots)))
            stored = block.file.read(block.number, "slots", part)[:, rows]
            least = np.minimum.reduceat(stored, starts, axis=1)
            self._slots[part, distinct] = np.minimum(self._slots[part, distinct], least)

    def _note_reasons(self, block: SketchBlock, rows: Integers, documents: Integers) -> None:
        listed = block.file.note_of(block.number)["reasons"]
        codes = block.column("rejected")
        for row, document in zip(rows.tolist(), documents.tolist(), strict=True):
            if self._reason[document] == 0:
                # A row that the earlier run has removed is not usable, and has no code.
                reason = listed[codes[row] - 1] if codes[row] else "removed earlier"
                if reason not in self.reasons:
                    self.reasons.append(reason)
                self._reason[document] = self.reasons.index(reason) + 1

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns of a sketch file for the documents."""
        columns: dict[str, NDArray[Any]] = {
            "slots": fill_merged(self._slots, self._job.options.spec),
            "content": self._contents(),
            "lengths": self._lengths,
            "rejected": np.where(self._usable, np.uint32(0), self._reason),
        }
        if self._keep:
            columns["keep"] = pack_column(self._best())
        if self._apart is not None:
            columns["apart"] = self._apart
        return columns

    def empty_slots(self) -> dict[str, int]:
        """Return the number of empty slots, for the note of a block; {} if there are none."""
        most = np.iinfo(self._slots.dtype).max
        empty = sum(np.count_nonzero((slot == most) & self._usable) for slot in self._slots)
        return {EMPTY: int(empty)} if empty else {}

    def _contents(self) -> NDArray[np.uint64]:
        """Return the content hash of each document.

        It is that of its rows if these are identical, else a hash of the distinct hashes.
        """
        documents = np.concatenate([np.empty(0, np.int64), *(d for d, _ in self._content)])
        hashes = np.concatenate(
            [np.empty((2, 0), np.uint64), *(hashes for _, hashes in self._content)], axis=1
        )
        order = np.lexsort((hashes[1], hashes[0], documents))
        documents, hashes = documents[order], hashes[:, order]
        fresh = np.ones(len(documents), bool)
        fresh[1:] = (documents[1:] != documents[:-1]) | (hashes[:, 1:] != hashes[:, :-1]).any(
            axis=0
        )
        documents, hashes = documents[fresh], hashes[:, fresh]
        out = np.zeros((2, len(self._usable)), np.uint64)
        out[:, documents] = hashes
        distinct, starts, counts = np.unique(documents, return_index=True, return_counts=True)
        for place in np.flatnonzero(counts > 1).tolist():
            several = hashes[:, starts[place] : starts[place] + counts[place]]
            data = np.ascontiguousarray(several.T).tobytes()
            halves = xxhash.xxh64_intdigest(data, 1), xxhash.xxh64_intdigest(data, 2)
            out[:, distinct[place]] = halves
        return out

    def _best(self) -> pa.Array:
        """Return the best keep value of each document's rows."""
        documents = np.concatenate([documents for documents, _ in self._keep])
        values = concat_keep(values for _, values in self._keep)
        order = by_value(values, self._job.options.keep_policy.order)
        _, best = np.unique(documents[order], return_index=True)
        return values.take(to_arrow(order[best]))


class MergedSets:
    """Reads the sets of documents: unions of the sets of their rows."""

    def __init__(self, sets: CandidateSets, parts: DocumentRows) -> None:
        self._sets, self._parts = sets, parts
        self._has_set = np.zeros(len(parts.document), bool)
        self._has_set[sets.documents()] = True

    def __len__(self) -> int:
        return len(self._sets)

    @property
    def size(self) -> int:
        return self._sets.size

    def documents(self) -> Integers:
        return np.unique(self._parts.document[self._sets.documents()]).astype(np.int64)

    def gather(self, documents: Integers) -> Ragged:
        """Read the sets of documents, which are in ascending order."""
        wanted = self._parts.rows_of(documents)
        used = self._has_set[wanted.data]
        ends = np.concatenate([[0], np.cumsum(used)])[wanted.offsets]
        wanted = Ragged(wanted.data[used], ends)
        order = np.argsort(wanted.data)
        rows = self._sets.gather(wanted.data[order])
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        sizes = rows.sizes[place] * 8
        out = np.empty(int(sizes.sum()), np.uint8)
        kernels.copy_rows(rows.data.view(np.uint8), rows.offsets[place] * 8, sizes, out)
        ends = np.concatenate([[0], np.cumsum(rows.sizes[place])])
        return sort_sets(Ragged(out.view(np.uint64), ends[wanted.offsets]))
