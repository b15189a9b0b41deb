"""Fill a new index on Redis with decided documents: of an export, or of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from neardup.index.arrivals import SignatureCodec
from neardup.index.redis_store.buckets import SharedBuckets
from neardup.index.redis_store.decision_store import Change, DecisionStore
from neardup.index.redis_store.documents import SharedDocuments
from neardup.index.redis_store.keyspace import (
    BLOCK,
    Keyspace,
    Record,
    State,
    add_sum,
    bucket_keys,
    offset_of,
)
from neardup.index.redis_store.overflow import Overflow
from neardup.index.redis_store.servers import Call, Servers
from neardup.index.settings import IndexSettings
from neardup.index.store import Row


class SharedLoader:
    """Stores the rows of a new index that no other process adds to; it needs no key.

    Args:
        servers: The servers.
        meta: The stored settings of the index, of `read_meta`.
    """

    def __init__(self, servers: Servers, meta: dict[str, Any]) -> None:
        self._servers = servers
        settings = IndexSettings.of_stored(meta, str(servers.address))
        self._limit, self._codec = settings.options.limit, SignatureCodec.of(settings)
        self._keyspace = Keyspace(servers.address.name, int(meta["partitions"]))
        identity: bytes = meta["identity"]
        self._buckets = SharedBuckets(servers, self._keyspace, identity)
        documents = SharedDocuments(servers, self._keyspace)
        self._overflow = Overflow(servers, self._keyspace, self._buckets, documents)
        self._store = DecisionStore(servers, self._keyspace, identity)
        self._waiting: list[tuple[int, int]] = []
        """Witness and number of copies whose witness is not stored yet: it has a higher number."""
        self._last = 0
        self.documents = self.kept = 0

    def add(self, rows: Sequence[Row], blobs: Mapping[str, Sequence[tuple[int, Any]]]) -> None:
        """Store decided documents.

        Args:
            rows: The documents, in the order of their numbers, which follow those of earlier calls.
            blobs: Their signatures, shingles and texts, by table: number, bytes.
        """
        by_table = {table: dict(listed) for table, listed in blobs.items()}
        signatures = by_table["signatures"]
        calls = []
        for block, among in groupby(rows, lambda row: row.number // BLOCK):
            columns: dict[str, list[Any]] = {"r": [], "h": [], "t": []}
            for row in among:
                number, offset = row.number, offset_of(row.number)
                record = Record(
                    row.id, row.content, row.added, row.metadata, signatures[row.number]
                )
                columns["r"] += [offset, record.pack(number)]
                for table, letter in (("shingles", "h"), ("texts", "t")):
                    if number in by_table.get(table, ()):
                        columns[letter] += [offset, add_sum(number, by_table[table][number])]
            for letter, fields in columns.items():
                if fields:
                    key = self._keyspace.of_document(letter, block * BLOCK)
                    calls.append(Call(key, (b"HSET", key, *fields)))
        self._servers.run(calls)
        self._enter(rows, signatures)
        changes = [Change(row.number, b"", State.of_row(row).pack(row.number)) for row in rows]
        self._store.settle(changes)
        self._join([(row.witness, row.number) for row in rows if row.witness is not None])
        self.documents += len(rows)
        self.kept += sum(row.witness is None for row in rows)
        self.reach(max((row.number for row in rows), default=0))

    def _join(self, pairs: Sequence[tuple[int, int]]) -> None:
        joined = self._store.join(pairs)
        self._waiting += [pair for pair, done in zip(pairs, joined, strict=True) if not done]

    def _enter(self, rows: Sequence[Row], signatures: Mapping[int, bytes]) -> None:
        """Append documents to their buckets: copies to that of the id alone."""
        contents = np.frombuffer(b"".join(row.content for row in rows), np.uint64).reshape(-1, 2)
        bands = self._codec.unpack([signatures[row.number] for row in rows]).keys
        keys = bucket_keys(bands, contents, [row.id for row in rows])
        numbers = np.repeat(np.array([row.number for row in rows], np.int64), keys.shape[1])
        wanted = np.zeros(keys.shape, bool)
        wanted[:, -1] = True
        wanted[[row.witness is None for row in rows], :] = True
        places = np.flatnonzero(wanted.reshape(-1))
        flat = keys.reshape(-1)[places]
        members = self._buckets.append(flat, numbers[places]).members
        full = [place for place, listed in members.items() if len(listed) >= self._limit]
        self._overflow.add([(int(flat[at]), int(numbers[places[at]]), 0) for at in sorted(full)])

    def reach(self, number: int) -> None:
        """Reserve all numbers up to this one, also those of documents that were removed."""
        self._last = max(self._last, number)

    def finish(self) -> None:
        """Let others open the index; new documents get larger numbers than those that are there."""
        waiting, self._waiting = self._waiting, []
        self._join(waiting)
        meta, counter = self._keyspace.meta, self._keyspace.counter
        self._servers.run([Call(counter, (b"SET", counter, self._last))])
        self._servers.run([Call(meta, (b"HDEL", meta, "loading"))])
