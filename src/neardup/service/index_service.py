"""The index that all requests share: threads that query and change it, start and stop.

Texts that are checked at the same time are answered together: one call of the index for many texts
costs hardly more than one for a single text, and a thread is woken once instead of many times. No
request waits for others: the texts that arrive during one call are answered by the next call.

Keys, and addresses without one, take turns: at the threads, in a call with many texts, and at the
writer of the index (`turns.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from neardup.errors import Busy, ServersUnavailable
from neardup.first_look import describe_limit
from neardup.index.answer import Answer
from neardup.index.expiry import Retention
from neardup.index.redis_store.address import RedisAddress, is_redis
from neardup.index.vector_settings import require_texts_alone
from neardup.keys import Key
from neardup.service import supervisor
from neardup.service.access import AccessGate
from neardup.service.api_keys import ApiKeys
from neardup.service.background import (
    CHECK_SECONDS,
    BackgroundThread,
    GoldenSet,
    GoldenWatch,
    Upkeep,
)
from neardup.service.limits import ServiceLimits
from neardup.service.logs import Log
from neardup.service.metrics import Metrics
from neardup.service.servers_watch import ServersWatch
from neardup.service.shared_rates import Client, SharedRates
from neardup.service.turns import FairPool, FairQueue, Turns
from neardup.spec import Spec

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.index.stats import Stats
    from neardup.service.middleware import RequestRecord

MOST_QUERIES: Final = 64
MOST_CHARACTERS: Final = 1 << 20
"""A call with more text than this would keep other requests waiting."""
Waiting = tuple[str, str | None, "asyncio.Future[Answer]"]
"""A text, its group, and the answer to come."""


class QueryBatcher:
    """Collects the texts of waiting requests, and queries them together in a thread.

    Used by one event loop.

    Args:
        answer: returns the answers to texts of groups, in order; called in a thread.
        executor: runs `answer`.
    """

    def __init__(
        self, answer: Callable[[list[str], list[str | None]], list[Answer]], executor: Executor
    ) -> None:
        self._answer, self._executor = answer, executor
        self._waiting: FairQueue[Waiting] = FairQueue()
        self._busy = False
        """Whether a call is running or scheduled."""

    def ask(self, text: str, group: str | None = None, party: str = "") -> asyncio.Future[Answer]:
        """Return a future of the answer to a text of a group, for a key or an address."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.put(party, (text, group, future))
        if not self._busy:
            # Not at once: requests that arrived together with this one are read first.
            self._busy = True
            loop.call_soon(self._start)
        return future

    def _start(self) -> None:
        batch = self._take_batch()
        self._busy = bool(batch)
        if not batch:
            return
        texts, groups = [text for text, _, _ in batch], [group for _, group, _ in batch]
        futures = [future for _, _, future in batch]
        loop = asyncio.get_running_loop()
        try:
            work = loop.run_in_executor(self._executor, self._answer, texts, groups)
        except RuntimeError as error:  # No thread can be started; later requests try again.
            self._busy = False
            _fail_all(futures, error)
        else:
            work.add_done_callback(partial(self._finish, futures))

    def _take_batch(self) -> list[Waiting]:
        """Remove the texts of the next call from those that wait."""
        batch: list[Waiting] = []
        characters = MOST_CHARACTERS
        while self._waiting and len(batch) < MOST_QUERIES and characters > 0:
            text, group, future = self._waiting.take()
            if not future.done():  # A cancelled request is skipped.
                batch.append((text, group, future))
                characters -= len(text)
        return batch

    def _finish(
        self, futures: list[asyncio.Future[Answer]], work: asyncio.Future[list[Answer]]
    ) -> None:
        if (error := work.exception()) is not None:
            _fail_all(futures, error)
        else:
            for future, answer in zip(futures, work.result(), strict=True):
                if not future.done():
                    future.set_result(answer)
        self._start()


def _fail_all(futures: list[asyncio.Future[Answer]], error: BaseException) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)


READERS: Final = 2
WRITERS: Final = 2
"""Threads that query the index, and threads that sketch new documents; the index commits."""
CHECKERS: Final = 1
"""Threads that check single texts, many in a call; so they don't wait for requests with many."""
STORING: Final = 1_024
"""Documents that are being sketched and stored; those of further requests wait for a turn.

Enough for a full batch that is sketched while another is stored, and for all single documents."""
REMOVERS: Final = 2
"""Threads that remove documents: copies that lose their witness may take seconds."""
SCANNERS: Final = 1
"""Threads that go through whole tables: queries don't wait for them, and neither do metrics."""
Say = Callable[[str], None]
Result = TypeVar("Result")
Stored = Future[list[Answer]]


