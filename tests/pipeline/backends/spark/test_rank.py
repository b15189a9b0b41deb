"""Keep values of several types are ordered as the local engine orders them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from neardup.corpus.documents import concat_keep
from neardup.errors import ParameterError, UsageError
from neardup.pipeline.backends.spark.rank import choose_keep_column, split_keep_values

CASES = {
    "one unsigned type": [pa.array([2**63, 5, None, 2**63 - 1, 2**64 - 1], pa.uint64())],
    "small unsigned numbers": [pa.array([5, 2], pa.uint64()), pa.array([3, -4], pa.int64())],
    "one scale": [pa.array([Decimal("9007199254740993.1"), Decimal("9007199254740992.2")])],
    "two scales": [
        pa.array([Decimal("9007199254740992.00")], pa.decimal128(20, 2)),
        pa.array([Decimal("9007199254740993.0000")], pa.decimal128(22, 4)),
    ],
    "doubles": [pa.array([0.5, -0.25]), pa.array([2**53 + 1, 2**53, None])],
    "times": [pa.array([1_999, -1], pa.timestamp("ns")), pa.array([1, 0], pa.timestamp("us"))],
    "strings, and nothing": [pa.array(["b", "a"], pa.large_string()), pa.nulls(2)],
}


def on_spark(arrays: list[pa.Array]) -> pa.Array:
    """The column that Spark would sort by."""
    rows = pa.concat_tables(
        pa.Table.from_pydict(split_keep_values(values, len(values))) for values in arrays
    )
    kinds = set(rows.column("keep_type").to_pylist()) - {None}
    return rows.column(choose_keep_column(kinds)).combine_chunks()


@pytest.mark.parametrize("case", CASES)
def test_keep_values_are_ordered_as_by_the_local_engine(case: str) -> None:
    found, want = on_spark(CASES[case]), concat_keep(CASES[case])
    assert pc.rank(found, tiebreaker="dense") == pc.rank(want, tiebreaker="dense")


@pytest.mark.parametrize("others", [[None, None], [1, None]])
def test_types_of_missing_keep_values_are_checked_too(others: list[Any]) -> None:
    arrays = [pa.array(others, pa.int64()), pa.array(["a", "b"], pa.large_string())]
    for order in (concat_keep, on_spark):
        with pytest.raises(ParameterError, match="contains int64 and large_string"):
            order(arrays)


def test_decimals_with_too_many_digits_are_refused() -> None:
    with pytest.raises(UsageError, match=r"decimal128\(30, 25\), .*supports 20 digits"):
        split_keep_values(pa.array([Decimal("1." + "3" * 25)], pa.decimal128(30, 25)), 1)
