"""The keys of an index on Redis, and the bytes of their values.

All keys of a partition have one hash tag, so they are on one server and a script may use them
together. NAME is the name of the index:

    {NAME:c}meta        hash: format, settings, number of partitions, identity
    {NAME:c}counter     the last number that was given
    {NAME:c}upkeep      the process that does the upkeep for all (`lease.py`)
    {NAME:c}keys        hash: API keys of services, by their names (`service/shared_keys.py`)
    {NAME:c}rate:K:N    what the client N of services has taken (`service/shared_rates.py`)
    {NAME:P}meta        hash of partition P: identity, numbers of slices, buckets and removals,
                        floor, counts, and documents that are about to be removed (leaving:N)
    {NAME:P}bS          slice S, a hash of buckets: key -> members, 5 bytes each
    {NAME:P}sB          states of the documents of block B: a hash, offset -> state
    {NAME:P}rB hB tB    their records, sorted shingles, texts
    {NAME:P}wN          copies of document N: their numbers, 5 bytes each
    {NAME:P}x           numbers of documents whose removal is not finished
    {NAME:P}oK          kept documents that the full bucket K has no room for, 5 bytes each
    {NAME:P}y           the keys of such buckets

A block has the documents whose numbers are equal but for the last six bits; it belongs to partition
B mod partitions. A bucket belongs to the partition of the first bits of its key. Bands, contents
and ids of documents are looked up by buckets of the same kind.

A member of a bucket is a turn (1 byte) and a document's number (4 bytes). A copy that is judged
again gets the next turn, and is appended with that: a process that is late in taking it out of its
buckets, as a copy, does not find the entry of the former turn any more.

States begin with a letter: P pending, K kept, C copy, A abandoned, R being removed, D removed, O
being judged again. K has a checksum; C and O have the witness, the similarity, whether that is
exact, the turn, the cosine if that is known besides, and a checksum; P and R have a token of the
process, D may have one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup.errors import FormatError
from neardup.index.store import Row, blob_sum

FORMATS: Final = (1, 2)
"""Format versions: documents without vectors, and with vectors."""
BLOCK: Final = 64
"""Documents of a block: few enough that Redis packs their states (hash-max-listpack-entries)."""
NUMBER_BYTES: Final = 5
PENDING, KEPT, COPY, ABANDONED, REMOVING, DELETED, ORPHAN = b"P", b"K", b"C", b"A", b"R", b"D", b"O"
STORED: Final = (KEPT, COPY, ORPHAN)
"""States of documents that are in the index."""
GONE: Final = (ABANDONED, REMOVING, DELETED)
"""States of documents that no other document has to mind."""
WITNESS: Final = struct.Struct(">IdBB")
COSINE: Final = struct.Struct(">d")
TOKEN_BYTES: Final = 4
TOKENS: Final = {PENDING: (5,), ABANDONED: (1,), REMOVING: (5,), DELETED: (1, 5)}
"""Lengths of the states that have no checksum."""
LAST_TURN: Final = 255
RECORD: Final = struct.Struct(">16sdHi")
"""The head of a record: content, time, length of the id, length of the metadata or -1."""
ADDED: Final = struct.Struct(">d")
"""The time in it, which `scripts/dates.lua` reads."""
COLUMNS: Final = {"signatures": "r", "shingles": "h", "texts": "t"}
"""Letters of the keys that have the blobs of documents; a record ends with the signature."""
CONTENT_SALT: Final = np.uint64(0x9E3779B97F4A7C15)
ID_SALT: Final = np.uint64(0xC2B2AE3D27D4EB4F)
"""Keep buckets of contents and of ids apart from those of bands."""


@dataclass(frozen=True)
class Keyspace:
    """The names of the keys of one index."""

    name: str
    partitions: int

    def key(self, partition: int | str, rest: str) -> bytes:
        """Return a key of a partition."""
        return f"{{{self.name}:{partition}}}{rest}".encode()

    @property
    def meta(self) -> bytes:
        return self.key("c", "meta")

    @property
    def counter(self) -> bytes:
        return self.key("c", "counter")

    @property
    def upkeep(self) -> bytes:
        return self.key("c", "upkeep")

    def partition_meta(self, partition: int) -> bytes:
        return self.key(partition, "meta")

    def partition_of(self, number: int) -> int:
        """Return the partition of a document."""
        return (number // BLOCK) % self.partitions

    def of_document(self, letter: str, number: int) -> bytes:
        """Return the key of the block of a document, by the letter of the column."""
        return self.key(self.partition_of(number), f"{letter}{number // BLOCK}")

    def members(self, number: int) -> bytes:
        """Return the key of the copies of a kept document."""
        return self.key(self.partition_of(number), f"w{number}")

    def unfinished(self, partition: int) -> bytes:
        """Return the key of the removals of a partition that are not finished."""
        return self.key(partition, "x")

    def overflow(self, partition: int, key: int) -> bytes:
        """Return the key of the list of a full bucket."""
        return self.key(partition, f"o{key:016x}")

    def hot(self, partition: int) -> bytes:
        """Return the key of the full buckets of a partition."""
        return self.key(partition, "y")


def offset_of(number: int) -> bytes:
    """Return the field of a document in the hashes of its block."""
    return b"%d" % (number % BLOCK)


def pack_number(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big")


def unpack_numbers(data: bytes) -> list[int]:
    """Return the numbers that a bucket or a list of copies has, in their order, without turns."""
    entries = np.frombuffer(data, np.uint8).reshape(-1, NUMBER_BYTES)
    numbers: list[int] = np.ascontiguousarray(entries[:, 1:]).view(">u4")[:, 0].tolist()
    return numbers


def with_turns(numbers: NDArray[np.int64], turns: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Return members of buckets: documents with their turns."""
    return numbers | np.asarray(turns, np.int64) << 32


