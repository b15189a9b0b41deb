"""A ring gets another server, or loses one, while other processes add to its index."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support import batch_engine
from support.redis_index import check_order_of_numbers, fresh_ring, ring_of, shared_server
from support.redis_servers import redis_server

from neardup import HashRing, Index
from neardup.errors import NeardupError, OutputError, UsageError
from neardup.index.redis_store import configuration, placing, rebalancing
from neardup.index.redis_store.address import RedisAddress, format_server
from neardup.index.redis_store.placing import partition_of_key
from neardup.index.redis_store.rebalancing import Rebalancing, rebalance
from neardup.index.redis_store.ring_servers import RingServers
from neardup.index.redis_store.servers import Call, Servers

WRITER = """
import json, sys, threading
import neardup
from neardup import Index

neardup.dedup(["one two three", "two three one", "one two three four"])
print("ready", flush=True)
address, documents = json.loads(sys.stdin.readline())
ids, said = list(documents), []

def work(index, part):
    with index:
        for begin in range(0, len(part), 6):
            some = part[begin : begin + 6]
            answers = index.add_batch(some, [documents[id] for id in some])
            said.extend(answer.status for answer in answers)

opened = [Index.open(address) for _ in range(2)]
print("open", flush=True)
threads = [
    threading.Thread(target=work, args=(index, ids[at::2])) for at, index in enumerate(opened)
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(said), flush=True)
sys.stdin.read()
"""


def texts_of(count: int, seed: int = 0) -> dict[str, str]:
    texts = batch_engine.texts(seed, count, words=9)
    return {f"d{seed}-{at}": text for at, text in enumerate(texts) if text.strip(" !?")}


def parse(address: str) -> RedisAddress:
    return RedisAddress.parse(address)


def check_places(address: str, others: Sequence[int] = ()) -> None:
    """Each key is on the server that the rule says, and nowhere else; nothing is left of moving."""
    parsed = parse(address)
    rule = HashRing([format_server(server) for server in parsed.servers])
    servers = {server.address: server for server in map(shared_server, range(4))}
    for where, server in servers.items():
        with server.client() as client:
            for key in client.scan_iter(match=f"{{{parsed.name}:*", count=10_000):
                partition = partition_of_key(key)
                home = rule.node(f"{parsed.name}:{partition}")
                assert key == placing.ring_key(parsed.name) or home == where, key
            fields = client.hgetall(placing.ring_key(parsed.name))
        if where in [format_server(each) for each in parsed.servers]:
            assert all(value[:1] == b"H" for name, value in fields.items() if name.isdigit())
        assert not [name for name in fields if name in (b"target", b"mover") or b":" in name]


@pytest.fixture
def before_each_step(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Have something done before each command of a rebalance."""

    def install(act: Callable[[int], None]) -> None:
        steps, run = [0], Servers.run

        class SteppingServers(RingServers):
            def run(self, calls: Sequence[Call], *, durable: bool = False) -> list[Any]:
                steps[0] += 1
                act(steps[0])
                return run(self, calls, durable=durable)

        monkeypatch.setattr(rebalancing, "RingServers", SteppingServers)

    yield install


def test_a_server_comes_and_goes() -> None:
    """About 1/N of the partitions move, and nothing else changes."""
    texts = texts_of(120)
    two = fresh_ring(2)
    name = parse(two).name
    three, other = ring_of(range(3), name), ring_of([0, 2], name)
    with Index.open(two, **batch_engine.SMALL) as index:
        index.add_batch(list(texts), list(texts.values()))
        stored = index._opened.generation._documents.rows_after(0, 1_000)
        for address, want in ((three, 1 / 3), (other, 1 / 3), (other, 0), (two, 1)):
            moved = rebalance(parse(address))
            rule = [HashRing(map(format_server, parse(each).servers)) for each in (two, address)]
            assert abs(moved.share - want) < 0.2 or want == 1, (moved, rule)
            assert moved.servers == tuple(sorted(map(format_server, parse(address).servers)))
            check_places(address)
            assert index._opened.generation._documents.rows_after(0, 1_000) == stored
            assert index.verify() == []
            with Index.open(address, read_only=True) as again:
                assert len(again) == len(texts)
        check_order_of_numbers(index, texts)


