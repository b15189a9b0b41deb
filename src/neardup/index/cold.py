"""Cold postings: tables that no longer fit into memory, in segments on disk that are looked up.

Each time that tables are moved to disk is a spill, which makes a segment. The name of a segment
gives its first and last spill, and how often they were merged: cold-000003-000003-0 is the third
spill, cold-000001-000008-1 are the first eight. No name is used twice. A file whose spills are all
in another file is the remains of an interrupted merge, and is deleted; so no list of files has to
be kept. A spill that is in no file is an error.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from neardup.errors import FormatError
from neardup.formats.blocks import sync_path
from neardup.index.postings import Dead, Integers, Keys, Numbers
from neardup.index.segment import (
    CellPostings,
    PostingList,
    Segment,
    SegmentWriter,
    join_cells,
    sort_postings,
)

NOTHING: Final[PostingList] = np.empty(0, np.uint64), np.empty(0, np.uint32)
LARGEST: Final = (2**64 - 1, 2**32 - 1)


def merge_segments(parts: list[Segment], path: Path, dead: Dead) -> Segment:
    """Merge segments into one, without the dead documents."""
    with SegmentWriter(path, parts[-1].note) as writer:
        for table in range(parts[0].tables):
            most_buckets = sum(int(part.table_buckets[table]) for part in parts)
            pieces = merge_postings([part.walk(table) for part in parts])
            writer.add_table((living(piece, dead) for piece in pieces), most_buckets)
        writer.close()
    return Segment(path)


def merge_postings(walks: Iterable[Iterator[PostingList]]) -> Iterator[PostingList]:
    """Merge sorted postings that come in pieces into one order, each once."""
    return _in_order([_Run(walk) for walk in walks])


class _Run:
    """Sorted postings that are read piece by piece; one piece is in memory."""

    def __init__(self, pieces: Iterator[PostingList]) -> None:
        self._pieces = pieces
        self.keys, self.numbers = next(pieces, NOTHING)
        self._next = next(pieces, None)

    @property
    def bound(self) -> tuple[int, int] | None:
        """The last posting in memory, if more follow."""
        return None if self._next is None else (int(self.keys[-1]), int(self.numbers[-1]))

    def until(self, bound: tuple[int, int]) -> PostingList:
        """Take the postings in memory up to and including `bound`; read the next piece if due."""
        key, number = np.uint64(bound[0]), np.uint32(bound[1])
        start, end = np.searchsorted(self.keys, key), np.searchsorted(self.keys, key, "right")
        end = start + np.searchsorted(self.numbers[start:end], number, "right")
        taken = self.keys[:end], self.numbers[:end]
        self.keys, self.numbers = self.keys[end:], self.numbers[end:]
        if not len(self.keys) and self._next is not None:
            (self.keys, self.numbers), self._next = self._next, next(self._pieces, None)
        return taken


def _in_order(runs: list[_Run]) -> Iterator[PostingList]:
    """Merge runs. Each piece goes up to the smallest bound: no smaller posting can follow."""
    while any(len(run.keys) for run in runs):
        bound = min((run.bound for run in runs if run.bound is not None), default=LARGEST)
        taken = [run.until(bound) for run in runs]
        keys, numbers = (np.concatenate(part) for part in zip(*taken, strict=True))
        yield sort_postings(keys, numbers)


def living(piece: PostingList, dead: Dead) -> PostingList:
    """Return the postings without those of dead documents."""
    keys, numbers = piece
    alive = np.ones(len(numbers), bool)
    marked = numbers < len(dead)
    alive[marked] = dead[numbers[marked]] == 0
    return keys[alive], numbers[alive]


NAME: Final = re.compile(r"cold-(\d{6,})-(\d{6,})-(\d+)")
MOST_SEGMENTS: Final = 8
"""More segments are merged."""

Leaders = tuple[Integers, Integers, Numbers]
"""As `Postings.find` returns them: counts, (tables x queries); rows of queries; numbers."""

Span = tuple[int, int, int]
"""The first and the last spill, and how often they were merged."""


class Segments:
    """All segments of a folder.

    Any number of threads may look up while one adds and others merge, one after the other. Only one
    process adds and merges.
    """

    def __init__(self, folder: Path, last: int = 0, *, read_only: bool = False) -> None:
        """Open the segments of a folder, which must hold every spill up to `last`."""
        self._folder = folder
        self._changing, self._merging = threading.Lock(), threading.Lock()
        self._open: dict[Span, Segment] = {}
        self.refresh(last)
        if not read_only:
            self._delete_remains()

    def refresh(self, last: int = 0) -> None:
        """Open the segments that another process has spilled and merged meanwhile."""
        while True:
            spans = _spans(self._folder)
            try:
                self._open = self._opened(spans, last)
            except FormatError:
                if _spans(self._folder) == spans:  # otherwise they were merged meanwhile
                    raise
            else:
                return

    def _opened(self, spans: list[Span], last: int) -> dict[Span, Segment]:
        following = 1
        for first, end, _ in [*spans, (last + 1, last, 0)]:
            if first > following:
                raise FormatError(
                    f"{self._path((following, first - 1, 0))} is missing: open the index again, "
                    "it is built again from the stored documents"
                )
            following = end + 1
        return {span: self._open.get(span) or Segment(self._path(span)) for span in spans}

    def _delete_remains(self) -> None:
        """Delete the files of an interrupted process: incomplete ones, and merged ones."""
        for path in self._folder.glob(".cold-*.tmp"):
            path.unlink(missing_ok=True)
        for path, span in _files(self._folder):
            if span not in self._open:
                path.unlink(missing_ok=True)

    def _path(self, span: Span) -> Path:
        first, last, merges = span
        return self._folder / f"cold-{first:06}-{last:06}-{merges}"

    def __len__(self) -> int:
        return len(self._open)

    @property
    def last(self) -> int:
        """The number of spills so far. A snapshot contains it, and requires that many."""
        return max((end for _, end, _ in self._open), default=0)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(segment.nbytes for segment in self._open.values())

    @property
    def disk_bytes(self) -> int:
        return sum(segment.disk_bytes for segment in self._open.values())

    @property
    def postings(self) -> int:
        return sum(segment.postings for segment in self._open.values())

    @property
    def buckets(self) -> int:
        """A bucket that is in several segments counts in each of them."""
        return sum(segment.buckets for segment in self._open.values())

    def sizes(self, tables: int) -> tuple[Integers, Integers]:
        """Return the ascending sizes of buckets, and how many buckets have each size.

        Only the first `tables` tables count.
        """
        rows = [segment.sizes for segment in self._open.values()]
        counted = np.concatenate([np.empty((0, 3), np.int64), *rows])
        counted = counted[counted[:, 0] < tables]
        sizes, which = np.unique(counted[:, 1], return_inverse=True)
        counts = np.zeros(len(sizes), np.int64)
        np.add.at(counts, which, counted[:, 2])
        return sizes, counts

    def add(self, tables: Iterable[PostingList], **note: Any) -> Segment:
        """Write the postings of each table, in any order, to a new segment, durably."""
        span = self.last + 1, self.last + 1, 0
        segment = Segment.write(self._path(span), tables, **note)
        with self._changing:
            self._open = {**self._open, span: segment}
        return segment

    def find(
        self, keys: Keys, dead: Dead, limit: int, first: int = 0, warm: Leaders | None = None
    ) -> Leaders:
        """Return the first `limit` living documents of each bucket, on disk and in memory.

        Args:
            keys: A row for each query, a column for each table from the `first` one on.
            dead: Marks removed documents.
            limit: The most documents of a bucket.
            first: The first table.
            warm: The documents that the tables in memory have, in the same form.
        """
        postings = join_cells(
            [segment.find(keys, dead, limit, first) for segment in self._open.values()]
        )
        if warm is not None:
            if not len(postings[0]):
                return warm
            in_memory = np.repeat(np.arange(keys.size), warm[0].reshape(-1)), warm[2]
            postings = join_cells([postings, in_memory])
        cells, numbers = _first(postings, limit)
        counts = np.bincount(cells, minlength=keys.size).reshape(keys.shape[::-1])
        return counts, cells % max(len(keys), 1), numbers

    def walks(self, table: int) -> list[Iterator[PostingList]]:
        """Return for each segment an iterator over the postings of a table, in order."""
        return [segment.walk(table) for segment in self._open.values()]

    def merge(self, dead: Dead, *, everything: bool = False) -> bool:
        """Merge the younger segments if there are too many, without the dead documents.

        With `everything` all segments are merged. Returns whether any were.
        """
        with self._merging:
            spans = _chosen(list(self._open.items()), everything)
            if spans:
                self._merge(spans, dead)
        return bool(spans)

    def _merge(self, spans: list[Span], dead: Dead) -> None:
        span = spans[0][0], spans[-1][1], 1 + max(merges for _, _, merges in spans)
        parts = [self._open[part] for part in spans]
        segment = merge_segments(parts, self._path(span), dead)
        with self._changing:
            others = {at: other for at, other in self._open.items() if at not in spans}
            self._open = dict(sorted({**others, span: segment}.items()))
        for part in spans:
            self._path(part).unlink(missing_ok=True)

    def verify(self) -> None:
        """Read all segments; raise FormatError if one is damaged."""
        for segment in self._open.values():
            segment.verify()

    def clear(self) -> None:
        """Delete all segments, to build them again; first delete the snapshot."""
        with self._changing:
            self._open = {}
        for path, _ in sorted(_files(self._folder)):  # oldest first: a gap is then an error
            path.unlink(missing_ok=True)
        sync_path(self._folder)


def _first(postings: CellPostings, limit: int) -> CellPostings:
    """Return the smallest `limit` numbers of each cell in ascending order, each once."""
    cells, numbers = postings
    order = np.lexsort((numbers, cells))
    cells, numbers = cells[order], numbers[order]
    distinct = np.ones(len(cells), bool)
    distinct[1:] = (cells[1:] != cells[:-1]) | (numbers[1:] != numbers[:-1])
    cells, numbers = cells[distinct], numbers[distinct]
    within = np.arange(len(cells)) - np.searchsorted(cells, cells) < limit
    return cells[within], numbers[within]


def _files(folder: Path) -> Iterator[tuple[Path, Span]]:
    """Yield the segments of a folder with their spans."""
    for path in folder.iterdir():
        if name := NAME.fullmatch(path.name):
            yield path, (int(name[1]), int(name[2]), int(name[3]))


def _spans(folder: Path) -> list[Span]:
    """Return the spans of a folder in order, without those that are inside of another."""
    spans: list[Span] = []
    for span in sorted((span for _, span in _files(folder)), key=_widest_first):
        if not spans or span[1] > spans[-1][1]:
            spans.append(span)
    return spans


def _widest_first(span: Span) -> Span:
    first, last, merges = span
    return first, -last, -merges


def _chosen(segments: list[tuple[Span, Segment]], everything: bool) -> list[Span]:
    """Return the spans to merge: the younger ones, up to a segment larger than all of those.

    So a posting is written again only when its segment doubles.
    """
    if everything:
        return [span for span, _ in segments]
    if len(segments) <= MOST_SEGMENTS:
        return []
    sizes = [segment.postings for _, segment in segments]
    start = next(
        at
        for at in range(len(sizes) - 1)
        if sizes[at] <= sum(sizes[at + 1 :]) or at == len(sizes) - 2
    )
    return [span for span, _ in segments[start:]]
