"""Buckets on Redis: a key of 64 bits to the numbers of documents, in their order of arrival.

The buckets of a partition lie in slices: hashes of about `LOAD` buckets, which Redis keeps packed
in a few bytes a bucket. Slices are added one by one as buckets are (linear hashing): the address of
a bucket follows from its key and the number of slices, which every process keeps and every script
checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError
from neardup.index.redis_store.keyspace import NUMBER_BYTES, Keyspace, unpack_numbers
from neardup.index.redis_store.scripts import load_script
from neardup.index.redis_store.servers import Call, Servers

LOAD: Final = 48
"""Buckets of a slice, on average; those that are split next have up to twice as many. Redis packs
hashes of up to 512 (hash-max-listpack-entries), and searches them from the beginning."""
FIRST_SLICES: Final = 4
FEWEST_SPLITS, MOST_SPLITS = 4, 64
"""The fewest and the most slices that are added to a partition at once."""
AT_ONCE: Final = 1 << 13
"""Buckets that are asked for together: slices are added in between, and others get a turn."""
Keys = NDArray[np.uint64]
Integers = NDArray[np.int64]


class IndexVanished(FormatError):  # noqa: N818  # names what happened
    """The keys of the index were deleted or replaced while it was open."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"the index at {where} is not the one that was opened: its keys were deleted or "
            "replaced (FLUSHALL?); open it again, or restore the servers' data"
        )


@dataclass(frozen=True)
class Appended:
    """What buckets had when documents were appended to them."""

    members: dict[int, list[int]]
    """Place of the key -> the members before, in order; buckets without any are left out."""
    floors: Integers
    """For each key, the number below which its partition has lost members."""
    removals: Integers
    """For each key, how many removals were begun or ended in its partition."""


@dataclass(frozen=True)
class Held:
    """What buckets have from which a kept document is about to be removed."""

    members: dict[int, list[int]]
    """Place of the key -> the members, in order; buckets without any are left out."""
    leaving: list[set[int]]
    """For each key, the documents that are about to be removed from buckets of its partition."""


