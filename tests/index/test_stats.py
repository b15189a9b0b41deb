"""Quantiles of a histogram of durations, against the durations themselves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from neardup.index.stats import BOUNDS, Times, quantile


@given(
    st.lists(st.tuples(st.floats(0.0, 4.9), st.integers(1, 5)), min_size=1), st.floats(0.001, 1.0)
)
def test_a_quantile_is_in_the_bucket_of_the_true_one(durations, share):
    times = Times()
    every = []
    for seconds, count in durations:
        times.add(seconds, count)
        every += [seconds] * count
    every.sort()
    found = quantile(times.counts, share)
    assert sum(times.counts) == len(every)
    assert abs(times.seconds - sum(every)) < 1e-6
    above = min(bound for bound in BOUNDS if bound >= found - 1e-12)
    below = max((bound for bound in BOUNDS if bound < found - 1e-12), default=-1.0)
    assert sum(one <= above for one in every) >= share * len(every) - 1e-9
    assert sum(one <= below for one in every) < share * len(every) + 1e-9


def test_durations_beyond_the_last_bound_and_no_durations():
    times = Times()
    assert quantile(times.counts, 0.99) is None
    times.add(100.0)
    assert times.counts[-1] == 1 and quantile(times.counts, 0.99) == BOUNDS[-1] == 5.0
