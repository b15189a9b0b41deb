"""Who is within a Hamming distance of a fingerprint? Everyone is found, by sorted tables.

After Manku, Jain and Das Sarma: for every choice of blocks (`lsh/blocks.py`) a table holds all
fingerprints, sorted by the bits of these blocks. A query looks at those that share them, in every
table, and an exact filter drops what is too far. What was inserted lately is in a short list that
is looked at as a whole; when it has grown, it is sorted in.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError
from neardup.lsh.blocks import Blocks, check_distance
from neardup.spec import check_whole

TAIL, TAIL_SHARE = 1024, 256
"""The short list: so many, and one for every so many that are sorted."""
LOOKUP = 150
"""What beginning to look into a table costs, in fingerprints that are looked at."""
KEY_BITS = 32
MOST = 2**32 - 1
AT_ONCE = 1 << 16

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Matches = tuple[Integers, Integers, Integers]


def choose_blocks(bits: int, distance: int, count: int) -> Blocks:
    """The blocks with which a query among so many fingerprints looks at least."""

    def cost(blocks: Blocks) -> float:
        return blocks.count * (LOOKUP + count / (1 << min(blocks.key_bits, KEY_BITS)))

    return min(Blocks.choices(bits, distance), key=cost)


@dataclass(frozen=True)
class KeyTable:
    """All fingerprints in the order of one table's key, and where each lead of a key begins."""

    fingerprints: Words
    rows: NDArray[np.uint32]
    starts: Integers
    lead: int

    @classmethod
    def of(cls, fingerprints: Words, mask: Words) -> KeyTable:
        packed = np.empty(len(fingerprints), np.uint64)
        kernels.packed_keys(fingerprints, mask, packed)
        packed.sort()
        key_bits = min(sum(int(word).bit_count() for word in mask), KEY_BITS)
        lead = max(min(key_bits, len(packed).bit_length() - 3), 1)
        rows = (packed & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        return cls(fingerprints[rows], rows, kernels.key_starts(packed, lead), lead)

    @property
    def nbytes(self) -> int:
        return self.fingerprints.nbytes + self.rows.nbytes + self.starts.nbytes


@dataclass(frozen=True)
class SortedFingerprints:
    """Fingerprints, by ascending id, and their tables. `there` says which are not removed."""

    ids: Integers
    fingerprints: Words
    there: NDArray[np.bool_]
    blocks: Blocks
    tables: list[KeyTable] = field(default_factory=list)

    @classmethod
    def of(cls, ids: Integers, fingerprints: Words, blocks: Blocks) -> SortedFingerprints:
        if len(ids) > MOST:
            raise ParameterError(f"an index holds {MOST:,} fingerprints at most: use several")
        order = np.argsort(ids)
        ids, fingerprints = ids[order], fingerprints[order]
        if (twice := ids[1:][ids[1:] == ids[:-1]]).size:
            raise _there_already(int(twice[0]))
        tables = [KeyTable.of(fingerprints, mask) for mask in blocks.masks]
        return cls(ids, fingerprints, np.ones(len(ids), bool), blocks, tables)

    def row(self, id: int) -> int:
        """The row of an id, -1 if it is not there."""
        row = int(np.searchsorted(self.ids, id))
        return row if row < len(self.ids) and self.ids[row] == id and self.there[row] else -1

    def search(self, queries: Words) -> NDArray[np.int64]:
        """Query, id and distance of all matches."""
        found = [
            kernels.search_table(
                queries,
                table.fingerprints,
                table.rows,
                table.starts,
                self.blocks.masks,
                number,
                table.lead,
                self.blocks.distance,
            )
            for number, table in enumerate(self.tables)
        ]
        matches: NDArray[np.int64] = np.concatenate(found)
        matches = matches[self.there[matches[:, 1]]]
        matches[:, 1] = self.ids[matches[:, 1]]
        return matches

    @property
    def nbytes(self) -> int:
        own = self.ids.nbytes + self.fingerprints.nbytes + self.there.nbytes
        return own + sum(table.nbytes for table in self.tables)


class HammingIndex:
    """Fingerprints with ids, and all that are within a distance of any other.

    Ids are whole numbers of your choice, each once. Calls may come from several threads: writers
    take turns, a query finds all that is there before it begins and stays meanwhile. The number of
    blocks is chosen by the number of fingerprints, unless it is given; `nbytes` says what that
    takes.

    Args:
        bits: The bits of a fingerprint, 64 or 128.
        distance: Fingerprints that differ in at most this many bits are found.
        blocks: The blocks that a fingerprint is cut into; None chooses by the number of them.

    >>> index = HammingIndex(bits=64, distance=3)
    >>> index.insert(7, 0b1011)
    >>> index.query(0b0001)
    [(7, 2)]
    """

    def __init__(self, bits: int = 64, distance: int = 3, blocks: int | None = None) -> None:
        check_distance(bits, distance)
        self.bits, self.distance = bits, distance
        self._given = None if blocks is None else Blocks(bits, distance, blocks)
        self._lock = threading.Lock()
        self._sorted = self._sort(np.empty(0, np.int64), np.empty((0, bits // 64), np.uint64))
        self._tail: dict[int, int] = {}

    @property
    def blocks(self) -> Blocks:
        """The tables that there are now."""
        return self._sorted.blocks

    @property
    def nbytes(self) -> int:
        """Bytes of the sorted tables and of what they were made of."""
        return self._sorted.nbytes

    def insert(self, id: int, fingerprint: int) -> None:
        """Add one fingerprint."""
        number, bits = _id(id), self._fingerprint(fingerprint)
        with self._lock:
            self._require_new(number)
            self._tail[number] = bits
            if len(self._tail) > TAIL + len(self._sorted.ids) // TAIL_SHARE:
                self._sort_in(np.empty(0, np.int64), self._rows([]))

    def insert_many(self, ids: Iterable[int], fingerprints: Words) -> None:
        """Add many at once and sort them in: for more than a few, much faster."""
        rows = self._rows(fingerprints)
        numbers = _ids(ids)
        if len(numbers) != len(rows):
            raise ParameterError(f"{len(rows)} fingerprints have {len(numbers)} ids")
        with self._lock:
            self._sort_in(numbers, rows)

    def remove(self, id: int) -> bool:
        """Take one fingerprint out; False if it is not there."""
        number = _id(id)
        with self._lock:
            if self._tail.pop(number, None) is not None:
                return True
            row = self._sorted.row(number)
            if row >= 0:
                self._sorted.there[row] = False
            return row >= 0

    def query(self, fingerprint: int) -> list[tuple[int, int]]:
        """The ids within the distance, with theirs, nearest first."""
        words = self._unpacked([self._fingerprint(fingerprint)])
        _, ids, distances = self.query_many(words)
        return sorted(zip(ids.tolist(), distances.tolist(), strict=True), key=lambda one: one[::-1])

    def query_many(self, fingerprints: Words) -> Matches:
        """All pairs of a query and an id within the distance: query numbers, ids and distances.

        By query, then by id.
        """
        queries = self._rows(fingerprints)
        with self._lock:
            known, tail = self._sorted, dict(self._tail)
        ids, rows = np.fromiter(tail, np.int64), self._unpacked(list(tail.values()))
        parts = [np.empty((0, 3), np.int64)]
        for start in range(0, len(queries), AT_ONCE):
            some = queries[start : start + AT_ONCE]
            recent = kernels.search_all(some, rows, self.distance)
            recent[:, 1] = ids[recent[:, 1]]
            found = np.concatenate([known.search(some), recent])
            found[:, 0] += start
            parts.append(found[np.lexsort((found[:, 1], found[:, 0]))])
        query, id, distance = np.ascontiguousarray(np.concatenate(parts).T)
        return query, id, distance

    def __len__(self) -> int:
        with self._lock:
            return int(np.count_nonzero(self._sorted.there)) + len(self._tail)

    def __contains__(self, id: object) -> bool:
        number = _id(id)
        with self._lock:
            return number in self._tail or self._sorted.row(number) >= 0

    def _sort_in(self, ids: Integers, rows: Words) -> None:
        """Sort the short list and these in; removed ones go."""
        known = self._sorted
        tail = np.fromiter(self._tail, np.int64)
        ids = np.concatenate([known.ids[known.there], tail, ids])
        recent = self._unpacked(list(self._tail.values()))
        rows = np.concatenate([known.fingerprints[known.there], recent, rows])
        self._sorted, self._tail = self._sort(ids, rows), {}

    def _sort(self, ids: Integers, rows: Words) -> SortedFingerprints:
        return SortedFingerprints.of(
            ids, rows, self._given or choose_blocks(self.bits, self.distance, len(ids))
        )

    def _require_new(self, id: int) -> None:
        if id in self._tail or self._sorted.row(id) >= 0:
            raise _there_already(id)

    def _fingerprint(self, given: object) -> int:
        return check_whole(f"a fingerprint of {self.bits} bits", given, 0, (1 << self.bits) - 1)

    def _unpacked(self, fingerprints: list[int]) -> Words:
        data = b"".join(one.to_bytes(self.bits // 8, "little") for one in fingerprints)
        return np.frombuffer(data, "<u8").astype(np.uint64).reshape(-1, self.bits // 64)

    def _rows(self, given: Any) -> Words:
        """Fingerprints as rows of words, from an array or a list of numbers."""
        if isinstance(given, list):
            return self._unpacked([self._fingerprint(one) for one in given])
        words, found = self.bits // 64, np.asarray(given)
        if words == 1 and found.ndim == 1:
            found = found[:, None]
        if found.dtype != np.uint64 or found.ndim != 2 or found.shape[1] != words:
            raise ParameterError(
                f"fingerprints of {self.bits} bits come as rows of {words} uint64, "
                f"not as {found.dtype} of shape {found.shape}"
            )
        return np.ascontiguousarray(found)

    def __repr__(self) -> str:
        return (
            f"HammingIndex(bits={self.bits}, distance={self.distance}, "
            f"blocks={self.blocks.blocks}, fingerprints={len(self)})"
        )


def _id(given: object) -> int:
    return check_whole("an id", given, 0, 2**63 - 1)


def _ids(given: Iterable[int]) -> Integers:
    if isinstance(given, np.ndarray) and given.dtype.kind in "iu" and given.ndim == 1:
        if len(given):
            _id(given.min()), _id(given.max())
        return given.astype(np.int64)
    return np.fromiter(map(_id, given), np.int64)


def _there_already(id: int) -> ParameterError:
    return ParameterError(f"id {id} is there already: remove it first")
