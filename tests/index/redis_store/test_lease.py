"""One of several processes does the upkeep; and no time depends on the clocks of processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from support import batch_engine
from support.redis_index import fresh_address

from neardup import Index
from neardup.index.redis_store import server_clock
from neardup.index.redis_store.address import RedisAddress
from neardup.index.redis_store.lease import Lease
from neardup.index.redis_store.server_clock import ServerClock
from neardup.index.redis_store.servers import Call, Servers
from neardup.service.background import Forgetting, Retention
from neardup.service.metrics import Metrics

SECONDS = 10.0
HOUR = 3_600.0
TEXT = "one two three four five six seven eight"


class Clock:
    """Seconds of one process, which tests let pass; no other process knows them."""

    def __init__(self, start: float = 0.0) -> None:
        self.now = start

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def servers() -> Iterator[Servers]:
    opened = Servers(RedisAddress.parse(fresh_address()))
    yield opened
    opened.close()


def leases(servers: Servers, *starts: float) -> list[tuple[Lease, Clock]]:
    """Some processes that share a lease, whose clocks begin at different times."""
    key = f"{{{servers.address.name}:c}}upkeep".encode()
    clocks = [Clock(start) for start in starts]
    return [(Lease(servers, key, SECONDS, clock), clock) for clock in clocks]


def test_one_has_it_as_long_as_it_holds_it(servers: Servers) -> None:
    (one, _), (other, other_clock) = leases(servers, 0.0, HOUR)
    for _ in range(10):
        assert one.hold() and not other.hold()
        other_clock.now += SECONDS / 2


def test_a_silent_one_loses_it_after_the_time_of_those_that_wait(servers: Servers) -> None:
    (one, clock), (other, other_clock), (third, third_clock) = leases(servers, 0.0, HOUR, -HOUR)
    assert one.hold() and not other.hold() and not third.hold()
    clock.now += 100 * SECONDS  # its own clock does not matter
    other_clock.now += SECONDS - 1
    assert not other.hold()
    other_clock.now += 1
    third_clock.now += SECONDS
    assert other.hold()
    assert not third.hold(), "it was taken over meanwhile"
    assert not one.hold(), "it was halted, and finds out"
    assert other.hold()


def test_what_is_released_is_free_at_once(servers: Servers) -> None:
    (one, _), (other, _) = leases(servers, 0.0, 0.0)
    one.release()
    assert one.hold() and not other.hold()
    other.release()
    assert one.hold(), "it was not the other's"
    one.release()
    assert other.hold() and not one.hold()


def test_a_command_that_is_repeated_takes_it_once(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one, _), (other, _) = leases(servers, 0.0, 0.0)
    run = Servers.run

    def run_twice(self: Servers, calls: list[Call], **how: Any) -> list[Any]:
        run(self, calls, **how)
        return run(self, calls, **how)

    monkeypatch.setattr(Servers, "run", run_twice)
    assert one.hold() and one.hold() and not other.hold()
    one.release()
    assert other.hold()


def test_time_is_that_of_the_server(servers: Servers) -> None:
    clock, real = Clock(), time.time()
    told = ServerClock(servers, b"{a}any", clock)
    first = told()
    assert abs(first - real) < 60
    clock.now += 5
    assert told() == first + 5
    clock.now += server_clock.ASK_SECONDS
    assert abs(told() - real) < 60, "it was asked again"


def test_clocks_that_differ_by_an_hour_forget_nothing_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, real = fresh_address(), time.time
    for id, skew in (("late", -HOUR), ("early", HOUR)):
        monkeypatch.setattr(time, "time", lambda skew=skew: real() + skew)
        with Index.open(place, **batch_engine.SMALL) as index:
            index.add(id, f"{TEXT} {id}")
            assert abs(index.now() - real()) < 60
            assert index.forget("30min").documents == 0
            assert abs(index.forget("30min").before - (real() - 1_800)) < 60
    with Index.open(place, read_only=True) as index:
        assert len(index) == 2
        assert index.forget(0.000_001, dry_run=True).documents == 2


def test_one_service_forgets_for_all() -> None:
    place, logged = fresh_address(), []

    def forgetting(name: str, index: Index) -> Forgetting:
        def event(kind: str, **more: object) -> None:
            logged.append((name, kind, more["documents"]))

        return Forgetting(index, Retention(1.0, "seen"), Metrics(index.stats), event)

    with Index.open(place, **batch_engine.SMALL) as other:
        with Index.open(place) as one:
            add = {"metadata": {"seen": "2020-01-01"}}
            one.add("a", TEXT, **add)
            first, second = forgetting("one", one), forgetting("other", other)
            assert not first.work(10.0) and not second.work(10.0)
            other.add("b", TEXT, **add)
            for _ in range(3):
                assert not second.work(10.0)
            assert len(other) == 1, "the other one does not have the upkeep"
        assert not second.work(10.0) and len(other) == 0
        assert logged == [("one", "forgot", 1), ("other", "forgot", 1)]
        assert other.verify() == []
