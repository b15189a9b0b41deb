"""Snapshots: the tables as a file, so that an index starts in seconds, and catching up from there.

A snapshot carries the number of the last change that it certainly contains. Tables are copied one
after the other while writes go on, so some may contain later changes. That does no harm: those are
entered again at the start, and entering twice changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from neardup.errors import FormatError, OutputError
from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.formats.tables import write_error
from neardup.index import settings
from neardup.index.arrivals import SignatureCodec
from neardup.index.cold import Segments
from neardup.index.lookup import LookupTables
from neardup.index.postings import PARTS, PostingTable
from neardup.index.store import ADDED, MOVED, REMOVED, RETUNED, Row, Store, StoreChange
from neardup.options import Options

KIND: Final = "index tables"
ROWS_AT_ONCE: Final = 8_192


def describe_tables(options: Options) -> dict[str, Any]:
    """Return what the tables depend on: specification and operating point."""
    return {"fingerprint": options.spec.fingerprint, "point": settings.stated(options)}


@dataclass(frozen=True)
class SpillFolders:
    """The folders of tables that don't fit into memory, one for each operating point.

    Without a budget nothing is moved to disk, but tables that are on disk are looked up.
    """

    folder: Path
    budget: int | None = None
    read_only: bool = False

    def open_tables(self, options: Options, spills: int) -> LookupTables:
        """Return empty tables in memory over those on disk, which must hold `spills` spills."""
        path = self._path(options)
        if not spills and (self.budget is None or self.read_only):
            return LookupTables(options.hash_tables.count)
        if not self.read_only:
            try:
                path.mkdir(exist_ok=True, mode=0o700)
            except OSError as error:
                raise write_error(path, error) from None
        segments = Segments(path, spills, read_only=self.read_only)
        budget = None if self.read_only else self.budget
        return LookupTables(options.hash_tables.count, segments, budget)

    def create_empty(self, options: Options) -> LookupTables:
        """Return empty tables, after deleting those on disk."""
        if not self.read_only:
            shutil.rmtree(self._path(options), ignore_errors=True)
        return self.open_tables(options, 0)

    def forget_others(self, options: Options) -> None:
        """Delete the folders of other operating points."""
        for path in self.folder.glob("cold-*"):
            if path != self._path(options) and not self.read_only:
                shutil.rmtree(path, ignore_errors=True)

    def _path(self, options: Options) -> Path:
        point = json.dumps(settings.stated(options), sort_keys=True).encode()
        return self.folder / f"cold-{hashlib.blake2b(point, digest_size=8).hexdigest()}"


class _SnapshotFile(BlockReader):
    def damaged(self, why: str) -> FormatError:
        return FormatError(
            f"{self.path} is damaged ({why}): its tables are built again from the stored documents"
        )


def write_snapshot(path: Path, tables: LookupTables, options: Options) -> int:
    """Write the tables while writes go on; return the change up to which they are complete."""
    with tables.guard.reading():
        sequence, listed, first_dead = tables.sequence, tables.all_tables, tables.dead
        spills = 0 if tables.cold is None else tables.cold.last
    described = describe_tables(options)
    with BlockWriter(path, KIND, sequence=sequence, spills=spills, **described) as writer:
        for table in listed:
            with tables.guard.reading():
                parts = [part.copy() for part in table.parts]
            writer.add(dict(zip(PARTS, parts, strict=True)))
        with tables.guard.reading():
            dead = tables.dead.copy()
        dead[: len(first_dead)] |= (
            first_dead  # compaction may have dropped the tombstones of these tables
        )
        writer.add({"dead": dead})
        writer.close()
    return sequence


def read_snapshot(path: Path, options: Options, cold: SpillFolders) -> LookupTables:
    """Read the tables of a snapshot; those that exceed the budget are moved to disk one by one.

    Raises:
        FormatError: If the file is damaged, or of another operating point.
    """
    file, described = _SnapshotFile(path, KIND), describe_tables(options)
    if {name: file.header.get(name) for name in described} != described:
        raise FormatError(f"{path} is of another operating point: its tables are built again")
    tables, bands = cold.open_tables(options, int(file.header["spills"])), options.hash_tables.count
    last = len(file) - 1
    if last != bands + len(tables.others):
        raise file.damaged("its tables")
    tables.dead = file.read(last, "dead")
    tables.tombstones = int(np.count_nonzero(tables.dead))
    tables.sequence = int(file.header["sequence"])
    listed = (_read_table(file, block, len(tables.dead)) for block in range(last))
    if tables.exceeds_budget(path.stat().st_size):
        with suppress(OutputError):  # a full disk: the tables stay in memory
            tables.move_to_disk(listed)
            write_snapshot(path, tables, options)
            return tables
        listed = (_read_table(file, block, len(tables.dead)) for block in range(last))
    *tables.bands.tables, tables.ids, tables.contents, tables.members = listed
    return tables


def _read_table(file: BlockReader, block: int, documents: int) -> PostingTable:
    """Read a table of a snapshot, whose numbers of documents are below `documents`."""
    table = PostingTable.of([file.read(block, part) for part in PARTS])
    if table.largest >= documents:
        raise file.damaged("numbers of documents")
    return table


def build_tables(store: Store, codec: SignatureCodec, cold: SpillFolders) -> LookupTables:
    """Build the tables from the stored documents."""
    tables = cold.create_empty(codec.options)
    with store.snapshot():
        sequence, last = store.last_change(), 0
        while rows := store.rows_after(last, ROWS_AT_ONCE):
            tables.enter(rows, read_band_keys(store, codec, rows), 0)
            tables.spill_if_over_budget()
            last = rows[-1].number
    tables.reach(store.last_number())
    tables.sequence = sequence
    return tables


def catch_up(tables: LookupTables, store: Store, codec: SignatureCodec) -> bool:
    """Enter the changes since the tables' sequence.

    Returns False if these changes were dropped, or the operating point has changed: then the tables
    have to be loaded again.
    """
    last = store.last_change()
    if last == tables.sequence:
        return True
    if last < tables.sequence:  # the tables are of another store, or the store has lost changes
        return False
    with store.snapshot():
        if store.first_change() > tables.sequence + 1:
            return False
        while changes := store.changes(tables.sequence, ROWS_AT_ONCE):
            if any(change.op == RETUNED for change in changes):
                return False
            _enter(tables, store, codec, changes)
            with suppress(OutputError):  # a full disk: the tables stay in memory
                tables.spill_if_over_budget()
    return True


def _enter(
    tables: LookupTables, store: Store, codec: SignatureCodec, changes: Sequence[StoreChange]
) -> None:
    by_op: dict[int, list[int]] = {op: [] for op in (ADDED, MOVED, REMOVED)}
    for change in changes:
        by_op[change.op].append(change.number)
    last = changes[-1].seq
    # The rows as they are stored now: documents that were removed later are left out.
    rows = list(store.rows(sorted({*by_op[ADDED], *by_op[MOVED]})).values())
    tables.enter(rows, read_band_keys(store, codec, rows), last, by_op[REMOVED])


def read_band_keys(store: Store, codec: SignatureCodec, rows: Sequence[Row]) -> Any:
    """Return the band keys of stored documents."""
    if not rows:
        return np.empty((0, codec.lsh.count), np.uint64)
    blobs = store.blobs("signatures", [row.number for row in rows])
    return codec.unpack([blobs[row.number] for row in rows])[0]
