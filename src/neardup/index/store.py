"""The truth of an index: one SQLite file, to which documents are appended.

    documents   a row each: id, content hash, witness (null if it is kept), similarity, time
    signatures  a document's slots; of narrow ones its band keys, then the slots' bits
    shingles    its sorted shingles, for exact comparison; none if it came without a text
    texts       its text, only where texts are kept
    changes     what happened, in order: processes that follow an index read this
    meta        specification, operating point, settings

Blobs have tables of their own and pages are large, or a third of the file would be empty. There is
no index besides the numbers: what else is looked up is in `postings.py`. Every row carries an
XXH3-64 of what is in it, because SQLite does not notice a flipped bit.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup.errors import FormatError, OutputError
from neardup.formats.tables import write_error
from neardup.index.connections import Connections

VERSION: Final = 1
PAGE: Final = 32 << 10
CHECKPOINT_BYTES: Final = 64 << 20
ADDED, REMOVED, MOVED, RETUNED = 1, 2, 3, 4
"""What a change may be: the last one says that tables have to be loaded again."""
ATTEMPTS: Final = 50
AT_ONCE: Final = (1, 8, 64, 512)
"""So many rows are asked for by one statement; there are few statements, which stay prepared."""

SCHEMA: Final = """
CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE documents(
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, content BLOB NOT NULL,
    witness INTEGER, similarity REAL, exact INTEGER NOT NULL, added REAL NOT NULL,
    metadata TEXT, sum INTEGER NOT NULL);
