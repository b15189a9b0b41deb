"""Make the file in which the pages look up clusters and documents, from the tables of a run."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from neardup.decisions import LONGEST_NAME
from neardup.review.subject import ReviewTables

VERSION: Final = 4

SCHEMA: Final = """
CREATE TABLE about (run TEXT, version INTEGER);
CREATE TABLE files (file INTEGER PRIMARY KEY, name TEXT UNIQUE, source TEXT);
CREATE TABLE clusters (
    cluster INTEGER PRIMARY KEY, id TEXT, file INTEGER, row INTEGER, size INTEGER,
    lowest REAL, doubt REAL, called TEXT
);
CREATE TABLE members (
    position INTEGER PRIMARY KEY, cluster INTEGER, id TEXT, file INTEGER, row INTEGER,
    similarity REAL, exact INTEGER, doubt REAL, called TEXT, cosine REAL
);
CREATE TABLE spans (
    file INTEGER, first_row INTEGER, start INTEGER, length INTEGER, PRIMARY KEY (file, first_row)
) WITHOUT ROWID;
CREATE TABLE stamps (file INTEGER PRIMARY KEY, size INTEGER, modified INTEGER);
"""
# Decisions name a document by its id, or by file:row if they can't.
NAMES: Final = f"""
CREATE TEMP TABLE unclear AS
    SELECT id FROM clusters GROUP BY id HAVING count(*) > 1
    UNION SELECT id FROM members GROUP BY id HAVING count(*) > 1
    UNION SELECT id FROM clusters JOIN members USING (id)
        WHERE (clusters.file, clusters.row) <> (members.file, members.row)
    UNION SELECT id FROM clusters WHERE id = '' OR length(id) > {LONGEST_NAME}
    UNION SELECT id FROM members WHERE id = '' OR length(id) > {LONGEST_NAME};
UPDATE clusters SET called = (
    SELECT name FROM files WHERE files.file = clusters.file
) || ':' || row WHERE id IN (SELECT id FROM unclear);
UPDATE members SET called = (
    SELECT name FROM files WHERE files.file = members.file
) || ':' || row WHERE id IN (SELECT id FROM unclear);
"""  # noqa: S608 -- constants
INDEXES: Final = """
CREATE INDEX members_cluster ON members (cluster, similarity);
CREATE INDEX members_doubt ON members (doubt, position);
CREATE INDEX members_id ON members (id);
CREATE INDEX members_row ON members (row, file);
CREATE INDEX clusters_id ON clusters (id);
CREATE INDEX clusters_row ON clusters (row, file);
UPDATE clusters SET (lowest, doubt) = (
    SELECT min(similarity), min(doubt) FROM members WHERE members.cluster = clusters.cluster
);
CREATE INDEX clusters_size ON clusters (size DESC, cluster);
CREATE INDEX clusters_lowest ON clusters (lowest, cluster);
CREATE INDEX clusters_doubt ON clusters (doubt, cluster);
CREATE INDEX clusters_file ON clusters (file, cluster);
"""


def build_index(tables: ReviewTables, path: Path, advance: Callable[[float], None]) -> None:
    """Write the file; it exists under its name only when it is complete.

    Args:
        tables: What it is made of.
        path: The file.
        advance: Gets the part that is done, from 0 to 1; it may raise to end the making.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(exist_ok=True)
        beside.unlink(missing_ok=True)
        with closing(connect(beside, "rwc")) as made:
            _fill(made, tables, advance)
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open the file.

    Args:
        path: The file.
        mode: `ro` to read it, `rwc` to make it.
    """
    name = f"file:{quote(os.fsencode(path.resolve()))}?mode={mode}"
    return sqlite3.connect(name, uri=True, check_same_thread=False, isolation_level=None)


def _fill(
    made: sqlite3.Connection,
    tables: ReviewTables,
    advance: Callable[[float], None],
) -> None:
    identity = tables.identify()
    made.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;" + SCHEMA)
    files = _FileNumbers(made, tables)
    made.execute("BEGIN")
    for before, rows in tables.clusters():
        advance(0.2 * before)
        made.executemany(
            "INSERT INTO clusters VALUES (?, ?, ?, ?, ?, NULL, NULL, NULL)",
            ((c, id, files[file], at, size) for c, id, file, at, size in rows),
        )
    for before, rows in tables.removed():
        advance(0.2 + 0.4 * before)
        made.executemany(
            "INSERT INTO members VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, NULL, ?)",
            (
                (c, id, files[file], at, s, exact, doubt, cosine)
                for c, id, file, at, s, exact, doubt, cosine in rows
            ),
        )
    advance(0.6)
    made.executescript(INDEXES + NAMES)
    made.execute("BEGIN")
    for name, stamp, spans in tables.spans():
        made.execute("INSERT INTO stamps VALUES (?, ?, ?)", (files[name], *stamp))
        for span in spans:
            made.execute("INSERT INTO spans VALUES (?, ?, ?, ?)", (files[name], *span))
            advance(0.8)
    made.execute("INSERT INTO about VALUES (?, ?)", (identity, VERSION))
    made.execute("COMMIT")


class _FileNumbers(dict[str, int]):
    """The numbers of files by their names, stored when they are first met."""

    def __init__(self, made: sqlite3.Connection, tables: ReviewTables) -> None:
        super().__init__()
        self._made, self._tables = made, tables

    def __missing__(self, name: str) -> int:
        number = len(self) + 1
        values = (number, name, self._tables.source_of(name))
        self._made.execute("INSERT INTO files VALUES (?, ?, ?)", values)
        self[name] = number
        return number
