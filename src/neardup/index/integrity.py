"""Check that all that is stored can be read, and that the tables agree with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from neardup.errors import NeardupError
from neardup.index import snapshot
from neardup.index.lookup import ALL, LookupTables
from neardup.index.postings import Integers
from neardup.index.store import BLOBS, Row, Store
from neardup.index.view import View

AT_ONCE = 4_096
MOST = 100
"""The most problems that are listed."""

Problem = tuple[int, str]
"""Of a document, by its number."""


def find_problems(store: Store, view: View) -> list[str]:
    """Problems of the file, of rows, of witnesses and of the tables, one line each.

    The tables must be those of the store's last change, and stay so until it is done.
    """
    found = [f"{store.path}: {problem}" for problem in store.problems()]
    if found:
        return found
    try:
        with store.snapshot():
            listed = _check_documents(store, view)
            found = [f"document {number} {what}" for number, what in listed]
            found += _check_tables(store, view.tables)
    except NeardupError as error:
        found.append(str(error))
    return found[:MOST]


def _check_documents(store: Store, view: View) -> list[Problem]:
    found: list[Problem] = []
    numbers, witnesses = [], []
    last = 0
    while (rows := store.rows_after(last, AT_ONCE)) and len(found) < MOST:
        last = rows[-1].number
        numbers.append(np.array([row.number for row in rows]))
        witnesses.append(np.array([row.witness or 0 for row in rows]))
        found += _check_rows(store, view, rows)
    if not numbers:
        return found
    every, named = np.concatenate(numbers), np.concatenate(witnesses)
    lost = (named != 0) & ~np.isin(named, every[named == 0])
    return found + [
        (number, f"is a copy of {witness}, which is not kept")
        for number, witness in zip(every[lost].tolist(), named[lost].tolist(), strict=True)
    ]


def _check_rows(store: Store, view: View, rows: list[Row]) -> list[Problem]:
    numbers = [row.number for row in rows]
    blobs = {table: store.blobs(table, numbers) for table in BLOBS}
    if lacking := [number for number in numbers if number not in blobs["signatures"]]:
        return [(number, "has no signature") for number in lacking]
    kept = [row for row in rows if row.witness is None]
    keys = snapshot.read_band_keys(store, view.codec, kept)
    return [
        *_check_look_ups(view.tables, rows),
        *_check_bands(view.tables, kept, keys),
        *_check_witnesses(store, view, [row for row in rows if row.witness is not None]),
    ]


def _check_look_ups(tables: LookupTables, rows: list[Row]) -> Iterator[Problem]:
    """Each document must be found by its id, by its content and by its witness."""
    content = np.frombuffer(b"".join(row.content for row in rows), np.uint64).reshape(-1, 2)
    copies = [row for row in rows if row.witness is not None]
    looked_up = {
        "ids": (rows, tables.with_ids([row.id for row in rows])),
        "contents": (rows, tables.with_contents(content)),
        "copies": (copies, tables.with_witnesses([row.witness or 0 for row in copies])),
    }
    for table, (asked, found) in looked_up.items():
        for row, there in zip(asked, found, strict=True):
            if row.number not in there:
                yield row.number, f"is missing in the table of {table}"


def _check_bands(tables: LookupTables, kept: list[Row], keys: np.ndarray) -> list[Problem]:
    """Each kept document must be in each of its buckets."""
    if not kept:
        return []
    counts, rows, numbers = tables.leaders(keys, ALL)
    bands = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    own = np.array([row.number for row in kept])[rows] == numbers
    present = np.zeros(counts.shape, bool)
    present[bands[own], rows[own]] = True
    return [
        (kept[row].number, f"is missing in band {band}")
        for band, row in zip(*np.nonzero(~present), strict=True)
    ]


def _check_witnesses(store: Store, view: View, copies: Sequence[Row]) -> Iterator[Problem]:
    """Each copy must be as similar to its witness as it says, where shingles can tell."""
    numbers = [row.number for row in copies]
    having = store.blobs("shingles", [*numbers, *{row.witness or 0 for row in copies}])
    exact = [row for row in copies if row.exact and {row.number, row.witness} <= having.keys()]
    if not exact or view.decider.options.verify != "exact":
        return
    arrivals = view.stored_arrivals([row.number for row in exact], [row.content for row in exact])
    witnesses = np.array([row.witness for row in exact], np.int64)
    pairs = view.decider.compare_pairs(arrivals, np.arange(len(exact)), witnesses, view)
    for row, similarity in zip(exact, pairs.similarity.tolist(), strict=True):
        if row.similarity is None or not np.isclose(similarity, row.similarity):
            yield row.number, f"is not as similar to {row.witness} as is stored"


def _check_tables(store: Store, tables: LookupTables) -> list[str]:
    """Nothing may be in the tables that is not stored; and those on disk must be readable."""
    if tables.cold:
        tables.cold.verify()
    with tables.guard.reading():
        listed = [table.everything(tables.dead)[1] for table in tables.all_tables]
    stored: Integers = store.numbers()
    inside = np.unique(np.concatenate(listed)).astype(np.int64)
    return [
        f"document {number} is in the tables and not stored"
        for number in np.setdiff1d(inside, stored).tolist()
    ]
