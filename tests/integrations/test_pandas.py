"""`df.neardup` of pandas."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest

import neardup
import neardup.integrations.pandas  # registers the accessors
from neardup.errors import ColumnError, UsageError

PAGE = " ".join(f"word{i}" for i in range(60))


@pytest.fixture
def posts() -> pd.DataFrame:
    texts = [PAGE, PAGE + " again", None, "something else", PAGE.upper(), ""]
    return pd.DataFrame(
        {"body": texts, "score": [1, 5, 2, 2, 3, 0], "lang": ["en", "en", "en", "en", "de", "de"]},
        index=["a", "b", "c", "d", "e", "f"],
    )


def test_duplicates_are_dropped_and_rows_without_a_text_stay(posts):
    kept = posts.neardup.drop_duplicates("body")
    assert kept.index.tolist() == ["a", "c", "d", "f"]
    assert kept.columns.tolist() == posts.columns.tolist()
    assert posts.neardup.drop_duplicates("body", keep="max:score").index.tolist() == [
        "b", "c", "d", "f",
    ]  # fmt: skip
    within = posts.neardup.drop_duplicates("body", within="lang", threshold=0.9)
    assert within.index.tolist() == ["a", "c", "d", "e", "f"]


def test_duplicates_are_marked_by_the_index_label(posts):
    marked = posts.neardup.mark_duplicates("body")
    assert marked["duplicate_of"].dropna().to_dict() == {"b": "a", "e": "a"}
    assert marked["similarity"].dropna().to_dict() == {"b": pytest.approx(56 / 57), "e": 1.0}
    assert "duplicate_of" not in posts, "the frame itself is not changed"
    with pytest.raises(UsageError, match="a column 'duplicate_of' already"):
        marked.neardup.mark_duplicates("body")


@pytest.mark.parametrize(
    "index",
    [
        [5, 5, 5, 5, 5, 5],
        pd.date_range("2026-01-01", periods=6),
        pd.MultiIndex.from_product([["x", "y"], [1, 2, 3]]),
    ],
)
def test_any_index_is_possible(posts, index):
    posts.index = index
    marked = posts.neardup.mark_duplicates("body")
    assert marked["duplicate_of"].isna().tolist() == [True, False, True, True, False, True]
    assert marked["duplicate_of"].iloc[1] == posts.index[0]
    assert posts.neardup.cluster("body").index.equals(posts.index)


def test_clusters_can_be_grouped_by(posts):
    clusters = posts.neardup.cluster("body")
    assert clusters.tolist() == [0, 0, pd.NA, 3, 0, pd.NA]
    assert posts.groupby(clusters)["score"].max().to_dict() == {0: 5, 3: 2}


def test_result_and_errors_are_those_of_dedup(posts):
    result = posts.neardup.dedup("body")
    assert isinstance(result, neardup.Result) and result.counts["removed"] == 2
    with pytest.raises(ColumnError, match="bdoy"):
        posts.neardup.drop_duplicates("bdoy")
    with pytest.raises(TypeError, match="did you mean 'threshold'"):
        posts.neardup.drop_duplicates("body", treshold=0.8)


def test_series_and_empty_frames(posts):
    texts = posts["body"]
    assert texts.neardup.drop_duplicates().index.tolist() == ["a", "c", "d", "f"]
    assert texts.neardup.cluster(threshold=0.99).tolist() == [0, 1, pd.NA, 3, 0, pd.NA]
    assert texts.neardup.dedup().counts["removed"] == 2
    empty = posts.iloc[:0]
    assert len(empty.neardup.drop_duplicates("body")) == 0
    assert empty.neardup.mark_duplicates("body").columns[-2:].tolist() == [
        "duplicate_of",
        "similarity",
    ]


def test_integrations_are_not_imported_with_neardup():
    code = (
        "import sys, neardup; "
        "assert not {'pandas', 'polars', 'duckdb', 'sklearn', 'datatrove'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_duplicate_of_stays_an_integer_with_an_integer_index() -> None:
    posts = pd.DataFrame({"text": ["one and the same text", "One and the same text!", "another"]})
    marked = posts.neardup.mark_duplicates()
    assert str(marked["duplicate_of"].dtype) == "Int64"
    assert marked["duplicate_of"].dropna().to_dict() == {1: 0}


def test_an_argument_of_pandas_own_method_is_answered_with_ours() -> None:
    posts = pd.DataFrame({"text": ["one", "two"]})
    wrong = r"neardup\.drop_duplicates\(\) got .* 'subset': did you mean 'text'\?"
    with pytest.raises(TypeError, match=wrong):
        posts.neardup.drop_duplicates(subset="text")
    with pytest.raises(TypeError, match=r"neardup\.cluster\(\) .* did you mean 'threshold'\?"):
        posts.neardup.cluster(treshold=0.9)
