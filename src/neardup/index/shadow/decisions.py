"""What was decided of each document at an operating point, in memory, by number.

The store has the decisions of one operating point. `Overlaid` is the store as it would be, had the
documents been judged at another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.index.store import Row, Store
from neardup.index.tables.postings import Integers

ROOM: Final = 1 << 12
KEPT: Final = 0
"""As a witness; documents are counted from 1."""
ABSENT: Final = 2**32 - 1


class Decisions:
    """One writer; who reads meanwhile may see some of what it does. Documents that are not there
    have the witness ABSENT."""

    def __init__(self) -> None:
        self.witness: NDArray[np.uint32] = np.full(ROOM, ABSENT, np.uint32)
        self.similarity: NDArray[np.float64] = np.zeros(ROOM)
        self.exact: NDArray[np.uint8] = np.ones(ROOM, np.uint8)

    @property
    def nbytes(self) -> int:
        return self.witness.nbytes + self.similarity.nbytes + self.exact.nbytes

    def put(self, rows: Sequence[Row]) -> None:
        """What was decided of these documents, in place of what was before."""
        if not rows:
            return
        numbers = np.array([row.number for row in rows], np.int64)
        self._reach(int(numbers.max()))
        self.witness[numbers] = [row.witness or KEPT for row in rows]
        self.similarity[numbers] = [row.similarity or 0.0 for row in rows]
        self.exact[numbers] = [row.exact for row in rows]

    def forget(self, numbers: Sequence[int]) -> None:
        """Documents that are gone."""
        self.witness[list(numbers)] = ABSENT

    def has(self, number: int) -> bool:
        return number < len(self.witness) and self.witness[number] != ABSENT

    def judged(self, row: Row) -> Row:
        """The document with what was decided here."""
        witness = int(self.witness[row.number])
        if witness == KEPT:
            return row._replace(witness=None, similarity=None, exact=1)
        return row._replace(
            witness=witness,
            similarity=float(self.similarity[row.number]),
            exact=int(self.exact[row.number]),
        )

    def clusters(self, numbers: Sequence[int]) -> list[int]:
        """The kept documents that these are, or are copies of."""
        witnesses = self.witness[list(numbers)].tolist()
        return [witness or number for number, witness in zip(numbers, witnesses, strict=True)]

    def differing(self, other: Decisions) -> Integers:
        """The documents of which something else was decided there; both have the same ones."""
        differs = self.witness != other.witness
        differs |= (self.witness != KEPT) & (
            (self.similarity != other.similarity) | (self.exact != other.exact)
        )
        return np.flatnonzero(differs & (self.witness != ABSENT))

    def _reach(self, number: int) -> None:
        if number < len(self.witness):
            return
        room = max(number + 1, 2 * len(self.witness)) - len(self.witness)
        self.similarity = np.append(self.similarity, np.zeros(room))
        self.exact = np.append(self.exact, np.ones(room, np.uint8))
        self.witness = np.append(self.witness, np.full(room, ABSENT, np.uint32))  # last: see `has`


class Overlaid:
    """A store's documents, those of them that were judged here, as they were."""

    def __init__(self, store: Store, decisions: Decisions) -> None:
        self._store, self._decisions = store, decisions

    def rows(self, numbers: Sequence[int]) -> dict[int, Row]:
        rows = self._store.rows(numbers)
        return {
            number: self._decisions.judged(row)
            for number, row in rows.items()
            if self._decisions.has(number)
        }

    def blobs(self, table: str, numbers: Sequence[int]) -> dict[int, bytes]:
        return self._store.blobs(table, numbers)
