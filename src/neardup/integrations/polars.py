"""Polars: `df.neardup` and `series.neardup`, after `import neardup.integrations.polars`.

>>> import polars as pl
>>> import neardup.integrations.polars
>>> posts = pl.DataFrame({"text": ["one and the same text", "One and the same text!", "another"]})
>>> posts.neardup.drop_duplicates("text")["text"].to_list()
['one and the same text', 'another']
"""

from __future__ import annotations

from typing import Unpack

import numpy as np

from neardup.corpus.frames import require_library
from neardup.in_memory import dedup
from neardup.integrations.table_methods import (
    DUPLICATE_OF,
    SIMILARITY,
    cluster_numbers,
    require_new_columns,
    rows_not_removed,
)
from neardup.keys import Key
from neardup.option_table import MatchingOptions
from neardup.result import Result

require_library("polars")

import polars as pl  # noqa: E402


@pl.api.register_dataframe_namespace("neardup")
class PolarsFrameNamespace:
    """Near-duplicate rows of a DataFrame, as `df.neardup`.

    Args:
        frame: The DataFrame.
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

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
                their numbers.
            within: Compare only rows with the same value in this column.
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        return dedup(self._frame, text=text, id=id, within=within, key=key, **options)

    def drop_duplicates(
        self,
        text: str = "text",
        *,
        within: str | None = None,
        key: bytes | Key | None = None,
        **options: Unpack[MatchingOptions],
    ) -> pl.DataFrame:
        """Return the rows without those that are near-duplicates of a row that stays.

        Rows whose text can't be compared, because it is missing or empty, stay.

        Args:
            text: The column with the texts.
            within: Compare only rows with the same value in this column.
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`, such as `threshold` and `keep`.
        """
        result = self.dedup(text, within=within, key=key, **options)
        return self._frame[rows_not_removed(result)]

    def mark_duplicates(
        self,
        text: str = "text",
        *,
        id: str | None = None,
        within: str | None = None,
        key: bytes | Key | None = None,
        **options: Unpack[MatchingOptions],
    ) -> pl.DataFrame:
        """Return all rows with two columns more, which have values in the near-duplicates.

        `duplicate_of` names the row that stays, `similarity` is how similar it is.

        Args:
            text: The column with the texts.
            id: The column that names the row that stays; by default its number does.
            within: Compare only rows with the same value in this column.
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        frame = self._frame
        require_new_columns(frame.columns)
        decisions = self.dedup(text, id=id, within=within, key=key, **options).decisions
        removed = decisions.witness >= 0
        witness = pl.Series(DUPLICATE_OF, np.where(removed, decisions.witness, 0))
        is_removed = pl.Series(removed)
        if id is not None:
            witness = frame[id].gather(witness).alias(DUPLICATE_OF)
        similarity = pl.Series(SIMILARITY, decisions.similarity)
        # zip_with keeps the type of the ids, whatever it is.
        return frame.with_columns(
            witness.zip_with(is_removed, pl.Series([None], dtype=witness.dtype)),
            similarity.zip_with(is_removed, pl.Series([None], dtype=pl.Float64)),
        )

    def cluster(
        self,
        text: str = "text",
        *,
        within: str | None = None,
        key: bytes | Key | None = None,
        **options: Unpack[MatchingOptions],
    ) -> pl.Series:
        """Return the cluster of each row: the number of the row that stays for all of them.

        It is null where a text can't be compared.

        Args:
            text: The column with the texts.
            within: Compare only rows with the same value in this column.
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        return _clusters(self.dedup(text, within=within, key=key, **options))


@pl.api.register_series_namespace("neardup")
class PolarsSeriesNamespace:
    """Near-duplicate texts of a Series, as `series.neardup`.

    Args:
        series: The Series of texts.
    """

    def __init__(self, series: pl.Series) -> None:
        self._series = series

    def dedup(
        self, *, key: bytes | Key | None = None, **options: Unpack[MatchingOptions]
    ) -> Result:
        """Return the result of `neardup.dedup`, with every decision and its reason.

        Args:
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        return dedup(self._series, key=key, **options)

    def drop_duplicates(
        self, *, key: bytes | Key | None = None, **options: Unpack[MatchingOptions]
    ) -> pl.Series:
        """Return the texts without near-duplicates; those that can't be compared stay.

        Args:
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        return self._series.gather(rows_not_removed(self.dedup(key=key, **options)))

    def cluster(
        self, *, key: bytes | Key | None = None, **options: Unpack[MatchingOptions]
    ) -> pl.Series:
        """Return the cluster of each text, as `df.neardup.cluster` does.

        Args:
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        return _clusters(self.dedup(key=key, **options))


def _clusters(result: Result) -> pl.Series:
    numbers, missing = cluster_numbers(result)
    nothing = pl.Series([None], dtype=pl.Int64)
    return pl.Series("cluster", numbers).zip_with(pl.Series(~missing), nothing)
