"""Which documents of an index no output has yet: additions.json in its folder.

`neardup index add -o OUT` adds documents to the index before OUT is complete. If it is stopped in
between and run again, the index has the documents already: they must be written to OUT, not be
removed as copies of themselves. So the file states

    open       the first number of a run that has not ended; those up to the last one are its own
    unwritten  ranges of numbers: documents of stopped runs, which are in no output yet
    written    by digest of OUT and inputs, the ranges that are in it, so that the same command
               writes the same OUT again

A document is written once: by the first run to the end that has it in its inputs.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from neardup.errors import FormatError
from neardup.index.folder import write_durably

FILE: Final = "additions.json"
VERSION: Final = 1

Ranges = list[list[int]]
"""First and last number of each range."""


@dataclass
class Additions:
    """The content of additions.json, for the process that writes to the index."""

    path: Path
    open: int | None = None
    unwritten: Ranges = field(default_factory=list)
    written: dict[str, Ranges] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> Additions:
        """Read the file of an index; without one, all documents are written."""
        path = folder / FILE
        try:
            content = json.loads(path.read_text("utf-8"))
            if content["version"] != VERSION:
                raise FormatError(
                    f"{path}: version {content['version']!r} is not known, this neardup reads "
                    f"version {VERSION}: use the neardup that wrote it"
                )
            first = content["open"]
            ranges = [content["unwritten"], *content["written"].values()]
            if not all(map(_is_ranges, ranges)) or not (first is None or _is_number(first)):
                raise ValueError("not ranges")
            return cls(path, first, content["unwritten"], content["written"])
        except FileNotFoundError:
            return cls(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise FormatError(
                f"{path} is damaged: restore it, or delete it, and check the output of a run that "
                "was stopped"
            ) from None

    def own(self, output: str) -> Ranges:
        """Return the documents that a run writes though the index has them already.

        Args:
            output: The digest of OUT and the inputs.
        """
        return _join([*self.unwritten, *self.written.get(output, [])])

    def begin(self, first: int) -> None:
        """Note that documents from the number `first` on are of a run that is under way."""
        self.open = first
        self._write()

    def finish(self, output: str, adopted: Iterable[int], last: int) -> int:
        """Note that a run is complete; return how many documents of stopped runs are left.

        Args:
            output: The digest of its OUT and inputs.
            adopted: The documents that it writes though the index had them before.
            last: The last number of the index.
        """
        taken = to_ranges(adopted)
        written = [*self.written.get(output, []), *taken, *self._added(last)]
        self.written[output] = _join(written)
        self.unwritten = _subtract(self.unwritten, taken)
        self.open = None
        self._write()
        return sum(last - first + 1 for first, last in self.unwritten)

    def stop(self, last: int) -> None:
        """Note that a run has ended without its output; its documents up to `last` are left."""
        if self.open is None:
            return
        self.unwritten = _join([*self.unwritten, *self._added(last)])
        self.open = None
        self._write()

    def _added(self, last: int) -> Ranges:
        """Return what the run under way has added, if `last` is the last number of the index."""
        return [] if self.open is None or self.open > last else [[self.open, last]]

    def _write(self) -> None:
        content = {
            "version": VERSION,
            "open": self.open,
            "unwritten": self.unwritten,
            "written": self.written,
        }
        write_durably(self.path, content)


def close_stopped(folder: Path, last: int) -> None:
    """When an index is opened to write: end a run that was killed.

    Args:
        folder: The folder of the index.
        last: The last number that was given to a document.
    """
    if (folder / FILE).exists():
        Additions.of(folder).stop(last)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def _is_ranges(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, list) and len(one) == 2 and all(map(_is_number, one)) and one[0] <= one[1]
        for one in value
    )


def contains(ranges: Ranges, number: int) -> bool:
    """Return whether a number is in one of the ranges, which are sorted and disjoint."""
    place = bisect_right(ranges, number, key=lambda one: one[0]) - 1
    return place >= 0 and number <= ranges[place][1]


def to_ranges(numbers: Iterable[int]) -> Ranges:
    """Return the ranges of numbers, sorted and disjoint."""
    return _join([number, number] for number in numbers)


def _join(ranges: Iterable[list[int]]) -> Ranges:
    """Return ranges sorted and disjoint, with those in one that overlap or follow one another."""
    joined: Ranges = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    return joined


def _subtract(ranges: Ranges, taken: Ranges) -> Ranges:
    """Return what is left of ranges without those that were taken; both are sorted."""
    left: Ranges = []
    for first, last in ranges:
        for begin, end in taken:
            if end >= first and begin <= last:
                left += [[first, begin - 1]] if begin > first else []
                first = end + 1
        left += [[first, last]] if first <= last else []
    return left
