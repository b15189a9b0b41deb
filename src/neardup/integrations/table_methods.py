"""The methods on pandas and Polars tables, but for what each library does in its own way."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, Generic, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from neardup.errors import UsageError
from neardup.in_memory import dedup
from neardup.keys import Key
from neardup.keyword_arguments import takes_options
from neardup.option_table import MatchingOptions
from neardup.result import Result

DUPLICATE_OF: Final = "duplicate_of"
SIMILARITY: Final = "similarity"

Frame = TypeVar("Frame", bound=Iterable[Any])
Series = TypeVar("Series", bound=Iterable[Any])
Rows = NDArray[np.int64]


class FrameMethods(Generic[Frame, Series]):
    """Near-duplicate rows of a DataFrame, as `df.neardup`.

    Args:
        frame: The DataFrame.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def _take(self, rows: Rows) -> Frame:
        """Return these rows of the DataFrame."""
        raise NotImplementedError

    def _clusters(self, numbers: Rows, missing: NDArray[np.bool_]) -> Series:
        """Return the Series `cluster` of all rows; without a value where `missing` is true."""
        raise NotImplementedError

    @takes_options("neardup.dedup", called="neardup.dedup")
    def dedup(
        self,
        text: str = "text",
        *,
        id: str | None = None,
        within: str | None = None,
        key: bytes | Key | None = None,
        **options: Unpack[MatchingOptions],
    ) -> Result:
        """Return the result of `neardup.dedup`, with every decision and its reason.

        Args:
            text: The column with the texts.
            id: The column that names the rows in the result; by default `id` if there is one, else
                their numbers, from 0.
            within: Compare only rows with the same value in this column.
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        return dedup(self._frame, text=text, id=id, within=within, key=key, **options)

    @takes_options("neardup.dedup", called="neardup.drop_duplicates")
    def drop_duplicates(
        self,
        text: str = "text",
        *,
        within: str | None = None,
        key: bytes | Key | None = None,
        **options: Unpack[MatchingOptions],
    ) -> Frame:
        """Return the rows without those that are near-duplicates of a row that stays.

        Rows whose text can't be compared, because it is missing or empty, stay.

        Args:
            text: The column with the texts.
            within: Compare only rows with the same value in this column.
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`, such as `threshold` and `keep`.
        """
        result = self.dedup(text, within=within, key=key, **options)
        return self._take(_rows_not_removed(result))

    @takes_options("neardup.dedup", called="neardup.cluster")
    def cluster(
        self,
        text: str = "text",
        *,
        within: str | None = None,
        key: bytes | Key | None = None,
        **options: Unpack[MatchingOptions],
    ) -> Series:
        """Return the cluster of each row: the number, from 0, of the row that stays for all of it.

        It is missing where a text can't be compared.

        Args:
            text: The column with the texts.
            within: Compare only rows with the same value in this column.
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        return self._clusters(
            *_cluster_numbers(self.dedup(text, within=within, key=key, **options))
        )


class SeriesMethods(Generic[Series]):
    """Near-duplicate texts of a Series, as `series.neardup`.

    Args:
        series: The Series of texts.
    """

    def __init__(self, series: Series) -> None:
        self._series = series

    def _take(self, rows: Rows) -> Series:
        """Return these rows of the Series."""
        raise NotImplementedError

    def _clusters(self, numbers: Rows, missing: NDArray[np.bool_]) -> Series:
        """Return the Series `cluster` of all texts; without a value where `missing` is true."""
        raise NotImplementedError

    @takes_options("neardup.dedup", called="neardup.dedup")
    def dedup(
        self, *, key: bytes | Key | None = None, **options: Unpack[MatchingOptions]
    ) -> Result:
        """Return the result of `neardup.dedup`, with every decision and its reason.

        Args:
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        return dedup(self._series, key=key, **options)

    @takes_options("neardup.dedup", called="neardup.drop_duplicates")
    def drop_duplicates(
        self, *, key: bytes | Key | None = None, **options: Unpack[MatchingOptions]
    ) -> Series:
        """Return the texts without near-duplicates; those that can't be compared stay.

        Args:
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        return self._take(_rows_not_removed(self.dedup(key=key, **options)))

    @takes_options("neardup.dedup", called="neardup.cluster")
    def cluster(
        self, *, key: bytes | Key | None = None, **options: Unpack[MatchingOptions]
    ) -> Series:
        """Return the cluster of each text, as `df.neardup.cluster` does.

        Args:
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        return self._clusters(*_cluster_numbers(self.dedup(key=key, **options)))


def _rows_not_removed(result: Result) -> Rows:
    """Return the rows that stay: kept ones, and those that could not be compared."""
    return np.flatnonzero(result.decisions.witness < 0)


def _cluster_numbers(result: Result) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the row that names each row's cluster, and whether the row could not be compared."""
    decisions = result.decisions
    rejected = ~decisions.kept & (decisions.witness < 0)
    return np.where(rejected, np.arange(len(result)), decisions.cluster), rejected


def require_new_columns(columns: Collection[Any]) -> None:
    """Refuse a table that has the columns which `mark_duplicates` adds."""
    for name in (DUPLICATE_OF, SIMILARITY):
        if name in columns:
            raise UsageError(f"the table has a column {name!r} already: drop or rename it first")