class State(NamedTuple):
    """What is stored about the decision on a document."""

    kind: bytes
    """One of the letters above."""
    witness: int | None = None
    similarity: float | None = None
    exact: int = 1
    turn: int = 0
    """How often it was judged again, as far as that is counted."""
    cosine: float | None = None
    """Of its vector and that of the witness, if vectors are a second signal."""

    @property
    def judged_again(self) -> State:
        """The state of a copy that is to be judged again, or of one that is to be so once more."""
        return self._replace(kind=ORPHAN, turn=min(self.turn + 1, LAST_TURN))

    @classmethod
    def of_row(cls, row: Row) -> State:
        """Return the state of a document that another store has."""
        if row.witness is None:
            return cls(KEPT)
        return cls(COPY, row.witness, row.similarity, row.exact, cosine=row.cosine)

    def pack(self, number: int) -> bytes:
        """Return the bytes of a decided state of a document."""
        data = self.kind
        if self.witness is not None:
            data += WITNESS.pack(self.witness, self.similarity or 0.0, self.exact, self.turn)
            data += b"" if self.cosine is None else COSINE.pack(self.cosine)
        return data + _sum(number, data)


def unpack_state(number: int, data: bytes | None) -> State:
    """Return the state of a document; a number without a state is pending: it was taken just now.

    Raises:
        FormatError: If the bytes are not those that were written.
    """
    if not data:
        return State(PENDING)
    kind = data[:1]
    if len(data) in TOKENS.get(kind, ()):
        return State(kind)
    body, stored = data[:-4], data[-4:]
    if stored != _sum(number, body) or kind not in STORED or len(body) not in _body_sizes(kind):
        raise FormatError(
            f"the state of document {number} is damaged: restore a copy of the servers' data"
        )
    if kind == KEPT:
        return State(kind)
    end = 1 + WITNESS.size
    cosine = COSINE.unpack(body[end:])[0] if len(body) > end else None
    witness, similarity, exact, turn = WITNESS.unpack(body[1:end])
    return State(kind, witness, similarity, exact, turn, cosine)


def _body_sizes(kind: bytes) -> tuple[int, ...]:
    end = 1 + WITNESS.size
    return (1,) if kind == KEPT else (end, end + COSINE.size)


def _sum(number: int, data: bytes) -> bytes:
    return xxhash.xxh32_digest(pack_number(number) + data)


class Record(NamedTuple):
    """What never changes about a document."""

    id: str
    content: bytes
    added: float
    metadata: str | None
    signature: bytes

    def pack(self, number: int) -> bytes:
        id = self.id.encode()
        metadata = b"" if self.metadata is None else self.metadata.encode()
        size = -1 if self.metadata is None else len(metadata)
        head = RECORD.pack(self.content, self.added, len(id), size)
        return add_sum(number, head + id + metadata + bytes(self.signature))

    def row(self, number: int, state: State) -> Row:
        """Return the document as other stores return it."""
        return Row(
            number,
            self.id,
            self.content,
            state.witness,
            state.similarity,
            state.exact,
            self.added,
            self.metadata,
            state.cosine,
        )


def unpack_record(number: int, data: bytes) -> Record:
    body = check_sum(number, data, "record")
    content, added, id_size, size = RECORD.unpack_from(body)
    middle = RECORD.size + id_size
    end = middle + max(size, 0)
    id = body[RECORD.size : middle].decode()
    metadata = body[middle:end].decode() if size >= 0 else None
    return Record(id, content, added, metadata, body[end:])


def add_sum(number: int, data: bytes) -> bytes:
    """Return the bytes with their checksum, which depends on the document's number."""
    return data + blob_sum(number, data).to_bytes(8, "big")


def check_sum(number: int, data: bytes, what: str) -> bytes:
    """Return the bytes without their checksum; raise FormatError if it is another one."""
    body = data[:-8]
    if blob_sum(number, body).to_bytes(8, "big") != data[-8:]:
        raise FormatError(
            f"the {what} of document {number} is damaged: restore a copy of the servers' data"
        )
    return body


def bucket_keys(
    keys: NDArray[np.uint64], contents: NDArray[np.uint64], ids: Sequence[str]
) -> NDArray[np.uint64]:
    """Return the keys of the buckets of documents, a row each: the bands, the content, the id."""
    content = contents[:, 0] ^ CONTENT_SALT
    return np.column_stack([keys, content, id_keys(ids)])


def content_keys(contents: NDArray[np.uint64]) -> NDArray[np.uint64]:
    keys: NDArray[np.uint64] = contents[:, 0] ^ CONTENT_SALT
    return keys


def id_keys(ids: Sequence[str]) -> NDArray[np.uint64]:
    hashed = [xxhash.xxh3_64_intdigest(id.encode()) for id in ids]
    return np.array(hashed, np.uint64) ^ ID_SALT
