"""The documents of an index on Redis: records, states and blobs by number, read by a `View`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError
from neardup.index.redis_store.keyspace import (
    ADDED,
    BLOCK,
    COLUMNS,
    COPY,
    KEPT,
    ORPHAN,
    STORED,
    Keyspace,
    Record,
    State,
    check_sum,
    offset_of,
    unpack_numbers,
    unpack_record,
    unpack_state,
)
from neardup.index.redis_store.scripts import load_script
from neardup.index.redis_store.servers import Call, Servers
from neardup.index.store import Row
from neardup.index.view import TablesBehind

AT_ONCE: Final = 64
"""Blocks that are read together when all documents are."""
FIRST_BLOBS, MOST_BLOBS = 16, 512
"""Documents whose blobs are read together: at first, and at most."""
ATTEMPTS: Final = 100
PAUSE: Final = 0.1


class SharedDocuments:
    """Read access to the documents. Any thread may use it."""

    def __init__(self, servers: Servers, keyspace: Keyspace) -> None:
        self._servers, self._keyspace = servers, keyspace

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Do nothing: there is no snapshot of several servers. Readers find out and try again."""
        yield

    def states(self, numbers: Sequence[int]) -> dict[int, State]:
        """Return the states of documents; those of numbers without one are pending."""
        fields = self._fields("s", numbers)
        return {number: unpack_state(number, fields.get(number)) for number in numbers}

    def records(self, numbers: Sequence[int]) -> dict[int, Record]:
        """Return the records of the documents that have one, whatever their state."""
        return {
            number: unpack_record(number, data)
            for number, data in self._fields("r", numbers).items()
        }

    def with_record(self, numbers: Sequence[int]) -> set[int]:
        """Return the documents that have a record, damaged or not."""
        return set(self._fields("r", numbers))

    def without_state(self) -> list[int]:
        """Return the numbers that have a record and no state: both are stored in one step."""
        lost: list[int] = []
        for numbers in self._stored_blocks(0, "r"):
            lost += sorted(set(numbers) - set(self._fields("s", numbers)))
        return lost

    def rows(self, numbers: Sequence[int]) -> dict[int, Row]:
        """Return the documents that are in the index, by number."""
        fields, packed = self._columns("sr", numbers)
        states = {number: unpack_state(number, fields.get(number)) for number in numbers}
        stored = [number for number, state in states.items() if state.kind in STORED]
        if any(states[number].kind == ORPHAN for number in stored):
            raise TablesBehind  # its witness is being removed; it has another one in a moment
        if not all(number in packed for number in stored):
            raise TablesBehind
        return {
            number: unpack_record(number, packed[number]).row(number, states[number])
            for number in stored
        }

    def witnesses(self, numbers: Sequence[int]) -> dict[int, int | None]:
        """Return the witness of each document that exists, by number; None if it is kept."""
        states = self.states(numbers)
        return {number: state.witness for number, state in states.items() if state.kind in STORED}

    def blobs(self, table: str, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the signatures, shingles or texts of the documents that have them, by number."""
        if table == "signatures":
            records = self.records(numbers)
            return {number: record.signature for number, record in records.items()}
        return {
            number: check_sum(number, data, table)
            for number, data in self._fields(COLUMNS[table], numbers).items()
        }

    def first_blobs(
        self, table: str, numbers: Sequence[int], most: int
    ) -> tuple[dict[int, bytes], int]:
        """Return the blobs of the first documents, until they have `most` bytes.

        One read may have more: how large it is follows from the documents before.
        """
        blobs: dict[int, bytes] = {}
        read, size, count = 0, 0, FIRST_BLOBS
        while read < len(numbers) and (read == 0 or size < most):
            part = self.blobs(table, numbers[read : read + count])
            blobs |= part
            read += min(count, len(numbers) - read)
            size += sum(map(len, part.values()))
            count = min(max((most - size) * read // max(size, 1), 1), MOST_BLOBS)
        return blobs, read

    def members(self, numbers: Sequence[int]) -> list[list[int]]:
        """Return for each kept document the numbers that are or were copies of it."""
        calls = [
            Call(key, (b"GET", key)) for key in (self._keyspace.members(one) for one in numbers)
        ]
        return [
            sorted(set(unpack_numbers(data))) if data else [] for data in self._servers.run(calls)
        ]

    def last_number(self) -> int:
        """Return the largest number that was given."""
        key = self._keyspace.counter
        return int(self._servers.run([Call(key, (b"GET", key))])[0] or 0)

    def counts(self) -> tuple[int, int]:
        """Return the number of documents, and of kept ones."""
        kinds = (b"K", b"C", b"O")
        keys = map(self._keyspace.partition_meta, range(self._keyspace.partitions))
        replies = self._servers.run([Call(key, (b"HMGET", key, *kinds)) for key in keys])
        kept, copies, orphans = np.array(
            [[int(count or 0) for count in reply] for reply in replies]
        ).sum(axis=0)
        return int(kept + copies + orphans), int(kept)

    def times(self, after: int, until: int) -> Iterator[tuple[int, float]]:
        """Yield the documents of a range of numbers with the times when they were added.

        The checksums of their records are not tested: read a row before acting on its time.

        Args:
            after: The number before the range.
            until: The last number of the range.
        """
        for number, packed in self._dates(b"added", after, until):
            yield number, ADDED.unpack(packed)[0]

    def metadata(self, after: int, until: int) -> Iterator[tuple[int, str | None]]:
        """Yield the documents of a range of numbers with their metadata; as `times`."""
        for number, packed in self._dates(b"metadata", after, until):
            yield number, packed.decode() if packed else None

    def _dates(self, what: bytes, after: int, until: int) -> Iterator[tuple[int, bytes]]:
        script, blocks = load_script("dates"), range((after + 1) // BLOCK, until // BLOCK + 1)
        calls = []
        for block in blocks:
            keys = [self._keyspace.of_document(letter, block * BLOCK) for letter in "sr"]
            calls.append(Call.of_script(script, keys, [what]))
        for block, reply in zip(blocks, self._servers.run(calls), strict=True):
            for offset, packed in zip(reply[::2], reply[1::2], strict=True):
                if after < (number := block * BLOCK + int(offset)) <= until:
                    yield number, packed

    def rows_after(self, number: int, most: int) -> list[Row]:
        """Return the next documents after a number, at least `most` if there are more, in order."""
        listed: list[Row] = []
        for block in self._stored_blocks(number + 1):
            rows = self.rows([one for one in block if one > number])
            listed += [rows[one] for one in sorted(rows)]
            if len(listed) >= most:
                break
        return listed

    def numbers(self, kinds: Sequence[bytes] = STORED) -> NDArray[np.int64]:
        """Return the numbers of all documents in these states, in order."""
        listed = [
            number
            for block in self._stored_blocks(0)
            for number, state in self.states(block).items()
            if state.kind in kinds
        ]
        return np.array(listed, np.int64)

    def copies(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Return the witness and the number of each copy, in the order of their numbers."""
        pairs = [
            (state.witness, number)
            for numbers in self.slices(AT_ONCE * BLOCK)
            for number, state in self.states(numbers).items()
            if state.kind == COPY
        ]
        listed = np.array(pairs, np.uint64).reshape(-1, 2)
        return listed[:, 0].copy(), listed[:, 1].astype(np.uint32)

    def slices(self, most: int) -> Iterator[list[int]]:
        """Yield the numbers that have a state, in order, about `most` at once."""
        part: list[int] = []
        for block in self._stored_blocks(0):
            part += block
            if len(part) >= most:
                yield part
                part = []
        if part:
            yield part

    def _stored_blocks(self, first: int, letter: str = "s") -> Iterator[list[int]]:
        """Yield the numbers that have a state, block by block, from that of a number on.

        The letter is that of the column which they have.
        """
        last = self.last_number() // BLOCK
        for begin in range(first // BLOCK, last + 1, AT_ONCE):
            blocks = range(begin, min(begin + AT_ONCE, last + 1))
            keys = [self._keyspace.of_document(letter, block * BLOCK) for block in blocks]
            replies = self._servers.run([Call(key, (b"HKEYS", key)) for key in keys])
            for block, fields in zip(blocks, replies, strict=True):
                if fields:
                    yield sorted(block * BLOCK + int(field) for field in fields)

    def _fields(self, letter: str, numbers: Iterable[int]) -> dict[int, bytes]:
        """Return the fields of documents in one column, by number; missing ones are left out."""
        return self._columns(letter, numbers)[0]

    def _columns(self, letters: str, numbers: Iterable[int]) -> list[dict[int, bytes]]:
        """Return the fields of documents in several columns, which are read in this order."""
        by_block: dict[int, list[int]] = {}
        for number in numbers:
            by_block.setdefault(number // BLOCK, []).append(number)
        calls = []
        for listed in by_block.values():
            offsets = list(map(offset_of, listed))
            keys = [self._keyspace.of_document(letter, listed[0]) for letter in letters]
            calls += [Call(key, (b"HMGET", key, *offsets)) for key in keys]
        replies = iter(self._servers.run(calls))
        columns: list[dict[int, bytes]] = [{} for _ in letters]
        for listed in by_block.values():
            for column in columns:
                pairs = zip(listed, next(replies), strict=True)
                column |= {number: value for number, value in pairs if value is not None}
        return columns


class ListedDocuments(SharedDocuments):
    """The documents that were stored when it was made: later ones are passed over.

    Raises FormatError if one of them is removed before it was read.

    Args:
        documents: All documents.
        kinds: The states of those that are listed.
        identity: Tells the index from an earlier one of the same name, for `describe_state`.
    """

    def __init__(
        self,
        documents: SharedDocuments,
        kinds: Sequence[bytes] = STORED,
        identity: bytes = b"",
    ) -> None:
        super().__init__(documents._servers, documents._keyspace)
        self._identity = identity
        self._listed = documents.numbers(kinds)
        self._kept = len(self._listed) if kinds == (KEPT,) else 0

    def counts(self) -> tuple[int, int]:
        return len(self._listed), self._kept

    def describe_state(self) -> tuple[object, ...]:
        """Return what no other list of documents has: see `Store.describe_state`."""
        return self._identity.hex(), self._listed.tobytes().hex()

    def rows_after(self, number: int, most: int) -> list[Row]:
        """Return the next documents after a number, at most `most`, in order."""
        begin = int(np.searchsorted(self._listed, number, side="right"))
        wanted = self._listed[begin : begin + most].tolist()
        rows = self._read(wanted)
        if len(rows) < len(wanted):
            raise FormatError("documents were removed while they were read: do it again")
        return [rows[one] for one in wanted]

    def _read(self, wanted: list[int]) -> dict[int, Row]:
        for _ in range(ATTEMPTS):
            try:
                return self.rows(wanted)
            except TablesBehind:  # a copy is being judged again
                time.sleep(PAUSE)
        return self.rows(wanted)
