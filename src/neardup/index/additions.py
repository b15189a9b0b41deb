"""Which documents of an index are in which output: additions.json in its folder.

`neardup index add -o OUT` adds documents to the index before OUT is complete. If it is stopped in
between and run again, the index has the documents already: they must be written to OUT, not be
removed as copies of themselves. So the file states

    open         the first number of a run that has not ended; those up to the last are its own
    unconfirmed  what a run is about to put in its place, until it is known to be there
    unwritten    ranges of numbers: documents that are in no output
    written      by path of OUT, what was written to it

Every OUT has a token (`read_token`). When the index is opened to write, a run that has not
confirmed its OUT has written its documents if OUT has the token; otherwise they are in no output.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from neardup.errors import FormatError
from neardup.formats.blocks import sync_path
from neardup.index.folder import ADDITIONS, write_durably
from neardup.pipeline.output import RUN_FILE

VERSION: Final = 2
RUN_FIELD: Final = "addition"
"""The field of run.json that has the token of OUT."""

Ranges = list[list[int]]
"""First and last number of each range."""


@dataclass
class WrittenOutput:
    """The documents that were written to a path.

    token   that of the last run
    here    what the last run has written
    before  what earlier runs have written, whose outputs were moved away or deleted
    """

    token: str
    here: Ranges
    before: Ranges

    def __post_init__(self) -> None:
        _check_ranges(self.here, self.before)


@dataclass
class UnconfirmedOutput:
    """An output that is complete, and may be in its place or not.

    out       its path
    token     its token
    replaces  the path by which the output is listed that it replaces; None if it replaces none
    added     the documents that the run has added to the index
    rows      the documents whose rows it has
    """

    out: str
    token: str
    replaces: str | None
    added: Ranges
    rows: Ranges

    def __post_init__(self) -> None:
        _check_ranges(self.added, self.rows)


@dataclass
class Additions:
    """The content of additions.json, for the process that writes to the index."""

    path: Path
    open: int | None = None
    unconfirmed: UnconfirmedOutput | None = None
    unwritten: Ranges = field(default_factory=list)
    written: dict[str, WrittenOutput] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> Additions:
        """Read the file of an index; without one, all documents are written."""
        path = folder / ADDITIONS
        try:
            content = json.loads(path.read_text("utf-8"))
            if content["version"] != VERSION:
                raise FormatError(
                    f"{path}: version {content['version']!r} is not known, this neardup reads "
                    f"version {VERSION}: use the neardup that wrote it"
                )
            first, unconfirmed = content["open"], content["unconfirmed"]
            if not (first is None or _is_number(first)):
                raise ValueError("not a number")
            _check_ranges(content["unwritten"])
            return cls(
                path,
                first,
                None if unconfirmed is None else UnconfirmedOutput(**unconfirmed),
                content["unwritten"],
                {out: WrittenOutput(**one) for out, one in content["written"].items()},
            )
        except FileNotFoundError:
            return cls(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise FormatError(
                f"{path} is damaged: restore it, or delete it, and check the output of a run that "
                "was stopped"
            ) from None

    def own(self, out: Path, force: bool) -> Ranges:
        """Return the documents that a run writes though the index has them already.

        Args:
            out: Its output.
            force: Whether it writes again what was written there before.
        """
        own = list(self.unwritten)
        if force:
            own += self.written_to(out)
            if (replaced := self._replaced(out)) is not None:
                own += self.written[replaced].here
        return _join(own)

    def written_to(self, out: Path) -> Ranges:
        """Return the documents that were ever written to a path."""
        known = self.written.get(_place(out))
        return [] if known is None else _join([*known.here, *known.before])

    def output_of(self, number: int | None) -> str | None:
        """Return the path that a document was written to; None if it is in no output."""
        if number is None:
            return None
        outputs = (out for out in self.written if contains(self.written_to(Path(out)), number))
        return next(outputs, None)

    def _replaced(self, out: Path) -> str | None:
        """Return by which path the output is listed that is in OUT now; None if it is not."""
        token, place = read_token(out), _place(out)
        if token is None:
            return None
        if place in self.written and self.written[place].token == token:
            return place
        for other, known in self.written.items():
            # It was moved here; but a copy of it may be replaced without a loss.
            if known.token == token and read_token(Path(other)) != token:
                return other
        return None

    def begin(self, first: int) -> None:
        """Note that documents from the number `first` on are of a run that is under way."""
        self.open = first
        self._write()

    def finish(self, out: Path, token: str, last: int, adopted: Iterable[int] | None) -> None:
        """Note that an output is complete, before it is moved to its place.

        Args:
            out: Where it will be.
            token: Its token.
            last: The last number of the index.
            adopted: The documents that it has though the index had them before; None if it has no
                rows at all.
        """
        added = self._added(last)
        rows = [] if adopted is None else _join([*to_ranges(adopted), *added])
        replaced = self._replaced(out)
        self.unconfirmed = UnconfirmedOutput(_place(out), token, replaced, added, rows)
        self.open = None
        self._write()

    def stop(self, last: int) -> None:
        """Note that a run has ended without its output; its documents up to `last` are left."""
        if self.open is None:
            return
        self.unwritten = _join([*self.unwritten, *self._added(last)])
        self.open = None
        self._write()

    def confirm(self) -> int:
        """Note whether a complete output is in its place; return how many documents are in none."""
        if (done := self.unconfirmed) is not None:
            left = [*self.unwritten, *done.added]
            if read_token(place := Path(done.out)) == done.token:
                _sync_names(place)
                known = self.written.get(done.out, WrittenOutput("", [], []))
                if done.replaces in self.written:
                    left += self.written[done.replaces].here
                    self.written[done.replaces].here = []
                self.written[done.out] = WrittenOutput(
                    done.token, done.rows, _subtract(_join([*known.here, *known.before]), done.rows)
                )
                left = _subtract(_join(left), done.rows)
            self.unwritten = _join(left)
            self.unconfirmed = None
            self._write()
        return sum(last - first + 1 for first, last in self.unwritten)

    def _added(self, last: int) -> Ranges:
        """Return what the run under way has added, if `last` is the last number of the index."""
        return [] if self.open is None or self.open > last else [[self.open, last]]

    @property
    def content(self) -> dict[str, Any]:
        """What the file states."""
        return {
            "version": VERSION,
            "open": self.open,
            "unconfirmed": None if self.unconfirmed is None else asdict(self.unconfirmed),
            "unwritten": self.unwritten,
            "written": {out: asdict(one) for out, one in self.written.items()},
        }

    def _write(self) -> None:
        write_durably(self.path, self.content)


def close_stopped(folder: Path, last: int) -> None:
    """When an index is opened to write: end a run that was killed.

    Args:
        folder: The folder of the index.
        last: The last number that was given to a document.
    """
    if (folder / ADDITIONS).exists():
        additions = Additions.of(folder)
        additions.stop(last)
        additions.confirm()


def read_token(out: Path) -> str | None:
    """Return the token of an output: that of run.json, or the size and the time of one file.

    Renaming changes neither. None if it does not exist, or is not of `neardup index add`.
    """
    try:
        if not out.is_dir():
            return file_token(out)
        token = json.loads((out / RUN_FILE).read_bytes())[RUN_FIELD]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return token if isinstance(token, str) else None


def _sync_names(out: Path) -> None:
    """Sync the names of an output that is in its place to the disk; its files are synced before."""
    for folder in (out, out.parent) if out.is_dir() else (out.parent,):
        with suppress(PermissionError):  # one may write to a folder that one may not read
            sync_path(folder)


def file_token(path: Path) -> str:
    """Return the token of an output that is one file."""
    status = os.stat(path)
    return f"{status.st_size}-{status.st_mtime_ns}"


def _place(out: Path) -> str:
    return str(out.resolve())


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def _check_ranges(*values: Any) -> None:
    """Raise ValueError if one is not a list of ranges."""
    for value in values:
        if not isinstance(value, list) or not all(map(_is_range, value)):
            raise ValueError("not ranges")


def _is_range(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(map(_is_number, value))
        and value[0] <= value[1]
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
