"""`df.neardup` of Polars."""

from __future__ import annotations

import polars as pl
import pytest

import neardup
import neardup.integrations.polars  # registers the namespaces
from neardup.errors import UsageError

PAGE = " ".join(f"word{i}" for i in range(60))


@pytest.fixture
def posts() -> pl.DataFrame:
    texts = [PAGE, PAGE + " again", None, "something else", PAGE.upper(), ""]
    return pl.DataFrame(
        {"name": list("abcdef"), "body": texts, "lang": ["en", "en", "en", "en", "de", "de"]}
    )


def test_duplicates_are_dropped_and_rows_without_a_text_stay(posts):
    kept = posts.neardup.drop_duplicates("body", threshold=0.8)
    assert kept["name"].to_list() == ["a", "c", "d", "f"]
    assert kept.schema == posts.schema
    within = posts.neardup.drop_duplicates("body", within="lang")
    assert within["name"].to_list() == ["a", "c", "d", "e", "f"]


def test_duplicates_are_marked_by_id_or_row_number(posts):
    by_number = posts.neardup.mark_duplicates("body")
    assert by_number["duplicate_of"].to_list() == [None, 0, None, None, 0, None]
    assert by_number["similarity"].to_list() == [None, 56 / 57, None, None, 1.0, None]
    by_id = posts.neardup.mark_duplicates("body", id="name")
    assert by_id["duplicate_of"].to_list() == [None, "a", None, None, "a", None]
    with pytest.raises(UsageError, match="a column 'duplicate_of' already"):
        by_id.neardup.mark_duplicates("body")


def test_clusters(posts):
    clusters = posts.neardup.cluster("body")
    assert clusters.to_list() == [0, 0, None, 3, 0, None] and clusters.name == "cluster"
    sizes = posts.with_columns(clusters).group_by("cluster").len().sort("cluster")
    assert sizes.rows() == [(None, 2), (0, 3), (3, 1)]


def test_series_result_and_empty_frames(posts):
    texts = posts["body"]
    assert len(texts.neardup.drop_duplicates()) == 4
    assert texts.neardup.cluster().to_list() == [0, 0, None, 3, 0, None]
    assert isinstance(texts.neardup.dedup(), neardup.Result)
    assert posts.neardup.dedup("body", id="name").kept == ["a", "d"]
    empty = posts.clear()
    assert empty.neardup.drop_duplicates("body").schema == posts.schema
    assert empty.neardup.mark_duplicates("body", id="name").columns[-2:] == [
        "duplicate_of",
        "similarity",
    ]
