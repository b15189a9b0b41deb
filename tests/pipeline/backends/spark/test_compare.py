"""Ranges of candidates are cut by what is compared, not by how many there are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neardup.pipeline.backends.spark.compare import CandidateRanges, PairGroups
from neardup.pipeline.sorting import PAIRS_AT_ONCE


def ranges(sizes: list[int], each: int) -> CandidateRanges:
    return CandidateRanges(
        np.arange(len(sizes) + 1), np.append(0, np.cumsum(sizes, dtype=np.int64)), each
    )


@given(st.lists(st.integers(0, 900), max_size=60), st.integers(1, 2_000))
def test_ranges_exceed_their_bytes_by_at_most_a_slice(sizes: list[int], each: int) -> None:
    starts = ranges(sizes, each).starts(0).tolist()
    assert starts[0] == 0
    for start, end in zip(starts, [*starts[1:], len(sizes)], strict=True):
        assert sum(sizes[start:end]) <= each + max(sizes, default=0)


def test_ranges_have_more_candidates_where_sets_are_smaller() -> None:
    found = ranges([10_000 // (place + 1) for place in range(1_000)], 5_000)
    widths = np.diff(found.starts(0))
    assert widths[0] == 1
    assert widths[-1] > 100 > found.width


def test_many_pairs_make_smaller_groups() -> None:
    few, count = ranges([8] * 10_000, 20_000), 100 * PAIRS_AT_ONCE
    groups = PairGroups.of(few, count)
    assert groups.split_by == few.number == 4
    assert len(groups.starts) == 4 + 100 // groups.split_by
    one = PairGroups.of(few, 1_000)
    assert (one.split_by, len(one.starts)) == (1, 5)


def test_the_group_of_a_pair_is_that_of_its_range_and_class() -> None:
    groups = PairGroups(np.array([0, 5, 6]), 2)
    u, v = np.array([0, 1, 3, 4]), np.array([4, 5, 5, 900])
    assert groups.group(u, v).tolist() == [0, 3, 3, 4]


def test_no_candidates_make_one_range() -> None:
    nothing = ranges([], 10)
    assert (nothing.number, nothing.width, nothing.starts(0).tolist()) == (1, 1, [0])
