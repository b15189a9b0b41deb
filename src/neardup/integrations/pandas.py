"""pandas: `df.neardup` and `series.neardup`, after `import neardup.integrations.pandas`.

>>> import pandas as pd
>>> import neardup.integrations.pandas
>>> posts = pd.DataFrame({"text": ["one and the same text", "One and the same text!", "another"]})
>>> posts.neardup.drop_duplicates("text")["text"].tolist()
['one and the same text', 'another']
"""

from __future__ import annotations

from typing import Any, Unpack

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

require_library("pandas")

import pandas as pd  # noqa: E402


@pd.api.extensions.register_dataframe_accessor("neardup")
class PandasFrameAccessor:
    """Near-duplicate rows of a DataFrame, as `df.neardup`.

    Args:
        frame: The DataFrame.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
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
                their positions.
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
    ) -> pd.DataFrame:
        """Return the rows without those that are near-duplicates of a row that stays.

        Rows whose text can't be compared, because it is missing or empty, stay.

        Args:
            text: The column with the texts.
            within: Compare only rows with the same value in this column.
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`, such as `threshold` and `keep`.
        """
        result = self.dedup(text, within=within, key=key, **options)
        return self._frame.iloc[rows_not_removed(result)]

    def mark_duplicates(
        self,
        text: str = "text",
        *,
        within: str | None = None,
        key: bytes | Key | None = None,
        **options: Unpack[MatchingOptions],
    ) -> pd.DataFrame:
        """Return all rows with two columns more, which have values in the near-duplicates.

        `duplicate_of` is the index label of the row that stays, `similarity` how similar it is.

        Args:
            text: The column with the texts.
            within: Compare only rows with the same value in this column.
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        frame = self._frame
        require_new_columns(frame.columns)
        decisions = self.dedup(text, within=within, key=key, **options).decisions
        removed = decisions.removed
        # By position: index labels may repeat.
        of: Any = frame.index.take(decisions.witness[removed]).to_series()
        marked = frame.copy()
        marked[DUPLICATE_OF] = pd.array(of, dtype=of.dtype).take(
            _places(removed, len(frame)), allow_fill=True
        )
        marked[SIMILARITY] = pd.array(decisions.similarity[removed], dtype="Float64").take(
            _places(removed, len(frame)), allow_fill=True
        )
        return marked

    def cluster(
        self,
        text: str = "text",
        *,
        within: str | None = None,
        key: bytes | Key | None = None,
        **options: Unpack[MatchingOptions],
    ) -> pd.Series:
        """Return the cluster of each row: the position of the row that stays for all of them.

        It is missing where a text can't be compared.

        Args:
            text: The column with the texts.
            within: Compare only rows with the same value in this column.
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        numbers, missing = cluster_numbers(self.dedup(text, within=within, key=key, **options))
        values = pd.arrays.IntegerArray(numbers, missing)
        return pd.Series(values, index=self._frame.index, name="cluster")


def _places(rows: Any, count: int) -> Any:
    """Return for each of `count` rows its place among `rows`, -1 if it is not there."""
    places = np.full(count, -1, np.int64)
    places[rows] = np.arange(len(rows))
    return places


@pd.api.extensions.register_series_accessor("neardup")
class PandasSeriesAccessor:
    """Near-duplicate texts of a Series, as `series.neardup`.

    Args:
        series: The Series of texts.
    """

    def __init__(self, series: pd.Series) -> None:
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
    ) -> pd.Series:
        """Return the texts without near-duplicates; those that can't be compared stay.

        Args:
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        return self._series.iloc[rows_not_removed(self.dedup(key=key, **options))]

    def cluster(
        self, *, key: bytes | Key | None = None, **options: Unpack[MatchingOptions]
    ) -> pd.Series:
        """Return the cluster of each text, as `df.neardup.cluster` does.

        Args:
            key: The secret key of hash siphash.
            **options: The matching options of `neardup.dedup`.
        """
        numbers, missing = cluster_numbers(self.dedup(key=key, **options))
        values = pd.arrays.IntegerArray(numbers, missing)
        return pd.Series(values, index=self._series.index, name="cluster")
