"""Indexes with vectors, and the answer of a run over the same documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import neardup
from neardup import Index
from support.vector_definition import SCHEMA, Row, Signals

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