class SharedBuckets:
    """All buckets of an index. Any thread may use it."""

    def __init__(self, servers: Servers, keyspace: Keyspace, identity: bytes) -> None:
        self._servers, self._keyspace, self._identity = servers, keyspace, identity
        self._shift = np.uint64(64 - max(keyspace.partitions.bit_length() - 1, 1))
        self._slices = np.full(keyspace.partitions, FIRST_SLICES, np.int64)

    def append(self, keys: Keys, numbers: Integers, *, durable: bool = False) -> Appended:
        """Append each document to its bucket.

        Args:
            keys: The keys of the buckets.
            numbers: The document that each bucket gets.
            durable: Wait for replicas, if the index asks for that.
        """
        members: dict[int, list[int]] = {}
        floors, removals = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        for begin in range(0, len(keys), AT_ONCE):
            sizes: dict[int, int] = {}
            some = slice(begin, begin + AT_ONCE)
            for partition, found, reply in self._run(
                "append", keys[some], numbers[some], durable=durable
            ):
                places = begin + found
                floors[places], sizes[partition], removals[places] = reply[1:4]
                for at in range(4, len(reply), 2):
                    members[int(places[reply[at]])] = unpack_numbers(reply[at + 1])
            self._split_full(sizes)
        return Appended(members, floors, removals)

    def find(self, keys: Keys) -> dict[int, list[int]]:
        """Return the members of buckets by the place of the key, without empty ones."""
        members: dict[int, list[int]] = {}
        for _, places, reply in self._run("find", keys, None):
            for at in range(1, len(reply), 2):
                members[int(places[reply[at]])] = unpack_numbers(reply[at + 1])
        return members

    def leave(self, keys: Keys, numbers: Integers, floor: int = 0) -> None:
        """Take each document out of its bucket.

        Args:
            keys: The keys of the buckets.
            numbers: The document that leaves each bucket.
            floor: Documents with lower numbers can't be appended to these partitions any more.
        """
        for _ in self._run("leave", keys, numbers, (floor,)):
            pass

    def hold(self, keys: Keys, number: int) -> Held:
        """Say that a kept document is about to be removed from buckets; return what they have."""
        members: dict[int, list[int]] = {}
        leaving: list[set[int]] = [set() for _ in keys]
        for _, places, reply in self._run("hold", keys, None, (number,)):
            fields = {int(field.rpartition(b":")[2]) for field in reply[1]}
            for place in places.tolist():
                leaving[place] = fields
            for at in range(2, len(reply), 2):
                members[int(places[reply[at]])] = unpack_numbers(reply[at + 1])
        return Held(members, leaving)

    def release(self, keys: Mapping[int, Keys]) -> None:
        """Forget that documents were about to be removed from buckets: they are.

        Args:
            keys: The keys of the buckets of each document.
        """
        script, identity = load_script("release"), self._identity
        meta = self._keyspace.partition_meta
        calls = [
            Call.of_script(script, [meta(partition)], [identity, number])
            for number, listed in keys.items()
            for partition in np.unique(self.partitions_of(listed)).tolist()
        ]
        self._servers.run(calls)

    def move_out(self, keys: Keys, numbers: Integers, removals: Integers) -> None:
        """Move documents from full buckets to the lists of these.

        Nothing is moved where a removal is under way, or was meanwhile.

        Args:
            keys: The keys of the buckets.
            numbers: The document of each.
            removals: How many removals had been begun or ended when the leaders were counted.
        """
        script, left = load_script("overflow"), np.arange(len(keys))
        partitions = self.partitions_of(keys)
        while len(left):
            slices = self._slices[partitions[left]]
            addresses = slice_addresses(keys[left], slices)
            calls = []
            for at, count, address in zip(
                left.tolist(), slices.tolist(), addresses.tolist(), strict=True
            ):
                partition, key = int(partitions[at]), int(keys[at])
                names = [
                    self._keyspace.partition_meta(partition),
                    self._keyspace.key(partition, f"b{address}"),
                    self._keyspace.overflow(partition, key),
                    self._keyspace.hot(partition),
                ]
                packed = int(numbers[at]).to_bytes(4, "big")
                arguments = [self._identity, count, int(removals[at]), key.to_bytes(8, "big")]
                arguments += [b"%016x" % key, packed]
                calls.append(Call.of_script(script, names, arguments))
            replies = np.array(self._servers.run(calls), np.int64)
            if (replies == -1).any():
                raise IndexVanished(str(self._servers.address))
            for at, now in zip(left.tolist(), replies.tolist(), strict=True):
                self._learn(int(partitions[at]), now)
            left = left[replies != slices]

    def require_present(self) -> None:
        """Raise IndexVanished unless all partitions are those of the index that was opened."""
        metas = map(self._keyspace.partition_meta, range(self._keyspace.partitions))
        found = self._servers.run([Call(key, (b"HGET", key, "identity")) for key in metas])
        if any(each != self._identity for each in found):
            raise IndexVanished(str(self._servers.address))

    def count(self) -> int:
        """Return the number of buckets, those of contents and ids included."""
        metas = map(self._keyspace.partition_meta, range(self._keyspace.partitions))
        replies = self._servers.run([Call(key, (b"HGET", key, "buckets")) for key in metas])
        return sum(int(reply or 0) for reply in replies)

    def partitions_of(self, keys: Keys) -> Integers:
        """Return the partition of each bucket: the first bits of its key."""
        partitions: Integers = (keys >> self._shift).astype(np.int64) % self._keyspace.partitions
        return partitions

    def _run(
        self,
        name: str,
        keys: Keys,
        numbers: Integers | None,
        arguments: Sequence[Any] = (),
        *,
        durable: bool = False,
    ) -> Iterator[tuple[int, Integers, list[Any]]]:
        """Run a script for each partition of the keys; again where the number of slices differs.

        Yields a partition, the places of its keys, and the reply of its script.
        """
        places: Integers = np.arange(len(keys))
        while len(places):
            places, later = places[:AT_ONCE], places[AT_ONCE:]
            parts = list(self._parts(name, keys, numbers, places, arguments))
            replies = self._servers.run([part.call for part in parts], durable=durable)
            again: list[Integers] = []
            for part, reply in zip(parts, replies, strict=True):
                if reply == -1:
                    raise IndexVanished(str(self._servers.address))
                listed = reply if isinstance(reply, list) else [reply]
                if listed[0] == part.slices:
                    yield part.partition, part.places, listed
                else:
                    again.append(part.places)
                    self._learn(part.partition, listed[0])
            places = np.concatenate([*again, later])

    def _parts(
        self,
        name: str,
        keys: Keys,
        numbers: Integers | None,
        places: Integers,
        arguments: Sequence[Any],
    ) -> Iterator[_PartitionCall]:
        """Return the calls of a script for some of the keys, one for each partition."""
        slices = self._slices.copy()
        chosen = keys[places]
        partitions = self.partitions_of(chosen)
        addresses = slice_addresses(chosen, slices[partitions])
        used, slice_of = np.unique(partitions << 32 | addresses, return_inverse=True)
        order = np.argsort(partitions, kind="stable")
        entries = _pack_entries(chosen, None if numbers is None else numbers[places])
        used_in = used >> 32
        listed, begins = np.unique(used_in, return_index=True)
        first = dict(zip(listed.tolist(), begins.tolist(), strict=True))
        local = slice_of - begins[np.searchsorted(listed, partitions)]
        entries[:, 0], entries[:, 1] = local >> 8, local & 0xFF
        entries, places = entries[order], places[order]
        ends = np.searchsorted(partitions[order], listed, side="right").tolist()
        slice_ends = np.searchsorted(used_in, listed, side="right").tolist()
        begin, script = 0, load_script(name)
        names = (used & 0xFFFFFFFF).tolist()
        for partition, end, slice_end in zip(listed.tolist(), ends, slice_ends, strict=True):
            prefix = self._keyspace.key(partition, "b")
            named = [b"%b%d" % (prefix, each) for each in names[first[partition] : slice_end]]
            count = int(slices[partition])
            call = Call.of_script(
                script,
                [self._keyspace.partition_meta(partition), *named],
                [self._identity, count, *arguments, entries[begin:end].tobytes()],
            )
            yield _PartitionCall(partition, places[begin:end], count, call)
            begin = end

    def _learn(self, partition: int, slices: int) -> None:
        """Take the number of slices that a script told: a failover may have lost some."""
        self._slices[partition] = slices

    def _split_full(self, sizes: dict[int, int]) -> None:
        """Add slices to the partitions that have more buckets than theirs should hold."""
        calls, parts, script = [], [], load_script("split")
        for partition, buckets in sizes.items():
            slices = int(self._slices[partition])
            added = range(slices, min(buckets // LOAD, slices + MOST_SPLITS))
            if len(added) < FEWEST_SPLITS:
                continue
            keys = [self._keyspace.partition_meta(partition)]
            for count in added:
                split = count - (1 << count.bit_length()) // 2
                keys += [self._keyspace.key(partition, f"b{each}") for each in (split, count)]
            calls.append(Call.of_script(script, keys, [self._identity, slices]))
            parts.append(partition)
        for partition, slices in zip(parts, self._servers.run(calls), strict=True):
            if slices != -1:
                self._learn(partition, slices)


@dataclass(frozen=True)
class _PartitionCall:
    """A call of a script for keys of one partition."""

    partition: int
    places: Integers
    slices: int
    call: Call


def slice_addresses(keys: Keys, slices: Integers) -> Integers:
    """Return the slice of each bucket, if its partition has that many slices.

    The last 32 bits of the key modulo the power of two above the number of slices, or (if there is
    no such slice yet) modulo half of it.
    """
    hashed = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    # The power of two above n is that of the exponent that frexp gives.
    modulus = np.left_shift(1, np.frexp(slices.astype(np.float64))[1].astype(np.int64))
    address: Integers = hashed % modulus
    return np.where(address < slices, address, hashed % (modulus >> 1))


def _pack_entries(keys: Keys, numbers: Integers | None) -> NDArray[np.uint8]:
    """Return the entries that scripts take, a row each; the place of the slice is left empty.

    The numbers may have turns.
    """
    width = 10 if numbers is None else 10 + NUMBER_BYTES
    entries = np.zeros((len(keys), width), np.uint8)
    entries[:, 2:10] = keys.astype(">u8").view(np.uint8).reshape(-1, 8)
    if numbers is not None:
        packed = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
        entries[:, 10:] = packed[:, 8 - NUMBER_BYTES :]
    return entries
