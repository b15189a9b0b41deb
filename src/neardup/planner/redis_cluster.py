"""Sizes the Redis servers of an index: memory, masters, rate, processes that add.

Bytes follow from the layout (`index/redis_store/keyspace.py`): a kept document is in a bucket for
each band, one for its content and one for its id; of a copy only the last stays. Record and
shingles are fields of hashes that are too long to be packed, which Redis allocates in steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from neardup.formatting import format_bytes, format_count
from neardup.index.redis_store.keyspace import RECORD
from neardup.index.redis_store.shared_generation import CLUSTER_PARTITIONS
from neardup.options import Options
from neardup.planner.costs import Costs
from neardup.planner.prediction import stored_bytes
from neardup.planner.requirements import Sla
from neardup.planner.unmet_limits import UnmetLimit
from neardup.planner.workload import Workload

CHECKSUM: Final = 8
LEAST_CLUSTER: Final = 3
"""Masters of the smallest cluster; else there is one server."""
ROOM: Final = 0.75
"""The share of a machine's memory for data: the rest is for rewriting the append-only file."""
REWRITTEN: Final = 2
"""Append-only files may be as large as this many times the data, until they are rewritten."""
ALL_NUMBERS: Final = 1 << 32


@dataclass(frozen=True)
class RedisCosts:
    """What a document costs on Redis, besides its sketch; seconds are those of one core.

    base          bytes of a server without data
    bucket        bytes of a bucket with one document, in a packed hash
    field         bytes that Redis adds to a value in a hash that is not packed, keys included
    state         bytes of a document's state, packed
    joined        bytes that a copy adds: its longer state, and its place in the list of its cluster
    server        seconds of a master for a document
    server_bucket the same for each of its buckets
    server_byte   the same for each byte that is stored of it
    server_pair   seconds of a master to hand out a document that another one is compared with
    pair_byte     the same for each byte of its shingles
    client        seconds of the process that adds it
    client_bucket the same for each of its buckets
    client_pair   seconds of the process to read and compare a document that another one meets
    client_byte   the same for each byte of its shingles
    busy          the share of the time that servers and processes may work
    source        where the figures come from, for people
    """

    base: float = 1.3e6
    bucket: float = 20.5
    field: float = 54.0
    state: float = 11.0
    joined: float = 66.0
    server: float = 5e-6
    server_bucket: float = 3.1e-6
    server_byte: float = 3e-9
    server_pair: float = 1.7e-6
    pair_byte: float = 7.5e-10
    client: float = 1.5e-5
    client_bucket: float = 5.3e-7
    client_pair: float = 9e-6
    client_byte: float = 2.2e-9
    busy: float = 0.7
    source: str = "stored figures, of Redis 7.0 with an append-only file and batches of 256"


MEASURED: Final = RedisCosts()


@dataclass(frozen=True)
class RedisSize:
    """The servers of an index on Redis, and what they do.

    Attributes:
        data: Bytes that all masters use together.
        document: Bytes of a document of them.
        masters: One server, or three and more masters of a cluster; each has a replica besides.
        memory: Bytes of memory of a machine with a master or a replica.
        disk: Bytes of its append-only files at most.
        rate: Documents that all masters take in a second.
        server_seconds: Seconds of a core that a document takes a master.
        process_rate: Documents that one process adds in a second.
        process_seconds: Seconds of a core that a document takes this process.
        processes: Processes that are needed for the required rate; without one, to use the masters.
        moved: The share of the keys that move to one more master.
        source: Where the figures come from.

    >>> from neardup import plan
    >>> size = plan("100M", engine="redis", memory="64GB", calibrate=False).redis
    >>> size.masters >= 3, size.memory
    (True, 64000000000)
    """

    data: float
    document: float
    masters: int
    memory: float
    disk: float
    rate: float
    server_seconds: float
    process_rate: float
    process_seconds: float
    processes: int
    moved: float
    source: str


