"""Move an index to other servers of a ring, while any number of processes use it.

    1  say on all servers where the partitions shall be, and that this process moves them
    2  tidy up what an earlier rebalance has left that was stopped
    3  copy some partitions, while their server remembers the keys that are written
    4  copy those keys again, until only few are left
    5  for a moment let nobody write to a partition, and copy the last keys
    6  hand it over: from now on its server refuses commands for it, and the other one answers them
    7  when the other servers have all on their disks, delete the copies that were left behind
    8  say on all servers that they have the partitions

Each step can be done again, and a process that is killed in between leaves an index that works: a
partition is handed over in one command of one server, whose copy stays until step 7. The freeze of
step 5 ends by itself. Of two processes that rebalance at the same time, the servers obey the one
that began last; a server that was started again in between has lost something, perhaps, and its
partitions are copied anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from neardup.errors import ServersUnavailable, UsageError
from neardup.index.redis_store.address import RedisAddress, format_server
from neardup.index.redis_store.configuration import check_configuration, wait_until_on_disk
from neardup.index.redis_store.placing import (
    ARRIVING,
    GONE,
    HERE,
    READY,
    PartitionPlace,
    Records,
    RingRecord,
    find_hand_overs,
    find_place,
    join_servers,
    list_partitions,
    partition_of_key,
    place_partitions,
)
from neardup.index.redis_store.ring_servers import RingServers
from neardup.index.redis_store.scripts import load_script
from neardup.index.redis_store.servers import Call, Server
from neardup.runtime import SILENT, Progress

TOGETHER: Final = 8
"""Partitions that are copied in one pass over the keys of a server."""
KEYS_AT_ONCE: Final = 32
NAMES_AT_ONCE: Final = 1_000
FEW_KEYS: Final = 64
"""So many keys are copied while nobody may write."""
MOST_ROUNDS: Final = 20
FREEZE_SECONDS: Final = 5.0
MOST_ATTEMPTS: Final = 10
TOKEN_BYTES: Final = 8


@dataclass(frozen=True)
class Rebalanced:
    """What a rebalance has done."""

    servers: tuple[str, ...]
    """The servers that have the index now."""
    moved: int
    """How many partitions have another server than before."""
    partitions: int
    epoch: int
    """How often the servers of the index were changed; 1 for a new index."""

    @property
    def share(self) -> float:
        """The share of the partitions that were moved."""
        return self.moved / self.partitions


class ServerRestarted(ServersUnavailable):
    """A server was started again while a partition was copied from it, or to it."""


def rebalance(address: RedisAddress, replicas: int = 0, progress: Progress = SILENT) -> Rebalanced:
    """Move an index to the servers of an address.

    Args:
        address: The servers that shall have the index, one of which has it already.
        replicas: How many replicas of a server have to have a partition before it is handed over.
        progress: Receives messages, and the partitions that were moved.
    """
    if not address.ring:
        raise UsageError(
            f"{address} is no ring: give redis://HOST:PORT,HOST:PORT?ring; a cluster is rebalanced "
            "by redis-cli --cluster rebalance"
        )
    servers = RingServers(address, replicas, other_list=True)
    try:
        if servers.is_new:
            raise UsageError(
                f"none of the servers of {address} has the index: name those that it shall have, "
                "and at least one that has it now"
            )
        check_configuration(servers, lambda _: None)
        return Rebalancing(servers, progress).run()
    finally:
        servers.close()


class Rebalancing:
    """Moves partitions to the servers of an address. For one thread."""

    def __init__(self, servers: RingServers, progress: Progress = SILENT) -> None:
        self._servers, self._progress = servers, progress
        self._target = sorted(servers.address.servers)
        self._token = os.urandom(TOKEN_BYTES).hex()
        self._key, self._before = servers.key, servers.record
        self._partitions = list_partitions(self._before.partitions)
        self._home = place_partitions(servers.address.name, self._target, self._before.partitions)
        self._epoch = self._before.epoch + 1
        self._attempts = 0

    def run(self) -> Rebalanced:
        """Move all partitions that are not at home; return what was done."""
        # Those of a rebalance that was stopped may have some, too; servers that are to get the
        # index are not among the old ones, so that the old address holds until the end.
        old = {*self._before.servers, *set(self._records()).difference(self._target)}
        # New ones first: a server that others name has a record.
        for some in (set(self._target) - old, old):
            self._lead(some, join_servers(old), join_servers(self._target))
        self._servers.refresh()
        self._tidy()
        moved, misplaced = 0, self._misplaced()
        self._progress.stage("moving", len(misplaced), "partitions")
        while misplaced:
            for source in sorted({place.server for place in misplaced.values()}):
                listed = [one for one, place in misplaced.items() if place.server == source]
                for begin in range(0, len(listed), TOGETHER):
                    group = listed[begin : begin + TOGETHER]
                    moved += self._move(source, {one: misplaced[one] for one in group})
            self._tidy()
            misplaced = self._misplaced()
        self._epoch += 1
        self._lead(self._target, join_servers(self._target), "")
        self._lead(old.difference(self._target), join_servers(self._target), "")
        names = tuple(map(format_server, self._target))
        return Rebalanced(names, moved, len(self._partitions), self._epoch)

    # What servers say

    def _records(self) -> Records:
        return self._servers.read_records(all_of_them=True)

    def _places(self, records: Records) -> dict[str, PartitionPlace]:
        """Return where each partition is; raise FormatError if one is nowhere."""
        found = {partition: find_place(records, partition) for partition in self._partitions}
        places = {partition: place for partition, place in found.items() if place is not None}
        if lost := set(found) - set(places):
            raise self._servers.lost(min(lost))
        return places

    def _misplaced(self) -> dict[str, PartitionPlace]:
        """Return where the partitions are that are not at home."""
        places = self._places(self._records())
        return {one: place for one, place in places.items() if place.server != self._home[one]}

    def _lead(self, servers: Iterable[Server], listed: str, target: str) -> None:
        """Write lists of servers to records; without a target this process moves no more."""
        script = load_script("ring_lead")
        arguments = [self._token, self._before.id, self._epoch, listed, target]
        arguments.append(self._before.partitions)
        for server in sorted(servers):
            call = Call.of_script(script, [self._key], arguments)._replace(server=server)
            if self._servers.run([call], durable=True)[0] != 1:
                raise UsageError(
                    f"another process has rebalanced {self._servers.address}: look at its servers, "
                    "and repeat this if you want other ones"
                )

    def _change(
        self, server: Server, partition: str, before: str, after: str, *present: bytes
    ) -> bool:
        """Change the entry of a partition if it is the expected one.

        Args:
            server: The server whose entry it is.
            partition: The partition.
            before: The expected entry; "" for none.
            after: The new one; "" for none.
            present: A key that has to be there.

        Returns:
            Whether it is the new one now.
        """
        arguments = [self._token, partition, before, after]
        call = Call.of_script(load_script("ring_change"), [self._key, *present], arguments)
        return bool(self._servers.run([call._replace(server=server)], durable=True)[0] == 1)

    def _command(
        self, server: Server, partition: str, entry: str, name: str, key: bytes, *rest: Any
    ) -> Call:
        """Return a command that a server carries out as long as a partition has an entry there.

        One whose memory is full gets no more keys, but gives some away.
        """
        arguments = [self._token, partition, entry, name, key, *rest]
        script = load_script("ring_move")
        script = script if name == "RESTORE" else script.allowing_oom
        call = Call.of_script(script, [self._key, key], arguments)
        return call._replace(server=server)

    def _beside(self, what: str, partition: str) -> bytes:
        """Return a key beside the record: `touched` or `frozen`."""
        return self._key + f":{what}:{partition}".encode()

    # Moving

    @property
    def _arriving(self) -> str:
        """The entry of partitions that this process copies."""
        return ARRIVING + self._token

    def _move(self, source: Server, group: dict[str, PartitionPlace]) -> int:
        """Move partitions of a server to their homes; return how many were handed over."""
        left = dict(group)
        for _ in range(MOST_ATTEMPTS):
            try:
                self._move_once(source, left)
                return len(group)
            except ServerRestarted:
                self._tidy()
                left = {one: place for one, place in self._misplaced().items() if one in group}
        raise ServersUnavailable(
            f"servers of {self._servers.address} are started again and again: see to them, and "
            "repeat neardup index rebalance, which goes on"
        )

    def _move_once(self, source: Server, group: dict[str, PartitionPlace]) -> None:
        runs = self._run_ids({source, *(self._home[one] for one in group)})
        for partition, place in group.items():
            self._begin(partition, place)
        for keys in self._scan(source):
            for partition, listed in keys.items():
                if partition in group:
                    self._copy(source, partition, listed)
        for partition, place in group.items():
            self._hand_over(partition, place, runs)
            self._progress.advance(1)

    def _begin(self, partition: str, place: PartitionPlace) -> None:
        """Have the server of a partition remember the keys that are written from now on."""
        if not self._change(self._home[partition], partition, "", self._arriving):
            raise ServerRestarted
        touched, field = self._beside("touched", partition), f"moving:{partition}"
        self._servers.run(
            [
                self._command(*place_of(partition, place), "DEL", touched),
                self._command(*place_of(partition, place), "HSET", self._key, field, 1),
            ]
        )

    def _scan(self, server: Server) -> Iterator[dict[str, list[bytes]]]:
        """Yield the keys of the index that a server has, by partition, some at once."""
        cursor, pattern = b"0", f"{{{self._servers.address.name}:*"
        while True:
            command = (b"SCAN", cursor, b"MATCH", pattern, b"COUNT", NAMES_AT_ONCE)
            cursor, keys = self._servers.run([Call(self._key, command, server=server)])[0]
            by_partition: dict[str, list[bytes]] = {}
            for key in keys:
                by_partition.setdefault(partition_of_key(key), []).append(key)
            yield by_partition
            if cursor == b"0":
                return

    def _copy(self, source: Server, partition: str, keys: Sequence[bytes]) -> None:
        """Give the home of a partition the values that keys have now; some may be gone."""
        home = self._home[partition]
        for begin in range(0, len(keys), KEYS_AT_ONCE):
            some = keys[begin : begin + KEYS_AT_ONCE]
            reading = [(b"DUMP", key) for key in some] + [(b"PTTL", key) for key in some]
            calls = [Call(self._key, command, server=source) for command in reading]
            replies = self._servers.run(calls)
            values, times = replies[: len(some)], replies[len(some) :]
            writing = []
            for key, value, time_left in zip(some, values, times, strict=True):
                rest = () if value is None else (max(int(time_left), 0), value, b"REPLACE")
                name = "DEL" if value is None else "RESTORE"
                writing.append(self._command(home, partition, self._arriving, name, key, *rest))
            self._servers.run(writing, durable=True)

    def _copy_touched(self, partition: str, place: PartitionPlace) -> int:
        """Copy keys again that were written; return how many there were."""
        touched = self._beside("touched", partition)
        command = (b"SRANDMEMBER", touched, NAMES_AT_ONCE)
        names = self._servers.run([Call(self._key, command, server=place.server)])[0]
        if names:
            # First of all: what is written while they are copied is copied again.
            forget = self._command(*place_of(partition, place), "SREM", touched, *names)
            self._servers.run([forget])
            self._copy(place.server, partition, names)
        return len(names)

    def _hand_over(self, partition: str, place: PartitionPlace, runs: dict[Server, bytes]) -> None:
        """Give a partition that was copied to its home."""
        home, frozen = self._home[partition], self._beside("frozen", partition)
        for _ in range(MOST_ATTEMPTS):
            for _ in range(MOST_ROUNDS):
                if self._copy_touched(partition, place) <= FEW_KEYS:
                    break
            for_a_while = (self._token, "PX", int(FREEZE_SECONDS * 1000))
            here = place_of(partition, place)
            self._servers.run([self._command(*here, "SET", frozen, *for_a_while)])
            while self._copy_touched(partition, place):
                pass
            self._attempts += 1
            attempt = f"{self._token}.{self._attempts}"
            arrived = self._change(home, partition, self._arriving, READY + attempt)
            if not arrived or self._run_ids(set(runs)) != runs:
                raise ServerRestarted
            gone = f"{GONE}{attempt} {format_server(home)}"
            if self._change(place.server, partition, place.entry, gone, frozen):
                self._servers.take_over(home, partition, READY + attempt)
                return
            self._change(home, partition, READY + attempt, self._arriving)
        raise ServersUnavailable(
            f"partition {partition} of {self._servers.address} is written faster than it can be "
            "copied: repeat neardup index rebalance when less is added"
        )

    def _run_ids(self, servers: Iterable[Server]) -> dict[Server, bytes]:
        """Return what changes when a server is started again."""
        listed = sorted(servers)
        calls = [Call(self._key, (b"INFO", b"server"), server=server) for server in listed]
        replies = self._servers.run(calls)
        ids = [re.findall(rb"run_id:(\w+)", reply)[0] for reply in replies]
        return dict(zip(listed, ids, strict=True))

    # Tidying up

    def _tidy(self) -> None:
        """Finish what was handed over, and delete all copies but those that are in use."""
        if targets := self._finish_hand_overs():
            wait_until_on_disk(self._servers, targets)
            self._finish_hand_overs()  # one of them has lost it, perhaps
        records = self._records()
        for partition, place in self._places(records).items():
            for server, record in records.items():
                if server != place.server and (entry := record.entry(partition)):
                    self._change(server, partition, entry, "")
        for server, record in self._records().items():
            self._sweep(server, record)

    def _finish_hand_overs(self) -> set[Server]:
        """Have partitions taken over that were handed over; return the servers that got some."""
        records, targets = self._records(), set()
        for partition in self._partitions:
            for given in find_hand_overs(records, partition):
                targets.add(given.target)
                there = records.get(given.target)
                if there is not None and there.entry(partition) == given.ready:
                    self._servers.take_over(given.target, partition, given.ready)
                elif find_place(records, partition) is None:  # the other server has lost it
                    again = f"{HERE}{self._epoch}"
                    self._change(given.source, partition, given.entry, again)
        return targets

    def _sweep(self, server: Server, record: RingRecord) -> None:
        """Delete the keys of partitions that are not on a server, and what moving has left."""
        for partition in self._partitions:
            if f"moving:{partition}" in record.fields:
                here = (server, partition, record.entry(partition))
                beside = [self._beside(what, partition) for what in ("touched", "frozen")]
                calls = [self._command(*here, "DEL", key) for key in beside]
                calls.append(self._command(*here, "HDEL", self._key, f"moving:{partition}"))
                self._servers.run(calls)
        away = {each for each in self._partitions if not record.entry(each)}
        for keys in self._scan(server):
            gone = [(each, key) for each in away & set(keys) for key in keys[each]]
            self._servers.run(
                [self._command(server, each, "", "UNLINK", key) for each, key in gone]
            )


def place_of(partition: str, place: PartitionPlace) -> tuple[Server, str, str]:
    """Return the first arguments of a command for a partition where it is."""
    return place.server, partition, place.entry
