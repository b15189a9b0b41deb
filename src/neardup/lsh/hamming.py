"""Find all fingerprints within a Hamming distance of a query, by sorted tables.

After Manku, Jain and Das Sarma: for every choice of blocks (`lsh/blocks.py`) a table holds all
fingerprints, sorted by the bits of these blocks. In every table a query is compared with the
fingerprints that share those bits. Recent inserts are in a short list, the tail, which is searched
as a whole, and is sorted into the tables when it has grown.
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
"""The tail is sorted in when it is longer than TAIL + sorted fingerprints / TAIL_SHARE."""
LOOKUP = 150
"""The cost of a lookup in a table, in comparisons of fingerprints."""
KEY_BITS = 32
MOST = 2**32 - 1
AT_ONCE = 1 << 16

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Matches = tuple[Integers, Integers, Integers]


def choose_blocks(bits: int, distance: int, count: int) -> Blocks:
    """Return the blocks with which a query of `count` fingerprints costs least."""

    def cost(blocks: Blocks) -> float:
        return blocks.count * (LOOKUP + count / (1 << min(blocks.key_bits, KEY_BITS)))

    return min(Blocks.choices(bits, distance), key=cost)


@dataclass(frozen=True)
class KeyTable:
    """All fingerprints in the order of one table's key.

    Attributes:
        fingerprints: The fingerprints, sorted by key.
        rows: The row of each in `SortedFingerprints`.
        starts: Where each value of a key's first `lead` bits begins.
        lead: The number of leading bits of a key that `starts` has an entry for.
    """

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
    """Fingerprints by ascending id, and their tables. `present` is False for removed ones."""

    ids: Integers
    fingerprints: Words
    present: NDArray[np.bool_]
    blocks: Blocks
    tables: list[KeyTable] = field(default_factory=list)

    @classmethod
    def of(cls, ids: Integers, fingerprints: Words, blocks: Blocks) -> SortedFingerprints:
        if len(ids) > MOST:
            raise ParameterError(f"an index holds {MOST:,} fingerprints at most: use several")
        order = np.argsort(ids)
        ids, fingerprints = ids[order], fingerprints[order]
        if (repeated := ids[1:][ids[1:] == ids[:-1]]).size:
            raise _exists_already(int(repeated[0]))
        tables = [KeyTable.of(fingerprints, mask) for mask in blocks.masks]
        return cls(ids, fingerprints, np.ones(len(ids), bool), blocks, tables)

    def row(self, id: int) -> int:
        """Return the row of an id, -1 if it is missing or removed."""
        row = int(np.searchsorted(self.ids, id))
        return row if row < len(self.ids) and self.ids[row] == id and self.present[row] else -1

    def search(self, queries: Words) -> NDArray[np.int64]:
        """Return rows of query number, id and distance, one a match."""
        by_table = [
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
        matches: NDArray[np.int64] = np.concatenate(by_table)
        matches = matches[self.present[matches[:, 1]]]
        matches[:, 1] = self.ids[matches[:, 1]]
        return matches

    @property
    def nbytes(self) -> int:
        own = self.ids.nbytes + self.fingerprints.nbytes + self.present.nbytes
        return own + sum(table.nbytes for table in self.tables)


class HammingIndex:
    """An index of fingerprints that finds all of them within a Hamming distance of a query.

    Exact: nothing within the distance is missed. Any thread may call any method: writers take
    turns, and a query finds every fingerprint that was inserted before it began and is not removed
    meanwhile.

    Args:
        bits: The bits of a fingerprint, 64 or 128.
        distance: A query finds fingerprints that differ in at most this many bits.
        blocks: The number of blocks that a fingerprint is split into, above `distance`. More blocks
            make more tables, hence more memory (see `nbytes`), and fewer comparisons. None chooses
            it by the number of fingerprints.

    >>> index = HammingIndex(bits=64, distance=3)
    >>> index.insert(7, 0b1011)
    >>> index.query(0b0001)
    [(7, 2)]
    """

    def __init__(self, bits: int = 64, distance: int = 3, blocks: int | None = None) -> None:
        check_distance(bits, distance)
        self.bits, self.distance = bits, distance
        self._fixed = None if blocks is None else Blocks(bits, distance, blocks)
        self._lock = threading.Lock()
        self._sorted = self._sort(np.empty(0, np.int64), np.empty((0, bits // 64), np.uint64))
        self._tail: dict[int, int] = {}

    @property
    def blocks(self) -> Blocks:
        """The current tables."""
        return self._sorted.blocks

    @property
    def nbytes(self) -> int:
        """The bytes of memory of the fingerprints and their sorted tables."""
        return self._sorted.nbytes

    def insert(self, id: int, fingerprint: int) -> None:
        """Add one fingerprint.

        Args:
            id: A whole number from 0 to 2^63 - 1 that is not in the index yet.
            fingerprint: A whole number of `bits` bits, such as `SimHash.fingerprint`.
        """
        number, bits = _id(id), self._fingerprint(fingerprint)
        with self._lock:
            self._require_new(number)
            self._tail[number] = bits
            if len(self._tail) > TAIL + len(self._sorted.ids) // TAIL_SHARE:
                self._sort_in(np.empty(0, np.int64), self._rows([]))

    def insert_many(self, ids: Iterable[int], fingerprints: Words) -> None:
        """Add many fingerprints at once: much faster for more than a few.

        Args:
            ids: A new id for each fingerprint.
            fingerprints: An array of uint64, of shape (n,) for 64 bits or (n, 2) for 128, lowest
                bits first, such as `SimHash.words`; or a list of whole numbers.
        """
        rows = self._rows(fingerprints)
        numbers = _ids(ids)
        if len(numbers) != len(rows):
            raise ParameterError(
                f"{len(rows)} fingerprints have {len(numbers)} ids: give one for each"
            )
        with self._lock:
            self._sort_in(numbers, rows)

    def remove(self, id: int) -> bool:
        """Remove one fingerprint; return False if there is none with this id.

        Args:
            id: The id that it was inserted with.
        """
        number = _id(id)
        with self._lock:
            if self._tail.pop(number, None) is not None:
                return True
            row = self._sorted.row(number)
            if row >= 0:
                self._sorted.present[row] = False
            return row >= 0

    def query(self, fingerprint: int) -> list[tuple[int, int]]:
        """Return (id, distance) of all fingerprints within the distance, nearest first.

        Args:
            fingerprint: A whole number of `bits` bits.
        """
        words = self._unpacked([self._fingerprint(fingerprint)])
        _, ids, distances = self.query_many(words)
        return sorted(zip(ids.tolist(), distances.tolist(), strict=True), key=lambda one: one[::-1])

    def query_many(self, fingerprints: Words) -> Matches:
        """Find the fingerprints within the distance of many queries at once.

        Args:
            fingerprints: The queries, as in `insert_many`.

        Returns:
            Three arrays with an entry a match: the query's number, the id, the distance; ordered
            by query, then by id.
        """
        queries = self._rows(fingerprints)
        with self._lock:
            sorted_ones, tail = self._sorted, dict(self._tail)
        ids, rows = np.fromiter(tail, np.int64), self._unpacked(list(tail.values()))
        parts = [np.empty((0, 3), np.int64)]
        for start in range(0, len(queries), AT_ONCE):
            batch = queries[start : start + AT_ONCE]
            recent = kernels.search_all(batch, rows, self.distance)
            recent[:, 1] = ids[recent[:, 1]]
            matches = np.concatenate([sorted_ones.search(batch), recent])
            matches[:, 0] += start
            parts.append(matches[np.lexsort((matches[:, 1], matches[:, 0]))])
        query, id, distance = np.ascontiguousarray(np.concatenate(parts).T)
        return query, id, distance

    def __len__(self) -> int:
        with self._lock:
            return int(np.count_nonzero(self._sorted.present)) + len(self._tail)

    def __contains__(self, id: object) -> bool:
        number = _id(id)
        with self._lock:
            return number in self._tail or self._sorted.row(number) >= 0

    def _sort_in(self, ids: Integers, rows: Words) -> None:
        """Sort the tail and new fingerprints into the tables, and drop removed ones."""
        before = self._sorted
        tail = np.fromiter(self._tail, np.int64)
        ids = np.concatenate([before.ids[before.present], tail, ids])
        recent = self._unpacked(list(self._tail.values()))
        rows = np.concatenate([before.fingerprints[before.present], recent, rows])
        self._sorted, self._tail = self._sort(ids, rows), {}

    def _sort(self, ids: Integers, rows: Words) -> SortedFingerprints:
        return SortedFingerprints.of(
            ids, rows, self._fixed or choose_blocks(self.bits, self.distance, len(ids))
        )

    def _require_new(self, id: int) -> None:
        if id in self._tail or self._sorted.row(id) >= 0:
            raise _exists_already(id)

    def _fingerprint(self, value: object) -> int:
        return check_whole(f"a fingerprint of {self.bits} bits", value, 0, (1 << self.bits) - 1)

    def _unpacked(self, fingerprints: list[int]) -> Words:
        """Return fingerprints as rows of words."""
        data = b"".join(one.to_bytes(self.bits // 8, "little") for one in fingerprints)
        return np.frombuffer(data, "<u8").astype(np.uint64).reshape(-1, self.bits // 64)

    def _rows(self, fingerprints: Any) -> Words:
        """Return an array or a list of fingerprints as rows of words."""
        if isinstance(fingerprints, list):
            return self._unpacked([self._fingerprint(one) for one in fingerprints])
        words, rows = self.bits // 64, np.asarray(fingerprints)
        if words == 1 and rows.ndim == 1:
            rows = rows[:, None]
        if rows.dtype != np.uint64 or rows.ndim != 2 or rows.shape[1] != words:
            raise ParameterError(
                f"fingerprints of {self.bits} bits must be rows of {words} uint64, "
                f"not {rows.dtype} of shape {rows.shape}"
            )
        return np.ascontiguousarray(rows)

    def __repr__(self) -> str:
        return (
            f"HammingIndex(bits={self.bits}, distance={self.distance}, "
            f"blocks={self.blocks.blocks}, fingerprints={len(self)})"
        )


def _id(value: object) -> int:
    return check_whole("an id", value, 0, 2**63 - 1)


def _ids(values: Iterable[int]) -> Integers:
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.ndim == 1:
        if len(values):
            _id(values.min()), _id(values.max())
        return values.astype(np.int64)
    return np.fromiter(map(_id, values), np.int64)


def _exists_already(id: int) -> ParameterError:
    return ParameterError(f"id {id} is in the index already: remove it first")
