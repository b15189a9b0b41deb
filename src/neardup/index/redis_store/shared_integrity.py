"""Verify an index on Redis, and repair what a failover of its servers can leave behind.

A failover may lose the last commands of a server that were acknowledged before its replica had
them. So a bucket may lack a document, a cluster a copy, a copy its witness. What is left of each
document says what to append again; a copy without its witness is judged again, and so is a document
that has lost its state. One that has lost its record is removed. Other processes may go on
meanwhile: a problem counts if it is still there when it is looked at a second time; a removal, if
it is not finished after a whole lease.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError
from neardup.index.redis_store.buckets import SharedBuckets
from neardup.index.redis_store.decision_store import Change, DecisionStore
from neardup.index.redis_store.documents import SharedDocuments
from neardup.index.redis_store.keyspace import (
    DELETED,
    KEPT,
    LAST_TURN,
    ORPHAN,
    REMOVING,
    STORED,
    State,
    bucket_keys,
    with_turns,
)
from neardup.index.redis_store.overflow import Overflow
from neardup.index.redis_store.removal import SharedRemoval
from neardup.index.store import Row
from neardup.index.view import TablesBehind, View

AT_ONCE: Final = 2_048
PAUSE: Final = 0.1
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
    buckets: SharedBuckets
    overflow: Overflow
    documents: SharedDocuments
    view: View
    removal: SharedRemoval

    def verify(self) -> list[str]:
        """List problems, one line each; the first hundred."""
        problems: list[str] = []
        for numbers in self._slices():
            rows = self._read(numbers, problems)
            problems += [f"document {each.number} {each.what}" for each in self._check(rows)]
            problems += [f"document {number} has lost its record" for number in self._bare(numbers)]
            if len(problems) >= MOST:
                break
        else:
            lost = self.documents.without_state()
            problems += [f"document {number} has lost its state" for number in lost]
            problems += self._unfinished()
        return problems[:MOST]

    def repair(self) -> list[str]:
        """Repair what can be repaired; return what was done, one line each."""
        done: list[str] = []
        if finished := self.removal.finish_all():
            done.append(f"{finished} removals that were not finished")
        for number in self.documents.without_state():
            lost = State(ORPHAN, 0, 0.0).judged_again
            self.store.settle([Change(number, b"", lost.pack(number))])
            done.append(f"document {number} has lost its state: judged again")
        damaged: list[str] = []
        for numbers in self._slices():
            for number in self._bare(numbers):
                self._drop(number)
                done.append(f"document {number} has lost its record: removed")
            self.removal.judge_again(self._orphans(numbers))
            for problem in self._check(self._read(numbers, damaged)):
                self._mend(problem)
                done.append(f"document {problem.number} {problem.what}: mended")
        return done + damaged

    def _slices(self) -> Iterator[list[int]]:
        return self.documents.slices(AT_ONCE)

    def _read(self, numbers: Sequence[int], damaged: list[str]) -> list[Row]:
        """Return documents that can be read; the others are listed in `damaged`."""
        try:
            return self._read_all(numbers)
        except FormatError:  # one of them is damaged, or is being judged again
            rows = []
            for number in numbers:
                try:
                    rows += self._read_all([number])
                except TablesBehind:
                    continue
                except FormatError as error:
                    damaged.append(str(error))
            return rows

    def _read_all(self, numbers: Sequence[int]) -> list[Row]:
        rows = self._rows(numbers)
        stored = {
            table: self.documents.blobs(table, [row.number for row in rows])
            for table in ("shingles", "texts")
        }
        if self.view.options.vectors is not None:
            for row in rows:
                if row.number not in stored["shingles"]:
                    raise FormatError(
                        f"the vector of document {row.number} is lost: restore a copy of the "
                        "servers' data, or remove the document"
                    )
        return rows

    def _states(self, numbers: Sequence[int]) -> dict[int, State]:
        """Return states, without those that are damaged, which are told elsewhere."""
        try:
            return self.documents.states(numbers)
        except FormatError:
            found: dict[int, State] = {}
            for number in numbers:
                with suppress(FormatError):
                    found |= self.documents.states([number])
            return found

    def _orphans(self, numbers: Sequence[int]) -> list[int]:
        return [each for each, state in self._states(numbers).items() if state.kind == ORPHAN]

    def _bare(self, numbers: Sequence[int]) -> list[int]:
        """Return the documents that have no record."""
        states = self._states(numbers)
        stored = [each for each, state in states.items() if state.kind in STORED]
        bare = sorted(set(stored) - self.documents.with_record(stored))
        now = self._states(bare)  # some may have been removed just now
        return [each for each in bare if each in now and now[each].kind in STORED]

    def _drop(self, number: int) -> None:
        """Remove a document that has no record."""
        state = self.documents.states([number])[number]
        if state.kind == ORPHAN:
            self.store.settle([Change(number, state.pack(number), DELETED)])
            self.store.erase([number], DELETED)
        else:
            self.removal.remove([number])

    def _unfinished(self) -> list[str]:
        """Wait for removals under way; list those that no process finishes."""
        begun = time.monotonic()
        while True:
            removals = self.store.unfinished()
            orphans = [each for numbers in self._slices() for each in self._orphans(numbers)]
            if not removals and not orphans:
                return []
            if time.monotonic() - begun > self.removal.lease:
                return [
                    *(f"the removal of document {each} is not finished" for each in removals),
                    *(f"document {each} waits to be judged again" for each in orphans),
                ]
            time.sleep(PAUSE)

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
        states = self._states(witnesses)
        members = dict(zip(witnesses, self.documents.members(witnesses), strict=True))
        for row in copies:
            witness = row.witness or 0
            if witness not in states or states[witness].kind == REMOVING:
                continue  # it is damaged, or this is judged again in a moment
            if states[witness].kind != KEPT:
                what = f"is a copy of {witness}, which is not kept"
                yield Problem(row.number, what, witness=witness, orphaned=True)
            elif row.number not in members[witness]:
                what = f"is missing in the cluster of {witness}"
                yield Problem(row.number, what, witness=witness)

    def _mend(self, problem: Problem) -> None:
        number = problem.number
        if problem.keys is not None:
            members = with_turns(np.full(len(problem.keys), number, np.int64), LAST_TURN)
            self.buckets.append(problem.keys, members)
        elif problem.orphaned:
            self.removal.judge_orphans_of(problem.witness or 0, [number])
        elif problem.witness is not None:
            self.store.join([(problem.witness, number)])
