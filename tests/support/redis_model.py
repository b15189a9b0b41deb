"""Writers of an index on Redis whose steps are taken in a random order, one at a time.

Each writer runs the code of the protocol in a thread of its own. It stops before each command that
it sends, and when it sleeps; a scheduler with a seed chooses who goes on. Commands that are sent
together are cut into pieces, since a server may carry out others between them. Now and then a
command is sent twice, as after a connection that broke before the reply; now and then a writer
fails for good. The clock is the scheduler's: it goes on when a writer sleeps.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any, ClassVar

import numpy as np
import pytest

from neardup.index.generation import OpenOptions
from neardup.index.redis_store import (
    buckets,
    enrolment,
    judging,
    numbering,
    removal,
    shared_generation,
    shared_integrity,
)
from neardup.index.redis_store.address import RedisAddress
from neardup.index.redis_store.enrolment import Enrolled, Enrolment
from neardup.index.redis_store.enrolment_batch import EnrolmentBatch
from neardup.index.redis_store.keyspace import KEPT, Record, State
from neardup.index.redis_store.numbering import Numbers
from neardup.index.redis_store.removal import SharedRemoval
from neardup.index.redis_store.servers import Call, Servers
from neardup.index.redis_store.shared_generation import SharedGeneration
from neardup.index.settings import new_settings
from neardup.index.stats import Counters
from neardup.index.view import TablesBehind
from support import batch_engine
from support.definition import Definition
from support.redis_index import fresh_address

MOST_STEPS = 20_000


class Crashed(BaseException):
    """A process that is gone."""


class Scheduler:
    """Lets one writer at a time take a step."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now, self.steps = 0.0, 0
        self.history: list[str] = []
        self._turn = threading.Semaphore(0)
        """Released when the writer that took a step stops, or ends."""
        self._go_on: list[threading.Semaphore] = []
        self._parked: dict[int, float] = {}
        """Writer -> the time until which it sleeps."""
        self._local = threading.local()

    # In the threads of the writers

    def begin(self, writer: int) -> None:
        self._local.writer = writer
        self.step("begins")

    def step(self, what: str, until: float = 0.0) -> None:
        """Wait to be chosen."""
        writer = getattr(self._local, "writer", None)
        if writer is None:  # this is the test itself
            self.now = max(self.now, until)
            return
        self._parked[writer] = until
        self._turn.release()
        self._go_on[writer].acquire()
        self.history.append(f"{writer} {what}")

    # The modules' `time`

    def sleep(self, seconds: float) -> None:
        self.step("slept", self.now + max(seconds, 1e-4))

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic

    # In the test

    def run(self, works: Sequence[Callable[[], None]]) -> None:
        """Run the writers until all have ended; raise what one of them raised."""
        errors: list[BaseException] = []

        def run(writer: int, work: Callable[[], None]) -> None:
            self.begin(writer)
            try:
                work()
            except Crashed:
                self.history.append(f"{writer} has crashed")
            except BaseException as error:
                errors.append(error)
            finally:
                self._turn.release()

        self._go_on = [threading.Semaphore(0) for _ in works]
        threads = [
            threading.Thread(target=run, args=each, daemon=True) for each in enumerate(works)
        ]
        for thread in threads:
            thread.start()
            self._turn.acquire()
        while self._parked:
            self.steps += 1
            assert self.steps < MOST_STEPS, "they wait for one another"
            ready = sorted(each for each, until in self._parked.items() if until <= self.now)
            # Sleepers are late now and then, and others are early.
            if not ready or self.chance.random() < 0.05:
                ready = sorted(self._parked)
            chosen = self.chance.choice(ready)
            self.now = max(self.now + 1e-4, self._parked.pop(chosen))
            self._go_on[chosen].release()
            self._turn.acquire()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]


class SteppingServers(Servers):
    """Servers whose commands are carried out when the scheduler says so."""

    again = 0.02
    apart = 0.5

    def begin(self, address: RedisAddress, scheduler: Scheduler, chance: random.Random) -> None:
        """Serve a writer of another world."""
        self.address, self._scheduler, self._chance = address, scheduler, chance
        self.left: int | None = None
        """Commands until it crashes."""

    def run(self, calls: Sequence[Call], *, durable: bool = False) -> list[Any]:
        replies: list[Any] = []
        calls = list(calls)
        while len(replies) < len(calls):
            begin = len(replies)
            end = len(calls)
            if self._chance.random() < self.apart:
                end = min(end, begin + self._chance.randint(1, 3))
            some = calls[begin:end]
            named = ", ".join(_name(call) for call in some)
            self._scheduler.step(named)
            if self.left is not None:
                self.left -= len(some)
                if self.left < 0:
                    raise Crashed
            got = super().run(some)
            if self._chance.random() < self.again:
                self._scheduler.step(f"again {named}")
                got = super().run(some)
            replies += got
        return replies


def _name(call: Call) -> str:
    what = call.script.name if call.script else str(call.command[0], "ascii")
    return f"{what} {call.key.decode()}"


