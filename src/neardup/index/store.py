"""The store of an index: one SQLite file with all its documents; all else is derived from it.

    documents   a row each: id, content hash, witness (null if it is kept), similarity, time; with
                vectors as a second signal also the cosine
    signatures  a document's slots; of narrow ones its band keys, then the slots' bits
    shingles    its sorted shingles, for exact comparison, and behind them its vector; none if it
                came without a text
    texts       its text, only where texts are kept
    changes     documents added, removed, moved, in order: read by processes that follow an index
    meta        specification, operating point, settings

Blobs have tables of their own and pages are large, or a third of the file would be empty. There is
no SQL index besides the numbers: look-ups use `lookup.py`. Every row carries an XXH3-64 of its
values, because SQLite does not notice a flipped bit.
"""

from __future__ import annotations

import sqlite3
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup.errors import FormatError, IndexLocked, OutputError
from neardup.formats.tables import write_error
from neardup.index.connections import Connections

VERSIONS: Final = (1, 2, 3, 4)
"""Format versions: signatures alone, with the groups of documents, with their numbers, with their
vectors (and any of these)."""
WITH_VECTORS: Final = VERSIONS[-1]
PAGE: Final = 32 << 10
CHECKPOINT_BYTES: Final = 64 << 20
ADDED, REMOVED, MOVED, RETUNED = 1, 2, 3, 4
"""Kinds of changes. MOVED: another witness, or other metadata or another text of equal content.
After RETUNED, the operating point is another: tables are loaded again."""
ATTEMPTS: Final = 50
"""How often a full checkpoint is tried."""
AT_ONCE: Final = (1, 8, 64, 512)
"""Rows of one SELECT: few sizes, so that their statements stay prepared."""

SCHEMA: Final = """
CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE documents(
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, content BLOB NOT NULL,
    witness INTEGER, similarity REAL, exact INTEGER NOT NULL, added REAL NOT NULL,
    metadata TEXT, {cosine}sum INTEGER NOT NULL);
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
    cosine: float | None = None
    """Of its vector and that of its witness, if vectors are a second signal."""

    @property
    def sum(self) -> int:
        """The checksum that is stored with the row."""
        values = self[:PLAIN] if self.cosine is None else tuple(self)
        return xxhash.xxh3_64_intdigest(ascii(values).encode()) >> 1


PLAIN: Final = len(Row._fields) - 1
"""The columns of a row without vectors."""


class StoredDocuments(Protocol):
    """Read access to stored documents, as a `View` needs it."""

    def snapshot(self) -> AbstractContextManager[None]: ...
    def rows(self, numbers: Sequence[int]) -> dict[int, Row]: ...
    def witnesses(self, numbers: Sequence[int]) -> dict[int, int | None]: ...
    def blobs(self, table: str, numbers: Sequence[int]) -> dict[int, bytes]: ...
    def first_blobs(
        self, table: str, numbers: Sequence[int], most: int
    ) -> tuple[dict[int, bytes], int]: ...


class StoreChange(NamedTuple):
    seq: int
    op: int
    number: int


def blob_sum(number: int, data: Any) -> int:
    """Return the checksum of a blob, which depends on the document's number too."""
    return xxhash.xxh3_64_intdigest(data, number) >> 1


