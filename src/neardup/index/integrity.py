"""Verify an index: every stored row can be read, and the tables agree with the store."""

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
"""The number of a document, and what is wrong with it."""


def find_problems(store: Store, view: View) -> list[str]:
    """List problems of the file, of rows, of witnesses and of the tables, one line each.

    The tables must be those of the store's last change, and not change meanwhile.
    """
    problems = [f"{store.path}: {problem}" for problem in store.problems()]
    if problems:
        return problems
    try:
        with store.snapshot():
            listed = _check_documents(store, view)
            problems = [f"document {number} {what}" for number, what in listed]
            problems += _check_tables(store, view.tables)
    except NeardupError as error:
        problems.append(str(error))
    return problems[:MOST]


def _check_documents(store: Store, view: View) -> list[Problem]:
    problems: list[Problem] = []
    numbers, witnesses = [], []
    last = 0
    while (rows := store.rows_after(last, AT_ONCE)) and len(problems) < MOST:
        last = rows[-1].number
        numbers.append(np.array([row.number for row in rows]))
        witnesses.append(np.array([row.witness or 0 for row in rows]))
        problems += _check_rows(store, view, rows)
    if not numbers:
        return problems
    every, witness_of = np.concatenate(numbers), np.concatenate(witnesses)
    lost = (witness_of != 0) & ~np.isin(witness_of, every[witness_of == 0])
    return problems + [
        (number, f"is a copy of {witness}, which is not kept")
        for number, witness in zip(every[lost].tolist(), witness_of[lost].tolist(), strict=True)
    ]


def _check_rows(store: Store, view: View, rows: list[Row]) -> list[Problem]:
    numbers = [row.number for row in rows]
    blobs = {table: store.blobs(table, numbers) for table in BLOBS}
    if missing := [number for number in numbers if number not in blobs["signatures"]]:
        return [(number, "has no signature") for number in missing]
    lengths = {number: len(data) for number, data in blobs["signatures"].items()}
    if other := [number for number in numbers if lengths[number] != view.codec.blob_bytes]:
        return [(number, "has a signature of another length") for number in other]
    kept = [row for row in rows if row.witness is None]
    keys = snapshot.read_band_keys(store, view.codec, kept)
    return [
        *_check_look_ups(view.tables, rows),
        *_check_bands(view.tables, kept, keys),
        *_check_witnesses(store, view, [row for row in rows if row.witness is not None]),
    ]


def _check_look_ups(tables: LookupTables, rows: list[Row]) -> Iterator[Problem]:
    """Check that each document is found by its id, its content and its witness."""
    content = np.frombuffer(b"".join(row.content for row in rows), np.uint64).reshape(-1, 2)
    copies = [row for row in rows if row.witness is not None]
    looked_up = {
        "ids": (rows, tables.with_ids([row.id for row in rows])),
        "contents": (rows, tables.with_contents(content)),
        "copies": (copies, tables.with_witnesses([row.witness or 0 for row in copies])),
    }
    for table, (expected, listed) in looked_up.items():
        for row, numbers in zip(expected, listed, strict=True):
            if row.number not in numbers:
                yield row.number, f"is missing in the table of {table}"


def _check_bands(tables: LookupTables, kept: list[Row], keys: np.ndarray) -> list[Problem]:
    """Check that each kept document is in each of its buckets."""
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
    """Check the stored similarity of copies to their witness, where both have shingles."""
    numbers = [row.number for row in copies]
    shingles = store.blobs("shingles", [*numbers, *{row.witness or 0 for row in copies}])
    exact = [row for row in copies if row.exact and {row.number, row.witness} <= shingles.keys()]
    if not exact or view.decider.options.verify != "exact":
        return
    arrivals = view.stored_arrivals([row.number for row in exact], [row.content for row in exact])
    witnesses = np.array([row.witness for row in exact], np.int64)
    decider = view.decider
    if decider.options.has_two_signals:  # a copy may have the decision of a document of equal text
        decider = decider.lenient()
    pairs = decider.compare_pairs(arrivals, np.arange(len(exact)), witnesses, view)
    for row, similarity in zip(exact, pairs.similarity.tolist(), strict=True):
        if row.similarity is None or not np.isclose(similarity, row.similarity):
            yield row.number, f"is not as similar to {row.witness} as is stored"


def _check_tables(store: Store, tables: LookupTables) -> list[str]:
    """Check that the tables have only stored documents, and that those on disk are readable."""
    if tables.cold:
        tables.cold.verify()
    with tables.guard.reading():
        listed = [table.everything(tables.dead)[1] for table in tables.all_tables]
    stored: Integers = store.numbers()
    in_tables = np.unique(np.concatenate(listed)).astype(np.int64)
    return [
        f"document {number} is in the tables and not stored"
        for number in np.setdiff1d(in_tables, stored).tolist()
    ]
