"""Standalone servers that have the partitions of one index, each those that a ring gives it.

Every command goes with the entry that the record of its server has to have for the partition
(`placing.py`), and is refused if that is another one: then the records are read again. So no
process can read or write a partition where it no longer is, whatever it knew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final

from neardup.errors import FormatError, NeardupError, OutputError, ServersUnavailable, UsageError
from neardup.index.redis_store.address import RedisAddress, format_server
from neardup.index.redis_store.keyspace import Keyspace
from neardup.index.redis_store.placing import (
    HERE,
    PartitionPlace,
    Records,
    RingRecord,
    Server,
    find_hand_overs,
    find_place,
    join_servers,
    list_partitions,
    newest,
    partition_of_key,
    place_partitions,
    ring_key,
)
from neardup.index.redis_store.scripts import Script, load_script
from neardup.index.redis_store.servers import Call, Servers

READS: Final = (b"GET", b"HGET", b"HGETALL", b"HKEYS", b"HMGET", b"SCARD", b"SMEMBERS", b"TIME")
"""Commands that change nothing; all others are taken for ones that do."""
ID_BYTES: Final = 8
PAUSE: Final = 0.05


def connect(address: RedisAddress, replicas: int = 0) -> Servers:
    """Connect to the servers of an index: one, a cluster, or those of a ring."""
    return (RingServers if address.ring else Servers)(address, replicas)


class RingServers(Servers):
    """Connections to all servers of a ring. Any thread may use it.

    Args:
        address: The servers and the name of the index.
        replicas: How many replicas have to have what is written.
        other_list: Whether the address may name other servers than the index has, to move it there.
    """

    passing = ("ELSEWHERE", "FROZEN")

    def __init__(
        self, address: RedisAddress, replicas: int = 0, *, other_list: bool = False
    ) -> None:
        self._other_list = other_list
        self._record: RingRecord | None = None
        """What the newest of all records says; None if there is no index."""
        self._places: dict[str, PartitionPlace] = {}
        super().__init__(address, replicas)

    @property
    def key(self) -> bytes:
        """The key of the records."""
        return ring_key(self.address.name)

    @property
    def record(self) -> RingRecord:
        """The newest record."""
        if self._record is None:
            raise UsageError(f"{self.address} holds no index: make one with neardup index build")
        return self._record

    @property
    def several(self) -> bool:
        return True

    @property
    def is_new(self) -> bool:
        return self._record is None

    @property
    def masters(self) -> list[Server]:
        return sorted(self._known)

    def prepare(self, partitions: int) -> None:
        """Make the records of a ring, unless there is one."""
        if self._record is None:
            id = os.urandom(ID_BYTES).hex()
            self._form_on(min(self._known), self._known, id, partitions, ["forming", 1])
            self._find_out()

    # Where partitions are

    def _server_of(self, key: bytes) -> Server:
        return self._place_of(key).server

    def _form(self, call: Call) -> Call:
        """Put the guard before a command."""
        if call.server is not None:
            return call
        place, partition = self._place_of(call.key), partition_of_key(call.key)
        if call.script is None:
            script = guarded(load_script("ring_command"), writes=call.command[0] not in READS)
            keys, arguments = [call.key], call.command
        else:
            script = guarded(call.script, writes=call.script.writes)
            count = call.command[2]
            keys, arguments = list(call.command[3 : 3 + count]), call.command[3 + count :]
        formed = Call.of_script(script, [self.key, *keys], [partition, place.entry, *arguments])
        return formed._replace(by_source=call.by_source)

    def _place_of(self, key: bytes) -> PartitionPlace:
        partition = partition_of_key(key)
        place = self._places.get(partition)
        if place is None:
            self.record  # noqa: B018  # raises if there is no index
            raise self.lost(partition)
        return place

    def lost(self, partition: str) -> FormatError:
        """Return the error for a partition that no server has."""
        return FormatError(
            f"no server of {self.address} has partition {partition} of the index: restore the "
            "data of the server that lost it, or repeat neardup index rebalance if that was stopped"
        )

    def read_records(self, *, all_of_them: bool) -> dict[Server, RingRecord]:
        """Return the records of all servers that are known, or that one of the records names.

        Args:
            all_of_them: Raise ServersUnavailable if one that is known, or named by the newest
                record, does not answer, instead of leaving it out.
        """
        records: dict[Server, RingRecord] = {}
        silent: dict[Server, Exception] = {}
        waiting, asked = list(self._known), set()
        while waiting:
            server = waiting.pop()
            asked.add(server)
            try:
                record = RingRecord.of_reply(self._client(server).hgetall(self.key))
            except self._lost() as error:
                self._disconnect_idle(server)
                silent[server] = self._translated(error)
                continue
            except self._redis.exceptions.ResponseError as error:
                raise self._refused(server, error) from None
            if record is not None:
                records[server] = record
                waiting += sorted(record.named.difference(asked, waiting))
        # Records of servers that left the ring long ago may name others that are no more.
        needed = {*self._known, *(newest(records).named if records else ())}
        if all_of_them and (lost := needed & set(silent)):
            raise self._unanswered(min(lost), silent[min(lost)])
        return records

    def _find_out(self) -> None:
        """Read the records, and refuse an address that names other servers than the index has."""
        runs = {server: self._require_standalone(server) for server in self._known}
        records = self.read_records(all_of_them=True)
        others = records.keys() - runs.keys()
        self._check_different(runs | {each: self._require_standalone(each) for each in others})
        if not records:
            return
        self._check_names(records)
        if (record := newest(records)).forming:
            self._form_others(record)
            records = self.read_records(all_of_them=True)
        self._check_records(records)
        self._learn(records)

    def refresh(self) -> None:
        """Read the records again; servers that don't answer keep what they had."""
        if self._record is None:
            return
        with self._guard, suppress(NeardupError):
            found = self.read_records(all_of_them=False)
            records = {at: each for at, each in found.items() if each.id == self._record.id}
            if found and not records:  # another index was made in its place
                self._places.clear()
            elif records and (lost := self._learn(records)):
                # A partition may have moved from a server that was asked late to one asked early.
                before = self._record
                time.sleep(PAUSE)
                lost &= self._learn(self.read_records(all_of_them=True))
                if self._record.epoch == before.epoch and not self._record.target:
                    for partition in lost:
                        self._places.pop(partition, None)

    def _learn(self, records: Records) -> set[str]:
        """Take what records say; return the partitions that are nowhere."""
        self._record = newest(records)
        self._known = sorted(self._record.named or records)
        found = {
            each: self._find(records, each) for each in list_partitions(self._record.partitions)
        }
        self._places |= {each: place for each, place in found.items() if place is not None}
        return {each for each, place in found.items() if place is None}

    def _find(self, records: Records, partition: str) -> PartitionPlace | None:
        """Return where a partition is; have it taken over if it was handed over."""
        if (place := find_place(records, partition)) is not None:
            return place
        for given in find_hand_overs(records, partition):
            there = records.get(given.target)
            if there is not None and there.entry(partition) == given.ready:
                return self.take_over(given.target, partition, given.ready)
            place = PartitionPlace(given.target, HERE)  # it did not answer, or was asked before
        return place

    def take_over(self, server: Server, partition: str, ready: str) -> PartitionPlace:
        """Have a server take a partition over that it was given; any process may do so."""
        entry = f"{HERE}{self.record.epoch}"
        arguments = [b"", partition, ready, entry]
        script = load_script("ring_change").source
        try:
            self._client(server).eval(script, 1, self.key, *arguments)
        except self._lost() as error:
            raise self._unanswered(server, self._translated(error)) from None
        return PartitionPlace(server, entry)

    def _open_connection(self, server: Server) -> Any:
        """Connect, and look what is there: a server that was started again may have an entry again
        that it had given away, and not on its disk."""
        connection = super()._open_connection(server)
        self.refresh()
        return connection

    # Checks

    def _require_standalone(self, server: Server) -> str:
        """Return the id of a server, which no other one has; raise if it is of a cluster."""
        try:
            about = self._client(server).info("server", "cluster")
        except self._lost() as error:
            raise self._unanswered(server, self._translated(error)) from None
        except self._redis.exceptions.ResponseError as error:
            raise self._refused(server, error) from None
        if int(about.get("cluster_enabled", 0)):
            raise UsageError(
                f"{format_server(server)} is of a cluster, which places keys by itself: leave out "
                "?ring"
            )
        return str(about["run_id"])

    def _check_different(self, runs: Mapping[Server, str]) -> None:
        """Refuse two names of one server: what is moved from one to the other would be deleted."""
        by_run: dict[str, Server] = {}
        for server in sorted(runs):
            if (same := by_run.setdefault(runs[server], server)) != server:
                raise UsageError(
                    f"{format_server(same)} and {format_server(server)} are the same server: name "
                    f"each server of {self.address} once, by the name that the index has"
                )

    def _check_names(self, records: Records) -> None:
        """Refuse an address that names other servers than those that have the index."""
        if len({record.id for record in records.values()}) > 1:
            raise UsageError(
                f"{self.address} names servers of different indexes: give those of one, or "
                "another name (?name=NAME)"
            )
        record = newest(records)
        named = set(self.address.servers)
        if not self._other_list and named not in (set(record.servers), set(record.target)):
            right = self.address.with_servers(record.servers)
            raise UsageError(
                f"{self.address} does not name the servers that have the index, of epoch "
                f"{record.epoch}: give {right}, or move the index with neardup index rebalance"
            )

    def _check_records(self, records: Records) -> None:
        for server in newest(records).servers:
            if server not in records:
                raise FormatError(
                    f"{format_server(server)} has lost what it had of the index {self.address}: "
                    "restore its data"
                )

    def _unanswered(self, server: Server, reason: Exception) -> ServersUnavailable:
        return ServersUnavailable(
            f"{format_server(server)} of {self.address} can't be reached ({reason}): start it; "
            "without any server of its ring an index does not answer"
        )

    def _refused(self, server: Server | None, error: Exception) -> NeardupError:
        text = str(error)
        if text.startswith("OVERTAKEN"):
            return UsageError(
                f"another process has begun to rebalance {self.address}: let that one finish"
            )
        if text.startswith("FOREIGN"):
            return self._foreign(server or self._known[0])
        if "DUMP payload" in text or "Bad data format" in text:
            where = format_server(server or self._known[0])
            return OutputError(
                f"{where} can't read what another server of {self.address} has written: it has an "
                "older version of Redis; update it"
            )
        return super()._refused(server, error)

    def _unavailable(self, failure: Exception | None) -> ServersUnavailable:
        if str(failure).startswith(self.passing):
            what = str(failure).partition(" ")[2]
            return ServersUnavailable(
                f"{what} of {self.address} is being moved and does not come to rest: if neardup "
                "index rebalance was stopped, repeat it"
            )
        return super()._unavailable(failure)

    def _foreign(self, server: Server) -> UsageError:
        return UsageError(
            f"{format_server(server)} has another index of this name: give another name "
            f"(?name=NAME), or another server than in {self.address}"
        )

    # A new ring

    def _form_others(self, record: RingRecord) -> None:
        """Make the records of the other servers, then say on the first that all have one."""
        for server in sorted(record.servers):
            if self._form_on(server, record.servers, record.id, record.partitions) != record.id:
                raise self._foreign(server)
        first = min(record.servers)
        self.run([Call(self.key, (b"HDEL", self.key, "forming"), server=first)])

    def _form_on(
        self,
        server: Server,
        servers: Sequence[Server],
        id: str,
        partitions: int,
        more: Iterable[object] = (),
    ) -> str:
        """Make the record of a server, unless it has one; return the id that it has.

        Args:
            server: The server.
            servers: All servers of the ring.
            id: The id of the ring.
            partitions: The number of partitions.
            more: More fields and values.
        """
        places = place_partitions(self.address.name, servers, partitions)
        fields = ["id", id, "epoch", 1, "servers", join_servers(servers)]
        fields += ["partitions", partitions, *more]
        for partition, home in places.items():
            fields += [partition, f"{HERE}1"] if home == server else []
        keys = [self.key, Keyspace(self.address.name, 1).meta]
        call = Call.of_script(load_script("ring_form"), keys, fields)._replace(server=server)
        formed: bytes = self.run([call])[0]
        if not formed:
            raise self._foreign(server)
        return formed.decode()


@cache
def guarded(script: Script, *, writes: bool) -> Script:
    """Return a script that first looks whether its partition is on the server."""
    guard = load_script("ring_guard_writes" if writes else "ring_guard_reads").source
    first, newline, rest = script.source.partition(b"\n")
    if first.startswith(b"#!"):
        return Script.of_source(script.name, first + newline + guard + rest)
    return Script.of_source(script.name, guard + script.source)
