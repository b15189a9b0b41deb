"""An open index on Redis: its settings, what reads it, and the thread that adds to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar, cast

import orjson

from neardup.errors import FormatError, NeardupError
from neardup.index.arrivals import ArrivalSketcher, SignatureCodec
from neardup.index.base_generation import BaseGeneration
from neardup.index.decider import Decider
from neardup.index.generation import OpenOptions
from neardup.index.lookup import LookupTables
from neardup.index.planner import RemoveRequest
from neardup.index.redis_store.buckets import FIRST_SLICES, SharedBuckets
from neardup.index.redis_store.decision_store import DecisionStore
from neardup.index.redis_store.documents import ListedDocuments, SharedDocuments
from neardup.index.redis_store.enrolment import Enrolment
from neardup.index.redis_store.keyspace import FORMATS, Keyspace
from neardup.index.redis_store.lease import Lease
from neardup.index.redis_store.numbering import Numbers
from neardup.index.redis_store.overflow import Overflow
from neardup.index.redis_store.removal import SharedRemoval
from neardup.index.redis_store.scripts import load_script
from neardup.index.redis_store.server_clock import ServerClock
from neardup.index.redis_store.servers import Call, Servers
from neardup.index.redis_store.shared_integrity import SharedIntegrity
from neardup.index.redis_store.shared_writer import SharedWriter
from neardup.index.redis_store.tables import SharedTables
from neardup.index.removal import slices
from neardup.index.settings import IndexSettings
from neardup.index.stats import BucketSizes, Counters, Stats
from neardup.index.store import Row
from neardup.index.view import TablesBehind, View
from neardup.keys import Key, require_key

T = TypeVar("T")
PARTITIONS: Final = 8
CLUSTER_PARTITIONS: Final = 128
"""Of a new index: a batch takes a script for each, and each server of a cluster gets its share."""
LEASE_SECONDS: Final = 10.0
"""How long a process waits for another one that does not decide about a document."""
IDENTITY_BYTES: Final = 16
KEPT_TOGETHER: Final = 64
"""Kept documents that a step removes: the copies of each are judged again."""


class SharedGeneration(BaseGeneration):
    """An index on servers that any number of processes add to. Usable in any thread.

    It has no tables of its own: every question is answered from what the servers have.
    """

    pauses: ClassVar[tuple[float, ...]] = (0.0, 0.001, 0.01, 0.1, 1.0, LEASE_SECONDS)

    def __init__(
        self,
        servers: Servers,
        meta: dict[str, Any],
        key: Key | None,
        how: OpenOptions,
        *,
        read_only: bool,
    ) -> None:
        self._servers, self.key = servers, key
        where = str(servers.address)
        self.settings = IndexSettings.of_stored(meta, where)
        require_key(self.settings.options.spec, key)
        self._keyspace = Keyspace(servers.address.name, int(meta["partitions"]))
        self.identity: bytes = meta["identity"]
        self._documents = SharedDocuments(servers, self._keyspace)
        self._buckets = SharedBuckets(servers, self._keyspace, self.identity)
        self._overflow = Overflow(servers, self._keyspace, self._buckets, self._documents)
        self._store = DecisionStore(servers, self._keyspace, self.identity)
        options = self.settings.options
        self._view = View(
            self._documents,
            # A view calls no other methods of tables than it has.
            cast(LookupTables, SharedTables(self._buckets, self._documents)),
            SignatureCodec.of(self.settings),
            Decider(options, self.settings.frequencies.weights),
        )
        self.counters = Counters()
        self.sketcher = ArrivalSketcher.of(self.settings, key, self.counters)
        parts = (self._store, self._buckets, self._overflow, self._documents, self._view)
        removal = SharedRemoval(*parts, self.counters, LEASE_SECONDS)
        self._removal = removal
        self._integrity = SharedIntegrity(*parts, removal)
        self.clock = how.clock or ServerClock(servers, self._keyspace.counter)
        self._upkeep = Lease(servers, self._keyspace.upkeep, LEASE_SECONDS)
        self.writer: SharedWriter | None = None
        if not read_only:
            numbers = Numbers(self._store)
            enrolments = [
                Enrolment(*parts, self.counters, removal, LEASE_SECONDS, numbers)
                for _ in range(SharedWriter.threads)
            ]
            self.writer = SharedWriter(
                enrolments, self._view, self.counters, self.clock, how.most_waiting
            )

    @property
    def name(self) -> str:
        return self._keyspace.name

    @property
    def place(self) -> str:
        return str(self._servers.address)

    @property
    def replicas(self) -> int:
        """How many replicas of a server have to have what is written."""
        return self._servers.replicas

    @property
    def view(self) -> View:
        return self._view

    @property
    def queue(self) -> SharedWriter | None:
        return self.writer

    @property
    def documents(self) -> SharedDocuments:
        return self._documents

    def refresh(self) -> View:
        return self._view

    def answer(self, question: Callable[[View], T]) -> T:
        try:
            return super().answer(question)
        except TablesBehind:
            if self.writer is None:
                raise
            self._removal.finish_all()  # others have left them, for longer than a lease
            return super().answer(question)

    def count_documents(self) -> tuple[int, int]:
        self._buckets.require_present()  # keys that were deleted would count as no documents
        return self._documents.counts()

    def stats(self) -> Stats:
        documents, kept = self.count_documents()
        last = self._documents.last_number()
        used = {
            f"{host}:{port}": int(memory)
            for (host, port), memory in self._servers.memory_used().items()
        }
        writer = self.writer
        return Stats(
            documents,
            kept,
            documents - kept,
            0,
            last,
            last,
            0 if writer is None else writer.waiting,
            0 if writer is None else writer.most_waiting,
            self._view.codec.lsh.count,
            used,
            None,
            {},
            {},
            0,
            BucketSizes(self._buckets.count(), 0, 0, 0, self._overflow.count()),
            self.counters,
        )

    def remove_batch(self, ids: Sequence[str]) -> list[bool]:
        queue = self.require_queue()
        requests = [queue.put(RemoveRequest(id)) for id in ids]
        return [request.done.result() for request in requests]

    def remove_in_steps(
        self, numbers: Sequence[int], still: Callable[[Row], bool]
    ) -> Iterator[list[int]]:
        """Remove documents in steps, copies first: nothing depends on them."""
        self.require_queue()
        rest = []
        for some in slices(sorted(numbers)):
            rows = self._rows_to_remove(some, still)
            copies = [row.number for row in rows if row.witness is not None]
            removed = self._removal.remove_copies(copies)
            self.counters.removed += len(removed)
            rest += [row.number for row in rows if row.number not in set(removed)]
            yield removed
        for start in range(0, len(rest), KEPT_TOGETHER):
            rows = self._rows_to_remove(rest[start : start + KEPT_TOGETHER], still)
            removed = self._removal.remove_kept([row.number for row in rows])
            others = [row.number for row in rows if row.number not in removed]
            removed += [number for number in others if self._removal.remove([number])]
            self.counters.removed += len(removed)
            yield removed

    def _rows_to_remove(self, numbers: Sequence[int], still: Callable[[Row], bool]) -> list[Row]:
        rows = self.answer(lambda view: view.store.rows(numbers))
        return [rows[number] for number in sorted(rows) if still(rows[number])]

    def hold_upkeep(self) -> bool:
        """Return whether this process is the one that does the upkeep for all of them now."""
        return self._upkeep.hold()

    def verify(self) -> list[str]:
        self._buckets.require_present()
        return self._integrity.verify()

    def repair(self) -> list[str]:
        """Repair what a failover of servers has left behind; return what was done, a line each."""
        self._buckets.require_present()
        return self._integrity.repair()

    def finish_removals(self) -> int:
        """Finish the removals that processes which failed have left; return how many there were."""
        return self._integrity.removal.finish_all()

    def ping(self) -> None:
        """Raise ServersUnavailable if a server does not answer at this moment."""
        self._servers.ping()

    def list_documents(self) -> ListedDocuments:
        """Return all documents that are stored now, to read them in order."""
        return ListedDocuments(self._documents)

    def close(self) -> None:
        """Finish queued requests, and close the connections."""
        if self.writer is not None:
            self.writer.close()
            with suppress(NeardupError):  # or another process takes it over after a while
                self._upkeep.release()
        self._servers.close()


def read_meta(servers: Servers) -> dict[str, Any] | None:
    """Return the settings of an index, or None if there is none."""
    if servers.is_new:
        return None
    key = Keyspace(servers.address.name, 1).meta
    listed = servers.run([Call(key, (b"HGETALL", key))])[0]
    if not listed:
        return None
    found = dict(zip(listed[::2], listed[1::2], strict=True))
    try:
        if int(found[b"format"]) not in FORMATS:
            raise FormatError(
                f"{servers.address}: format version {found[b'format'].decode()}, this neardup "
                f"reads versions {FORMATS[0]} to {FORMATS[-1]}: use the neardup that wrote it, or "
                "build the index again"
            )
        meta = {
            **orjson.loads(found[b"settings"]),
            "partitions": int(found[b"partitions"]),
            "identity": found[b"identity"],
        }
    except (KeyError, ValueError):
        raise FormatError(
            f"{servers.address} is damaged, or no index: restore the servers' data, or give "
            "another name (?name=NAME)"
        ) from None
    names = ("ignored", "frequencies", "centre")
    blobs = {name: found.get(name.encode(), b"") for name in names}
    flags = {name: name.encode() in found for name in ("unfinished", "loading")}
    return {**meta, **blobs, **flags}


def create_index(servers: Servers, settings: IndexSettings, *, loading: bool = False) -> bool:
    """Make an index without documents, unless there is one.

    Args:
        servers: The servers.
        settings: The settings of the index.
        loading: No other process may open it until `end_loading`.

    Returns:
        Whether it was made.
    """
    stored = settings.stored
    plain = {name: value for name, value in stored.items() if not isinstance(value, bytes)}
    fields: list[Any] = []
    for name, value in stored.items():
        if isinstance(value, bytes):
            fields += [name, value]
    partitions = CLUSTER_PARTITIONS if servers.several else PARTITIONS
    servers.prepare(partitions)
    version = FORMATS[settings.options.vectors is not None]
    fields += ["settings", orjson.dumps(plain), "format", version, "partitions", partitions]
    fields += ["identity", os.urandom(IDENTITY_BYTES), "unfinished", 1]
    fields += ["loading", 1] if loading else []
    call = Call.of_script(load_script("create"), [Keyspace(servers.address.name, 1).meta], fields)
    return bool(servers.run([call])[0] == 1)


def finish_creation(servers: Servers, meta: dict[str, Any]) -> None:
    """Make the partitions of a new index; any number of processes may do so at once."""
    keyspace = Keyspace(servers.address.name, meta["partitions"])
    first = {b"identity": meta["identity"], b"slices": FIRST_SLICES}
    servers.run(
        [
            Call(key, (b"HSETNX", key, name, value))
            for key in map(keyspace.partition_meta, range(keyspace.partitions))
            for name, value in first.items()
        ]
    )
    servers.run([Call(keyspace.meta, (b"HDEL", keyspace.meta, "unfinished"))])