@cache
def _stepping_servers(number: int) -> SteppingServers:
    """Connecting takes longer than a history."""
    return SteppingServers(RedisAddress.parse(fresh_address()))


@cache
def _servers() -> Servers:
    return Servers(RedisAddress.parse(fresh_address()))


@dataclass
class Op:
    """Something that a writer does."""

    add: list[tuple[str, str]] = field(default_factory=list)
    remove: str | None = None
    replacing: bool = False


class Writer:
    """A process that writes."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        chance = random.Random(world.seed * 31 + number)
        self.servers = _stepping_servers(number)
        self.servers.begin(world.address, world.scheduler, chance)
        generation = SharedGeneration(self.servers, world.meta, None, OpenOptions(), read_only=True)
        self.generation = generation
        parts = (
            generation._store,
            generation._buckets,
            generation._overflow,
            generation._documents,
            generation._view,
        )
        self.removal = SharedRemoval(*parts, Counters(), world.lease)
        numbers = Numbers(generation._store)
        self.enrolment = Enrolment(*parts, Counters(), self.removal, world.lease, numbers)

    def work(self, ops: Sequence[Op]) -> None:
        for op in ops:
            if op.add:
                self.add(op)
            else:
                self.remove(op.remove or "")
        self.enrolment.tidy()

    def add(self, op: Op) -> None:
        ids, texts = [id for id, _ in op.add], [text for _, text in op.add]
        sketched = self.world.sketch(texts)
        new = EnrolmentBatch(sketched, ids, [None] * len(ids), [None] * len(ids), 0.0)
        found = self.enrolment.add(new, lambda: None, replacing=op.replacing)
        for (id, text), one in zip(op.add, found, strict=True):
            self.world.acknowledged.append((id, text, one))

    def remove(self, id: str) -> None:
        clock = self.world.scheduler
        begun = clock.monotonic()
        while True:
            try:
                row = self.generation.view.rows_by_id([id]).get(id)
                break
            except TablesBehind:
                clock.sleep(0.01)
                if clock.monotonic() - begun > self.world.lease:
                    self.removal.finish_all()
        if row is not None and self.removal.remove([row.number]):
            self.world.removed.append(row.number)


class World:
    """An index, its writers, and what they were told."""

    point: ClassVar[dict[str, Any]] = batch_engine.SMALL
    dimension: int | None = None

    def __init__(self, patch: pytest.MonkeyPatch, seed: int, **options: Any) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.scheduler = Scheduler(seed)
        self.options = self.point | options
        self.lease = 0.05
        self.acknowledged: list[tuple[str, str, Enrolled]] = []
        self.removed: list[int] = []
        for module in (enrolment, judging, numbering, removal, shared_integrity):
            patch.setattr(module, "time", self.scheduler)
        patch.setattr(enrolment, "random", random.Random(seed))
        patch.setattr(enrolment, "TIDY_SECONDS", self.chance.choice([0.0, 0.01, 0.1]))
        patch.setattr(removal, "JUDGED_TOGETHER", 256 if seed % 3 == 0 else 1 + seed % 3)
        patch.setattr(buckets, "LOAD", 2)
        patch.setattr(buckets, "FEWEST_SPLITS", 1)
        patch.setattr(buckets, "AT_ONCE", 7 if seed % 4 == 3 else buckets.AT_ONCE)
        patch.setattr(shared_generation, "PARTITIONS", self.chance.choice([1, 2, 4]))
        self.address = RedisAddress.parse(fresh_address())
        self.servers = _servers()
        self.servers.address = self.address
        settings = new_settings(
            None, None, self.options, keep_texts=False, within="", dimension=self.dimension
        )
        shared_generation.create_index(self.servers, settings)
        self.meta = shared_generation.read_meta(self.servers) or {}
        shared_generation.finish_creation(self.servers, self.meta)
        first = self.chance.choice([0, 60, 126])  # near the end of a block
        self.servers._client(self.servers.masters[0]).set(
            f"{{{self.address.name}:c}}counter", first
        )
        self.generation = SharedGeneration(
            self.servers, self.meta, None, OpenOptions(), read_only=True
        )
        self.writers: list[Writer] = []
        self._texts: dict[bytes, str] = {}

    def sketch(self, texts: Sequence[str]) -> Any:
        generation = self.generation
        sketched = generation.sketcher.sketch_texts(
            texts, generation.view.codec.lsh, vectors=self.vectors(texts)
        )
        assert not sketched.rejected
        for text, content in zip(texts, sketched.arrivals.content, strict=True):
            self._texts[content.tobytes()] = text
        return sketched.arrivals

    def vectors(self, texts: Sequence[str]) -> list[list[float]] | None:
        """The vectors of documents, by their texts; None if they have none."""
        return None

    def run(self, ops: Sequence[Sequence[Op]], crashing: Sequence[int] = ()) -> None:
        """Let writers work side by side; those that are `crashing` do so at a random step."""
        begin = len(self.writers)
        self.writers += [Writer(self, begin + at) for at in range(len(ops))]
        for at in crashing:
            self.writers[begin + at].servers.left = self.chance.randrange(60)
        works = [
            (lambda writer=writer, own=own: writer.work(own))
            for writer, own in zip(self.writers[begin:], ops, strict=True)
        ]
        self.scheduler.run(works)

    # What is stored

    def stored(self) -> dict[int, tuple[Record, State]]:
        documents = self.generation._documents
        numbers = documents.numbers().tolist()
        states, records = documents.states(numbers), documents.records(numbers)
        return {number: (records[number], states[number]) for number in sorted(numbers)}

    def text(self, record: Record) -> str:
        return self._texts[record.content]

    def definition(self) -> Definition:
        """That of the stored documents, in the order of their numbers; ids are numbers."""
        rows = [
            {"id": str(number), "text": self.text(record)}
            for number, (record, _) in self.stored().items()
        ]
        return Definition(rows, **self.options)

    def check_definition(self) -> None:
        """What is stored is the answer of a batch run in the order of the numbers."""
        want = self.definition().decide()
        got = {
            str(number): (str(state.witness), state.similarity, bool(state.exact))
            for number, (_, state) in self.stored().items()
            if state.kind != KEPT
        }
        assert got == want.removed

    def check_promises(self) -> None:
        """Each copy has a kept witness that is similar; no two kept ones with a bucket are.

        After a removal the witness may have a larger number.
        """
        stored, definition = self.stored(), self.definition()
        place = {int(row["id"]): at for at, row in enumerate(definition.ranked)}
        kept = [number for number, (_, state) in stored.items() if state.kind == KEPT]
        similarity = definition.sketched.similarity
        for number, (record, state) in stored.items():
            if state.kind == KEPT:
                continue
            assert state.kind == b"C", (number, state)
            assert state.witness in kept, (number, state)
            witness = stored[state.witness][0]
            if record.content == witness.content:
                assert state.similarity == 1.0
            else:
                found = similarity(place[number], place[state.witness])
                assert state.similarity == found >= definition.sketched.threshold
        limit = self.options.get("limit", 256)
        for later in kept:
            for sooner in kept:
                at, before = place[later], place[sooner]
                meet = definition.buckets[at] & definition.buckets[before]
                if sooner < later and meet and limit > len(stored):
                    found = similarity(at, before)
                    assert found < definition.sketched.threshold, (sooner, later)
        self._check_leaders(kept, limit)

    def _check_leaders(self, kept: list[int], limit: int) -> None:
        """The first kept documents of each bucket are in it, not in its list alone."""
        if not kept:
            return
        records = self.generation._documents.records(kept)
        bands = self.generation.view.codec.unpack([records[one].signature for one in kept]).keys
        by_key: dict[int, list[int]] = {}
        for number, keys in zip(kept, bands.tolist(), strict=True):
            for key in set(keys):
                by_key.setdefault(key, []).append(number)
        listed = list(by_key)
        members = self.generation._buckets.find(np.array(listed, np.uint64))
        for at, key in enumerate(listed):
            first = sorted(by_key[key])[:limit]
            assert set(first) <= set(members.get(at, ())), (key, first, members.get(at))

    def check_integrity(self) -> None:
        """After a repair, everything is in order, and every number is decided or given up."""
        self.generation.repair()
        assert self.generation.verify() == []

    def check_acknowledged(self) -> None:
        """Each id is there once, and every document that was acknowledged and not removed is."""
        ids = [record.id for record, _ in self.stored().values()]
        assert len(ids) == len(set(ids)), ids
        for id, text, one in self.acknowledged:
            if one.conflict or one.row.number in self.removed:
                continue
            record, _ = self.stored()[one.row.number]
            assert (record.id, self.text(record)) == (id, text)

    def close(self) -> None:
        names = f"{{{self.address.name}:*"
        client = self.servers._client(self.servers.masters[0])
        if keys := list(client.scan_iter(match=names, count=10_000)):
            client.delete(*keys)


def random_ops(world: World, writers: int, *, removing: bool = False) -> list[list[Op]]:
    """What some writers do with similar texts; some ids are used twice."""
    chance = world.chance
    texts = [text for text in batch_engine.texts(world.seed, 60, words=6) if text.strip(" !?")]
    places, used = count(), []
    given: list[list[Op]] = []
    for _ in range(writers):
        ops = []
        for _ in range(chance.randint(1, 3)):
            if removing and used and chance.random() < 0.5:
                ops.append(Op(remove=chance.choice(used)))
                continue
            batch: dict[str, str] = {}
            for _ in range(chance.randint(1, 4)):
                text = texts[next(places) % len(texts)]
                if used and chance.random() < 0.15:
                    batch[chance.choice(used)] = text
                else:
                    batch[f"d{next(places)}"] = text
            used += batch
            ops.append(Op(add=list(batch.items())))
        given.append(ops)
    return given
