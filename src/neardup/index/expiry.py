"""Forget documents that are older than a duration, by the time when they were added or by a date in
their metadata.

A pass reads all documents in the order of their numbers, then removes those that are too old, as
`removal.py` does: copies of a forgotten document find another witness. It works in steps, so that a
service can pause, end or switch its generation in between. A pass that is cut off leaves a complete
index, and the next one finds the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from neardup.errors import UsageError
from neardup.index.store import Row
from neardup.reference.dates import parse_date

if TYPE_CHECKING:
    from neardup.index.base_generation import BaseGeneration

NUMBERS_AT_ONCE: Final = 8_192
"""Numbers whose documents a step reads."""
TOGETHER: Final = 65_536
"""The most documents that are removed together."""
MICROSECONDS: Final = 10**6


@dataclass(frozen=True)
class Retention:
    """How long documents stay.

    older_than  seconds after which a document is forgotten
    by          the field of the metadata that has the date; None for the time when it was added
    """

    older_than: float
    by: str | None = None


class DatedDocuments(Protocol):
    """The documents of an index, as far as a pass reads all of them."""

    def last_number(self) -> int:
        """Return the largest number that was given."""

    def times(self, after: int, until: int) -> Iterable[tuple[int, float]]:
        """Return the documents of a range of numbers with the times when they were added."""

    def metadata(self, after: int, until: int) -> Iterable[tuple[int, str | None]]:
        """Return the documents of a range of numbers with their metadata."""


@dataclass(frozen=True)
class Forgotten:
    """What a pass has removed, or would remove."""

    documents: int
    """Documents that were removed, or would be."""
    examined: int
    """Documents that were there."""
    undated: int
    """Documents that stay because the field is missing in their metadata, or is no date."""
    before: float
    """Documents of an earlier time are too old, in seconds since 1970."""
    by: str | None = None
    """The field of the metadata; None for the time when a document was added."""

    def require_dates(self) -> None:
        """Raise UsageError if no document has a date in the field."""
        if self.by is not None and 0 < self.examined == self.undated:
            raise UsageError(
                f"none of {self.examined:,} documents has a date in the field {self.by!r} of its "
                "metadata: check the name of the field"
            )


class ExpiryPass:
    """One pass over all documents.

    Args:
        generation: Yields the generation that has them; held during a step.
        before: Documents of an earlier time are forgotten, in seconds since 1970.
        by: The field of the metadata with that time; None for the time when they were added.
    """

    def __init__(
        self,
        generation: Callable[[], AbstractContextManager[BaseGeneration]],
        before: float,
        by: str | None = None,
    ) -> None:
        self._generation, self._before, self._by = generation, before, by
        self._expired: list[int] = []
        self.result = Forgotten(0, 0, 0, before, by)
        """What was done so far."""

    def find(self) -> Iterator[None]:
        """Find the documents that are too old, a range of numbers in each step."""
        after = 0
        while True:
            with self._generation() as generation:
                documents = generation.documents
                if after >= (last := documents.last_number()):
                    return
                until = min(after + NUMBERS_AT_ONCE, last)
                self._examine(documents, after, until)
                after = until
            yield

    def remove(self) -> Iterator[None]:
        """Remove the documents that were found, some in each step."""
        expired, self._expired = self._expired, []
        for start in range(0, len(expired), TOGETHER):
            yield from self._remove(expired[start : start + TOGETHER])

    @property
    def found(self) -> Forgotten:
        """What `remove` is about to do."""
        return replace(self.result, documents=len(self._expired))

    def _remove(self, numbers: list[int]) -> Iterator[None]:
        steps: Iterator[list[int]] | None = None
        removing: BaseGeneration | None = None
        while True:
            with self._generation() as generation:
                if generation is not removing or steps is None:  # it has switched meanwhile
                    removing = generation
                    steps = generation.remove_in_steps(numbers, self._is_expired)
                removed = next(steps, None)
                if removed is None:
                    return
                generation.counters.forgotten += len(removed)
            self.result = replace(self.result, documents=self.result.documents + len(removed))
            yield

    def _examine(self, documents: DatedDocuments, after: int, until: int) -> None:
        examined = undated = 0
        if self._by is None:
            for number, added in documents.times(after, until):
                examined += 1
                if added < self._before:
                    self._expired.append(number)
        else:
            for number, metadata in documents.metadata(after, until):
                examined += 1
                date = read_date(metadata, self._by)
                undated += date is None
                if date is not None and date < self._before:
                    self._expired.append(number)
        self.result = replace(
            self.result,
            examined=self.result.examined + examined,
            undated=self.result.undated + undated,
        )

    def _is_expired(self, row: Row) -> bool:
        """Whether a document is still too old: its metadata may have been replaced meanwhile."""
        date = row.added if self._by is None else read_date(row.metadata, self._by)
        return date is not None and date < self._before


def read_date(metadata: str | None, field: str) -> float | None:
    """Return the date in a field of metadata, in seconds since 1970; None if there is none.

    Args:
        metadata: The metadata as JSON.
        field: Its name; `a.b` is also the field `b` of the object `a`. Numbers and texts are dates
            as `--keep newest:COLUMN` reads them.

    >>> read_date('{"seen": "1970-01-02"}', "seen"), read_date('{"page": {"seen": 5}}', "page.seen")
    (86400.0, 5.0)
    """
    value = None if metadata is None else _field(json.loads(metadata), field)
    date = parse_date(value)
    return None if date is None else date / MICROSECONDS


def _field(metadata: Any, name: str) -> Any:
    if not isinstance(metadata, dict):
        return None
    if name in metadata:
        return metadata[name]
    outer, _, inner = name.partition(".")
    return _field(metadata.get(outer), inner) if inner else None
