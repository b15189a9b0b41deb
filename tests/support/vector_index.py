"""Indexes with vectors, and the answer of a run over the same documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import neardup
from neardup import Index
from support.vector_definition import SCHEMA, DefinedAnswer, Row, Signals

ALSO: Row = {"also": "v:0.9", "dimension": 3, "threshold": 0.6, "shingle": "word:2"}
EAST, NORTH, WEST = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]


def opened(folder: str | Path, asked: Signals) -> Index:
    return Index.open(folder, dimension=3, **asked.options)


def in_memory(rows: Sequence[Row], asked: Signals) -> Row:
    """Document -> witness, similarity, cosine and signal, of a run with the centre of an index."""
    options = asked.options if asked.role == "unless" else asked.options | {"centre": "none"}
    result = neardup.dedup(pa.Table.from_pylist(list(rows), SCHEMA), **options)
    found: Row = dict.fromkeys(result.kept)
    return found | {r.id: (r.witness, r.similarity, r.cosine, r.by) for r in result.removed}


def numbers_of(answer: Any) -> Any:
    """What an answer or a stored document says, as `in_memory` has it."""
    assert answer.status in ("new", "duplicate"), answer
    if answer.duplicate_of is None:
        return None
    cosine, by = getattr(answer, "cosine", None), getattr(answer, "by", None)
    return answer.duplicate_of, answer.similarity, cosine, by


def add(index: Index, rows: Sequence[Row], **how: Any) -> list[Any]:
    texts = None if index.spec.of_vectors else [row["text"] for row in rows]
    vectors = np.array([row["v"] for row in rows])
    return index.add_batch([row["id"] for row in rows], texts, vectors=vectors, **how)


def stored(index: Index, rows: Sequence[Row]) -> Row:
    return {row["id"]: numbers_of(index.get(row["id"])) for row in rows}


def check_promises(index: Index, rows: Sequence[Row], asked: Signals) -> None:
    """Every copy is similar to its kept witness, and no two kept documents of a bucket are."""
    if not rows:
        return
    found: dict[str, Any] = {row["id"]: index.get(row["id"]) for row in rows}
    rows = sorted(rows, key=lambda row: found[row["id"]].number)
    place = {row["id"]: n for n, row in enumerate(rows)}
    definition = DefinedAnswer(rows, asked)
    kept = [n for n, row in enumerate(rows) if found[row["id"]].status == "new"]
    for v, row in enumerate(rows):
        if v not in kept:
            witness, similarity, cosine, _ = numbers_of(found[row["id"]])
            assert place[witness] in kept
            assert (similarity, cosine) in definition.numbers(place[witness], v)
    if asked.limit > len(rows):
        assert not any(definition.are_copies(u, v) for u in kept for v in kept if u < v)


def check_order_of_numbers(index: Index, rows: Sequence[Row], asked: Signals) -> None:
    """What is stored is the answer of a run over the documents in the order of their numbers."""
    by_id = {row["id"]: row for row in rows}
    listed = index._opened.generation._documents.rows_after(0, 1 << 30)
    assert sorted(row.id for row in listed) == sorted(by_id)
    ordered = [by_id[row.id] for row in listed]
    assert stored(index, ordered) == in_memory(ordered, asked)
    assert index.verify() == []