CREATE TABLE signatures(number INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE shingles(number INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE texts(number INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE changes(seq INTEGER PRIMARY KEY AUTOINCREMENT, op INTEGER NOT NULL, number INTEGER);
"""
BLOBS: Final = ("signatures", "shingles", "texts")


class Row(NamedTuple):
    """A document as it is stored."""

    number: int
    id: str
    content: bytes
    witness: int | None
    similarity: float | None
    exact: int
    added: float
    metadata: str | None

    @property
    def sum(self) -> int:
        return xxhash.xxh3_64_intdigest(ascii(tuple(self)).encode()) >> 1


class StoredDocuments(Protocol):
    """What there is of documents, for those who judge them."""

    def snapshot(self) -> AbstractContextManager[None]: ...
    def rows(self, numbers: Sequence[int]) -> dict[int, Row]: ...
    def blobs(self, table: str, numbers: Sequence[int]) -> dict[int, bytes]: ...


class StoreChange(NamedTuple):
    seq: int
    op: int
    number: int


def blob_sum(number: int, data: Any) -> int:
    """The checksum of a blob, another one for every document."""
    return xxhash.xxh3_64_intdigest(data, number) >> 1


class Store:
    """An open file. Writing methods are for one thread, inside of `transaction`."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._connections = Connections(path, read_only=read_only)
        self._translated, self._reader = self._connections.translated, self._connections.reader
        self._damaged = self._connections.damaged
        with self._translated():
            self._check_version()
            if not read_only:
                self._writer = self._connections.writer()
                self._writer.execute("PRAGMA wal_autocheckpoint=0")
                self._writer.execute(f"PRAGMA journal_size_limit={CHECKPOINT_BYTES // 4}")

    def _check_version(self) -> None:
        found = self._reader().execute("PRAGMA user_version").fetchone()[0]
        if found != VERSION:
            raise FormatError(
                f"{self.path}: format version {found}, this neardup reads version {VERSION}: use "
                "the neardup that wrote it, or build the index again"
            )

    @classmethod
    def create(cls, path: Path, meta: dict[str, Any]) -> None:
        """Make a new file, complete under its name or not there at all."""
        beside = path.with_name(f".{path.name}.tmp")
        for old in path.parent.glob(f"{beside.name}*"):
            old.unlink()
        try:
            beside.touch(mode=0o600)
            made = sqlite3.connect(beside, isolation_level=None)
            made.execute(f"PRAGMA page_size={PAGE}")
            made.execute("PRAGMA auto_vacuum=INCREMENTAL")
            made.execute("PRAGMA journal_mode=WAL")
            made.executescript(SCHEMA)
            made.execute(f"PRAGMA user_version={VERSION}")
            made.executemany("INSERT INTO meta VALUES(?, ?)", meta.items())
            made.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            made.close()
            beside.rename(path)
        except sqlite3.Error as error:
            raise OutputError(f"{path} can't be written ({error}): choose another folder") from None
        except OSError as error:
            raise write_error(path, error) from None

    def close(self) -> None:
        """End all connections; no thread may be reading any more."""
        self._connections.close()

    # Writing

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is stored at its end, for good, or nothing of it is."""
        with self._translated():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def add(self, rows: Iterable[Row]) -> None:
        """Append documents, and say so among the changes."""
        listed = list(rows)
        self._writer.executemany(
            "INSERT INTO documents VALUES(?,?,?,?,?,?,?,?,?)", [(*row, row.sum) for row in listed]
        )
        self._note(ADDED, [row.number for row in listed])

    def add_blobs(self, table: str, blobs: Iterable[tuple[int, Any]]) -> None:
        """Append what belongs to documents, by their numbers."""
        self._writer.executemany(
            f"INSERT INTO {table} VALUES(?,?,?)",
            ((number, data, blob_sum(number, data)) for number, data in blobs),
        )

    def move(self, rows: Sequence[Row]) -> None:
        """Give documents another witness, or none."""
        self._writer.executemany(
            "UPDATE documents SET witness=?, similarity=?, exact=?, sum=? WHERE number=?",
            [(row.witness, row.similarity, row.exact, row.sum, row.number) for row in rows],
        )
        self._note(MOVED, [row.number for row in rows])

    def remove(self, numbers: Sequence[int]) -> None:
        """Delete documents and all that belongs to them."""
        given = [(number,) for number in numbers]
        for table in ("documents", *BLOBS):
            self._writer.executemany(f"DELETE FROM {table} WHERE number=?", given)  # noqa: S608
        self._note(REMOVED, numbers)

    def reach(self, number: int) -> None:
        """Give no number up to this one to a new document."""
        self._writer.execute("DELETE FROM sqlite_sequence WHERE name='documents'")
        self._writer.execute("INSERT INTO sqlite_sequence VALUES('documents', ?)", (number,))

    def set_meta(self, name: str, value: Any) -> None:
        self._writer.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (name, value))

    def note_retuned(self) -> None:
        """Tell processes that follow to load the tables again."""
        self._note(RETUNED, [0])

    def number_after(self, other: Store) -> None:
        """Give larger numbers than another store has, to documents and to changes."""
        if (number := other.last_number()) > self.last_number():
            self.reach(number)
        if (change := other.last_change()) > self.last_change():
            # Of no document: processes that follow go on from here.
            self._writer.execute("INSERT INTO changes VALUES(?, ?, 0)", (change, MOVED))

    def _note(self, op: int, numbers: Sequence[int]) -> None:
        self._writer.executemany(
            "INSERT INTO changes(op, number) VALUES(?, ?)", [(op, number) for number in numbers]
        )

    def forget_changes(self, until: int) -> None:
        """Drop changes that everyone who starts from a snapshot knows."""
        self._writer.execute("DELETE FROM changes WHERE seq <= ?", (until,))

    def give_back(self) -> None:
        """Give free pages back to the file system; not inside of a transaction."""
        with self._translated():
            self._writer.execute("PRAGMA incremental_vacuum").fetchall()
        for _ in range(ATTEMPTS):
            if self.checkpoint("TRUNCATE"):
                return
            time.sleep(0.1)  # another thread or process moves the log, or reads it

    def checkpoint(self, how: str = "PASSIVE") -> bool:
        """Move what has been committed from the log into the file; whether that is done.

        Any thread.
        """
        with self._translated():
            busy, _, _ = self._reader().execute(f"PRAGMA wal_checkpoint({how})").fetchone()
            return not busy

    # Reading

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """This thread sees the file as it is now, until the end of the outermost block."""
        with self._translated():
            if self._reader().in_transaction:
                yield
                return
            self._reader().execute("BEGIN")
            try:
                self._reader().execute("SELECT 1 FROM meta").fetchone()
                yield
            finally:
                self._reader().execute("COMMIT")

    @property
    def wal_bytes(self) -> int:
        """How long the log is."""
        try:
            return self._connections.log.stat().st_size
        except FileNotFoundError:
            return 0

    def meta(self) -> dict[str, Any]:
        with self._translated():
            return dict(self._reader().execute("SELECT name, value FROM meta").fetchall())

    def last_number(self) -> int:
        """The largest number that was ever given."""
        return self._sequence("documents")

    def last_change(self) -> int:
        return self._sequence("changes")

    def _sequence(self, table: str) -> int:
        with self._translated():
            asked = "SELECT seq FROM sqlite_sequence WHERE name=?"
            found = self._reader().execute(asked, (table,)).fetchone()
            return int(found[0]) if found else 0

    def first_change(self) -> int:
        """The oldest change that is still known; one more than the last if there is none."""
        with self._translated():
            found = self._reader().execute("SELECT min(seq) FROM changes").fetchone()
            return int(found[0]) if found[0] is not None else self.last_change() + 1

    def changes(self, after: int, most: int) -> list[StoreChange]:
        """What happened after a change, in order."""
        with self._translated():
            asked = "SELECT seq, op, number FROM changes WHERE seq > ? ORDER BY seq LIMIT ?"
            return [StoreChange(*row) for row in self._reader().execute(asked, (after, most))]

    def rows(self, numbers: Sequence[int]) -> dict[int, Row]:
        """The documents that are there, by number."""
        found = self._asked("documents", numbers)
        return {row[0]: self._sound(Row(*row[:-1]), row[-1]) for row in found}

    def rows_after(self, number: int, most: int) -> list[Row]:
        """The next documents, in order."""
        with self._translated():
            asked = "SELECT * FROM documents WHERE number > ? ORDER BY number LIMIT ?"
            found = self._reader().execute(asked, (number, most)).fetchall()
            return [self._sound(Row(*row[:-1]), row[-1]) for row in found]

    def numbers(self) -> NDArray[np.int64]:
        """Those of all documents, in order."""
        with self._translated():
            found = self._reader().execute("SELECT number FROM documents ORDER BY number")
            return np.fromiter((row[0] for row in found), np.int64)

    def blobs(self, table: str, numbers: Sequence[int]) -> dict[int, bytes]:
        """What belongs to documents, by number, of those that have it."""
        found = {}
        for number, data, expected in self._asked(table, numbers):
            if blob_sum(number, data) != expected:
                raise self._damaged(f"checksum of {table} {number}")
            found[number] = data
        return found

    def counts(self) -> tuple[int, int]:
        """Documents, and those that are kept."""
        with self._translated():
            asked = "SELECT count(*), count(*) - count(witness) FROM documents"
            found = self._reader().execute(asked).fetchone()
            return int(found[0]), int(found[1])

    def problems(self) -> list[str]:
        """What is wrong with the file: as SQLite sees it, then ids and rows of no document."""
        with self._translated():
            found = self._reader().execute("PRAGMA integrity_check(20)").fetchall()
            if problems := [str(row[0]) for row in found if row[0] != "ok"]:
                return problems
            asked = "SELECT min(number) FROM documents GROUP BY id HAVING count(*) > 1 LIMIT 20"
            problems = [
                f"document {row[0]} is not the only one with its id"
                for row in self._reader().execute(asked)
            ]
            for table in BLOBS:
                asked = (
                    f"SELECT number FROM {table} WHERE number NOT IN "  # noqa: S608
                    "(SELECT number FROM documents) LIMIT 20"
                )
                problems += [
                    f"{table} of document {row[0]}, which is not stored"
                    for row in self._reader().execute(asked)
                ]
            return problems

    def _asked(self, table: str, numbers: Sequence[int]) -> Iterator[Any]:
        with self._translated():
            for start in range(0, len(numbers), AT_ONCE[-1]):
                some = numbers[start : start + AT_ONCE[-1]]
                size = next(size for size in AT_ONCE if size >= len(some))
                places = ",".join("?" * size)
                padded = [*some, *([-1] * (size - len(some)))]
                asked = f"SELECT * FROM {table} WHERE number IN ({places})"  # noqa: S608
                yield from self._reader().execute(asked, padded).fetchall()

    def _sound(self, row: Row, expected: int) -> Row:
        if row.sum != expected:
            raise self._damaged(f"checksum of document {row.number}")
        return row