def test_an_old_address_is_refused_and_an_open_index_goes_on() -> None:
    two = fresh_ring(2)
    three = ring_of(range(3), parse(two).name)
    with Index.open(two, **batch_engine.SMALL) as index:
        index.add("a", "one two three four five")
        with pytest.raises(UsageError, match="does not name the servers"):
            Index.open(three)
        moved = index.rebalance(three)
        assert moved.epoch == 3
        assert index.add("b", "one two three four five six").duplicate_of == "a"
        with pytest.raises(UsageError, match="of epoch 3: give") as raised:
            Index.open(two)
        assert str(parse(three)) in str(raised.value) or "ring" in str(raised.value)
        index.rebalance(two)
        with shared_server(2).client() as client:
            assert client.hget(placing.ring_key(parse(two).name), "servers").count(b",") == 1
        assert index.get("b").duplicate_of == "a"


def test_a_server_that_has_left_may_end_at_once(tmp_path: Path) -> None:
    """A process that was idle meanwhile, and knows the old servers alone, goes on without it."""
    two = fresh_ring(2)
    with redis_server(tmp_path, appendonly=False) as leaving:
        three = two.replace("?", f",{leaving.address}?")
        with Index.open(three, **batch_engine.SMALL) as idle, Index.open(three) as watching:
            idle.add("a", "one two three four five")
            rebalance(parse(two))
            leaving.kill()
            assert idle.add("b", "one two three four five six").duplicate_of == "a"
            watching._opened.generation.ping()
            assert leaving.address not in watching.stats().memory_bytes
            assert watching.verify() == [] and len(watching) == 2


def test_what_can_not_be_rebalanced() -> None:
    two = fresh_ring(2)
    with pytest.raises(UsageError, match=r"none of the servers of .* has the index"):
        rebalance(parse(two))
    with Index.open(two, **batch_engine.SMALL) as index:
        with pytest.raises(UsageError, match="is no ring: give"):
            index.rebalance(f"{shared_server().url}?name={parse(two).name}")
        with pytest.raises(UsageError, match="has another name than"):
            index.rebalance(ring_of([0], "another"))
        name = parse(two).name
        with Index.open(ring_of([3], name), **batch_engine.SMALL):
            pass
        with pytest.raises(UsageError, match="different indexes"):
            index.rebalance(ring_of([0, 1, 3], name))


def test_two_names_of_one_server(tmp_path: Path) -> None:
    """What would be moved from one name to the other is there already, and is not deleted."""
    two = fresh_ring(2)
    renamed = two.replace("127.0.0.1", "localhost")
    both = two.replace("?", f",localhost:{parse(two).servers[0][1]}?")
    texts = texts_of(30)
    with Index.open(two, **batch_engine.SMALL) as index:
        index.add_batch(list(texts), list(texts.values()))
        for address in (renamed, both):
            with pytest.raises(UsageError, match="are the same server: name each"):
                rebalance(parse(address))
            assert index.verify() == [] and len(index) == len(texts)
        check_places(two)
    with pytest.raises(UsageError, match="are the same server"):
        Index.open(both.replace("name=", "name=other-"))
    with Index.open(two.replace("name=", "name=other-"), **batch_engine.SMALL) as other:
        assert len(other) == 0, "nothing was made"


def test_a_full_server_gives_partitions_away(tmp_path: Path) -> None:
    texts = texts_of(60)
    with ExitStack() as stack:
        servers = [stack.enter_context(redis_server(tmp_path / name)) for name in "abc"]
        two, three = (
            f"redis://{','.join(each.address for each in some)}?ring"
            for some in (servers[:2], servers)
        )
        with Index.open(two, **batch_engine.SMALL) as index:
            index.add_batch(list(texts), list(texts.values()))
            for server in servers[:2]:
                with server.client() as client:
                    client.config_set("maxmemory", 1_000_000)
            with pytest.raises(OutputError, match="no memory left"):
                index.add("more", "one two three")
            assert rebalance(parse(three)).moved > 20
            with servers[2].client() as client:
                client.config_set("maxmemory", 1_000_000)
            with pytest.raises(OutputError, match="no memory left"):
                rebalance(parse(two))
            assert index.verify() == [] and len(index) == len(texts)


