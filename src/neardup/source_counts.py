"""What became of the documents of each source, and how much may be removed of one.

A source is an input file, or a value of a column. Sources are counted as groups of documents that
are known by their first document; only those that are listed get a name. So there may be millions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neardup.errors import ParameterError, TooManyRemoved
from neardup.formatting import format_count, format_percent, make_printable
from neardup.spec import check_number

if TYPE_CHECKING:
    import pyarrow as pa

LEAST_DOCUMENTS: Final = 100
"""A source with fewer documents is not held against the limit: one of them is more than 1 %."""
MOST_LISTED: Final = 50
NO_SOURCE: Final = "(none)"
"""What stands for the source of documents without a value in the column."""

Integers = NDArray[np.int64]


def name_source(source: str | None) -> str:
    """Return a source as it is shown in a line, without control characters."""
    return NO_SOURCE if source is None else make_printable(source)


@dataclass(frozen=True)
class SourceCounts:
    """What became of the documents of a source.

    Attributes:
        source: The file, or the value of the column; None for documents without a value.
        documents: All of its documents, rejected ones included.
        kept: Those that are kept.
        removed: Those that are removed.
    """

    source: str | None
    documents: int
    kept: int
    removed: int

    @property
    def share(self) -> float:
        """The share of its documents that is removed."""
        return self.removed / self.documents if self.documents else 0.0

    @property
    def stated(self) -> dict[str, Any]:
        """The counts as run.json has them."""
        counts = {"documents": self.documents, "kept": self.kept, "removed": self.removed}
        return {"source": self.source, **counts, "share": self.share}


@dataclass(frozen=True)
class RemovalLimits:
    """How much of the documents may be removed: more is not written.

    Attributes:
        removed: The largest share of all documents; None for no limit.
        per_source: The largest share of a source's documents; None for no limit.
        confirmed: Whether more was allowed, after it was seen.
    """

    removed: float | None = None
    per_source: float | None = None
    confirmed: bool = False

    def __post_init__(self) -> None:
        for option, share in self._given().items():
            if not 0 <= check_number(option, share) <= 1:
                raise ParameterError(f"{option} is a share from 0 to 1, not {share}: 1 allows all")

    def _given(self) -> dict[str, float]:
        limits = {"--max-removed": self.removed, "--max-removed-per-source": self.per_source}
        return {option: share for option, share in limits.items() if share is not None}

    @property
    def stated(self) -> dict[str, Any]:
        """The limits that are given, as parameters of run.json."""
        return {option[2:].replace("-", "_"): share for option, share in self._given().items()}


class GroupCounts(NamedTuple):
    """The counts of several sources, each known by its first document, or by its number."""

    first: Integers
    documents: Integers
    kept: Integers
    removed: Integers


@dataclass(frozen=True)
class SourceSummary:
    """What became of the documents of all sources.

    Attributes:
        column: The column of the sources; None if they are the input files.
        count: The number of sources.
        total: All documents; its source is None.
        listed: The sources that lost most documents, at most MOST_LISTED, the first one first.
        over: Sources that lose a larger share than is allowed, at most MOST_LISTED, the largest
            share first.
        over_count: The number of all such sources.
    """

    column: str | None
    count: int
    total: SourceCounts
    listed: tuple[SourceCounts, ...]
    over: tuple[SourceCounts, ...] = ()
    over_count: int = 0

    @property
    def others(self) -> SourceCounts | None:
        """The documents of all sources that are not listed; None if all are."""
        if self.count == len(self.listed):
            return None
        shown = [sum(getattr(one, name) for one in self.listed) for name in _COUNTED]
        whole = [getattr(self.total, name) for name in _COUNTED]
        return SourceCounts(None, *(a - b for a, b in zip(whole, shown, strict=True)))

    @property
    def stated(self) -> dict[str, Any]:
        """The summary as run.json has it."""
        listed = [one.stated for one in self.listed]
        others = {} if self.others is None else {"others": self.others.stated}
        others.get("others", {}).pop("source", None)
        return {"column": self.column, "count": self.count, "listed": listed, **others}

    def check(self, limits: RemovalLimits) -> None:
        """Raise `TooManyRemoved` if more would be removed than the limits allow.

        Args:
            limits: The limits, by which the sources were counted.
        """
        if limits.confirmed:
            return
        if self.over:
            worst, more = self.over[0], self.over_count - 1
            lost = f"{_describe_loss(worst)} of {name_source(worst.source)}"
            if more:
                lost += f", and too many of {format_count(more, 'more source')},"
            raise _too_many(self, lost, "--max-removed-per-source", limits.per_source)
        if limits.removed is not None and self.total.share > limits.removed:
            raise _too_many(self, _describe_loss(self.total), "--max-removed", limits.removed)


_COUNTED: Final = ("documents", "kept", "removed")


def _describe_loss(counts: SourceCounts) -> str:
    percent = format_percent(counts.share, 1)
    return f"{counts.removed:,} of {format_count(counts.documents, 'document')} ({percent})"


def _too_many(
    summary: SourceSummary, lost: str, option: str, share: float | None
) -> TooManyRemoved:
    return TooManyRemoved(
        f"{lost} would be removed, more than {option} {share:g} allows: nothing is written; the "
        "same with --yes goes on, or allow more",
        summary,
    )


def count_values(
    values: pa.DictionaryArray, kept: NDArray[np.bool_], removed: NDArray[np.bool_]
) -> tuple[Integers, GroupCounts]:
    """Return the counts of the sources of documents, and where their names are in the dictionary.

    The place of documents without a source is the length of the dictionary.

    Args:
        values: The source of each document.
        kept: Whether each is kept.
        removed: Whether each is removed.
    """
    null = len(values.dictionary)
    numbers = np.from_dlpack(values.indices.fill_null(null)).astype(np.int64)
    present, first = np.unique(numbers, return_index=True)
    counts = (
        np.bincount(numbers, weights=flags, minlength=null + 1)[present].astype(np.int64)
        for flags in (None, kept, removed)
    )
    return present, GroupCounts(first, *counts)


def summarise_values(
    column: str | None,
    values: pa.Array | None,
    kept: NDArray[np.bool_],
    removed: Integers,
    limits: RemovalLimits,
) -> SourceSummary:
    """Return what became of documents in memory, by source.

    Args:
        column: The column of the sources; None if all documents have one source.
        values: The source of each document; None without a column.
        kept: Whether each is kept.
        removed: Those that are removed.
        limits: How much may be removed.
    """
    tally = SourceTally(column, limits)
    if values is None:
        counts = (len(kept), int(np.count_nonzero(kept)), len(removed))
        tally.add(GroupCounts(*(np.array([count]) for count in (0, *counts))))
        return tally.summary(lambda chosen: [None] * len(chosen))
    is_removed = np.zeros(len(kept), bool)
    is_removed[removed] = True
    tally.add(count_values(values.dictionary_encode(), kept, is_removed)[1])
    return tally.summary(lambda chosen: [values[row].as_py() for row in chosen])


class SourceTally:
    """Sums up sources that are counted group by group.

    Args:
        column: The column of the sources; None if they are the input files.
        limits: How much may be removed.
    """

    def __init__(self, column: str | None, limits: RemovalLimits) -> None:
        self._column, self._limits = column, limits
        self._count = self._over_count = 0
        self._totals = np.zeros(3, np.int64)
        self._listed: list[tuple[int, ...]] = []
        self._over: list[tuple[int, ...]] = []

    def add(self, groups: GroupCounts) -> None:
        """Add the counts of sources that were not added before.

        Args:
            groups: Their counts.
        """
        self._count += len(groups.first)
        self._totals += [groups.documents.sum(), groups.kept.sum(), groups.removed.sum()]
        self._listed = self._choose(self._listed, groups, _most_removed)
        if self._limits.per_source is None:
            return
        share = groups.removed / np.maximum(groups.documents, 1)
        over = (share > self._limits.per_source) & (groups.documents >= LEAST_DOCUMENTS)
        self._over_count += int(np.count_nonzero(over))
        chosen = GroupCounts(*(column[over] for column in groups))
        self._over = self._choose(self._over, chosen, _largest_share)

    def _choose(
        self,
        known: list[tuple[int, ...]],
        groups: GroupCounts,
        rank: Callable[[GroupCounts], tuple[NDArray[Any], ...]],
    ) -> list[tuple[int, ...]]:
        """Return the first MOST_LISTED in the order of `rank`, of known groups and of others."""
        best = np.lexsort((groups.first, *reversed(rank(groups))))[:MOST_LISTED]
        rows = zip(*(column[best].tolist() for column in groups), strict=True)
        everyone = [*known, *rows]
        columns = GroupCounts(*np.array(everyone, np.int64).reshape(-1, 4).T)
        order = np.lexsort((columns.first, *reversed(rank(columns))))[:MOST_LISTED]
        return [everyone[place] for place in order.tolist()]

    def summary(self, names: Callable[[list[int]], list[str | None]]) -> SourceSummary:
        """Return the summary of all sources.

        Args:
            names: Returns the names of sources, from what they are known by.
        """
        chosen = sorted({row[0] for row in (*self._listed, *self._over)})
        named = dict(zip(chosen, names(chosen), strict=True))
        listed, over = (
            tuple(SourceCounts(named[row[0]], *row[1:]) for row in rows)
            for rows in (self._listed, self._over)
        )
        total = SourceCounts(None, *self._totals.tolist())
        return SourceSummary(self._column, self._count, total, listed, over, self._over_count)


def _most_removed(groups: GroupCounts) -> tuple[NDArray[Any], ...]:
    return -groups.removed, -groups.documents


def _largest_share(groups: GroupCounts) -> tuple[NDArray[Any], ...]:
    return -groups.removed / groups.documents, -groups.documents
