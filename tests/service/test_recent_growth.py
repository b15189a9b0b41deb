"""What happened in the last minutes, against all that happened."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from neardup.service.metrics import LOOKS, WINDOW_SECONDS, RecentGrowth

STEPS = st.floats(0.0, WINDOW_SECONDS / 2)


@given(st.lists(st.tuples(STEPS, st.integers(0, 9)), min_size=1))
def test_growth_goes_back_to_the_look_before_the_window(events):
    growth, now, total, looks = RecentGrowth(), 0.0, 0, [(-math.inf, 0)]
    for step, more in events:
        now, total = now + step, total + more
        if now - looks[-1][0] >= WINDOW_SECONDS / LOOKS:
            looks.append((now, total))
        before = [seen for when, seen in looks if when <= now - WINDOW_SECONDS][-1]
        assert growth.since((total,), now) == [total - before]


def test_memory_is_bounded():
    growth = RecentGrowth()
    for n in range(10_000):
        growth.since((n,), n * 0.5)
    assert len(growth._looks) <= LOOKS + 2


def test_a_clock_that_goes_backwards_stands_still():
    growth = RecentGrowth()
    assert growth.since((5,), 1_000.0) == [5]
    assert growth.since((9,), 10.0) == [9]
    assert growth.since((10,), 1_000.0 + WINDOW_SECONDS) == [5]


def test_counters_that_begin_again():
    growth = RecentGrowth()
    assert growth.since((7, 100), 0.0) == [7, 100]
    assert growth.since((8, 150), WINDOW_SECONDS) == [1, 50]
    assert growth.since((9, 2), WINDOW_SECONDS + 1) == [9, 2]
    assert growth.since((9, 3), WINDOW_SECONDS + 2) == [9, 3]
