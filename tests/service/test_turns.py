"""Turns: a party that sends much waits for itself, and others hardly wait for it."""

from __future__ import annotations

import asyncio
import json
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from hypothesis import given
from hypothesis import strategies as st
from support.running import running
from support.serving import key, text

from neardup.service.index_service import QueryBatcher
from neardup.service.turns import FairPool, FairQueue, Turns

PARTIES = st.lists(st.sampled_from("abcd"), max_size=60)


@given(PARTIES)
def test_each_party_is_next_before_another_is_served_twice(parties: list[str]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for number, party in enumerate(parties):
        queue.put(party, (party, number))
    taken = [queue.take() for _ in parties]
    assert not queue
    for party in set(parties):
        own = [number for each, number in taken if each == party]
        assert own == sorted(own), "in the order in which they came"
        waited = taken.index((party, own[0]))
        assert waited < len(set(parties)), "one turn of each other party, not more"


@given(PARTIES, st.integers(1, 5), st.data())
def test_turns_keep_to_their_room_also_when_requests_are_cancelled(
    parties: list[str], room: int, data: st.DataObject
) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=len(parties), max_size=len(parties)))
    cancelled = data.draw(st.sets(st.integers(0, 60)))

    async def run() -> tuple[int, int]:
        turns, held, most, done = Turns(room), 0, 0, 0

        async def work(party: str, size: int) -> None:
            nonlocal held, most, done
            async with turns.take(party, size):
                assert held < room, "admitted only while there is any room"
                held += size
                try:
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                finally:
                    held -= size
            done += 1

        tasks = [asyncio.create_task(work(*each)) for each in zip(parties, sizes, strict=True)]
        await asyncio.sleep(0)
        for number, task in enumerate(tasks):
            if number in cancelled:
                task.cancel()
                await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        async with turns.take("last"):  # No room was lost.
            return held, done

    held, done = asyncio.run(run())
    assert held == 0
    assert done >= len(parties) - len(cancelled)


def test_threads_go_to_parties_in_turn() -> None:
    order: list[str] = []
    go = threading.Event()

    async def ask() -> None:
        pool = FairPool(1, "test")

        def work(party: str) -> Callable[[], None]:
            return lambda: (go.wait(10), order.append(party))[1]

        asked = [asyncio.create_task(pool.run(party, work(party))) for party in "aaaaab"]
        await asyncio.sleep(0.01)
        go.set()
        await asyncio.gather(*asked)
        pool.threads.shutdown()

    asyncio.run(ask())
    assert order == ["a", "a", "b", "a", "a", "a"]


def test_texts_of_another_party_are_in_the_next_call() -> None:
    calls: list[list[str]] = []
    go = threading.Event()

    def slow(texts: list[str], groups: list[str | None]) -> list[None]:
        calls.append(texts)
        go.wait(10)
        return [None] * len(texts)

    async def ask() -> None:
        with ThreadPoolExecutor(1) as pool:
            together = QueryBatcher(slow, pool)  # type: ignore[arg-type]
            asked = [together.ask("first", None, "a")]
            while not calls:
                await asyncio.sleep(0.001)
            asked += [together.ask(f"a{n}", None, "a") for n in range(500)]
            asked += [together.ask("other", None, "b")]
            go.set()
            await asyncio.gather(*asked)

    asyncio.run(ask())
    assert "other" in calls[1]


def test_single_documents_of_a_key_don_t_wait_for_all_batches_of_another(tmp_path: Path) -> None:
    greedy, modest = key(tmp_path / "data", "write"), key(tmp_path / "data", "read", "write")
    bodies = [
        json.dumps({"documents": [{"text": text(1_000 * n + k, 100)} for k in range(500)]})
        for n in range(24)
    ]
    limits = ("--limit", "key_rate=0", "--limit", "source_rate=5")
    kind = {"Content-Type": "application/json"}
    stop = threading.Event()
    with running(tmp_path / "data", *limits) as service:
        service.event("ready")
        address = f"{service.url}/v1/documents"

        def flood(body: str) -> list[float]:
            seconds = []
            with httpx.Client(headers=greedy | kind, timeout=60) as client:
                while not stop.is_set():
                    begun = time.monotonic()
                    assert client.post(address, content=body).status_code == 200
                    seconds.append(time.monotonic() - begun)
            return seconds

        with ThreadPoolExecutor(len(bodies)) as pool:
            flooding = [pool.submit(flood, body) for body in bodies]
            try:
                time.sleep(1)
                waited = []
                with httpx.Client(headers=modest, timeout=60) as client:
                    for n in range(10):
                        begun = time.monotonic()
                        answer = client.post(address, json={"text": text(n)})
                        waited.append(time.monotonic() - begun)
                        assert answer.status_code == 200, "the address is not what is limited"
            finally:
                stop.set()
            own = [each for flood in flooding for each in flood.result()]
    assert statistics.median(waited) < statistics.median(own) / 3, (waited, own)
