"""Where the partitions of an index are that is spread over a ring of servers.

The rule is that of a `HashRing` of the servers: partition P of the index NAME is at home on the
server of the key NAME:P. Where it is at this moment is what the servers themselves say. Each has a
record, the hash {NAME:r}ring:

    id              random, the same on all servers
    epoch           how often the servers of the index were changed
    servers         the servers that have partitions, HOST:PORT, divided by commas
    target          while partitions are moved: the servers that shall have them
    mover           while partitions are moved: the token of the process that does
    forming         on the first server, until all have a record
    partitions      their number; they are numbered from 0, and there is the partition c
    P               H epoch: partition P is here, since that epoch
                    S token: it is being copied to this server
                    R attempt: it was copied, and waits to be taken over
                    G attempt server: it was handed over to that server
    moving:P        partition P is being copied from here: keys that are written are remembered,
                    in {NAME:r}ring:touched:P

A partition is where the H of the highest epoch is. All commands of other processes state the entry
that they expect, and a server that has another one refuses them. G is written in the moment in
which a partition is handed over; from then on any process may turn R into H on the other server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from neardup.hash_ring import HashRing
from neardup.index.redis_store.address import format_server, parse_server, parse_servers

CONTROL: Final = "c"
HERE, ARRIVING, READY, GONE = "H", "S", "R", "G"
Server = tuple[str, int]


def ring_key(name: str) -> bytes:
    """Return the key of the record of a server."""
    return f"{{{name}:r}}ring".encode()


def partition_of_key(key: bytes) -> str:
    """Return the partition of a key, by its hash tag.

    >>> partition_of_key(b"{posts:17}b0")
    '17'
    """
    return key[key.index(b":") + 1 : key.index(b"}")].decode()


def join_servers(servers: Iterable[Server]) -> str:
    """Return servers as a record has them: in order, whatever the order of an address is."""
    return ",".join(sorted(map(format_server, servers)))


def place_partitions(name: str, servers: Iterable[Server], partitions: int) -> dict[str, Server]:
    """Return the server on which each partition of an index is at home.

    >>> places = place_partitions("posts", [("a", 1), ("b", 1), ("c", 1)], 128)
    >>> places["0"], places["c"], len(places)
    (('c', 1), ('c', 1), 129)
    """
    named = {format_server(server): server for server in servers}
    ring = HashRing(named)
    return {each: named[ring.node(f"{name}:{each}")] for each in list_partitions(partitions)}


def list_partitions(count: int) -> list[str]:
    return [CONTROL, *map(str, range(count))]


@dataclass(frozen=True)
class RingRecord:
    """What one server says about the ring."""

    fields: Mapping[str, str]

    @classmethod
    def of_reply(cls, listed: Mapping[bytes, bytes]) -> RingRecord | None:
        """Return the record that a server has; None if it has none."""
        fields = {name.decode(): value.decode() for name, value in listed.items()}
        return cls(fields) if "id" in fields else None

    @property
    def id(self) -> str:
        return self.fields["id"]

    @property
    def epoch(self) -> int:
        return int(self.fields["epoch"])

    @property
    def servers(self) -> list[Server]:
        return list(parse_servers(self.fields["servers"]))

    @property
    def target(self) -> list[Server]:
        """The servers that shall have the partitions; none if nothing is moved."""
        target = self.fields.get("target")
        return [] if target is None else list(parse_servers(target))

    @property
    def named(self) -> set[Server]:
        """The servers that have partitions, or shall have them."""
        return {*self.servers, *self.target}

    @property
    def forming(self) -> bool:
        return "forming" in self.fields

    @property
    def partitions(self) -> int:
        return int(self.fields["partitions"])

    def entry(self, partition: str) -> str:
        """Return what it says about a partition; "" for nothing."""
        return self.fields.get(partition, "")


class PartitionPlace(NamedTuple):
    """Where a partition is, and the entry that its server has."""

    server: Server
    entry: str

    @property
    def epoch(self) -> int:
        return int(self.entry[1:])


Records = Mapping[Server, RingRecord]


def newest(records: Records) -> RingRecord:
    """Return the record of the last change of the servers."""
    return max(records.values(), key=lambda record: record.epoch)


def find_place(records: Records, partition: str) -> PartitionPlace | None:
    """Return where a partition is; None if no server has it, or has taken it over yet."""
    places = [
        PartitionPlace(server, entry)
        for server, record in records.items()
        if (entry := record.entry(partition)).startswith(HERE)
    ]
    return max(places, key=lambda place: place.epoch, default=None)


class HandOver(NamedTuple):
    """A partition that its server has given away."""

    source: Server
    entry: str
    target: Server
    ready: str
    """The entry that the target has, until it has taken the partition over."""


def find_hand_overs(records: Records, partition: str) -> list[HandOver]:
    """Return to which servers a partition was given."""
    found = []
    for server, record in records.items():
        entry = record.entry(partition)
        if entry.startswith(GONE):
            attempt, _, target = entry[1:].partition(" ")
            found.append(HandOver(server, entry, parse_server(target), READY + attempt))
    return found
