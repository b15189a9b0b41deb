"""Writes decisions about documents: each change is made only if the state is the expected one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from neardup.index.redis_store.buckets import IndexVanished
from neardup.index.redis_store.keyspace import (
    BLOCK,
    Keyspace,
    Record,
    add_sum,
    offset_of,
    pack_number,
)
from neardup.index.redis_store.scripts import load_script
from neardup.index.redis_store.servers import Call, Servers


class Change(NamedTuple):
    """A change of the state of a document, if its state begins with `expected`."""

    number: int
    expected: bytes
    """b"" if the document has no state."""
    state: bytes


class DecisionStore:
    """Changes states, clusters and records. Any thread may use it; all calls can be repeated."""

    def __init__(self, servers: Servers, keyspace: Keyspace, identity: bytes) -> None:
        self.servers, self.keyspace, self.identity = servers, keyspace, identity

    def settle(
        self, changes: Sequence[Change], *, durable: bool = False, chained: bool = False
    ) -> list[bool]:
        """Change states; return for each whether it was changed, or was so before.

        Args:
            changes: The changes.
            durable: Wait for replicas, if the index asks for that.
            chained: Change nothing after the first document whose state is another one; the
                documents are in order.
        """
        by_block: dict[int, list[int]] = {}
        for place, change in enumerate(changes):
            by_block.setdefault(change.number // BLOCK, []).append(place)
        calls = []
        for places in by_block.values():
            number = changes[places[0]].number
            arguments: list[Any] = [self.identity, b"1" if chained else b""]
            for place in places:
                change = changes[place]
                arguments += [offset_of(change.number), change.expected, change.state]
            keys = [self._meta(number), self.keyspace.of_document("s", number)]
            calls.append(Call.of_script(load_script("settle"), keys, arguments))
        done = [False] * len(changes)
        blocks = list(zip(by_block.values(), calls, strict=True))
        for some in [[block] for block in blocks] if chained else [blocks]:
            replies = self.run([call for _, call in some], durable=durable)
            for (places, _), reply in zip(some, replies, strict=True):
                for place, answer in zip(places, reply, strict=True):
                    done[place] = answer == 1
            if chained and not all(done[place] for place in some[0][0]):
                break
        return done

    def join(self, pairs: Sequence[tuple[int, int]]) -> list[bool]:
        """Let documents join clusters; return for each whether its witness is kept.

        Args:
            pairs: The witness and the document of each.
        """
        by_witness: dict[int, list[int]] = {}
        for place, (witness, _) in enumerate(pairs):
            by_witness.setdefault(witness, []).append(place)
        calls = []
        for witness, places in by_witness.items():
            joining = [pack_number(pairs[place][1]) for place in places]
            keys = [
                self._meta(witness),
                self.keyspace.of_document("s", witness),
                self.keyspace.members(witness),
            ]
            arguments = [self.identity, offset_of(witness), b"".join(joining)]
            calls.append(Call.of_script(load_script("join"), keys, arguments))
        replies = self.run(calls, durable=True)
        joined = [False] * len(pairs)
        for places, reply in zip(by_witness.values(), replies, strict=True):
            for place in places:
                joined[place] = reply == 1
        return joined

    def update(self, number: int, record: Record, text: bytes | None) -> bool:
        """Store another record of a document, and another text; return whether it is there still.

        Args:
            number: The document.
            record: Its record, with other metadata.
            text: Its text; None to leave it as it is.
        """
        columns = [self.keyspace.of_document(letter, number) for letter in "srt"]
        stored = b"" if text is None else add_sum(number, text)
        arguments = [self.identity, offset_of(number), record.pack(number), stored]
        call = Call.of_script(load_script("update"), [self._meta(number), *columns], arguments)
        return bool(self.run([call], durable=True)[0] == 1)

    def withdraw(self, numbers: Sequence[int], token: bytes) -> list[bool]:
        """Begin to remove kept documents; return for each whether this was done by this token."""
        calls = []
        for number in numbers:
            keys = [
                self._meta(number),
                self.keyspace.of_document("s", number),
                self.keyspace.unfinished(self.keyspace.partition_of(number)),
            ]
            arguments = [self.identity, offset_of(number), number, token]
            calls.append(Call.of_script(load_script("withdraw"), keys, arguments))
        return [reply == 1 for reply in self.run(calls, durable=True)]

    def erase(self, numbers: Sequence[int], state: bytes) -> None:
        """Erase what is stored of documents that were abandoned or removed, but for a last state.

        Args:
            numbers: The documents; others are left as they are.
            state: The state that they have from now on.
        """
        calls = []
        for number in numbers:
            columns = [self.keyspace.of_document(letter, number) for letter in "srht"]
            unfinished = self.keyspace.unfinished(self.keyspace.partition_of(number))
            keys = [self._meta(number), unfinished, *columns, self.keyspace.members(number)]
            arguments = [self.identity, offset_of(number), number, state]
            calls.append(Call.of_script(load_script("erase"), keys, arguments))
        self.run(calls)

    def unfinished(self) -> list[int]:
        """Return the numbers of kept documents whose removal was begun."""
        keys = [self.keyspace.unfinished(each) for each in range(self.keyspace.partitions)]
        replies = self.servers.run([Call(key, (b"SMEMBERS", key)) for key in keys])
        return sorted(int(number) for reply in replies for number in reply)

    def _meta(self, number: int) -> bytes:
        return self.keyspace.partition_meta(self.keyspace.partition_of(number))

    def run(self, calls: Sequence[Call], *, durable: bool = False) -> list[Any]:
        """Run scripts; raise IndexVanished if the index is not the one that was opened."""
        replies = self.servers.run(calls, durable=durable)
        if any(reply == -1 for reply in replies):
            raise IndexVanished(str(self.servers.address))
        return replies
