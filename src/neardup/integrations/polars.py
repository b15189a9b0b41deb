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

require_library("polars")

import polars as pl  # noqa: E402


@pl.api.register_dataframe_namespace("neardup")
class PolarsFrameNamespace(FrameMethods[pl.DataFrame, pl.Series]):
    """Near-duplicate rows of a DataFrame, as `df.neardup`.

    Args:
        frame: The DataFrame.
    """

    def _take(self, rows: Rows) -> pl.DataFrame:
        return self._frame[rows]

    def _clusters(self, numbers: Rows, missing: NDArray[np.bool_]) -> pl.Series:
        return _clusters(numbers, missing)

    @takes_options("neardup.dedup", called="neardup.mark_duplicates")
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


@pl.api.register_series_namespace("neardup")
class PolarsSeriesNamespace(SeriesMethods[pl.Series]):
    """Near-duplicate texts of a Series, as `series.neardup`.

    Args:
        series: The Series of texts.
    """

    def _take(self, rows: Rows) -> pl.Series:
        return self._series.gather(rows)

    def _clusters(self, numbers: Rows, missing: NDArray[np.bool_]) -> pl.Series:
        return _clusters(numbers, missing)


def _clusters(numbers: Rows, missing: NDArray[np.bool_]) -> pl.Series:
    nothing = pl.Series([None], dtype=pl.Int64)
    return pl.Series("cluster", numbers).zip_with(pl.Series(~missing), nothing)
