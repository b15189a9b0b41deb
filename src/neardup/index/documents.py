"""Documents and clusters, as they are shown, of what is stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from neardup.index.answer import Cluster, Document
from neardup.index.finding import names_of, rows_with
from neardup.index.given import unpacked_text
from neardup.index.known import Behind
from neardup.index.planning import answer_of
from neardup.index.settings import Settings
from neardup.index.store import Row, Store
from neardup.index.tables.postings import LAST_NUMBER
from neardup.index.work import Point


def document_with(store: Store, point: Point, id: str) -> Document | None:
    """The document that has this id."""
    numbers = point.derived.with_ids([id])[0]
    with store.snapshot():  # or its witness could be removed before it is read
        rows = store.rows(numbers)
        if len(rows) < len(numbers):  # it may be replaced just now
            raise Behind
        found = [row for row in rows.values() if row.id == id]
        return _documents(store, found)[0] if found else None


def text_with(store: Store, point: Point, id: str, settings: Settings) -> Any:
    """The stored text of the document that has this id."""
    row = rows_with(store, point, [id]).get(id)
    stored = {} if row is None else store.blobs("texts", [row.number])
    tokens = settings.options.spec.unit == "token"
    return next((unpacked_text(data, tokens=tokens) for data in stored.values()), None)


def cluster_around(store: Store, point: Point, number: int) -> Cluster | None:
    """A kept document and its copies."""
    if not 0 < number <= LAST_NUMBER:
        return None
    numbers = point.derived.with_witnesses([number])[0]
    with store.snapshot():
        rows = store.rows([number, *numbers])
        if number not in rows or rows[number].witness is not None:
            return None
        copies = sorted(row for row in rows.values() if row.witness == number)
        first, *others = _documents(store, [rows[number], *copies])
        return Cluster(number, first, tuple(others))


def _documents(store: Store, rows: Sequence[Row]) -> list[Document]:
    names = names_of(store, rows, {row.number: row.id for row in rows})
    found = []
    for row in rows:
        said = answer_of(row, names)
        about = None if row.metadata is None else json.loads(row.metadata)
        found.append(
            Document(
                row.id,
                row.number,
                said.status,
                said.duplicate_of,
                said.similarity,
                said.exact,
                said.cluster or row.number,
                row.added,
                about,
            )
        )
    return found
