"""What the pages look up: an SQLite file, made once from the tables of a run, or from an index.

The tables are in input order; a cluster's documents are all over them. Here they are found by
cluster, by similarity and by id, without reading a table to its end. Nothing in it is original: it
is made again if it is missing, or the run is another one.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from neardup.errors import Busy, FormatError, NeardupError
from neardup.review.index_build import VERSION, build_index, connect
from neardup.review.subject import Place, ReviewTables

PAGE: Final = 25
"""Clusters on a page."""
MOST_FOUND: Final = 200
"""Documents that a search by id lists."""

ORDERS: Final = {
    "size": "size DESC, cluster",
    "similarity": "lowest, cluster",
    "uncertainty": "doubt, cluster",
    "source": "file, cluster",
}
"""How clusters can be sorted."""


class FoundCluster(NamedTuple):
    """A kept document and the number of documents of its cluster; its lowest similarity.

    Decisions name it as it is `called`: by its id, or by file:row if others have that id too.
    """

    cluster: int
    id: str
    file: str
    row: int
    size: int
    lowest: float | None
    called: str

    @property
    def place(self) -> tuple[str, int]:
        """Where the kept document is."""
        return self.file, self.row


class FoundCopy(NamedTuple):
    """A removed document; `position` is its row in removed.parquet, `called` as of a cluster."""

    position: int
    cluster: int
    id: str
    file: str
    row: int
    similarity: float | None
    exact: bool
    called: str
    doubt: float | None
    cosine: float | None

    @property
    def place(self) -> tuple[str, int]:
        """Where it is."""
        return self.file, self.row


_CLUSTER: Final = (
    "SELECT cluster, id, name, row, size, lowest, coalesce(called, id) FROM clusters "
    "JOIN files USING (file)"
)
_COPY: Final = (
    "SELECT position, cluster, id, name, row, similarity, exact, coalesce(called, id), "
    "doubt, cosine FROM members JOIN files USING (file)"
)


class ReviewIndex:
    """The documents of a run, by what they are looked up by. Used by several threads.

    Args:
        tables: What it is made of.
        path: The file of the index.
    """

    def __init__(self, tables: ReviewTables, path: Path) -> None:
        self._tables, self.path = tables, path
        self.done = 0.0
        """The part of the index that is made, from 0 to 1."""
        self.failure: NeardupError | None = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._making: threading.Thread | None = None
        self._opened: sqlite3.Connection | None = None
        if self._is_current():
            self._open()

    # -- making it --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Make the index in a thread, unless it is there or being made."""
        with self._lock:
            if self._opened is None and self._making is None and self.failure is None:
                self._making = threading.Thread(target=self._make, name="review index", daemon=True)
                self._making.start()

    @property
    def is_stale(self) -> bool:
        """Whether it is there, and was made of another run, or of an earlier state of an index."""
        return self.is_ready and not self._is_current()

    def renew(self) -> None:
        """Make the index again in a thread; until it is there, the one before answers."""
        with self._lock:
            if self._making is None or not self._making.is_alive():
                self.failure = None
                self._making = threading.Thread(target=self._make, name="review index", daemon=True)
                self._making.start()

    def stop(self) -> None:
        """End the making; a part of an index is not kept."""
        self._stopped.set()
        if self._making is not None:
            self._making.join()
        if self._opened is not None:
            self._opened.close()

    def wait(self) -> None:
        """Make the index and return when it is there; for commands, which have no page to show."""
        self.begin()
        if self._making is not None:
            self._making.join()
        if self.failure is not None:
            raise self.failure

    @property
    def is_ready(self) -> bool:
        """Whether questions can be answered."""
        return self._opened is not None

    def _is_current(self) -> bool:
        """Return whether the file is the index of this very run."""
        if not self.path.is_file():
            return False
        try:
            with closing(connect(self.path, "ro")) as found:
                row = found.execute("SELECT run, version FROM about").fetchone()
        except sqlite3.Error:
            return False
        return bool(row == (self._tables.identify(), VERSION))

    def _open(self) -> None:
        self._opened = connect(self.path, "ro")
        self.done = 1.0

    def _make(self) -> None:
        try:
            build_index(self._tables, self.path, self._advance)
            with self._lock:
                before = self._opened
                self._open()
                if before is not None:
                    before.close()
        except _StoppedError:
            pass
        except NeardupError as error:
            self.failure = error
        except (OSError, sqlite3.Error, pa.ArrowException) as error:
            self.failure = FormatError(
                f"the list of clusters can't be made in {self.path.parent} ({error}): free some "
                "space, or copy the run to a folder that can be written to"
            )

    def _advance(self, done: float) -> None:
        if self._stopped.is_set():
            raise _StoppedError
        self.done = done

    # -- questions --------------------------------------------------------------------------------

    def _ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            if self._opened is None:
                raise self.failure or Busy(
                    "the list of clusters is being made: try again in a moment"
                )
            try:
                return self._opened.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise FormatError(
                    f"{self.path} can't be read ({error}): remove it, it is made again"
                ) from None

    def clusters(self, order: str, source: str, start: int) -> list[FoundCluster]:
        """Return a page of clusters, and one more if there is a next page.

        Args:
            order: A key of `ORDERS`.
            source: Only clusters whose kept document is of this source; empty for all.
            start: The number of clusters before the page.
        """
        where = "WHERE source = ?" if source else ""
        query = f"{_CLUSTER} {where} ORDER BY {ORDERS[order]} LIMIT ? OFFSET ?"
        values = (*([source] if source else []), PAGE + 1, start)
        return [FoundCluster(*row) for row in self._ask(query, *values)]

    def cluster(self, number: int) -> FoundCluster | None:
        """Return a cluster by its number in the tables of the run."""
        found = self._ask(f"{_CLUSTER} WHERE cluster = ?", number)
        return FoundCluster(*found[0]) if found else None

    def copies(self, cluster: int, start: int, count: int) -> list[FoundCopy]:
        """Return removed documents of a cluster, the least similar first.

        Args:
            cluster: The number of the cluster.
            start: The number of documents before the first one.
            count: How many, at most.
        """
        query = f"{_COPY} WHERE cluster = ? ORDER BY similarity, position LIMIT ? OFFSET ?"
        return [_copy(row) for row in self._ask(query, cluster, count, start)]

    def copy(self, position: int) -> FoundCopy | None:
        """Return a removed document by its row in removed.parquet."""
        found = self._ask(f"{_COPY} WHERE position = ?", position + 1)
        return _copy(found[0]) if found else None

    def doubtful(self, after: FoundCopy | None, count: int) -> list[FoundCopy]:
        """Return removed documents, the least certain decisions first.

        Args:
            after: The one that they come after; None for the first.
            count: How many, at most.
        """
        if after is None:
            query = f"{_COPY} WHERE doubt IS NOT NULL ORDER BY doubt, position LIMIT ?"
            return [_copy(row) for row in self._ask(query, count)]
        # Two questions: as one of row values, SQLite walks through all that are equally certain,
        # and identical documents are.
        doubt = after.doubt
        query = f"{_COPY} WHERE doubt = ? AND position > ? ORDER BY position LIMIT ?"
        found = self._ask(query, doubt, after.position + 1, count)
        if len(found) < count:
            query = f"{_COPY} WHERE doubt > ? ORDER BY doubt, position LIMIT ?"
            found += self._ask(query, doubt, count - len(found))
        return [_copy(row) for row in found]

    def kept_names(self, clusters: Collection[int]) -> dict[int, str]:
        """Return what the kept documents of clusters are called.

        Args:
            clusters: The numbers of the clusters.
        """
        marks = ", ".join("?" * len(clusters))
        query = f"SELECT cluster, coalesce(called, id) FROM clusters WHERE cluster IN ({marks})"  # noqa: S608
        return dict(self._ask(query, *clusters))

    def with_id(self, id: str) -> tuple[list[FoundCluster], list[FoundCopy]]:
        """Return the kept documents with copies and the removed ones of an id, or at file:row.

        Args:
            id: The id.
        """
        clusters = self._ask(f"{_CLUSTER} WHERE id = ? LIMIT ?", id, MOST_FOUND)
        copies = self._ask(f"{_COPY} WHERE id = ? LIMIT ?", id, MOST_FOUND)
        file, _, row = id.rpartition(":")
        if not clusters and not copies and file and row.isascii() and row.isdigit():
            return self.at((file, int(row[:18])))
        return [FoundCluster(*found) for found in clusters], [_copy(found) for found in copies]

    def at(self, place: Place) -> tuple[list[FoundCluster], list[FoundCopy]]:
        """Return the kept document with copies, or the removed one, at a place.

        Args:
            place: The file and the row.
        """
        where = "WHERE name = ? AND row = ?"
        clusters = self._ask(f"{_CLUSTER} {where}", *place)
        copies = self._ask(f"{_COPY} {where}", *place)
        return [FoundCluster(*found) for found in clusters], [_copy(found) for found in copies]

    def documents(self) -> Iterator[tuple[Place, str]]:
        """Yield the places and the ids of all kept documents with copies, and of all copies."""
        for table, key in (("clusters", "cluster"), ("members", "position")):
            last = 0
            query = (
                f"SELECT {key}, name, row, id FROM {table} JOIN files USING (file) "  # noqa: S608
                f"WHERE {key} > ? ORDER BY {key} LIMIT {MOST_FOUND}"
            )
            while found := self._ask(query, last):
                yield from (((name, row), id) for _, name, row, id in found)
                last = found[-1][0]

    def similarities(self) -> list[tuple[float, int]]:
        """Return the similarities of removed documents, and how many have each."""
        query = "SELECT similarity, count(*) FROM members WHERE similarity NOT NULL GROUP BY 1"
        return [(row[0], row[1]) for row in self._ask(query)]

    def by_id(self, text: str) -> tuple[list[FoundCluster], list[FoundCopy]]:
        """Return kept documents and copies whose id, or file:row, begins with a text.

        Args:
            text: The beginning.
        """
        end = text + "\U0010ffff"
        clusters = self._ask(
            f"{_CLUSTER} WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", text, end, MOST_FOUND
        )
        copies = self._ask(
            f"{_COPY} WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", text, end, MOST_FOUND
        )
        own, others = self.with_id(text)  # it may be file:row
        return (
            list(dict.fromkeys([*(FoundCluster(*row) for row in clusters), *own])),
            list(dict.fromkeys([*map(_copy, copies), *others])),
        )

    def containing(self, text: str) -> tuple[list[FoundCluster], list[FoundCopy]]:
        """Return kept documents and copies whose id or file contains a text; all are looked at.

        Args:
            text: The text, in upper or lower case.
        """
        like = "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        where = (
            "WHERE id LIKE ? ESCAPE '\\' OR file IN "
            "(SELECT file FROM files WHERE name LIKE ? ESCAPE '\\') LIMIT ?"
        )
        clusters = self._ask(f"{_CLUSTER} {where}", like, like, MOST_FOUND)
        copies = self._ask(f"{_COPY} {where}", like, like, MOST_FOUND)
        return [FoundCluster(*row) for row in clusters], [_copy(row) for row in copies]

    def count_pairs(self, source: str, least: float, most: float) -> int:
        """Return the number of removed documents of a source with a similarity in a range.

        Args:
            source: The source of the removed document; empty for all.
            least: The lowest similarity.
            most: The highest similarity.
        """
        query = (
            "SELECT count(*) FROM members JOIN files USING (file) "  # noqa: S608 -- constants
            f"WHERE {_RANGE}"
        )
        return int(self._ask(query, least, most, source, source)[0][0])

    def pairs(self, source: str, least: float, most: float) -> list[tuple[int, str, str]]:
        """Return the cluster of the pairs that `count_pairs` counts, and what both are called.

        Args:
            source: The source of the removed document; empty for all.
            least: The lowest similarity.
            most: The highest similarity.
        """
        query = (
            "SELECT cluster, coalesce(clusters.called, clusters.id), "  # noqa: S608 -- constants
            "coalesce(members.called, members.id) FROM members "
            "JOIN clusters USING (cluster) "
            f"JOIN files ON files.file = members.file WHERE {_RANGE} ORDER BY position"
        )
        return [(row[0], row[1], row[2]) for row in self._ask(query, least, most, source, source)]

    def sources(self) -> list[str]:
        """Return the sources of removed documents."""
        query = "SELECT DISTINCT source FROM files ORDER BY source"
        return [str(row[0]) for row in self._ask(query)]

    def span_of(self, file: str, row: int, stamp: tuple[int, int]) -> tuple[int, int, int] | None:
        """Return where the row of a file is: its block's first row, start and length, if known.

        Args:
            file: The name of the file.
            row: The number of the row.
            stamp: The size of the file and its time of change: another file has no spans.
        """
        query = (
            "SELECT first_row, start, length FROM spans JOIN files USING (file) "
            "JOIN stamps USING (file) WHERE name = ? AND size = ? AND modified = ? "
            "AND first_row <= ? ORDER BY first_row DESC LIMIT 1"
        )
        found = self._ask(query, file, *stamp, row)
        return (found[0][0], found[0][1], found[0][2]) if found else None


_RANGE: Final = "similarity >= ? AND similarity <= ? AND (? = '' OR source = ?)"


class _StoppedError(Exception):
    """The server ends."""


def _copy(row: Sequence[Any]) -> FoundCopy:
    position, cluster, id, file, at, similarity, exact, *others = row
    return FoundCopy(position - 1, cluster, id, file, at, similarity, bool(exact), *others)
