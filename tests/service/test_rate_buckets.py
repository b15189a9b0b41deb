"""Token buckets: nobody gets more than the rate in the long run, whatever they send when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from neardup.service.access import RateBuckets

BATCH = 50
STEPS = st.lists(st.tuples(st.floats(0, 3), st.integers(1, BATCH)), max_size=60)


@given(st.integers(1, 100), st.integers(1, 200), STEPS)
def test_accepted_requests_keep_to_the_rate(
    rate: int, burst: int, steps: list[tuple[float, int]]
) -> None:
    buckets, now, taken = RateBuckets(rate, burst, 10), 0.0, 0
    for pause, cost in steps:
        now += pause
        if not buckets.take("a", cost, now):
            taken += cost
    assert taken <= burst + now * rate + BATCH + 1e-6


@given(st.integers(1, 100), STEPS)
def test_request_is_accepted_after_the_stated_wait(
    rate: int, steps: list[tuple[float, int]]
) -> None:
    buckets, now = RateBuckets(rate, rate, 10), 0.0
    for pause, cost in steps:
        now += pause
        if wait := buckets.take("a", cost, now):
            now += wait * (1 + 1e-9)
            assert buckets.take("a", cost, now) == 0.0


def test_others_are_not_affected_and_zero_is_no_limit() -> None:
    buckets = RateBuckets(1, 2, 10)
    buckets.owe("a", 100, 0.0)
    assert buckets.wait("a", 0.0) == 99.0
    assert buckets.take("b", 1, 0.0) == 0.0
    free = RateBuckets(0, 0, 10)
    assert [free.take("a", 1_000, 0.0) for _ in range(3)] == [0.0, 0.0, 0.0]


def test_a_clock_that_goes_backwards_gives_nothing() -> None:
    buckets = RateBuckets(10, 10, 10)
    buckets.owe("a", 20, 100.0)
    assert buckets.wait("a", 50.0) == buckets.wait("a", 100.0)


def test_only_so_many_are_remembered() -> None:
    buckets = RateBuckets(1, 1, 100)
    for n in range(1_000):
        buckets.owe(str(n), 5, float(n))
    assert len(buckets) == 100
    assert buckets.wait("999", 999.0) > 0
