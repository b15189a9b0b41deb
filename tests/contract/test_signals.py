"""In memory and over files, documents with vectors get the answer of the definition."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import batch_engine
from support.strategies import examples
from support.vector_definition import ASKED, CORPORA, SCHEMA, DefinedAnswer, Row, Signals, rows_of

import neardup
from neardup.options import Options
from neardup.pipeline.job import make_job
from neardup.pipeline.run import run_job


def defined(rows: Sequence[Row], asked: Signals, keep: str) -> dict[str, Any]:
    """Removed document -> witness, similarity and cosine, by the definition."""
    order = list(reversed(rows)) if keep == "last" else list(rows)
    found = zip(order, DefinedAnswer(order, asked).answer, strict=True)
    return {row["id"]: (order[one[0]]["id"], *one[1:]) for row, one in found if one is not None}


def in_memory(rows: Sequence[Row], asked: Signals, keep: str) -> neardup.Result:
    table = pa.Table.from_pylist(list(rows), SCHEMA)
    return neardup.dedup(table, keep=keep, **asked.options)


def over_files(
    rows: Sequence[Row], asked: Signals, keep: str, folder: Path, **sizes: Any
) -> list[Row]:
    middle = len(rows) // 2
    inputs = []
    for number, some in enumerate((rows[:middle], rows[middle:])):
        inputs.append(folder / f"{number}.parquet")
        pq.write_table(pa.Table.from_pylist(list(some), SCHEMA), inputs[-1], row_group_size=3)
    options = Options.of(keep=keep, **asked.options)
    run_job(make_job(inputs, folder / "out", options, **sizes), batch_engine.Silent())
    return batch_engine.table(folder / "out", "removed")


@pytest.mark.parametrize("asked", ASKED, ids=str)
@settings(max_examples=examples(30))
@given(documents=CORPORA, keep=st.sampled_from(["first", "last"]))
@example(documents=[("a b c", [1.0, 0.0, 0.0]), ("a b c", [0.0, 1.0, 0.0])], keep="first")
@example(
    documents=[("d d", [1.0, 0.0, 0.0]), ("a b", [1.0, 0.0, 0.0]), ("a b", [0.0, 1.0, 0.0])],
    keep="first",
)
def test_answer_in_memory_is_the_defined_one(
    asked: Signals, documents: list[tuple[str, list[float]]], keep: str
) -> None:
    rows = rows_of(documents)
    result = in_memory(rows, asked, keep)
    got = {one.id: (one.witness, one.similarity, one.cosine) for one in result.removed}
    assert got == defined(rows, asked, keep)
    by_id = {row["id"]: row for row in rows}
    for one in result.removed:
        pair = DefinedAnswer([by_id[one.witness], by_id[one.id]], asked)
        assert pair.are_similar, "a document is similar to its own witness"
        if asked.role != "alone":
            by_text, by_vector = (
                one.similarity >= asked.threshold,
                (one.cosine or 0) >= asked.cosine,
            )
            names = {(True, False): "text", (False, True): "vector", (True, True): "both"}
            assert one.by == ("copy" if one.cosine is None else names[by_text, by_vector])


@pytest.mark.parametrize("asked", ASKED, ids=str)
@settings(max_examples=examples(6))
@given(documents=CORPORA, keep=st.sampled_from(["first", "last", "none"]))
def test_answer_over_files_is_that_in_memory(
    asked: Signals, documents: list[tuple[str, list[float]]], keep: str
) -> None:
    rows = rows_of(documents)
    result = in_memory(rows, asked, keep)
    with TemporaryDirectory() as folder:
        removed = over_files(rows, asked, keep, Path(folder), workers=2, shard=1, chunk=1)
        fields = ("id", "witness", "similarity", "cosine", "by")
        got = [tuple(row.get(name) for name in fields) for row in removed]
        vetoed = []
        if asked.role == "unless":
            vetoed = [
                (row["id"], row["witness"], row["similarity"], row["cosine"])
                for row in batch_engine.table(Path(folder) / "out", "vetoed")
            ]
    assert got == [tuple(getattr(one, name) for name in fields) for one in result.removed]
    assert vetoed == [(v.id, v.witness, v.similarity, v.cosine) for v in result.vetoed]
