"""Cold postings: what no longer fits into memory, in segments on disk that still answer.

A segment's name says which spills it holds, from the first to the last, and how often they were
merged: cold-000003-000003-0 is the third one, cold-000001-000008-1 are the first eight. No name is
ever given twice. A file whose spills are all in another one is left over from a merge that was cut
off, and goes; so there is no list of files to keep in step. A spill that is in no file is missed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from neardup.errors import FormatError
from neardup.formats.blocks import sync_folder
from neardup.index.postings import Dead, Integers, Keys, Numbers
from neardup.index.segment import Found, Listed, Segment, SegmentWriter, join_found, sort_postings

NOTHING: Final[Listed] = np.empty(0, np.uint64), np.empty(0, np.uint32)
LARGEST: Final = (2**64 - 1, 2**32 - 1)


def merge_segments(parts: list[Segment], path: Path, dead: Dead) -> Segment:
    """One segment of several. The dead are left out."""
    with SegmentWriter(path, parts[-1].note) as writer:
        for table in range(parts[0].tables):
            most = sum(int(part.table_buckets[table]) for part in parts)
            runs = [_Run(part.walk(table)) for part in parts]
            writer.add_table((_living(piece, dead) for piece in _in_order(runs)), most)
        writer.close()
    return Segment(path)


class _Run:
    """Listed in order, of which some are in memory."""

    def __init__(self, pieces: Iterator[Listed]) -> None:
        self._pieces = pieces
        self.keys, self.numbers = next(pieces, NOTHING)
        self._next = next(pieces, None)

    @property
    def bound(self) -> tuple[int, int] | None:
        """The last posting in memory, if more follow."""
        return None if self._next is None else (int(self.keys[-1]), int(self.numbers[-1]))

    def until(self, bound: tuple[int, int]) -> Listed:
        """Take out what is in memory up to and including a posting."""
        key, number = np.uint64(bound[0]), np.uint32(bound[1])
        start, end = np.searchsorted(self.keys, key), np.searchsorted(self.keys, key, "right")
        end = start + np.searchsorted(self.numbers[start:end], number, "right")
        taken = self.keys[:end], self.numbers[:end]
        self.keys, self.numbers = self.keys[end:], self.numbers[end:]
        if not len(self.keys) and self._next is not None:
            (self.keys, self.numbers), self._next = self._next, next(self._pieces, None)
        return taken


def _in_order(runs: list[_Run]) -> Iterator[Listed]:
    """Up to the least of the last postings in memory, nothing smaller can follow."""
    while any(len(run.keys) for run in runs):
        bound = min((run.bound for run in runs if run.bound is not None), default=LARGEST)
        taken = [run.until(bound) for run in runs]
        keys, numbers = (np.concatenate(part) for part in zip(*taken, strict=True))
        yield sort_postings(keys, numbers)


def _living(piece: Listed, dead: Dead) -> Listed:
    keys, numbers = piece
    alive = np.ones(len(numbers), bool)
    known = numbers < len(dead)
    alive[known] = dead[numbers[known]] == 0
    return keys[alive], numbers[alive]


NAME: Final = re.compile(r"cold-(\d{6,})-(\d{6,})-(\d+)")
MOST_SEGMENTS: Final = 8

Leaders = tuple[Integers, Integers, Numbers]
"""As `Postings.find` gives them: how many, (tables x rows); who asked; and the numbers."""

Span = tuple[int, int, int]
"""The first and the last spill, and how often they were merged."""


class Segments:
    """All segments of a folder.

    Any number of threads may ask while one adds and others merge, one after the other. Only one
    process adds and merges.
    """

    def __init__(self, folder: Path, last: int = 0, *, read_only: bool = False) -> None:
        """Open the segments of a folder, which must hold every spill up to `last`."""
        self._folder = folder
        self._changing, self._merging = threading.Lock(), threading.Lock()
        self._open: dict[Span, Segment] = {}
        self.refresh(last)
        if not read_only:
            self._tidy()

    def refresh(self, last: int = 0) -> None:
        """See what another process has spilled and merged meanwhile."""
        while True:
            spans = _spans(self._folder)
            try:
                self._open = self._opened(spans, last)
            except FormatError:
                if _spans(self._folder) == spans:  # not merged under our eyes
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

    def _tidy(self) -> None:
        """Remove what a crash has left behind: half a file, or one that is merged already."""
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
        """How many spills there have been. A snapshot notes it, and is opened with it."""
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
        """The sizes of buckets of the first so many tables, ascending; and how many there are."""
        rows = [segment.sizes for segment in self._open.values()]
        counted = np.concatenate([np.empty((0, 3), np.int64), *rows])
        counted = counted[counted[:, 0] < tables]
        sizes, which = np.unique(counted[:, 1], return_inverse=True)
        counts = np.zeros(len(sizes), np.int64)
        np.add.at(counts, which, counted[:, 2])
        return sizes, counts

    def add(self, tables: Iterable[Listed], **note: Any) -> Segment:
        """Spill each table's postings, in any order; they are on the disk when this returns."""
        span = self.last + 1, self.last + 1, 0
        segment = Segment.write(self._path(span), tables, **note)
        with self._changing:
            self._open = {**self._open, span: segment}
        return segment

    def find(
        self, keys: Keys, dead: Dead, limit: int, first: int = 0, warm: Leaders | None = None
    ) -> Leaders:
        """The first `limit` living documents of each bucket, on disk and in memory.

        `keys` has a row for each who asks, and a column for each table from the `first` one on.
        `warm` is what tables in memory have found, in the same form.
        """
        found = join_found(
            [segment.find(keys, dead, limit, first) for segment in self._open.values()]
        )
        if warm is not None:
            if not len(found[0]):
                return warm
            held = np.repeat(np.arange(keys.size), warm[0].reshape(-1)), warm[2]
            found = join_found([found, held])
        cells, numbers = _first(found, limit)
        counts = np.bincount(cells, minlength=keys.size).reshape(keys.shape[::-1])
        return counts, cells % max(len(keys), 1), numbers

    def merge(self, dead: Dead, *, everything: bool = False) -> bool:
        """Make one of the younger segments if there are too many, or of all of them if asked to.

        The dead are left out. Whether anything was merged.
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
        """Read everything; an error if anything is not what was written."""
        for segment in self._open.values():
            segment.verify()

    def clear(self) -> None:
        """Delete all segments, to build them again; first delete the snapshot."""
        with self._changing:
            self._open = {}
        for path, _ in sorted(_files(self._folder)):  # the first one first: a rest is seen as such
            path.unlink(missing_ok=True)
        sync_folder(self._folder)


def _first(found: Found, limit: int) -> Found:
    """The first `limit` numbers of each cell in ascending order, each once."""
    cells, numbers = found
    order = np.lexsort((numbers, cells))
    cells, numbers = cells[order], numbers[order]
    fresh = np.ones(len(cells), bool)
    fresh[1:] = (cells[1:] != cells[:-1]) | (numbers[1:] != numbers[:-1])
    cells, numbers = cells[fresh], numbers[fresh]
    within = np.arange(len(cells)) - np.searchsorted(cells, cells) < limit
    return cells[within], numbers[within]


def _files(folder: Path) -> Iterator[tuple[Path, Span]]:
    for path in folder.iterdir():
        if found := NAME.fullmatch(path.name):
            yield path, (int(found[1]), int(found[2]), int(found[3]))


def _spans(folder: Path) -> list[Span]:
    """What the segments of a folder hold, in order, without those that are inside of another."""
    found: list[Span] = []
    for span in sorted((span for _, span in _files(folder)), key=_widest_first):
        if not found or span[1] > found[-1][1]:
            found.append(span)
    return found


def _widest_first(span: Span) -> Span:
    first, last, merges = span
    return first, -last, -merges


def _chosen(segments: list[tuple[Span, Segment]], everything: bool) -> list[Span]:
    """Which to merge: the younger ones, back to one that is larger than all younger together.

    So each posting is written again only when its segment doubles.
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
