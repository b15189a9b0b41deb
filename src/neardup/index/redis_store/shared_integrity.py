"""Verify an index on Redis, and repair what a failover of its servers can leave behind.

A failover may lose the last commands of a server that were acknowledged before its replica had
them. So a bucket may lack a document, a cluster a copy, a copy its witness. What is left of each
document says what to append again; a copy without its witness is judged again. Other processes may
go on meanwhile: a problem counts if it is still there when it is looked at a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError
from neardup.index.redis_store.buckets import Buckets
from neardup.index.redis_store.decision_store import DecisionStore
from neardup.index.redis_store.documents import Documents
from neardup.index.redis_store.keyspace import KEPT, bucket_keys
from neardup.index.redis_store.overflow import Overflow
from neardup.index.redis_store.removal import Removal
from neardup.index.store import Row
from neardup.index.view import TablesBehind, View

AT_ONCE: Final = 2_048
MOST: Final = 100
"""The most problems that are listed."""


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a document, and what repairs it."""

    number: int
    what: str
    keys: NDArray[np.uint64] | None = None
    """The buckets that lack it."""
    witness: int | None = None
    """The witness whose cluster lacks it, or that is gone."""
    orphaned: bool = False
    """Its witness is gone."""


@dataclass(frozen=True)
class SharedIntegrity:
    """Finds and repairs problems of an index. Any thread may use it."""

    store: DecisionStore
    buckets: Buckets
    overflow: Overflow
    documents: Documents
    view: View
    removal: Removal

    def verify(self) -> list[str]:
        """List problems, one line each; the first hundred."""
        problems: list[str] = []
        for rows in self._all_rows(problems):
            problems += [f"document {each.number} {each.what}" for each in self._check(rows)]
            if len(problems) >= MOST:
                break
        return problems[:MOST]

    def repair(self) -> list[str]:
        """Repair what can be repaired; return what was done, one line each."""
        done: list[str] = []
        if finished := self.removal.finish_all():
            done.append(f"{finished} removals that were not finished")
        damaged: list[str] = []
        for rows in self._all_rows(damaged):
            for problem in self._check(rows):
                self._mend(problem)
                done.append(f"document {problem.number} {problem.what}: mended")
        return done + damaged

    def _all_rows(self, damaged: list[str]) -> Iterator[list[Row]]:
        """Yield all documents in slices; what can't be read is listed in `damaged`."""
        for numbers in self.documents.slices(AT_ONCE):
            try:
                yield self._rows(numbers)
            except (FormatError, TablesBehind):
                rows = []
                for number in numbers:
                    try:
                        rows += self._rows([number])
                    except TablesBehind:  # it is being judged again, or was removed just now
                        continue
                    except FormatError as error:
                        damaged.append(str(error))
                yield rows

    def _rows(self, numbers: Sequence[int]) -> list[Row]:
        rows = self.documents.rows(numbers)
        return [rows[number] for number in sorted(rows)]

    def _check(self, rows: list[Row]) -> list[Problem]:
        """Return the problems of documents that are there at a second look, too."""
        try:
            suspects = {problem.number for problem in self._look(rows)}
        except TablesBehind:
            return []
        if not suspects:
            return []
        try:
            return list(self._look(self._rows(sorted(suspects))))
        except TablesBehind:  # some are being judged again
            return []

    def _look(self, rows: list[Row]) -> Iterator[Problem]:
        if not rows:
            return
        records = self.documents.records([row.number for row in rows])
        rows = [row for row in rows if row.number in records]
        size = self.view.codec.blob_bytes
        for row in rows:
            if len(records[row.number].signature) != size:
                yield Problem(row.number, "has a signature of another length")
        rows = [row for row in rows if len(records[row.number].signature) == size]
        if not rows:
            return
        contents = np.frombuffer(b"".join(row.content for row in rows), np.uint64).reshape(-1, 2)
        bands = self.view.codec.unpack([records[row.number].signature for row in rows]).keys
        keys = bucket_keys(bands, contents, [row.id for row in rows])
        yield from self._look_for_buckets(rows, keys)
        yield from self._look_for_witnesses([row for row in rows if row.witness is not None])

    def _look_for_buckets(self, rows: list[Row], keys: NDArray[np.uint64]) -> Iterator[Problem]:
        """Find documents that buckets lack: kept ones are in all, copies in that of the id."""
        wanted = np.zeros(keys.shape, bool)
        wanted[:, -1] = True
        wanted[[row.witness is None for row in rows], :] = True
        at, columns = np.nonzero(wanted)
        flat = keys[at, columns]
        members = self.buckets.find(flat)
        numbers = np.array([row.number for row in rows], np.int64)[at]
        missing = [
            place
            for place, number in enumerate(numbers.tolist())
            if number not in members.get(place, ())
        ]
        missing = [
            place
            for place in missing
            if not self.overflow.has(int(flat[place]), int(numbers[place]))
        ]
        by_row: dict[int, list[int]] = {}
        for place in missing:
            by_row.setdefault(int(at[place]), []).append(place)
        for row, places in by_row.items():
            what = f"is missing in {len(places)} of its buckets"
            yield Problem(rows[row].number, what, keys=flat[places])

    def _look_for_witnesses(self, copies: list[Row]) -> Iterator[Problem]:
        """Find copies whose witness is not kept, or whose cluster lacks them."""
        witnesses = sorted({row.witness for row in copies if row.witness is not None})
        states = self.documents.states(witnesses)
        members = dict(zip(witnesses, self.documents.members(witnesses), strict=True))
        for row in copies:
            witness = row.witness or 0
            if states[witness].kind != KEPT:
                what = f"is a copy of {witness}, which is not kept"
                yield Problem(row.number, what, witness=witness, orphaned=True)
            elif row.number not in members[witness]:
                what = f"is missing in the cluster of {witness}"
                yield Problem(row.number, what, witness=witness)

    def _mend(self, problem: Problem) -> None:
        number = problem.number
        if problem.keys is not None:
            self.buckets.append(problem.keys, np.full(len(problem.keys), number, np.int64))
        elif problem.orphaned:
            self.removal.judge_orphans_of(problem.witness or 0, [number])
        elif problem.witness is not None:
            self.store.join([(problem.witness, number)])
