"""Batches go to Spark as they are, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from neardup.errors import UsageError
from neardup.pipeline.backends.spark.arrow import pack_rows, read_rows
from neardup.text.arrays import Ragged


def test_packed_rows_round_trip_and_oversized_columns_are_refused() -> None:
    data = np.arange(7, dtype=np.uint64)
    found = read_rows(pack_rows(Ragged(data, np.array([2, 3, 7]))), np.uint64)
    assert (found.data.tolist(), found.offsets.tolist()) == ([2, 3, 4, 5, 6], [0, 1, 5])
    with pytest.raises(UsageError, match=r"2,147,483,648 bytes of documents.*--engine local"):
        pack_rows(Ragged(data, np.array([0, 2**28])))
