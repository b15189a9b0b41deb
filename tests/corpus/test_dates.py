"""Dates in all the forms that people store them, and values that are none."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.corpus.columns import Source, to_dates
from neardup.corpus.dates import DATES, convert_dates, convert_values
from neardup.errors import UsageError
from neardup.reference.dates import parse_date

NOON = datetime(2024, 1, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "2024-01-15T12:00:00Z",
        "2024-01-15T12:00:00",
        "2024-01-15 12:00",
        "2024-01-15T12",
        " 2024-01-15T13:00:00+01:00 ",
        "2024-01-15T13:00:00+01",
        "2024-01-15T06:30:00-0530",
        "2024-01-15 13:00:00.000 +0100",
        "2024-01-15 12:00:00 UTC",
        "20240115T120000Z",
        "2024-01-15T12:00:00.000000000Z",
        "2024-01-15T12:00:00,0",
        "Mon, 15 Jan 2024 12:00:00 GMT",
        "Mon, 15 Jan 2024 13:00:00 +0100 (CET)",
        "15 Jan 2024 12:00:00 -0000",
        "Mon Jan 15 12:00:00 +0000 2024",
        "1705320000",
        "1705320000000",
        1705320000,
        1705320000.0,
        1705320000000,
        1705320000000000,
        1705320000000000000,
        Decimal("1705320000.000"),
        NOON,
        NOON.replace(tzinfo=None),
        NOON.astimezone(timezone(timedelta(hours=-8))),
        pd.Timestamp("2024-01-15T12:00:00Z"),
    ],
)
def test_the_same_moment_however_it_is_written(value: Any) -> None:
    assert parse_date(value) == 1705320000 * 10**6
    assert convert_values([value]).to_pylist() == [NOON.replace(tzinfo=None)]


@pytest.mark.parametrize(
    ("value", "day"),
    [
        ("2024-01-15", "2024-01-15"),
        ("20240115", "2024-01-15"),
        (date(2024, 1, 15), "2024-01-15"),
        (np.datetime64("2024-01-15", "ns"), "2024-01-15"),
        ("2024-02", "2024-02-01"),
        ("1999", "1999-01-01"),
        ("2024-01-14T24:00:00", "2024-01-15"),
        ("2016-12-31T23:59:60Z", "2017-01-01"),
        ("2024-01-15+00:00", "2024-01-15"),
        ("0001-01-01", "0001-01-01"),
        (0, "1970-01-01"),
        (-86400, "1969-12-31"),
    ],
)
def test_days_begin_at_midnight(value: Any, day: str) -> None:
    assert convert_values([value]).to_pylist() == [datetime.fromisoformat(day)]


@pytest.mark.parametrize(
    "value",
    [
        *(None, "", "yesterday", "12:30", "2024-13-01", "2024-02-30", "2024-00-01", "2024-1-5"),
        *("01/15/2024", "2024-01-15T25:00", "2024-01-15T12:60", "0000-01-01", "99999999"),
        *("2024-01-15T12:00:00+24:00", "x" * 1000, "9" * 101, "٢٠٢٤-٠١-١٥"),
        *(float("nan"), float("inf"), 10**30, True, [], {}, b"2024-01-15"),
        *(pd.NaT, np.datetime64("NaT"), Decimal("NaN")),
    ],
)
def test_what_is_no_date(value: Any) -> None:
    assert convert_values([value]).to_pylist() == [None]


moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
zones = st.none() | st.integers(-1439, 1439).map(lambda east: timezone(timedelta(minutes=east)))
strings = (
    st.builds(lambda moment: moment.isoformat(), st.datetimes(timezones=zones))
    | moments.map(lambda moment: moment.date().isoformat())
    | moments.map(lambda moment: moment.strftime("%a, %d %b %Y %H:%M:%S +0130"))
    | st.text(max_size=12)
)


@given(st.lists(strings | st.none(), max_size=5))
def test_a_column_of_strings_is_converted_by_the_definition(values: list[str | None]) -> None:
    column = pa.array(values, pa.large_string())
    expected = [parse_date(value) for value in values]
    assert convert_dates(column).cast(pa.int64()).to_pylist() == expected


@given(st.lists(st.integers(-(10**18), 10**18) | st.integers(0, 10**13) | st.none(), max_size=5))
def test_a_column_of_numbers_is_converted_by_the_definition(values: list[int | None]) -> None:
    column = pa.array(values, pa.int64())
    expected = [parse_date(value) for value in values]
    assert convert_dates(column).cast(pa.int64()).to_pylist() == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_timestamps_keep_their_instant(unit: str, zone: str | None) -> None:
    moments = [NOON, datetime(1969, 7, 20, 20, 17, 40, tzinfo=UTC), None]
    column = pa.array(moments, pa.timestamp(unit, zone or "UTC"))
    column = column if zone else column.cast(pa.timestamp(unit))
    expected = [moment and moment.replace(tzinfo=None) for moment in moments]
    assert convert_dates(column).to_pylist() == expected


def test_nanoseconds_before_1970_don_t_become_later() -> None:
    column = pa.array([-1, -1000], pa.timestamp("ns"))
    assert convert_dates(column).cast(pa.int64()).to_pylist() == [-1, -1]


def test_types_that_have_no_dates_are_refused() -> None:
    source = Source("a.parquet")
    for column in (pa.array([[1]]), pa.array([b"x"]), pa.array([True]), pa.array([{"a": 1}])):
        with pytest.raises(UsageError, match=r"a\.parquet: column 'd' is .*, not dates: .*--keep"):
            to_dates(column, source, "d")
    words = pa.array(["2024-01-15", None]).dictionary_encode()
    assert to_dates(words, source, "d").to_pylist() == [datetime(2024, 1, 15), None]
    assert to_dates(pa.nulls(2), source, "d").type == DATES
