"""What a generation of an index carries over from another one: texts, groups and vectors.

Texts are those of a corpus that is given, by their ids, or those that the store keeps; vectors are
always in the store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from neardup.errors import OutputError, ParameterError
from neardup.index.settings import IndexSettings
from neardup.index.store import Row, Store
from neardup.index.validation import decode_text
from neardup.sketcher import words_of_vector
from neardup.spec import Spec

CORPUS_FILE: Final = "corpus.tmp"
IDS_AT_ONCE: Final = 500
"""Ids of one SELECT."""


class CorpusTexts:
    """A temporary file of texts by id. Of several texts with the same id the first counts."""

    def __init__(self, folder: Path, texts: Iterable[tuple[str, str]]) -> None:
        self._path = folder / CORPUS_FILE
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
        """Return the texts of the ids that the corpus has."""
        texts: dict[str, str] = {}
        with self._translated():
            for start in range(0, len(ids), IDS_AT_ONCE):
                batch = ids[start : start + IDS_AT_ONCE]
                places = ",".join("?" * len(batch))
                query = f"SELECT id, text FROM texts WHERE id IN ({places}) ORDER BY number DESC"  # noqa: S608
                texts.update(self._file.execute(query, batch).fetchall())
        return texts

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


class DocumentTexts:
    """The texts of documents, from a corpus or else from the store."""

    def __init__(self, store: Store, corpus: CorpusTexts | None = None) -> None:
        self._store, self._corpus = store, corpus
        settings = IndexSettings.of_stored(store.meta(), str(store.path))
        self._tokens = settings.options.spec.unit == "token"

    def of(self, rows: Sequence[Row]) -> dict[int, str]:
        """Return the texts of the documents that have one, by number."""
        by_id = {} if self._corpus is None else self._corpus.texts([row.id for row in rows])
        texts = {row.number: by_id[row.id] for row in rows if row.id in by_id}
        rest = [row.number for row in rows if row.number not in texts]
        stored = self._store.blobs("texts", rest) if rest else {}
        return texts | {
            number: decode_text(text, tokens=self._tokens) for number, text in stored.items()
        }


class DocumentVectors:
    """The vectors of documents, which follow their shingles in the store.

    Args:
        store: The store.
        spec: Its specification.
    """

    def __init__(self, store: Store, spec: Spec) -> None:
        self._store, self._dimension = store, spec.dimension

    def of(self, numbers: Sequence[int]) -> NDArray[np.float32] | None:
        """Return the vector of each of these documents; None if they have none.

        Args:
            numbers: Documents of the store.
        """
        if not self._dimension:
            return None
        stored, size = self._store.blobs("shingles", numbers), 8 * words_of_vector(self._dimension)
        rows = np.frombuffer(b"".join(stored[number][-size:] for number in numbers), np.float32)
        return rows.reshape(len(numbers), -1)[:, : self._dimension]


class CarriedDocuments(NamedTuple):
    """Documents of the source with all that the target makes sketches of.

    rows     the documents
    texts    their texts; None of those that are compared by vectors alone, and have no stored text
    groups   the hashes of their groups, if they have groups
    vectors  their vectors, if they have some
    """

    rows: list[Row]
    texts: list[str | None]
    groups: NDArray[np.uint64] | None
    vectors: NDArray[np.float32] | None
