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
from numpy.typing import NDArray

from neardup.corpus.frames import require_library
from neardup.integrations.table_methods import (
    DUPLICATE_OF,
    SIMILARITY,
    FrameMethods,
    Rows,
    SeriesMethods,
    require_new_columns,
)
from neardup.keys import Key
from neardup.keyword_arguments import takes_options
from neardup.option_table import MatchingOptions

require_library("pandas")

import pandas as pd  # noqa: E402


@pd.api.extensions.register_dataframe_accessor("neardup")
class PandasFrameAccessor(FrameMethods[pd.DataFrame, pd.Series]):
    """Near-duplicate rows of a DataFrame, as `df.neardup`.

    Args:
        frame: The DataFrame.
    """

    def _take(self, rows: Rows) -> pd.DataFrame:
        return self._frame.iloc[rows]

    def _clusters(self, numbers: Rows, missing: NDArray[np.bool_]) -> pd.Series:
        return _clusters(numbers, missing, self._frame.index)

    @takes_options("neardup.dedup", called="neardup.mark_duplicates")
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
        # Integers of NumPy have no missing value, and would become floats.
        dtype = {"int64": "Int64", "uint64": "UInt64"}.get(str(of.dtype), of.dtype)
        marked[DUPLICATE_OF] = pd.array(of, dtype=dtype).take(
            _places(removed, len(frame)), allow_fill=True
        )
        marked[SIMILARITY] = pd.array(decisions.similarity[removed], dtype="Float64").take(
            _places(removed, len(frame)), allow_fill=True
        )
        return marked


@pd.api.extensions.register_series_accessor("neardup")
class PandasSeriesAccessor(SeriesMethods[pd.Series]):
    """Near-duplicate texts of a Series, as `series.neardup`.

    Args:
        series: The Series of texts.
    """

    def _take(self, rows: Rows) -> pd.Series:
        return self._series.iloc[rows]

    def _clusters(self, numbers: Rows, missing: NDArray[np.bool_]) -> pd.Series:
        return _clusters(numbers, missing, self._series.index)


def _clusters(numbers: Rows, missing: NDArray[np.bool_], index: pd.Index) -> pd.Series:
    return pd.Series(pd.arrays.IntegerArray(numbers, missing), index=index, name="cluster")


def _places(rows: Any, count: int) -> Any:
    """Return for each of `count` rows its place among `rows`, -1 if it is not there."""
    places = np.full(count, -1, np.int64)
    places[rows] = np.arange(len(rows))
    return places
