"""Cold postings: what no longer fits into memory, in segments on disk that still answer.

A segment's name says which spills it holds, from the first to the last: cold-000003-000003 is the
third one, cold-000001-000008 the first eight, merged. A file whose spills are all in another one is
left over from a merge that was cut off, and goes; so there is no list of files to keep in step. A
spill that is in no file is missed, and said so.
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
from neardup.index.segment import Flags, Found, Keys, Postings, Segment
from neardup.index.segment_merge import merged

NAME: Final = re.compile(r"cold-(\d{6,})-(\d{6,})")
MOST_SEGMENTS: Final = 8

Span = tuple[int, int]


class Segments:
    """All segments of a folder.

    Any number of threads may ask while one adds and one merges. Only one process adds and merges.
    """

    def __init__(self, folder: Path, last: int = 0, *, read_only: bool = False) -> None:
        """Open the segments of a folder, which must hold every spill up to `last`."""
        self._folder = folder
        self._changing = threading.Lock()
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
        for first, end in [*spans, (last + 1, last)]:
            if first > following:
                raise FormatError(
                    f"{self._path((following, first - 1))} is missing: open the index again, "
                    "it is made anew from the stored documents"
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
        return self._folder / f"cold-{span[0]:06}-{span[1]:06}"

    def __len__(self) -> int:
        return len(self._open)

    @property
    def last(self) -> int:
        """How many spills there have been. Whoever counts on them notes it, and opens with it."""
        return max((end for _, end in self._open), default=0)

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

    def sizes(self, tables: int) -> tuple[Found, Found]:
        """The sizes of buckets of the first so many tables, ascending; and how many there are."""
        rows = [segment.sizes for segment in self._open.values()]
        counted = np.concatenate([np.empty((0, 3), np.int64), *rows])
        counted = counted[counted[:, 0] < tables]
        sizes, which = np.unique(counted[:, 1], return_inverse=True)
        counts = np.zeros(len(sizes), np.int64)
        np.add.at(counts, which, counted[:, 2])
        return sizes, counts

    def add(self, tables: Iterable[Postings], **note: Any) -> Segment:
        """Spill each table's postings, in any order; they are on the disk when this returns."""
        span = self.last + 1, self.last + 1
        segment = Segment.write(self._path(span), tables, **note)
        with self._changing:
            self._open = {**self._open, span: segment}
        return segment

    def find(self, keys: Keys, limit: int, dead: Flags | None = None) -> tuple[Found, Found, Found]:
        """The first `limit` numbers in each key's bucket, those marked in `dead` left out.

        `keys` has a row for each who asks, and a column for each table. Returns who asked, in
        which table, and what was found, in ascending order.
        """
        found = [segment.find(keys, limit, dead) for segment in self._open.values()]
        found = [(cells, numbers) for cells, numbers in found if len(cells)]
        if not found:
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing
        cells, numbers = found[0] if len(found) == 1 else _united(found, limit)
        rows, tables = np.divmod(cells, keys.shape[1])
        return rows, tables, numbers

    def merge(self, dead: Flags | None = None, *, everything: bool = False) -> bool:
        """Make one of the younger segments if there are too many, or of all of them if asked to.

        Numbers marked in `dead` are left out. Whether anything was merged.
        """
        spans = _chosen(list(self._open.items()), everything)
        if not spans:
            return False
        span = spans[0][0], spans[-1][1]
        parts = [self._open[part] for part in spans]
        segment = merged(parts, self._path(span), dead)
        with self._changing:
            others = {at: other for at, other in self._open.items() if at not in spans}
            self._open = dict(sorted({**others, span: segment}.items()))
        for part in spans:
            if part != span:
                self._path(part).unlink(missing_ok=True)
        return True

    def verify(self) -> None:
        """Read everything; an error if anything is not what was written."""
        for segment in self._open.values():
            segment.verify()

    def clear(self) -> None:
        """Delete all segments, to make them anew; first delete what counts on them."""
        with self._changing:
            self._open = {}
        for path, _ in sorted(_files(self._folder)):  # the first one first: a rest is seen as such
            path.unlink(missing_ok=True)
        sync_folder(self._folder)


def _united(found: list[tuple[Found, Found]], limit: int) -> tuple[Found, Found]:
    """What several segments have found, each number of a cell once, the first `limit` of a cell."""
    cells, numbers = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.lexsort((numbers, cells))
    cells, numbers = cells[order], numbers[order]
    fresh = np.ones(len(cells), bool)
    fresh[1:] = (cells[1:] != cells[:-1]) | (numbers[1:] != numbers[:-1])
    cells, numbers = cells[fresh], numbers[fresh]
    first = np.searchsorted(cells, cells)
    within = np.arange(len(cells)) - first < limit
    return cells[within], numbers[within]


def _files(folder: Path) -> Iterator[tuple[Path, Span]]:
    for path in folder.iterdir():
        if found := NAME.fullmatch(path.name):
            yield path, (int(found[1]), int(found[2]))


def _spans(folder: Path) -> list[Span]:
    """What the segments of a folder hold, in order, without those that are inside of another."""
    found: list[Span] = []
    for first, end in sorted(
        (span for _, span in _files(folder)), key=lambda span: (span[0], -span[1])
    ):
        if not found or end > found[-1][1]:
            found.append((first, end))
    return found


def _chosen(segments: list[tuple[Span, Segment]], everything: bool) -> list[Span]:
    """Which to merge: the younger ones, back to one that is larger than all younger together.

    So each posting is written again only when its segment doubles.
    """
    if everything:
        return [span for span, _ in segments]
    if len(segments) <= MOST_SEGMENTS:
        return []
    sizes = [segment.postings for _, segment in segments]
    start = next(at for at in range(len(sizes) - 1)
                 if sizes[at] <= sum(sizes[at + 1 :]) or at == len(sizes) - 2)  # fmt: skip
    return [span for span, _ in segments[start:]]