class Store:
    """An open file. Any thread may read; one thread writes, inside of `transaction`.

    A commit is refused if another process has written since the file was opened: the tables of this
    process would lack its documents.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.guard: Callable[[], None] = lambda: None
        """Called in each transaction; raises if this process may not write any more."""
        self._connections = Connections(path, read_only=read_only)
        self._translated, self._reader = self._connections.translated, self._connections.reader
        self._damaged = self._connections.damaged
        with self._translated():
            self._check_version()
            if not read_only:
                self._writer = self._connections.writer()
                self._writer.execute("PRAGMA wal_autocheckpoint=0")
                self._writer.execute(f"PRAGMA journal_size_limit={CHECKPOINT_BYTES // 4}")
                self._written = self._read_last_change()

    def _check_version(self) -> None:
        self.version: int = self._reader().execute("PRAGMA user_version").fetchone()[0]
        if self.version not in VERSIONS:
            raise FormatError(
                f"{self.path}: format version {self.version}, this neardup reads versions "
                f"{VERSIONS[0]} to {VERSIONS[-1]}: use the neardup that wrote it, or build "
                "the index again"
            )

    @classmethod
    def create(cls, path: Path, meta: dict[str, Any], version: int) -> None:
        """Make a new file, which is complete as soon as it has its name."""
        temporary = path.with_name(f".{path.name}.tmp")
        for old in path.parent.glob(f"{temporary.name}*"):
            old.unlink()
        try:
            temporary.touch(mode=0o600)
            connection = sqlite3.connect(temporary, isolation_level=None)
            connection.execute(f"PRAGMA page_size={PAGE}")
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
            cosine = "cosine REAL, " if version == WITH_VECTORS else ""
            connection.executescript(SCHEMA.format(cosine=cosine))
            connection.execute(f"PRAGMA user_version={version}")
            connection.executemany("INSERT INTO meta VALUES(?, ?)", meta.items())
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.close()
            temporary.rename(path)
        except sqlite3.Error as error:
            raise OutputError(f"{path} can't be written ({error}): choose another folder") from None
        except OSError as error:
            raise write_error(path, error) from None

    def close(self) -> None:
        """Close all connections; no thread may be reading any more."""
        self._connections.close()

    # Writing

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit durably at the end of the block; roll back if it raises."""
        with self._translated():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                self.guard()
                self._require_alone()
                yield
                last = self._read_last_change()
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
            self._commit()
            self._written = last

    def _require_alone(self) -> None:
        """Refuse to write if another process has written. Called in a transaction."""
        if self._read_last_change() != self._written:
            raise IndexLocked(
                f"{self.path} was written to by another process, though this one has the lock (was "
                "its file deleted?): close this index, end all but one of the processes that write "
                "to it, and open it again"
            )

    def _read_last_change(self) -> int:
        """Return the number of the last change, as the connection that writes sees it."""
        query = "SELECT seq FROM sqlite_sequence WHERE name='changes'"
        row = self._writer.execute(query).fetchone()
        return int(row[0]) if row else 0

    def _commit(self) -> None:
        """Commit; a commit that fails leaves nothing that a later start could find.

        If the log can't be synced, the commit is complete in it all the same, and would be there
        after a crash of this process. So a commit that changes nothing is written over it.
        """
        try:
            self._writer.execute("COMMIT")
        except BaseException:
            self._roll_back()
            with suppress(sqlite3.Error):
                self._writer.execute("BEGIN IMMEDIATE")
                query = "SELECT name, value FROM meta WHERE name='parent'"
                setting = self._writer.execute(query).fetchone() or ("parent", "")
                self._writer.execute("DELETE FROM meta WHERE name='parent'")
                self._writer.execute("INSERT INTO meta VALUES(?, ?)", setting)
                self._writer.execute("COMMIT")
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def add(self, rows: Iterable[Row]) -> None:
        """Append documents, and record the changes."""
        listed = list(rows)
        columns = PLAIN + (self.version == WITH_VECTORS)
        places = ",".join("?" * (columns + 1))
        self._writer.executemany(
            f"INSERT INTO documents VALUES({places})",
            [(*row[:columns], row.sum) for row in listed],
        )
        self._record(ADDED, [row.number for row in listed])

    def add_blobs(self, table: str, blobs: Iterable[tuple[int, Any]]) -> None:
        """Append signatures, shingles or texts, by the numbers of their documents."""
        self._writer.executemany(
            f"INSERT INTO {table} VALUES(?,?,?)",
            ((number, data, blob_sum(number, data)) for number, data in blobs),
        )

    def move(self, rows: Sequence[Row]) -> None:
        """Store another witness, or none, for documents, and record the changes."""
        self._writer.executemany(
            "UPDATE documents SET witness=?, similarity=?, exact=?, sum=? WHERE number=?",
            [(row.witness, row.similarity, row.exact, row.sum, row.number) for row in rows],
        )
        if self.version == WITH_VECTORS:
            self._writer.executemany(
                "UPDATE documents SET cosine=? WHERE number=?",
                [(row.cosine, row.number) for row in rows],
            )
        self._record(MOVED, [row.number for row in rows])

    def update(self, rows: Sequence[Row], texts: Sequence[tuple[int, bytes]] = ()) -> None:
        """Store other metadata for documents, and other texts of the same content.

        Args:
            rows: The documents with their new metadata; their witnesses are those that are stored.
            texts: The numbers of those that have another text, with the text.
        """
        self._writer.executemany(
            "UPDATE documents SET metadata=?, sum=? WHERE number=?",
            [(row.metadata, row.sum, row.number) for row in rows],
        )
        self._writer.executemany(
            "DELETE FROM texts WHERE number=?", [(number,) for number, _ in texts]
        )
        self.add_blobs("texts", texts)
        self._record(MOVED, [row.number for row in rows])

    def remove(self, numbers: Sequence[int]) -> None:
        """Delete documents with their signatures, shingles and texts, and record the changes."""
        parameters = [(number,) for number in numbers]
        for table in ("documents", *BLOBS):
            self._writer.executemany(f"DELETE FROM {table} WHERE number=?", parameters)  # noqa: S608
        self._record(REMOVED, numbers)

    def reach(self, number: int) -> None:
        """Reserve all numbers up to this one: new documents get larger ones."""
        self._writer.execute("DELETE FROM sqlite_sequence WHERE name='documents'")
        self._writer.execute("INSERT INTO sqlite_sequence VALUES('documents', ?)", (number,))

    def set_meta(self, name: str, value: Any) -> None:
        """Store a setting."""
        self._writer.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (name, value))

    def note_retuned(self) -> None:
        """Record that processes that follow must load the tables again."""
        self._record(RETUNED, [0])

    def number_after(self, other: Store) -> None:
        """Give new documents and changes larger numbers than another store has given."""
        if (number := other.last_number()) > self.last_number():
            self.reach(number)
        if (change := other.last_change()) > self.last_change():
            # A change of no document, from which processes that follow go on.
            self._writer.execute("INSERT INTO changes VALUES(?, ?, 0)", (change, MOVED))

    def _record(self, op: int, numbers: Sequence[int]) -> None:
        self._writer.executemany(
            "INSERT INTO changes(op, number) VALUES(?, ?)", [(op, number) for number in numbers]
        )

    def forget_changes(self, until: int) -> None:
        """Drop the changes that the snapshot contains."""
        self._writer.execute("DELETE FROM changes WHERE seq <= ?", (until,))

    def free_space(self) -> None:
        """Return free pages to the file system. Not inside of a transaction."""
        with self._translated():
            self._writer.execute("PRAGMA incremental_vacuum").fetchall()
        for _ in range(ATTEMPTS):
            if self.checkpoint("TRUNCATE"):
                return
            time.sleep(0.1)  # another thread or process checkpoints or reads the log

    def checkpoint(self, how: str = "PASSIVE") -> bool:
        """Move commits from the log into the file; return whether all of them were moved.

        Any thread may call it. `how` is a mode of SQLite's wal_checkpoint.
        """
        with self._translated():
            busy, _, _ = self._reader().execute(f"PRAGMA wal_checkpoint({how})").fetchone()
            return not busy

    # Reading

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let this thread read one state of the file until the outermost block ends."""
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
        """The size of the log; 0 if there is none."""
        try:
            return self._connections.log.stat().st_size
        except FileNotFoundError:
            return 0

    def meta(self) -> dict[str, Any]:
        """Return the settings by name."""
        with self._translated():
            return dict(self._reader().execute("SELECT name, value FROM meta").fetchall())

    def last_number(self) -> int:
        """Return the largest document number that was ever given."""
        return self._sequence("documents")

    def last_change(self) -> int:
        """Return the number of the last change."""
        return self._sequence("changes")

    def _sequence(self, table: str) -> int:
        with self._translated():
            query = "SELECT seq FROM sqlite_sequence WHERE name=?"
            row = self._reader().execute(query, (table,)).fetchone()
            return int(row[0]) if row else 0

    def describe_state(self) -> tuple[object, ...]:
        """Return what no other state of the index has: the generation, and the last change."""
        return self.path.parent.name, self.last_change()

    def first_change(self) -> int:
        """Return the oldest change that is stored; one more than the last if there is none."""
        with self._translated():
            (oldest,) = self._reader().execute("SELECT min(seq) FROM changes").fetchone()
            return int(oldest) if oldest is not None else self.last_change() + 1

    def changes(self, after: int, most: int) -> list[StoreChange]:
        """Return the next changes after one, at most `most`, in order."""
        with self._translated():
            query = "SELECT seq, op, number FROM changes WHERE seq > ? ORDER BY seq LIMIT ?"
            return [StoreChange(*row) for row in self._reader().execute(query, (after, most))]

    def rows(self, numbers: Sequence[int]) -> dict[int, Row]:
        """Return the documents that exist, by number."""
        selected = self._select("documents", numbers)
        return {row[0]: self._checked(Row(*row[:-1]), row[-1]) for row in selected}

    def rows_after(self, number: int, most: int) -> list[Row]:
        """Return the next documents after a number, at most `most`, in order."""
        with self._translated():
            query = "SELECT * FROM documents WHERE number > ? ORDER BY number LIMIT ?"
            selected = self._reader().execute(query, (number, most)).fetchall()
            return [self._checked(Row(*row[:-1]), row[-1]) for row in selected]

    def numbers(self) -> NDArray[np.int64]:
        """Return the numbers of all documents, in order."""
        with self._translated():
            selected = self._reader().execute("SELECT number FROM documents ORDER BY number")
            return np.fromiter((row[0] for row in selected), np.int64)

    def blobs(self, table: str, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the signatures, shingles or texts of the documents that have them, by number."""
        blobs = {}
        for number, data, expected in self._select(table, numbers):
            if blob_sum(number, data) != expected:
                raise self._damaged(f"checksum of {table} {number}")
            blobs[number] = data
        return blobs

    def first_blobs(
        self, table: str, numbers: Sequence[int], most: int
    ) -> tuple[dict[int, bytes], int]:
        """Return the blobs of the first documents, until they have `most` bytes.

        Args:
            table: Signatures, shingles or texts.
            numbers: The numbers of the documents, ascending.
            most: The bytes after which no more are read; at least one document is.

        Returns:
            The blobs of the documents that have them, by number, and how many of the numbers were
            read.
        """
        blobs: dict[int, bytes] = {}
        size = 0
        with self._translated():
            for start in range(0, len(numbers), AT_ONCE[-1]):
                query, places = self._query(table, numbers[start : start + AT_ONCE[-1]])
                with closing(self._reader().execute(f"{query} ORDER BY number", places)) as rows:
                    for number, data, expected in rows:  # one after the other: each may be long
                        if blob_sum(number, data) != expected:
                            raise self._damaged(f"checksum of {table} {number}")
                        blobs[number] = data
                        size += len(data)
                        if size >= most:
                            return blobs, bisect_right(numbers, number)
        return blobs, len(numbers)

    def witnesses(self, numbers: Sequence[int]) -> dict[int, int | None]:
        """Return the witness of each document that exists, by number; None if it is kept.

        The rows are not read as a whole, so that their checksums are not tested.
        """
        witnesses: dict[int, int | None] = {}
        with self._translated():
            for start in range(0, len(numbers), AT_ONCE[-1]):
                query, places = self._query(
                    "documents", numbers[start : start + AT_ONCE[-1]], "number, witness"
                )
                witnesses.update(self._reader().execute(query, places).fetchall())
        return witnesses

    def blob_sizes(self, table: str, numbers: Sequence[int]) -> dict[int, int]:
        """Return the bytes of the signatures, shingles or texts, without reading them."""
        sizes: dict[int, int] = {}
        with self._translated():
            for start in range(0, len(numbers), AT_ONCE[-1]):
                query, places = self._query(
                    table, numbers[start : start + AT_ONCE[-1]], "number, length(data)"
                )
                sizes.update(self._reader().execute(query, places).fetchall())
        return sizes

    def times(self, after: int, until: int) -> list[tuple[int, float]]:
        """Return the documents of a range of numbers with the times when they were added.

        The checksums of their rows are not tested: read a row before acting on its time.

        Args:
            after: The number before the range.
            until: The last number of the range.
        """
        return self._scan("number, added", after, until)

    def metadata(self, after: int, until: int) -> list[tuple[int, str | None]]:
        """Return the documents of a range of numbers with their metadata; as `times`."""
        return self._scan("number, metadata", after, until)

    def _scan(self, columns: str, after: int, until: int) -> list[Any]:
        with self._translated():
            query = (
                f"SELECT {columns} FROM documents WHERE number > ? AND number <= ? "  # noqa: S608
                "ORDER BY number"
            )
            return self._reader().execute(query, (after, until)).fetchall()

    def counts(self) -> tuple[int, int]:
        """Return the number of documents, and of kept ones."""
        with self._translated():
            query = "SELECT count(*), count(*) - count(witness) FROM documents"
            documents, kept = self._reader().execute(query).fetchone()
            return int(documents), int(kept)

    def problems(self) -> list[str]:
        """List problems of the file: what SQLite finds, repeated ids, blobs of no document."""
        with self._translated():
            checked = self._reader().execute("PRAGMA integrity_check(20)").fetchall()
            if problems := [str(row[0]) for row in checked if row[0] != "ok"]:
                return problems
            query = "SELECT min(number) FROM documents GROUP BY id HAVING count(*) > 1 LIMIT 20"
            problems = [
                f"document {row[0]} is not the only one with its id"
                for row in self._reader().execute(query)
            ]
            for table in BLOBS:
                query = (
                    f"SELECT number FROM {table} WHERE number NOT IN "  # noqa: S608
                    "(SELECT number FROM documents) LIMIT 20"
                )
                problems += [
                    f"{table} of document {row[0]}, which is not stored"
                    for row in self._reader().execute(query)
                ]
            return problems

    def _select(self, table: str, numbers: Sequence[int]) -> Iterator[Any]:
        """Yield the rows of a table that have these numbers, in any order."""
        with self._translated():
            for start in range(0, len(numbers), AT_ONCE[-1]):
                query, places = self._query(table, numbers[start : start + AT_ONCE[-1]])
                yield from self._reader().execute(query, places).fetchall()

    @staticmethod
    def _query(table: str, numbers: Sequence[int], columns: str = "*") -> tuple[str, list[int]]:
        """Return a SELECT of the rows that have these numbers, and its parameters."""
        size = next(size for size in AT_ONCE if size >= len(numbers))
        places = ",".join("?" * size)
        query = f"SELECT {columns} FROM {table} WHERE number IN ({places})"  # noqa: S608
        return query, [*numbers, *([-1] * (size - len(numbers)))]

    def _checked(self, row: Row, expected: int) -> Row:
        if row.sum != expected:
            raise self._damaged(f"checksum of document {row.number}")
        return row
