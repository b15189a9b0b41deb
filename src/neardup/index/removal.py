"""Remove many documents in slices; between two of them the writer thread serves other requests.

Copies of the removed documents are judged again once, without any of those that are removed
together. So documents that are copies themselves are removed first: nothing depends on them. The
copies of a very large cluster leave it slice by slice, while its kept document still exists; every
commit leaves a complete index, in which each copy has a kept witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from neardup.index.planner import RehomeSlice, RemoveRequest, RemoveSlice
from neardup.index.store import Row

if TYPE_CHECKING:
    from neardup.index.generation import Generation
    from neardup.index.writer import IndexWriter

SLICE_DOCUMENTS: Final = 512
"""The most documents that a commit removes."""
SLICE_COPIES: Final = 1_024
"""The most copies that a commit gives another witness, if they are of one document."""
SLICE_BYTES: Final = 32 << 20
"""The most bytes of shingles that these copies have."""


def remove_ids(generation: Generation, ids: Sequence[str]) -> list[bool]:
    """Remove documents; return for each id whether this call has removed a document with it.

    Args:
        generation: The generation that has them.
        ids: Their ids. Of an id that is repeated, only the first can be found.
    """
    writer = generation.require_writer()
    rows = generation.answer(lambda view: view.rows_by_id(ids)) if ids else {}
    removed: set[int] = set()
    if len(rows) > 1 or any(_is_crowded(generation, row) for row in rows.values()):
        for numbers in Removal(generation, [row.number for row in rows.values()]).steps():
            removed.update(numbers)
    done = {id for id, row in rows.items() if row.number in removed}
    results = []
    for id in ids:
        if id in done:
            done.remove(id)
            results.append(True)
        else:  # alone; or queued or replaced meanwhile, with another number
            results.append(writer.put(RemoveRequest(id)).done.result())
    return results


def _is_crowded(generation: Generation, row: Row) -> bool:
    """Return whether a document may have more copies than one commit should judge."""
    if row.witness is not None:
        return False
    copies = generation.view.copies_of([row.number])
    if len(copies) > SLICE_COPIES:
        return True
    sizes = generation.store.blob_sizes("shingles", sorted(copies)) if len(copies) > 1 else {}
    return sum(sizes.values()) > SLICE_BYTES


class Removal:
    """The removal of many documents, in steps.

    Args:
        generation: The generation that has them.
        numbers: Their numbers.
        still: Whether a document is still to be removed, asked a moment before it is.
    """

    def __init__(
        self,
        generation: Generation,
        numbers: Sequence[int],
        still: Callable[[Row], bool] = lambda _: True,
    ) -> None:
        self._generation, self._still = generation, still
        self._together = sorted(numbers)
        self._writer: IndexWriter = generation.require_writer()

    def steps(self) -> Iterator[list[int]]:
        """Remove the documents step by step; yield the numbers of those that a step has removed."""
        kept: list[int] = []
        for numbers in slices(self._together):
            rows = self._rows(numbers)
            kept += [row.number for row in rows if row.witness is None]
            if copies := [row.number for row in rows if row.witness is not None]:
                yield self._remove(copies)
        for numbers in slices(kept):
            if rows := self._rows(numbers):
                yield from self._remove_kept([row.number for row in rows])

    def _rows(self, numbers: Sequence[int]) -> list[Row]:
        rows = self._generation.store.rows(numbers)
        return [rows[number] for number in sorted(rows) if self._still(rows[number])]

    def _remove_kept(self, numbers: Sequence[int]) -> Iterator[list[int]]:
        """Remove kept documents, in as few commits as their copies allow."""
        listed = self._generation.view.tables.with_witnesses(numbers)
        pending: list[int] = []
        count = size = 0
        for number, copies in zip(numbers, listed, strict=True):
            slices = list(self._copies(number, copies)) if copies else []
            if len(slices) > 1:
                for part, _ in slices:
                    self._writer.put(RehomeSlice(number, part, self._together)).done.result()
                    yield []
            more, bytes_more = (len(slices[0][0]), slices[0][1]) if len(slices) == 1 else (0, 0)
            if pending and (count + more > SLICE_COPIES or size + bytes_more > SLICE_BYTES):
                yield self._remove(pending)
                pending, count, size = [], 0, 0
            pending.append(number)
            count, size = count + more, size + bytes_more
        if pending:
            yield self._remove(pending)

    def _copies(self, number: int, listed: Sequence[int]) -> Iterator[tuple[list[int], int]]:
        """Yield the copies of a document in slices, each with the bytes of its shingles.

        Args:
            number: The document.
            listed: Documents that are or were copies of it.
        """
        store = self._generation.store
        part: list[int] = []
        size = 0
        for some in slices(sorted(listed)):
            witness_of = store.witnesses(some)
            copies = [copy for copy in some if witness_of.get(copy) == number]
            sizes = store.blob_sizes("shingles", copies)
            for copy in copies:
                more = sizes.get(copy, 0)
                if part and (len(part) == SLICE_COPIES or size + more > SLICE_BYTES):
                    yield part, size
                    part, size = [], 0
                part.append(copy)
                size += more
        if part:
            yield part, size

    def _remove(self, numbers: Sequence[int]) -> list[int]:
        return self._writer.put(RemoveSlice(numbers, self._together)).done.result()


def slices(numbers: Sequence[int]) -> Iterator[list[int]]:
    """Yield the numbers of documents that are looked at together."""
    for start in range(0, len(numbers), SLICE_DOCUMENTS):
        yield list(numbers[start : start + SLICE_DOCUMENTS])
