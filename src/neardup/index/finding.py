"""Documents by their ids, by their contents, and the names of witnesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neardup.index.store import Row, Stored
from neardup.index.work import Point


def rows_with(store: Stored, point: Point, ids: Sequence[str]) -> dict[str, Row]:
    """The documents that have these ids."""
    numbers = sorted({number for some in point.derived.with_ids(ids) for number in some})
    asked = set(ids)
    rows = store.rows(numbers) if numbers else {}
    return {row.id: row for row in rows.values() if row.id in asked}


def rows_like(
    store: Stored, point: Point, contents: Any, leaving: set[int] | frozenset[int] = frozenset()
) -> dict[int, Row]:
    """Of contents that a document has, which stays: the first such document."""
    asked = point.derived.with_contents(contents)
    numbers = sorted({number for some in asked for number in some} - leaving)
    rows = store.rows(numbers) if numbers else {}
    found = {}
    for at, some in enumerate(asked):
        same = (rows[n] for n in some if n in rows and rows[n].content == contents[at].tobytes())
        if (first := next(same, None)) is not None:
            found[at] = first
    return found


def names_of(store: Stored, rows: Any, known: dict[int, str]) -> dict[int, str]:
    """The ids of the rows' witnesses, by number."""
    wanted = {row.witness for row in rows if row.witness is not None} - set(known)
    return known | {row.number: row.id for row in store.rows(sorted(wanted)).values()}