@dataclass(frozen=True)
class RedisIndex:
    """An index on Redis at one operating point.

    sla        the requirements; memory and disk are those of a machine with a server
    costs      seconds of each kind of work in this process
    workload   amounts per document
    options    the operating point
    redis      what Redis adds
    """

    sla: Sla
    costs: Costs
    workload: Workload
    options: Options
    redis: RedisCosts = MEASURED

    @cached_property
    def document(self) -> float:
        """Bytes of a document on the masters."""
        added, load, options = self.redis, self.workload, self.options
        tables, removed = options.hash_tables.count, load.removed
        keys = 8 * tables if options.spec.narrow else 0
        record = RECORD.size + load.id + stored_bytes(options) + keys + CHECKSUM
        return (
            ((1 - removed) * (tables + 1) + 1) * added.bucket
            + allocated(record)
            + allocated(self._set_bytes)
            + 2 * added.field
            + added.state
            + removed * added.joined
        )

    @property
    def _set_bytes(self) -> float:
        """Bytes of a document's shingles, which are stored whatever the verification."""
        return 8 * self.sla.shingles + CHECKSUM

    @property
    def server_seconds(self) -> float:
        """Seconds of a master for a document."""
        added = self.redis
        stored = self.document * added.server_byte
        read = added.server_pair + self._set_bytes * added.pair_byte
        adding = added.server + self._buckets * added.server_bucket + stored
        return adding + self.workload.compared * read

    @property
    def client_seconds(self) -> float:
        """Seconds of a core for a document in the process that adds it."""
        spec, sla = self.options.spec, self.sla
        sketched = self.costs.sketch(spec.sketch, spec.slots, sla.shingles, sla.size)
        added = self.redis
        compared = self.workload.compared * (
            added.client_pair + self._set_bytes * added.client_byte
        )
        return sketched + compared + added.client + self._buckets * added.client_bucket

    @property
    def _buckets(self) -> int:
        return self.options.hash_tables.count + 2

    def size(self) -> RedisSize:
        """Return the servers: as few as hold the documents and take the required rate."""
        documents = self.sla.documents * self.document
        masters = self._count_masters(documents)
        data = documents + masters * self.redis.base
        memory = data / masters / ROOM if self.sla.memory is None else self.sla.memory
        rate = masters * self.redis.busy / self.server_seconds
        process_rate = self.redis.busy / self.client_seconds
        wanted = rate if self.sla.rate is None else self.sla.rate
        return RedisSize(
            data,
            self.document,
            masters,
            memory,
            REWRITTEN * data / masters,
            rate,
            self.server_seconds,
            process_rate,
            self.client_seconds,
            math.ceil(wanted / process_rate),
            1 / (masters + 1),
            self.redis.source,
        )

    def _count_masters(self, data: float) -> int:
        needed = [(self.sla.rate or 0.0) * self.server_seconds / self.redis.busy]
        if self.sla.memory is not None:
            needed.append(data / (ROOM * self.sla.memory))
        if self.sla.disk is not None:
            needed.append(REWRITTEN * data / self.sla.disk)
        masters = math.ceil(max(needed))
        return max(masters, LEAST_CLUSTER) if masters > 1 else 1


def allocated(value: float) -> int:
    """Return the bytes that Redis allocates for a value in a hash, with the head of the string.

    >>> allocated(100), allocated(550), allocated(2_400)
    (112, 640, 2560)
    """
    size = value + (4 if value < 256 else 6)
    if size <= 128:
        return 16 * math.ceil(size / 16)
    step = 1 << (math.ceil(size) - 1).bit_length() - 3
    return step * math.ceil(size / step)


def find_redis_problems(size: RedisSize, sla: Sla) -> Iterator[UnmetLimit]:
    """Yield the requirements that no number of servers can meet."""
    if size.masters > CLUSTER_PARTITIONS:
        message = (
            f"{format_count(size.masters, 'master')} are needed, an index is spread over "
            f"{CLUSTER_PARTITIONS}"
        )
        largest = size.data / CLUSTER_PARTITIONS
        cures = [
            f"give machines of {format_bytes(largest / ROOM)} of memory and "
            f"{format_bytes(REWRITTEN * largest)} of disk",
            f"ask for fewer than {size.rate / size.masters * CLUSTER_PARTITIONS:,.0f} documents a "
            "second",
        ]
        yield UnmetLimit("machines", CLUSTER_PARTITIONS, size.masters, message, cures)
    if sla.documents >= ALL_NUMBERS:
        message = f"{sla.documents:,} documents are more than the {ALL_NUMBERS - 1:,} of one index"
        yield UnmetLimit(
            "documents", sla.documents, ALL_NUMBERS - 1, message, ["make several indexes (?name=)"]
        )
