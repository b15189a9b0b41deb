"""An SQLite file beside a run in which a review stores what people say: at once, and for good.

Several tabs, people and servers may write to it. Each change has a number.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from neardup.errors import FormatError, OutputError

WAIT_SECONDS: Final = 5.0
"""How long another writer is waited for."""
ABOUT: Final = """
CREATE TABLE about (version INTEGER, changes INTEGER);
INSERT INTO about VALUES ({version}, 0);
"""


class StoredFile:
    """Stores rows in tables. Used by several threads; other processes may use the same file.

    Args:
        path: The file; it is made with its folder when something is stored first.
        schema: The statements that make its tables, besides `about`.
        version: The version of the schema.
        what: What it has, in the plural, for errors.
    """

    def __init__(self, path: Path, schema: str, version: int, what: str) -> None:
        self.path, self._version, self._what = path, version, what
        self._schema = ABOUT.format(version=version) + schema
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None
        if path.exists():
            with self._lock, self._told_errors():
                self._open()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _open(self) -> sqlite3.Connection:
        if self._opened is None:
            self.path.parent.mkdir(exist_ok=True)
            opened = sqlite3.connect(
                self.path, WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            opened.execute("PRAGMA journal_mode=WAL")
            opened.execute("PRAGMA synchronous=FULL")
            with _transaction(opened):
                if not opened.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    for statement in self._schema.split(";\n"):
                        opened.execute(statement)
            self._check_version(opened)
            self._opened = opened
        return self._opened

    def _check_version(self, opened: sqlite3.Connection) -> None:
        try:
            found = opened.execute("SELECT version FROM about").fetchone()
        except sqlite3.OperationalError as error:
            if "no such" not in str(error):
                raise
            found = None
        if found is None:
            raise sqlite3.DatabaseError("it has other tables")
        if found[0] != self._version:
            raise FormatError(
                f"{self.path} has version {found[0]}, this neardup reads version "
                f"{self._version}: use the neardup that wrote it"
            )

    @contextmanager
    def _told_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OutputError(
                f"{self.path} can't be written ({error}), so nothing was stored; what was decided "
                "before is safe: free some space or see who else writes to it, and decide again"
            ) from None
        except sqlite3.DatabaseError as error:
            raise FormatError(
                f"{self.path} is no file of {self._what} ({error}): move it away, or restore it"
            ) from None
        except OSError as error:
            raise OutputError(
                f"{self.path} can't be written ({error.strerror}): copy the run to a folder that "
                "can be written to"
            ) from None

    def ask(self, query: str, *values: object) -> list[Any]:
        """Return the rows that answer a query; none if nothing was ever stored.

        Args:
            query: The query.
            values: The values of its parameters.
        """
        with self._lock, self._told_errors():
            if self._opened is None and not self.path.exists():
                return []
            return self._open().execute(query, values).fetchall()

    @contextmanager
    def change(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Yield the connection in a transaction, and the number of this change."""
        with self._lock, self._told_errors():
            opened = self._open()
            with _transaction(opened):
                change = opened.execute("SELECT changes + 1 FROM about").fetchone()[0]
                opened.execute("UPDATE about SET changes = ?", (change,))
                yield opened, change

    @property
    def changes(self) -> int:
        """The number of changes so far."""
        found = self.ask("SELECT changes FROM about")
        return int(found[0][0]) if found else 0


@contextmanager
def _transaction(opened: sqlite3.Connection) -> Iterator[None]:
    """A transaction that is stored whole, or not at all."""
    opened.execute("BEGIN IMMEDIATE")
    try:
        yield
        opened.execute("COMMIT")
    except BaseException:
        if opened.in_transaction:
            opened.execute("ROLLBACK")
        raise