def test_both_addresses_hold_until_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when one that was stopped is stopped again."""
    two = fresh_ring(2)
    three = ring_of(range(3), parse(two).name)
    with Index.open(two, **batch_engine.SMALL) as index:
        index.add("a", "one two three four five")
    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(Rebalancing, "_hand_over", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                rebalance(parse(three))
        for address in (two, three):
            with Index.open(address) as index:
                assert index.query("one two three four five").duplicate_of == "a"


def test_a_server_comes_back_that_names_one_that_is_no_more(tmp_path: Path) -> None:
    two = fresh_ring(2)
    name = parse(two).name
    with Index.open(two, **batch_engine.SMALL) as index:
        index.add("a", "one two three four five")
        with redis_server(tmp_path, appendonly=False) as leaving:
            rebalance(parse(ring_of([0], name).replace("?", f",{leaving.address}?")))
            rebalance(parse(ring_of([0, 2], name)))
        rebalance(parse(ring_of([0, 1, 2], name)))
        assert index.verify() == [] and index.get("a").status == "new"


def test_an_entry_that_was_given_away_and_is_there_again(tmp_path: Path) -> None:
    """A server lost what was not on its disk; a process that was idle asks before it writes."""
    place = fresh_ring(1)
    with redis_server(tmp_path, appendonly=False, settings={"save": "3600 1"}) as leaving:
        two = place.replace("?", f",{leaving.address}?")
        with Index.open(two, **batch_engine.SMALL) as index:
            index.add("a", "one two three four five")
            with leaving.client() as client:
                client.save()
            idle = RingServers(parse(two))
            rebalance(parse(place))
            leaving.kill()
            leaving.start()
            with leaving.client() as client:
                entries = client.hgetall(placing.ring_key(parse(two).name))
            again = [one for one in entries if one.isdigit()]
            assert again, "it says that it has them"
            keys = [f"{{{parse(two).name}:{one.decode()}}}meta".encode() for one in again]
            idle.run([Call(key, (b"HSET", key, "probe", 1)) for key in keys])
            with leaving.client() as client:
                assert not any(client.hexists(key, "probe") for key in keys)
            idle.close()


@pytest.mark.parametrize("removing", [False, True])
def test_documents_come_and_go_at_each_step(
    before_each_step: Callable[..., None], removing: bool
) -> None:
    """Whatever the moment, what is written is neither lost nor seen at two places."""
    chance, texts = random.Random(removing), texts_of(1_500)
    waiting = list(texts)
    two = fresh_ring(2)
    three = ring_of(range(3), parse(two).name)
    with (
        Index.open(two, **batch_engine.SMALL) as one,
        Index.open(two) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        some, waiting = waiting[:150], waiting[150:]
        one.add_batch(some, [texts[id] for id in some])
        present = set(some)
        writing = [thread.submit(len, some)]

        def write(some: list[str], gone: str | None) -> None:
            index = chance.choice([one, other])
            index.add_batch(some, [texts[id] for id in some])
            present.update(some)
            if gone is not None:
                assert index.remove(gone)
                present.discard(gone)

        def begin_to_write(step: int) -> None:
            nonlocal waiting
            if waiting and step % 2 == 0 and writing[-1].done():
                some, waiting = waiting[:2], waiting[2:]
                gone = chance.choice(sorted(present)) if removing and step % 5 == 0 else None
                writing.append(thread.submit(write, some, gone))
                wait(writing[-1:], timeout=chance.choice([0.01, 0.05, 0.2]))

        before_each_step(begin_to_write)
        for address in (three, two):
            rebalance(parse(address))
            wait(writing)
            check_places(address)
            assert one.verify() == []
            assert len(other) == len(present)
        assert len(writing) > 20
        for each in writing:
            each.result()
        if not removing:
            assert check_order_of_numbers(one, texts) > 50
        for id in present:
            found = one.get(id)
            assert found.duplicate_of is None or one.get(found.duplicate_of).status == "new"
            assert other.query(texts[id]).duplicate_of is not None


def test_many_processes_write_meanwhile() -> None:
    """Two threads in each of three processes add while the ring grows, and while it shrinks."""
    texts = texts_of(700)
    two = fresh_ring(2)
    three = ring_of(range(3), parse(two).name)
    with Index.open(two, **batch_engine.SMALL) as index, ExitStack() as stack:
        writers = [
            stack.enter_context(
                subprocess.Popen(
                    batch_engine.command(WRITER),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env=batch_engine.environment(),
                )
            )
            for _ in range(3)
        ]
        for at, writer in enumerate(writers):
            assert writer.stdout.readline() == "ready\n"
            documents = dict(list(texts.items())[at::3])
            print(json.dumps([two, documents]), file=writer.stdin, flush=True)
        for writer in writers:  # the address is refused after the first rebalance
            assert writer.stdout.readline() == "open\n"
        for address in (three, two, three, two):
            rebalance(parse(address))
        for writer in writers:
            said = json.loads(writer.stdout.readline())
            assert set(said) == {"new", "duplicate"}
            writer.stdin.close()
            assert writer.wait(30) == 0
        assert len(index) == len(texts)
        check_order_of_numbers(index, texts)
        assert index.verify() == []
        check_places(two)


def test_killed_at_any_step_and_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was killed leaves an index that works, and the next one finishes it."""
    monkeypatch.setattr(rebalancing, "FREEZE_SECONDS", 0.3)
    texts = texts_of(400)
    waiting = list(texts.items())
    two = fresh_ring(2)
    three = ring_of(range(3), parse(two).name)
    with Index.open(two, **batch_engine.SMALL) as index:
        done, waiting = waiting[:60], waiting[60:]
        index.add_batch(*map(list, zip(*done, strict=True)))
        step, target = 1, three
        while True:
            child = os.fork()
            if not child:
                die_while_rebalancing(target, step)
            status = os.waitpid(child, 0)[1]
            killed = os.WIFSIGNALED(status)
            assert killed or status == 0
            some, waiting = waiting[:3], waiting[3:]
            done += some
            for id, text in some:
                index.add(id, text)
            assert len(index) == len(done)
            if not killed:
                check_places(target)
                if target == two:
                    break
                step, target = 1, two
            step = step * 3 // 2 + 1
        assert index.verify() == []
        check_order_of_numbers(index, texts)


