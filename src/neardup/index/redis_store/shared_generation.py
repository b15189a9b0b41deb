"""An open index on Redis: its settings, what reads it, and the thread that adds to it."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Final

import orjson

from neardup.errors import FormatError
from neardup.index.arrivals import ArrivalSketcher, SignatureCodec
from neardup.index.base_generation import BaseGeneration
from neardup.index.decider import Decider
from neardup.index.generation import OpenOptions
from neardup.index.redis_store.buckets import FIRST_SLICES, Buckets
from neardup.index.redis_store.decision_store import DecisionStore
from neardup.index.redis_store.documents import Documents
from neardup.index.redis_store.enrolment import Enrolment
from neardup.index.redis_store.keyspace import FORMAT, Keyspace
from neardup.index.redis_store.overflow import Overflow
from neardup.index.redis_store.removal import Removal
from neardup.index.redis_store.scripts import load_script
from neardup.index.redis_store.servers import Call, Servers
from neardup.index.redis_store.shared_integrity import SharedIntegrity
from neardup.index.redis_store.shared_writer import SharedWriter
from neardup.index.redis_store.tables import SharedTables
from neardup.index.settings import IndexSettings
from neardup.index.stats import BucketSizes, Counters, Stats
from neardup.index.view import View
from neardup.keys import Key, require_key

PARTITIONS: Final = 16
CLUSTER_PARTITIONS: Final = 128
"""Of a new index: a batch takes a script for each, and each server of a cluster gets its share."""
LEASE_SECONDS: Final = 10.0
"""How long a process waits for another one that does not decide about a document."""
IDENTITY_BYTES: Final = 16


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
        self._documents = Documents(servers, self._keyspace)
        self._buckets = Buckets(servers, self._keyspace, self.identity)
        self._overflow = Overflow(servers, self._keyspace, self._buckets, self._documents)
        self._store = DecisionStore(servers, self._keyspace, self.identity)
        options = self.settings.options
        self._view = View(
            self._documents,
            SharedTables(self._buckets, self._documents),
            SignatureCodec.of(self.settings),
            Decider(options, self.settings.frequencies.weights),
        )
        self.counters = Counters()
        self.sketcher = ArrivalSketcher.of(self.settings, key, self.counters)
        parts = (self._store, self._buckets, self._overflow, self._documents, self._view)
        removal = Removal(*parts, self.counters, LEASE_SECONDS)
        self._integrity = SharedIntegrity(*parts, removal)
        self.writer: SharedWriter | None = None
        if not read_only:
            enrolment = Enrolment(*parts, self.counters, removal, LEASE_SECONDS)
            self.writer = SharedWriter(
                enrolment, self._view, self.counters, how.clock, how.most_waiting
            )

    @property
    def name(self) -> str:
        return self._keyspace.name

    @property
    def place(self) -> str:
        return str(self._servers.address)

    @property
    def view(self) -> View:
        return self._view

    @property
    def queue(self) -> SharedWriter | None:
        return self.writer

    def refresh(self) -> View:
        return self._view

    def count_documents(self) -> tuple[int, int]:
        return self._documents.counts()

    def stats(self) -> Stats:
        documents, kept = self._documents.counts()
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

    def verify(self) -> list[str]:
        return self._integrity.verify()

    def repair(self) -> list[str]:
        """Repair what a failover of servers has left behind; return what was done, a line each."""
        return self._integrity.repair()

    def finish_removals(self) -> int:
        """Finish the removals that processes which failed have left; return how many there were."""
        return self._integrity.removal.finish_all()

    def ping(self) -> None:
        """Raise ServersUnavailable if a server does not answer at this moment."""
        self._servers.ping()

    def close(self) -> None:
        """Finish queued requests, and close the connections."""
        if self.writer is not None:
            self.writer.close()
        self._servers.close()


def read_meta(servers: Servers) -> dict[str, Any] | None:
    """Return the settings of an index, or None if there is none."""
    key = Keyspace(servers.address.name, 1).meta
    listed = servers.run([Call(key, (b"HGETALL", key))])[0]
    if not listed:
        return None
    found = dict(zip(listed[::2], listed[1::2], strict=True))
    try:
        if int(found[b"format"]) != FORMAT:
            raise FormatError(
                f"{servers.address}: format version {found[b'format'].decode()}, this neardup reads "
                f"version {FORMAT}: use the neardup that wrote it, or build the index again"
            )
        meta = {
            **orjson.loads(found[b"settings"]),
            "partitions": int(found[b"partitions"]),
            "identity": found[b"identity"],
        }
    except (KeyError, ValueError):
        raise FormatError(
            f"{servers.address} is damaged, or no index: restore the servers' data, or give another "
            "name (?name=NAME)"
        ) from None
    blobs = {name: found.get(name.encode(), b"") for name in ("ignored", "frequencies")}
    return {**meta, **blobs, "unfinished": b"unfinished" in found}


def create_index(servers: Servers, settings: IndexSettings) -> None:
    """Make an index without documents, unless there is one."""
    stored = settings.stored
    plain = {name: value for name, value in stored.items() if not isinstance(value, bytes)}
    fields: list[Any] = []
    for name, value in stored.items():
        if isinstance(value, bytes):
            fields += [name, value]
    partitions = CLUSTER_PARTITIONS if servers.is_cluster else PARTITIONS
    fields += ["settings", orjson.dumps(plain), "format", FORMAT, "partitions", partitions]
    fields += ["identity", os.urandom(IDENTITY_BYTES), "unfinished", 1]
    call = Call.of_script(load_script("create"), [Keyspace(servers.address.name, 1).meta], fields)
    servers.run([call])


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
