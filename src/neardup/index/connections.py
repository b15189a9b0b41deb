"""SQLite connections to the store: one that writes, and one for each thread that reads.

A thread's connection is closed with the thread. Errors of SQLite are translated: a full disk is an
OutputError, a damaged file a FormatError.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from neardup.errors import FormatError, NeardupError, OutputError, ParameterError, UsageError

CACHE_KB: Final = 8_192
"""Page cache of a connection."""


class _OpenConnection:
    """A connection that is closed when nothing refers to it any more."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.close = weakref.finalize(self, connection.close)


class Connections:
    """All connections to one file."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._path, self._read_only = path, read_only
        self.log = path.with_name(f"{path.name}-wal")
        self._local, self._opening = threading.local(), threading.Lock()
        self._open: weakref.WeakSet[_OpenConnection] = weakref.WeakSet()
        self._writer: _OpenConnection | None = None
        self._closed = False

    def reader(self) -> sqlite3.Connection:
        """Return this thread's connection."""
        current: _OpenConnection | None = getattr(self._local, "connection", None)
        if current is None:
            current = self._local.connection = self._connect()
        return current.connection

    def writer(self) -> sqlite3.Connection:
        """Open the connection that writes; once."""
        self._writer = self._connect()
        return self._writer.connection

    def close(self) -> None:
        """Close all connections. None may be in use: SQLite would crash the process."""
        with self._opening:
            self._closed = True
            for connection in list(self._open):
                connection.close()

    def _connect(self) -> _OpenConnection:
        connection = sqlite3.connect(
            f"{self._path.resolve().as_uri()}?{self._mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=10.0,
            cached_statements=64,
        )
        opened = _OpenConnection(connection)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA cache_size=-{CACHE_KB}")
        connection.execute("PRAGMA trusted_schema=OFF")
        with self._opening:
            if self._closed:
                raise self._is_closed()
            self._open.add(opened)
        return opened

    @property
    def _mode(self) -> str:
        """The mode in the URI. A read-only folder without a log is opened without one: SQLite
        can't make the files that a log needs."""
        if not self._read_only:
            return "mode=rw"
        alone = not self.log.exists() and not os.access(self._path.parent, os.W_OK)
        return "mode=ro&immutable=1" if alone else "mode=ro"

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate errors of SQLite."""
        try:
            yield
        except NeardupError:
            raise
        except sqlite3.Error as error:
            if self._closed:
                raise self._is_closed() from None
            name = getattr(error, "sqlite_errorname", "")
            if name == "SQLITE_TOOBIG" or isinstance(error, sqlite3.DataError):
                raise ParameterError(
                    "a document or its metadata is too large to be stored: leave it out"
                ) from None
            if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")):
                raise self.damaged(str(error)) from None
            raise OutputError(
                f"{self._path} can't be read or written ({error}): free some space, check the disk "
                "and the rights, then try again"
            ) from None

    def damaged(self, why: str) -> FormatError:
        """Return the error for a damaged file."""
        return FormatError(
            f"{self._path} is damaged ({why}): restore a copy of it, or build the index again"
        )

    def _is_closed(self) -> UsageError:
        return UsageError(f"{self._path.parent.parent} is closed: open it again")