def die_while_rebalancing(address: str, step: int) -> None:
    """End this process at once before a step of a rebalance, in the middle of its commands."""
    run, left = Servers.run, [step]

    def run_or_die(self: Servers, calls: Sequence[Call], *, durable: bool = False) -> list[Any]:
        left[0] -= 1
        if left[0] < 0:
            run(self, calls[: len(calls) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return run(self, calls, durable=durable)

    Servers.run = run_or_die  # type: ignore[method-assign]
    try:
        rebalance(parse(address))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def test_the_one_that_began_last_goes_on(before_each_step: Callable[..., None]) -> None:
    """Two rebalances at the same time: the first one is refused, whatever it does."""
    two = fresh_ring(2)
    three = ring_of(range(3), parse(two).name)
    with Index.open(two, **batch_engine.SMALL) as index:
        texts = texts_of(60)
        index.add_batch(list(texts), list(texts.values()))
        for begins in (5, 9, 30, 60, 200, 400):
            rebalance_plainly = rebalancing.RingServers

            def overtake(step: int, begins: int = begins, plain: Any = rebalance_plainly) -> None:
                if step == begins:
                    stepping, rebalancing.RingServers = rebalancing.RingServers, plain
                    rebalance(parse(two))
                    rebalancing.RingServers = stepping

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(rebalancing, "RingServers", rebalance_plainly)
                before_each_step(overtake)
                with pytest.raises(UsageError, match="another process has"):
                    rebalance(parse(three))
            check_places(two)
            assert len(index) == len(texts) and index.verify() == []


def test_a_freeze_that_is_over_hands_nothing_over(
    before_each_step: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is halted in the moment of the hand-over tries it again."""
    monkeypatch.setattr(rebalancing, "FREEZE_SECONDS", 0.05)
    texts = texts_of(200)
    waiting = list(texts)
    two = fresh_ring(2)
    changed: list[str] = []
    change = Rebalancing._change

    def change_late(self: Rebalancing, *given: Any) -> bool:
        if given[3].startswith("G") and given[1] not in changed and len(changed) < 10:
            changed.append(given[1])
            time.sleep(0.06)
            id = waiting.pop()
            index.add(id, texts[id])
        return change(self, *given)

    monkeypatch.setattr(Rebalancing, "_change", change_late)
    with Index.open(two, **batch_engine.SMALL) as index:
        moved = rebalance(parse(ring_of([0], parse(two).name)))
        assert len(changed) == 10 < moved.moved
        assert index.verify() == []
        assert check_order_of_numbers(index, texts) >= 0
        assert len(index) == len(changed)


@pytest.mark.parametrize("which", ["source", "target"])
def test_a_server_that_is_started_again_in_between(tmp_path: Path, which: str) -> None:
    """What it has lost is copied again."""
    with redis_server(tmp_path, appendfsync="always") as broken:
        place = fresh_ring(2)
        names = [shared_server(number).address for number in range(2)]
        small = f"redis://{','.join(names)}?ring&name={parse(place).name}"
        large = f"redis://{','.join([*names, broken.address])}?ring&name={parse(place).name}"
        first, second = (small, large) if which == "target" else (large, small)
        texts = texts_of(100)
        with Index.open(first, **batch_engine.SMALL) as index:
            index.add_batch(list(texts), list(texts.values()))
            copy_all, restarts = Rebalancing._scan, [2]

            def scan_and_break(self: Rebalancing, server: Any) -> Iterator[Any]:
                yield from copy_all(self, server)
                if restarts[0] and self._arriving:
                    restarts[0] -= 1
                    broken.kill()
                    broken.start()

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Rebalancing, "_scan", scan_and_break)
                patch.setattr(configuration, "SYNC_SECONDS", 0.0)
                assert rebalance(parse(second)).moved > 10
            assert restarts == [0]
            assert index.verify() == []
            check_order_of_numbers(index, texts)


def test_what_a_target_has_lost_after_the_hand_over_is_moved_again(tmp_path: Path) -> None:
    """Its copy is deleted only when the other server has it on its disk."""
    with redis_server(tmp_path, appendonly=False) as forgetful:
        place = fresh_ring(2)
        names = [shared_server(number).address for number in range(2)]
        large = f"redis://{','.join([*names, forgetful.address])}?ring&name={parse(place).name}"
        texts = texts_of(100)
        with Index.open(place, **batch_engine.SMALL) as index:
            index.add_batch(list(texts), list(texts.values()))
            waited = []

            def lose_all(*_: Any) -> None:
                waited.append(1)
                if len(waited) == 1:
                    forgetful.kill()
                    forgetful.start()

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(rebalancing, "wait_until_on_disk", lose_all)
                with pytest.raises(NeardupError):
                    rebalance(parse(large))
                rebalance(parse(large))
            assert index.verify() == []
            check_order_of_numbers(index, texts)
            assert len(index) == len(texts)


def test_a_server_without_a_log_writes_a_snapshot(tmp_path: Path) -> None:
    settings = {"save": "3600 1"}
    with redis_server(tmp_path, appendonly=False, settings=settings) as server:
        place = fresh_ring(2)
        large = ring_of(range(2), parse(place).name).replace("?", f",{server.address}?")
        with Index.open(place, **batch_engine.SMALL) as index:
            index.add("a", "one two three four five")
            index.rebalance(large)
            server.kill()
            server.start()
            assert index.query("one two three four five").duplicate_of == "a"
            assert index.verify() == []
