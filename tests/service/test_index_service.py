"""Texts that are asked about together: each gets its own answer, and many share one call."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import serving as support

from neardup.errors import Busy
from neardup.index.answer import NEW, Answer, ClusterPage
from neardup.index.index import Index
from neardup.service.index_service import MOST_CHARACTERS, MOST_QUERIES, QueryBatcher
from neardup.service.limits import ServiceLimits


def echoed(texts: list[str], groups: list[str | None]) -> list[Answer]:
    return [Answer(text, NEW, group) for text, group in zip(texts, groups, strict=True)]


@given(st.lists(st.text(max_size=5), max_size=200))
def test_each_query_gets_its_own_answer(texts: list[str]) -> None:
    async def ask() -> list[Answer]:
        with ThreadPoolExecutor(1) as pool:
            together = QueryBatcher(echoed, pool)
            return list(await asyncio.gather(*map(together.ask, texts, reversed(texts))))

    answers = asyncio.run(ask())
    assert [answer.id for answer in answers] == texts
    assert [answer.duplicate_of for answer in answers] == texts[::-1], "each in its own group"


def test_texts_that_wait_are_batched_within_bounds() -> None:
    calls: list[list[str]] = []
    go = threading.Event()

    def slow(texts: list[str], groups: list[str | None]) -> list[Answer]:
        calls.append(texts)
        go.wait(10)
        return echoed(texts, groups)

    async def ask() -> None:
        with ThreadPoolExecutor(1) as pool:
            together = QueryBatcher(slow, pool)
            asked = [together.ask("first")]
            while not calls:
                await asyncio.sleep(0.001)
            given_up = together.ask("nobody waits")
            given_up.cancel()
            long = "x" * (MOST_CHARACTERS // 2)
            asked += [together.ask(text) for text in [*map(str, range(100)), long, long, "last"]]
            go.set()
            await asyncio.gather(*asked)

    asyncio.run(ask())
    sizes = [len(call) for call in calls]
    assert sizes == [1, MOST_QUERIES, 100 - MOST_QUERIES + 2, 1]
    assert not any("nobody waits" in call for call in calls)


def test_error_fails_its_batch_and_not_the_next_one() -> None:
    failing = True

    def answer(texts: list[str], groups: list[str | None]) -> list[Answer]:
        if failing:
            raise Busy("not now")
        return echoed(texts, groups)

    async def ask() -> None:
        nonlocal failing
        with ThreadPoolExecutor(1) as pool:
            together = QueryBatcher(answer, pool)
            for future in [together.ask("a"), together.ask("b")]:
                with pytest.raises(Busy):
                    await future
            failing = False
            assert (await together.ask("c")).id == "c"

    asyncio.run(ask())


def test_missing_thread_fails_waiting_queries() -> None:
    async def ask() -> None:
        pool = ThreadPoolExecutor(1)
        pool.shutdown()
        together = QueryBatcher(echoed, pool)
        for text in ("a", "b"):
            with pytest.raises(RuntimeError):
                await asyncio.wait_for(together.ask(text), 10)

    asyncio.run(ask())


def test_checks_don_t_wait_for_what_goes_through_whole_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, begun = threading.Event(), threading.Event()

    def slow(*_: object, **__: object) -> ClusterPage:
        begun.set()
        assert go.wait(30)
        return ClusterPage((), None)

    monkeypatch.setattr(Index, "clusters", slow)
    with support.serving(tmp_path) as client, ThreadPoolExecutor(4) as clients:
        listing = [clients.submit(client.get, "/v1/clusters") for _ in range(4)]
        assert begun.wait(30)
        try:
            assert (
                client.post("/v1/check", json={"text": support.text(1)}).json()["status"] == "new"
            )
            assert client.get("/v1/documents/none").status_code == 404
            assert client.get("/metrics").status_code == 200
            assert not any(each.done() for each in listing)
        finally:
            go.set()
        assert {each.result().status_code for each in listing} == {200}


def test_large_cluster_is_answered_in_a_page_and_stalls_nobody(tmp_path: Path) -> None:
    same = support.text(1)
    with support.serving(tmp_path, ServiceLimits(source_rate=0)) as client:
        for start in range(0, 4_000, 1_000):
            batch = [{"id": f"d{n}", "text": same} for n in range(start, start + 1_000)]
            client.post("/v1/documents", json={"documents": batch}).raise_for_status()
        taken = []
        for _ in range(5):  # one of them is not disturbed by others on this machine
            begun = time.monotonic()
            page = client.get("/v1/clusters/1").json()
            taken.append(time.monotonic() - begun)
        assert (page["size"], len(page["members"])) == (4_000, 1_000)
        assert min(taken) < 0.5, "it was 1 to 2 s"
        after = page["members"][-1]["number"]
        following = client.get(f"/v1/clusters/1?after={after}").json()
        assert following["members"][0]["id"] == "d1001"
        with ThreadPoolExecutor(4) as clients:
            asked = [clients.submit(client.get, "/v1/clusters/1") for _ in range(20)]
            begun = time.monotonic()
            assert client.post("/v1/check", json={"text": same}).json()["cluster"] == 1
            assert time.monotonic() - begun < 5, "it was up to 18 s"
            assert {each.result().status_code for each in asked} == {200}
