"""A process that is killed at any step: nobody waits for it for longer than a lease.

What it had not acknowledged is there as a whole, or is not there.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from support import batch_engine
from support.redis_index import check_order_of_numbers, fresh_address
from support.sizes import full
from support.vector_definition import Row, Signals
from support.vector_index import add, check_promises, opened
from support.vector_index import check_order_of_numbers as check_vectors

from neardup import Index
from neardup.index.redis_store import shared_generation

LEASE = 0.3
STRIDES = pytest.mark.parametrize("stride", [5, full(1)])
"""Every so many steps."""
KILLED = """
import json, os, signal, sys
import neardup
from neardup import Index
from neardup.index.redis_store import removal, servers, shared_generation
shared_generation.LEASE_SECONDS = 0.3
removal.JUDGED_TOGETHER = 2
neardup.dedup(["one two three", "two three one", "one two three four"])
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if child := os.fork():
        status = os.waitpid(child, 0)[1]
        print("killed" if os.WIFSIGNALED(status) else f"ended {status}", flush=True)
        continue
    left, run = asked["step"], servers.Servers.run

    def run_or_die(self, calls, *, durable=False):
        global left
        left -= 1
        if left < 0:
            run(self, calls[: asked["some"] * len(calls) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return run(self, calls, durable=durable)

    index = Index.open(asked["address"])
    servers.Servers.run = run_or_die
    if asked["forget"]:
        index.forget("1d", by="seen")
    elif asked["remove"]:
        for id in asked["ids"]:
            index.remove(id)
    else:
        given = asked["ids"], asked["texts"]
        index.add_batch(*given, vectors=asked["vectors"], replace=asked["replace"])
    index.close()
    os._exit(0)
"""


@pytest.fixture(autouse=True)
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_generation, "LEASE_SECONDS", LEASE)


@contextmanager
def killing(address: str) -> Iterator[Callable[..., bool]]:
    """Have a process killed at a step of its work; whether it was, or had ended before."""
    with subprocess.Popen(
        batch_engine.command(KILLED),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=batch_engine.environment(),
    ) as process:
        assert process.stdout.readline() == "ready\n"

        def kill(step: int, **asked: object) -> bool:
            given = {"address": address, "step": step, "some": step % 3}
            given |= {"remove": False, "replace": False, "forget": False, "vectors": None}
            print(json.dumps(given | asked), file=process.stdin, flush=True)
            said = process.stdout.readline()
            assert said in ("killed\n", "ended 0\n")
            return said == "killed\n"

        yield kill
        process.stdin.close()


def family(name: str, size: int) -> dict[str, str]:
    """Documents of which each is similar to the one before."""
    words = [f"{name}{at}" for at in range(12)]
    return {f"{name}-{at}": " ".join([*words, *words[:at]]) for at in range(size)}


@STRIDES
def test_killed_while_it_adds(stride: int) -> None:
    address = fresh_address()
    texts: dict[str, str] = {}
    with Index.open(address, **batch_engine.SMALL) as index, killing(address) as kill:
        for step in count(0, stride):
            batch = family(f"s{step}x", 4) | family(f"s{step}y", 2)
            early = dict(list(family(f"s{step}x", 1).items()))
            index.add_batch([f"{id}-early" for id in early], list(early.values()))
            texts |= batch | {f"{id}-early": text for id, text in early.items()}
            killed = kill(step, ids=list(batch), texts=list(batch.values()))
            begun = time.monotonic()
            late = {f"{id}-late": text for id, text in batch.items()}
            answers = index.add_batch(list(late), list(late.values()))
            waited = time.monotonic() - begun
            texts |= late
            assert waited < 3 * LEASE + 1, "the lease is over"
            for id in batch:
                found = index.get(id)
                assert found is not None or killed, "it was acknowledged"
            assert all(answer.status in ("new", "duplicate") for answer in answers)
            # What is there or not there: sent again, it is there once.
            again = index.add_batch(list(batch), list(batch.values()))
            assert [one.id for one in again] == list(batch)
            if not killed:
                break
        assert step > 8, "a batch takes more steps than that"
        assert len(index) == len(texts)
        index._opened.generation.repair()
        assert index.verify() == []
        check_order_of_numbers(index, texts)


@STRIDES
def test_killed_while_it_removes(stride: int) -> None:
    address = fresh_address()
    with Index.open(address, **batch_engine.SMALL, limit=2) as index, killing(address) as kill:
        for step in count(0, stride):
            batch = family(f"s{step}", 6)
            ids = list(batch)
            index.add_batch(ids, list(batch.values()))
            killed = kill(step, ids=ids[:1], texts=[], remove=True)
            begun = time.monotonic()
            late = {f"{id}-late": text for id, text in batch.items()}
            index.add_batch(list(late), list(late.values()))
            assert time.monotonic() - begun < 6 * LEASE + 1
            if step % 2:
                index._opened.generation.repair()
            elif index.get(ids[0]) is not None:
                assert index.remove(ids[0])
            for id in [*ids[1:], *late]:
                found = index.get(id)
                assert found.duplicate_of is None or index.get(found.duplicate_of).status == "new"
            if not killed:
                assert index.get(ids[0]) is None
                break
        assert step > 8
        index._opened.generation.repair()
        assert index.verify() == []


@STRIDES
def test_killed_while_it_replaces(stride: int) -> None:
    """What was replaced may be gone; the new one is there as a whole or not."""
    address = fresh_address()
    with Index.open(address, **batch_engine.SMALL) as index, killing(address) as kill:
        for step in count(0, stride):
            batch = family(f"s{step}", 3)
            index.add_batch(list(batch), list(batch.values()))
            new = dict(zip(batch, family(f"n{step}", 3).values(), strict=True))
            killed = kill(step, ids=list(new), texts=list(new.values()), replace=True)
            answers = index.add_batch(list(new), list(new.values()), replace=True)
            assert [answer.status for answer in answers] == ["new", "duplicate", "duplicate"]
            for text in batch.values():
                assert index.query(text).status == "new"
            if not killed:
                break
        assert step > 10
        index._opened.generation.repair()
        assert index.verify() == []
        assert len(index) == 3 * (step // stride + 1)


@STRIDES
def test_killed_while_it_forgets(stride: int) -> None:
    address = fresh_address()
    texts: dict[str, str] = {}
    with Index.open(address, **batch_engine.SMALL, limit=2) as index, killing(address) as kill:
        for step in count(0, stride):
            batch = family(f"s{step}", 6)
            old = list(batch)[::2]
            metadata = [{"seen": 0 if id in old else "2100-01-01"} for id in batch]
            index.add_batch(list(batch), list(batch.values()), metadata=metadata)
            texts |= {id: text for id, text in batch.items() if id not in old}
            killed = kill(step, forget=True)
            if killed:  # as any service does that is left
                index.finish_removals()
                index.forget("1d", by="seen")
            assert not any(id in index for id in old)
            assert len(index) == len(texts)
            if not killed:
                break
        assert step > 8
        assert index.repair() == []
        assert index.verify() == []
        check_order_of_numbers(index, texts)


def near(name: str, step: int, size: int) -> list[Row]:
    """Documents of which each is similar to the one before, by its text or by its vector."""
    texts = family(f"s{step}", size)
    vectors = [[1.0, 0.25 * step, 0.125 * at] for at in range(size)]
    return [
        {"id": f"{name}{id}", "text": text if at % 2 else f"{name}{at} {text}", "v": v}
        for at, ((id, text), v) in enumerate(zip(texts.items(), vectors, strict=True))
    ]


VECTORED = [Signals("alone", 0.95), Signals("also", 0.95, limit=2), Signals("unless", 0.99)]


@STRIDES
@pytest.mark.parametrize("asked", VECTORED, ids=str)
def test_killed_while_it_adds_or_removes_vectors(stride: int, asked: Signals) -> None:
    """Who goes on has the answer of a run, and later removes what the killed one was removing."""
    address = fresh_address()
    added: list[Row] = []
    with opened(address, asked) as index, killing(address) as kill:
        for step in count(0, stride):
            before, batch, late = (near(name, step, 4) for name in ("a", "b", "c"))
            ids, vectors = [row["id"] for row in batch], [row["v"] for row in batch]
            texts = None if asked.role == "alone" else [row["text"] for row in batch]
            add(index, before)
            killed = kill(step, ids=ids, texts=texts, vectors=vectors)
            add(index, late)
            assert killed or all(id in index for id in ids), "it was acknowledged"
            add(index, batch)
            added += [*before, *batch, *late]
            if not killed:
                break
        assert step > 8
        index.repair()
        assert index.verify() == []
        check_vectors(index, added, asked)
        for step in count(0, stride):
            gone = [row["id"] for row in added if row["id"] in index][:1]
            killed = kill(step, ids=gone, remove=True)
            if killed:
                index.finish_removals()
                index.remove(gone[0])
            assert gone[0] not in index
            if not killed:
                break
        index.repair()
        assert index.verify() == []
        check_promises(index, [row for row in added if row["id"] in index], asked)
