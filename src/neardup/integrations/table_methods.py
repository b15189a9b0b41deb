"""What the methods on pandas and Polars tables share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import UsageError
from neardup.result import Result

DUPLICATE_OF: Final = "duplicate_of"
SIMILARITY: Final = "similarity"


def rows_not_removed(result: Result) -> NDArray[np.int64]:
    """Return the rows that stay: kept ones, and those that could not be compared."""
    return np.flatnonzero(result.decisions.witness < 0)


def cluster_numbers(result: Result) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the row of each row's kept document, and whether the row could not be compared."""
    witness, rows = result.decisions.witness, np.arange(len(result))
    rejected = ~result.decisions.kept & (witness < 0)
    return np.where(witness >= 0, witness, rows), rejected


def require_new_columns(columns: Collection[Any]) -> None:
    """Refuse a table that has the columns which `mark_duplicates` adds."""
    for name in (DUPLICATE_OF, SIMILARITY):
        if name in columns:
            raise UsageError(f"the table has a column {name!r} already: drop or rename it first")
