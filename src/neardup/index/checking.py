"""Is everything in an index as it should be? Reads all of it once."""

from __future__ import annotations

import numpy as np

from neardup.errors import NeardupError
from neardup.index import snapshot
from neardup.index.derived import ALL, Derived
from neardup.index.postings import Integers
from neardup.index.store import BLOBS, Row, Store
from neardup.index.work import Point

AT_ONCE = 4_096
MOST = 100
"""So many problems are listed at most."""


def problems(store: Store, point: Point) -> list[str]:
    """Each in a line: of the file, of rows, of witnesses, and of the tables."""
    found = [f"{store.path}: {problem}" for problem in store.problems()]
    if found:
        return found
    try:
        with store.snapshot():
            found += _of_documents(store, point)
    except NeardupError as error:
        found.append(str(error))
    return found[:MOST]


def _of_documents(store: Store, point: Point) -> list[str]:
    found: list[str] = []
    numbers, witnesses, kept = [], [], []
    last = 0
    while (rows := store.rows_after(last, AT_ONCE)) and len(found) < MOST:
        last = rows[-1].number
        numbers.append(np.array([row.number for row in rows]))
        kept.append(np.array([row.witness is None for row in rows]))
        witnesses.append(np.array([row.witness or 0 for row in rows]))
        found += _of_rows(store, point, rows)
    if not numbers:
        return found
    every, stays = np.concatenate(numbers), np.concatenate(kept)
    named = np.concatenate(witnesses)
    lost = ~stays & ~np.isin(named, every[stays])
    found += [f"document {number} is a copy of {witness}, which is not kept"
              for number, witness in zip(every[lost], named[lost], strict=True)]  # fmt: skip
    if store.last_change() == point.derived.sequence:
        found += _ghosts(point.derived, every)
    return found


def _of_rows(store: Store, point: Point, rows: list[Row]) -> list[str]:
    numbers = [row.number for row in rows]
    blobs = {table: store.blobs(table, numbers) for table in BLOBS}
    if lacking := [number for number in numbers if number not in blobs["signatures"]]:
        return [f"document {number} has no signature" for number in lacking]
    derived = point.derived
    found = [
        f"document {row.number} is missing in the table of ids"
        for row, there in zip(rows, derived.with_ids([row.id for row in rows]), strict=True)
        if row.number not in there
    ]
    content = np.frombuffer(b"".join(row.content for row in rows), np.uint64).reshape(-1, 2)
    found += [
        f"document {row.number} is missing in the table of contents"
        for row, there in zip(rows, derived.with_contents(content), strict=True)
        if row.number not in there
    ]
    kept = [row for row in rows if row.witness is None]
    return found + _of_bands(derived, kept, snapshot.keys_of(store, point.signing, kept))


def _of_bands(derived: Derived, kept: list[Row], keys: np.ndarray) -> list[str]:
    """Each kept document must be in each of its buckets."""
    if not kept:
        return []
    counts, rows, numbers = derived.leaders(keys, ALL)
    tables = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    own = np.array([row.number for row in kept])[rows] == numbers
    there = np.zeros(counts.shape, bool)
    there[tables[own], rows[own]] = True
    return [f"document {kept[row].number} is missing in band {table}"
            for table, row in zip(*np.nonzero(~there), strict=True)]  # fmt: skip


def _ghosts(derived: Derived, stored: Integers) -> list[str]:
    with derived.guard.reading():
        listed = [table.everything(derived.dead)[1] for table in derived.tables]
    inside = np.unique(np.concatenate(listed)).astype(np.int64)
    return [f"document {number} is in the tables and not stored"
            for number in np.setdiff1d(inside, stored).tolist()]  # fmt: skip
