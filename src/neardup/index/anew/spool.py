"""The texts of a corpus by the ids of its documents, in a file that is thrown away afterwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from neardup.errors import OutputError, ParameterError

NAME: Final = "corpus.tmp"
AT_ONCE: Final = 500


class Spool:
    """Texts that can be asked for in any order. Of several with the same id the first counts."""

    def __init__(self, folder: Path, texts: Iterable[tuple[str, str]]) -> None:
        self._path = folder / NAME
        with self._translated():
            self._file = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            for setting in ("journal_mode=OFF", "synchronous=OFF", "page_size=32768"):
                self._file.execute(f"PRAGMA {setting}")
            self._file.execute("CREATE TABLE texts(number INTEGER PRIMARY KEY, id TEXT, text TEXT)")
            self._file.execute("BEGIN")
            self._file.executemany("INSERT INTO texts(id, text) VALUES(?, ?)", texts)
            self._file.execute("COMMIT")
            self._file.execute("CREATE INDEX ids ON texts(id)")

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Those that the corpus has."""
        found: dict[str, str] = {}
        with self._translated():
            for start in range(0, len(ids), AT_ONCE):
                some = ids[start : start + AT_ONCE]
                places = ",".join("?" * len(some))
                asked = f"SELECT id, text FROM texts WHERE id IN ({places}) ORDER BY number DESC"  # noqa: S608
                found.update(self._file.execute(asked, some).fetchall())
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except UnicodeEncodeError:
            raise ParameterError(
                "a text or an id of the corpus is not valid Unicode: it has a lone surrogate"
            ) from None
        except sqlite3.Error as error:
            raise OutputError(
                f"{self._path} can't be written ({error}): free some space, then try again"
            ) from None
