"""Is everything in an index as it should be? Reads all of it once."""

from __future__ import annotations

import numpy as np

from neardup.errors import NeardupError
from neardup.index import snapshot
from neardup.index.derived import Derived, id_key
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
            kept: set[int] = set()
            expected = 0
            last = 0
            while rows := store.rows_after(last, AT_ONCE):
                last = rows[-1].number
                kept |= {row.number for row in rows if row.witness is None}
                found += _of_rows(store, point, rows)
                expected += len(rows)
            found += _of_witnesses(store, kept)
            living = _living(point.derived)
            if store.last_change() == point.derived.sequence and living != expected:
                found.append(f"{living:,} documents are in the tables, {expected:,} in the store")
    except NeardupError as error:
        found.append(str(error))
    return found[:MOST]


def _of_rows(store: Store, point: Point, rows: list[Row]) -> list[str]:
    numbers = [row.number for row in rows]
    blobs = {table: store.blobs(table, numbers) for table in BLOBS}
    lacking = [row.number for row in rows if row.number not in blobs["signatures"]]
    if lacking:
        return [f"document {number} has no signature" for number in lacking]
    derived, keys = point.derived, snapshot.keys_of(store, point.signing, rows)
    found = []
    with derived.guard.reading():
        ids = derived.ids.find(np.array([id_key(row.id) for row in rows], np.uint64),
                               derived.dead, 2**31 - 1)  # fmt: skip
        found += _missing(rows, ids, "ids")
        for table, postings in enumerate(derived.bands.tables):
            column = np.ascontiguousarray(keys[:, table])
            kept = np.array([row.witness is None for row in rows], bool)
            there = postings.find(column[kept], derived.dead, 2**31 - 1)
            found += _missing([row for row in rows if row.witness is None], there, f"band {table}")
    return found


def _missing(rows: list[Row], there: tuple[np.ndarray, np.ndarray], where: str) -> list[str]:
    counts, numbers = there
    asked = np.repeat([row.number for row in rows], counts)
    present = set(numbers[asked == numbers].tolist())
    return [f"document {row.number} is missing in the table of {where}"
            for row in rows if row.number not in present]  # fmt: skip


def _of_witnesses(store: Store, kept: set[int]) -> list[str]:
    found, last = [], 0
    while rows := store.rows_after(last, AT_ONCE):
        last = rows[-1].number
        found += [
            f"document {row.number} is a copy of {row.witness}, which is not kept"
            for row in rows
            if row.witness is not None and row.witness not in kept
        ]
    return found


def _living(derived: Derived) -> int:
    with derived.guard.reading():
        return len(derived.ids.everything(derived.dead)[0])
