"""What happened in the last minutes, against all that happened."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from neardup.service.windows import SLICES, WINDOW, RecentGrowth, RecentQuantile

SECONDS = st.floats(1e-6, 1e3)
STEPS = st.floats(0.0, WINDOW / 2)


@given(st.lists(st.tuples(STEPS, SECONDS, st.integers(1, 5)), min_size=1), st.floats(0.01, 1.0))
def test_a_quantile_is_that_of_the_last_minutes(events, share):
    recent, now, all_of_them = RecentQuantile(), 0.0, []
    for step, value, count in events:
        now += step
        recent.add(value, count, now)
        all_of_them += [(int(now // (WINDOW / SLICES)), value)] * count
    newest = all_of_them[-1][0]
    kept = sorted(value for when, value in all_of_them if when > newest - SLICES)
    found = recent.quantile(share, now)
    assert sum(value <= found * 1.001 for value in kept) >= share * len(kept)
    assert sum(value <= found / 1.101 for value in kept) < share * len(kept)
    assert recent.quantile(share, now + 2 * WINDOW) is None


def test_memory_is_bounded_and_nothing_is_nothing():
    recent = RecentQuantile()
    assert recent.quantile(0.99, 0.0) is None
    recent.add(1.0, 0, 0.0)
    assert recent.quantile(0.99, 0.0) is None
    for n in range(10_000):
        recent.add(10.0 ** (n % 40 - 20), 1, n * 1.0)
    assert len(recent._slices) == SLICES
    assert sum(len(counts) for _, counts in recent._slices) <= SLICES * 40


def test_a_clock_that_goes_backwards_stands_still():
    recent = RecentQuantile()
    recent.add(1.0, 1, 1_000.0)
    recent.add(2.0, 1, 10.0)
    assert recent.quantile(1.0, -5.0) >= 2.0
    assert recent.quantile(0.5, 1_000.0 + WINDOW / 2) < 1.2
    growth = RecentGrowth(1)
    assert growth.since((5,), 1_000.0) == (5,)
    assert growth.since((9,), 10.0) == (9,)
    assert growth.since((10,), 1_000.0 + WINDOW) == (5,)


@given(st.lists(st.tuples(STEPS, st.integers(0, 9)), min_size=1))
def test_growth_goes_back_to_the_look_before_the_window(events):
    growth, now, total, looks = RecentGrowth(1), 0.0, 0, [(-math.inf, 0)]
    for step, more in events:
        now, total = now + step, total + more
        if now - looks[-1][0] >= WINDOW / SLICES:
            looks.append((now, total))
        before = [seen for when, seen in looks if when <= now - WINDOW][-1]
        assert growth.since((total,), now) == (total - before,)


def test_counters_that_begin_again():
    growth = RecentGrowth(2)
    assert growth.since((7, 100), 0.0) == (7, 100)
    assert growth.since((8, 150), WINDOW) == (1, 50)
    assert growth.since((9, 2), WINDOW + 1) == (9, 2)
    assert growth.since((9, 3), WINDOW + 2) == (9, 3)
