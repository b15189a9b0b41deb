"""How type checkers see the library: mypy checks this file (make lint); nothing runs it.

A line with `type: ignore[code]` must be an error of that kind: mypy reports an ignore that is not
needed, so a type that becomes too loose fails as one that becomes too strict.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import pandas as pd
import polars as pl
import pyarrow as pa

import neardup


def choices_are_checked(texts: list[str], sketch: str) -> None:
    neardup.dedup(texts, sketch="oneperm", verify="estimate", bits=8, text_profile="aggressive")
    neardup.dedup(texts, sketch="onperm")  # type: ignore[arg-type]
    neardup.dedup(texts, sketch=sketch)  # type: ignore[arg-type]
    neardup.dedup(texts, bits=3)  # type: ignore[arg-type]
    neardup.dedup(texts, cluster="star")  # type: ignore[arg-type]
    neardup.dedup(texts, threshold="0.8")  # type: ignore[arg-type]
    neardup.dedup(texts, treshold=0.8)  # type: ignore[call-arg]
    neardup.dedup_files("in", preset="short", hash="xxh64", measure="containment")
    neardup.dedup_files("in", hash="md5")  # type: ignore[arg-type]
    neardup.dedup_files("in", measure="cosine")  # type: ignore[arg-type]
    neardup.Index.open("index", verify="estimate")
    neardup.Index.open("index", verify="perhaps")  # type: ignore[arg-type]
    neardup.similarity("a", "b", measure="containment", text_profile="conservative")
    neardup.similarity("a", "b", measure="cosine")  # type: ignore[arg-type]


def documents(rows: Iterator[dict[str, object]], lazy: pl.LazyFrame, frame: pl.DataFrame) -> None:
    """Everything that holds documents is taken; what holds none is not."""
    neardup.dedup(["a", None, "b"])
    neardup.dedup([[1, 2, 3], [4, 5]], shingle="token:2")
    neardup.dedup(rows)
    neardup.dedup(lazy)
    neardup.dedup(frame)
    neardup.dedup(frame["text"])
    neardup.dedup(pd.DataFrame({"text": ["a"]}))
    neardup.dedup(pa.table({"text": ["a"]}))
    neardup.dedup(5)  # type: ignore[arg-type]
    neardup.dedup(Path("a"))  # type: ignore[arg-type]
    neardup.dedup_files([1, 2])  # type: ignore[list-item]


def results(texts: list[str]) -> None:
    result = neardup.dedup(texts)
    assert_type(result, neardup.Result)
    assert_type(result.to_polars(), pl.DataFrame)
    run = neardup.dedup_files(Path("in"), "out", progress=print)
    assert_type(run, neardup.RunResult)
    assert_type(run.kept, list[Path])
    assert_type(run.removed.to_polars(), pl.DataFrame)
