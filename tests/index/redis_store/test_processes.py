"""Many processes add to one index: the answer is that of one order, that of the numbers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from support import batch_engine
from support.definition import Definition
from support.redis_index import check_order_of_numbers, fresh_address, fresh_ring
from support.redis_servers import redis_cluster
from support.sizes import full

from neardup import Index

PROCESSES, THREADS = 4, 2

WRITER = """
import json, sys, threading
import neardup
from neardup import Index

def work(address, batches):
    with Index.open(address) as index:
        start.wait()
        for batch in batches:
            for answer in index.add_batch(*map(list, zip(*batch))):
                said.append([answer.id, answer.status, answer.again])
            for id in [id for id, _ in batch if removing and hash(id) % 5 == 0]:
                index.remove(id)

neardup.dedup(["one two", "two one"])
for line in sys.stdin:
    address, removing, *parts = json.loads(line)
    start, said = threading.Barrier(len(parts)), []
    threads = [threading.Thread(target=work, args=(address, part)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(said), flush=True)
"""
RunWriters = Callable[..., list[list[Any]]]


@pytest.fixture(scope="module")
def run_writers() -> Iterator[RunWriters]:
    """Let writers add their batches, two in each process; what they were told."""
    running = [
        subprocess.Popen(
            batch_engine.command(WRITER),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=batch_engine.environment(PYTHONHASHSEED="0"),
        )
        for _ in range(PROCESSES)
    ]

    def run(address: str, parts: Sequence[Any], *, removing: bool = False) -> list[list[Any]]:
        for at, process in enumerate(running):
            own = parts[THREADS * at : THREADS * (at + 1)]
            print(json.dumps([address, removing, *own]), file=process.stdin, flush=True)
        said = [json.loads(process.stdout.readline()) for process in running]
        return [answer for answers in said for answer in answers]

    yield run
    for process in running:
        process.stdin.close()
        assert process.wait(60) == 0


def parts_of(texts: Sequence[str], size: int) -> tuple[dict[str, str], list[Any]]:
    """The documents by id, and the batches of each writer; neighbours come at the same time."""
    documents = {f"d{at}": text for at, text in enumerate(texts) if text.strip(" !?")}
    listed = list(documents.items())
    parts = []
    for writer in range(PROCESSES * THREADS):
        own = listed[writer :: PROCESSES * THREADS]
        parts.append([own[at : at + size] for at in range(0, len(own), size)])
    return documents, parts


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    with redis_cluster(folder, replicas=0, appendonly=False) as running:
        yield ",".join(url.removeprefix("redis://") for url in running.urls)


@pytest.fixture(params=["single", "cluster", "ring"])
def address(request: pytest.FixtureRequest) -> str:
    if request.param != "cluster":
        return fresh_address() if request.param == "single" else fresh_ring()
    servers = request.getfixturevalue("cluster")
    return f"redis://{servers}?name={request.node.name.replace('[', '-').rstrip(']')}"


@pytest.mark.parametrize(
    ("count", "size", "options"),
    [
        (600, 8, {}),
        (300, 3, {"limit": 2, "threshold": 0.3}),
        full(6_000, 32, {}),
        full(3_000, 1, {}),
    ],
)
def test_eight_writers_in_four_processes(
    run_writers: RunWriters, address: str, count: int, size: int, options: dict[str, Any]
) -> None:
    documents, parts = parts_of(batch_engine.texts(count, count, words=9), size)
    with Index.open(address, **batch_engine.SMALL | options) as index:
        said = run_writers(address, parts)
        assert sorted(id for id, _, _ in said) == sorted(documents)
        assert not any(again for _, _, again in said)
        assert len(index) == len(documents)
        assert check_order_of_numbers(index, documents) > len(documents) / 10
        for id, status, _ in said[::7]:
            assert index.get(id).status == status
        assert index.verify() == []


def test_eight_writers_by_the_slow_definition(run_writers: RunWriters) -> None:
    address = fresh_address()
    documents, parts = parts_of(batch_engine.texts(3, 120, words=6), 2)
    with Index.open(address, **batch_engine.SMALL) as index:
        run_writers(address, parts)
        rows = index._opened.generation._documents.rows_after(0, 1_000)
        ids = {row.number: row.id for row in rows}
        given = [{"id": row.id, "text": documents[row.id]} for row in rows]
        want = Definition(given, **batch_engine.SMALL).decide().removed
        got = {
            row.id: (ids[row.witness], row.similarity, bool(row.exact))
            for row in rows
            if row.witness is not None
        }
        assert got == want


def test_all_writers_add_the_same_documents(run_writers: RunWriters) -> None:
    """Each is added by exactly one of them, and all are told the same."""
    address = fresh_address()
    documents, _ = parts_of(batch_engine.texts(8, 80), 1)
    batches = [list(documents.items())[at : at + 5] for at in range(0, len(documents), 5)]
    with Index.open(address, **batch_engine.SMALL) as index:
        said = run_writers(address, [batches] * (PROCESSES * THREADS))
        fresh = [id for id, _, again in said if not again]
        assert sorted(fresh) == sorted(documents)
        for id in documents:
            assert len({status for other, status, _ in said if other == id}) == 1
        check_order_of_numbers(index, documents)
        assert index.verify() == []


def test_writers_that_remove_too(run_writers: RunWriters) -> None:
    address = fresh_address()
    documents, parts = parts_of(batch_engine.texts(11, 400, words=9), 5)
    with Index.open(address, **batch_engine.SMALL) as index:
        run_writers(address, parts, removing=True)
        assert index.verify() == []
        for id in documents:
            if (found := index.get(id)) is not None and found.duplicate_of is not None:
                assert index.get(found.duplicate_of).status == "new"
            elif found is not None:
                answer = index.query(documents[id])
                assert answer.duplicate_of is not None


def test_what_one_adds_others_see_at_once() -> None:
    address = fresh_address()
    with Index.open(address, **batch_engine.SMALL) as one, Index.open(address) as other:
        one.add("a", "some words are here")
        assert other.query("some words are here").duplicate_of == "a"
        assert other.add("b", "some words are here").duplicate_of == "a"
        assert one.get("b").duplicate_of == "a"