class IndexService:
    """Loads the index in the background when it starts, and closes it at the end.

    Used by one event loop; the index is used in threads.

    Args:
        load: opens the index; called with a function for messages to the operator.
        limits: the limits of requests and connections.
        data: the folder with the index and the API keys, or the address of its servers.
        log: gets an event for each request, and others.
        guarded: whether API keys are required.
        golden: labelled pairs that are checked periodically.
        golden_every: seconds between two checks.
        next_key: the secret key of the generation that may replace the current one.
        supplied_key: an API key with all rights that is not stored.
        audited: whether the log says which key added or removed which ids.
        retention: how long documents stay; None for ever.
    """

    def __init__(
        self,
        load: Callable[[Say], Index],
        limits: ServiceLimits,
        data: str | Path,
        *,
        log: Log,
        guarded: bool,
        golden: GoldenSet | None = None,
        golden_every: float = CHECK_SECONDS,
        next_key: Key | None = None,
        supplied_key: str | None = None,
        audited: bool = False,
        retention: Retention | None = None,
    ) -> None:
        self.limits, self.log, self._audited = limits, log, audited
        self._data, self.keys = data, ApiKeys(data, supplied_key)
        self._rates: SharedRates | None = None
        self.gate = AccessGate(limits, self.keys, self._say, guarded=guarded)
        self.metrics = Metrics(self.stats)
        self.metrics.watch_places(
            requests=lambda: self.gate.requests.taken, streams=lambda: self.gate.streams.taken
        )
        log.when_dropped = self.metrics.observe_dropped_lines
        self._golden: GoldenWatch | None = None
        if golden is not None:
            self._golden = GoldenWatch(
                golden, lambda: self.index, self.metrics, log.event, golden_every
            )
        self._next_key, self._retention = next_key, retention
        self._upkeep: Upkeep | None = None
        self._watch: ServersWatch | None = None
        self.failure: Exception | None = None
        self.when_failed: Callable[[], None] = lambda: None
        self.stopping: Callable[[], bool] = lambda: False
        self._load = load
        self._index: Index | None = None
        self._loading: asyncio.Task[None] | None = None
        self._reads = FairPool(READERS, "read")
        self._writes = FairPool(WRITERS, "write")
        self._removals = FairPool(REMOVERS, "remove")
        self._scans = FairPool(SCANNERS, "scan")
        self._storing = Turns(STORING)
        self._checkers = ThreadPoolExecutor(CHECKERS, "check")
        self._renders = ThreadPoolExecutor(1, "metrics")
        self._checks = QueryBatcher(
            lambda texts, groups: self.index.query_batch(texts, within=groups), self._checkers
        )

    @property
    def index(self) -> Index:
        """The index; raises `Busy` while it is being loaded, and an error while its servers are
        silent."""
        if self._index is None:
            raise Busy("the index is being loaded: wait until /readyz answers 200")
        if (outage := self._outage) is not None:
            raise ServersUnavailable(outage)
        return self._index

    def reload(self, limits: ServiceLimits, supplied_key: str | None) -> None:
        """Go on with other limits, and another supplied key.

        Args:
            limits: the limits.
            supplied_key: an API key with all rights that is not stored, instead of the one before.
        """
        self.limits = limits
        self.gate.change_limits(limits)
        self.log.most = limits.log_bytes
        self.keys.supply(supplied_key)

    @property
    def _outage(self) -> str | None:
        return None if self._watch is None else self._watch.outage

    def stats(self) -> Stats | None:
        """Return the statistics of the index; None while there are none."""
        return None if self._index is None or self._outage is not None else self._index.stats()

    def audit(self, record: RequestRecord, event: str, ids: list[str]) -> None:
        """Log which key has changed the documents with these ids, if that is wanted.

        Args:
            record: the record of the request.
            event: added or removed.
            ids: the ids.
        """
        if self._audited and ids:
            self.log.event(event, request_id=record.id, by=record.party, ids=ids)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of every answer: fingerprint and sequence of the index.

        An index on Redis would have to ask its servers for the sequence: it is left out.
        """
        index = self._index
        if index is None:
            return []
        headers = [(b"x-neardup-fingerprint", _fingerprint(index.spec))]
        if not is_redis(index.path):
            headers.append((b"x-neardup-sequence", b"%d" % index.sequence))
        return headers

    async def check(self, party: str, text: str, group: str | None = None) -> Answer:
        """Query the index for one text of a group, batched with those of other requests.

        Args:
            party: the key or the address that asks, here and below.
            text: the text.
            group: the group of the text.
        """
        grouped = bool(self.index.settings.within)
        if group is not None and not grouped:  # refused, but not together with others
            return await self.read(party, lambda index: index.query(text, within=group))
        return await self._checks.ask(text, group, party)

    async def render_metrics(self) -> bytes:
        """Return all metrics, also while the index is being loaded."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._renders, self.metrics.render)

    def count_documents(self) -> int:
        """Return the number of documents; of an index on Redis, as it was a second ago."""
        index = self.index
        return len(index) if self._watch is None else self._watch.documents

    async def scan(self, party: str, query: Callable[[Index], Result]) -> Result:
        """Go through whole tables of the index, in a thread of their own."""
        return await self._scans.run(party, partial(query, self.index))

    async def read(self, party: str, query: Callable[[Index], Result]) -> Result:
        """Query the index, in a thread."""
        return await self._reads.run(party, partial(query, self.index))

    async def add(
        self, party: str, documents: int, submit: Callable[[Index], Stored]
    ) -> list[Answer]:
        """Add documents without blocking a thread while they are stored.

        Args:
            party: the key or the address that adds them.
            documents: their number.
            submit: sketches them, and queues them for the writer of the index.
        """
        index = self.index
        async with self._storing.take(party, documents):
            stored = await self._writes.run(party, partial(submit, index))
            # A cancelled request does not cancel documents that are being stored.
            return await asyncio.shield(asyncio.wrap_future(stored))

    async def write(self, party: str, change: Callable[[Index], Result]) -> Result:
        """Change the index in a thread; the change is durable when this returns."""
        return await self._writes.run(party, partial(change, self.index))

    async def remove(self, party: str, ids: Sequence[str]) -> list[bool]:
        """Remove documents, in a thread; return for each id whether a document had it."""
        return await self._removals.run(party, partial(self.index.remove_batch, ids))

    def start(self) -> None:
        """Start to load the index."""
        self._loading = asyncio.create_task(self._open())

    def _say(self, message: str) -> None:
        self.log.event("message", message=message)

    def _load_and_warm(self) -> Index:
        index = self._load(self._say)
        if self._golden is not None:
            require_texts_alone(index.options, "a golden set", "leave out --golden")
        # The first query takes a second or two, until all kernels are loaded.
        vector = [1.0] * index.spec.dimension or None
        index.query("the first query", vector=vector)
        if is_redis(index.path):
            self._rates = SharedRates(RedisAddress.parse(str(self._data)))
        return index

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            index = await loop.run_in_executor(None, self._load_and_warm)
        except Exception as error:  # the server raises it when it has stopped
            self.failure = error
            self.when_failed()
        else:
            self._index = index
            self.log.event("ready", documents=len(index), sequence=index.sequence)
            supervisor.notify(supervisor.READY)
            if (limit := describe_limit(index.options)) is not None:
                self._say(limit)
            self._start_background(index, loop)

    def _start_background(self, index: Index, loop: asyncio.AbstractEventLoop) -> None:
        events = self.metrics, self.log.event
        if (rates := self._rates) is not None:
            exchange = partial(self._exchange_rates, rates, loop)
            self._watch = ServersWatch(index, self.keys, exchange, *events)
        if self._watch is None or self._retention is not None:
            self._upkeep = Upkeep(index, *events, self._next_key, retention=self._retention)
        for thread in self._background:
            thread.start()

    @property
    def _background(self) -> list[BackgroundThread]:
        threads = (self._golden, self._upkeep, self._watch)
        return [thread for thread in threads if thread is not None]

    def _exchange_rates(self, rates: SharedRates, loop: asyncio.AbstractEventLoop) -> None:
        """Exchange with other services what clients have taken; in another thread than the gate."""

        async def take() -> dict[Client, int]:
            return {
                (kind, name): cost
                for kind, buckets in self.gate.rates.items()
                for name, cost in buckets.take_account().items()
            }

        async def owe(elsewhere: dict[Client, int]) -> None:
            for (kind, name), cost in elsewhere.items():
                self.gate.rates[kind].owe_for_others(name, cost, time.monotonic())

        taken = asyncio.run_coroutine_threadsafe(take(), loop).result()
        elsewhere = rates.exchange(taken, time.monotonic())
        asyncio.run_coroutine_threadsafe(owe(elsewhere), loop).result()

    async def stop(self) -> None:
        """Finish the requests under way, then close the index, with a snapshot if one is due."""
        supervisor.notify(supervisor.STOPPING)
        if self._loading is not None:
            await self._loading
        loop = asyncio.get_running_loop()
        for thread in self._background:
            await loop.run_in_executor(None, thread.stop)
        pools = (self._reads, self._writes, self._removals, self._scans)
        shared = (pool.threads for pool in pools)
        for threads in (*shared, self._checkers, self._renders):
            await loop.run_in_executor(None, threads.shutdown)
        if self._index is not None:
            await loop.run_in_executor(None, self._index.close)
            self.log.event("closed")
        self.keys.close()
        if self._rates is not None:
            self._rates.close()


@lru_cache(4)
def _fingerprint(spec: Spec) -> bytes:
    return spec.fingerprint.encode()
