"""Stripping, as the library does it: markup and frequent lines are not compared."""

from __future__ import annotations

from fractions import Fraction

import datasets
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import neardup
from neardup import Spec, reference
from neardup.errors import ParameterError, UsageError

BANNER = (
    "We use cookies to give you the best experience on our site and to show you offers\n"
    "By going on you agree to our use of cookies as described in our privacy policy\n"
)
TOPICS = ["cats sleep", "rain falls", "bread rises", "ships sail", "clocks tick"]
BANNERED = [BANNER + topic for topic in TOPICS]


def different_by_banner(words: str) -> list[str]:
    """The same words under banners that have nothing in common, each on five other pages."""
    banners = [" ".join(f"{letter}{i}" for i in range(60)) for letter in "xyz"]
    others = [f"{banner}\n{banner[0]} alone {i}" for banner in banners for i in range(5)]
    return [f"{banner}\n{words}" for banner in banners] + others


def test_a_shared_banner_no_longer_makes_documents_similar():
    assert neardup.dedup(BANNERED).kept == [0]
    result = neardup.dedup(BANNERED, strip="lines:50%")
    assert result.kept == [0, 1, 2, 3, 4]
    assert [(line.documents, line.text[:14]) for line in result.ignored_lines] == [
        (5, "by going on yo"),
        (5, "we use cookies"),
    ]
    assert len(result.options.spec.ignored) == 32
    assert "stripped            lines:50%   2 lines ignored" in result.summary()


def test_different_banners_no_longer_hide_copies():
    texts = different_by_banner("one and the same words here")
    assert neardup.dedup(texts).kept == [0, 1, 2]
    assert neardup.dedup(texts, strip="lines:20%").kept == [0, *range(3, 18)]


def test_every_stripped_document_is_accounted_for():
    texts = [BANNER, BANNER.upper(), *BANNERED, "", " \n"]
    result = neardup.dedup(texts, strip="lines:50%")
    assert [(gone.id, gone.witness) for gone in result.removed] == [(1, 0)]
    assert result.kept == [0, 2, 3, 4, 5, 6]
    assert [r.id for r in result.rejected] == [7, 8]


def test_markup_is_not_compared():
    pages = [
        f"<html><title>{i}</title><p id=p{i}>One and the same <b>visible</b> text &amp; more"
        f"<script>track({i}, {i + 1}, {i + 2}, {i + 3})</script>"
        for i in range(3)
    ]
    assert len(neardup.dedup(pages).kept) == 3
    result = neardup.dedup(pages, strip="html")
    assert result.kept == [0]
    assert "stripped            html\n" in result.summary()
    assert neardup.similarity(*pages[:2], strip="html") == 1.0
    assert neardup.similarity(*pages[:2]) < 1.0
    with pytest.raises(ParameterError, match="frequent lines"):
        neardup.similarity("a", "b", strip="lines:1%")


def test_markup_is_stripped_before_lines_are_counted():
    pages = [f"<p class=c{i}>{BANNER}<p>{topic}" for i, topic in enumerate(TOPICS)]
    result = neardup.dedup(pages, strip=["html", "lines:50%"])
    assert result.kept == [0, 1, 2, 3, 4]
    assert result.options.spec.strip == "html"
    assert [line.documents for line in result.ignored_lines] == [5]  # a block is one line


def test_longest_is_measured_before_stripping():
    texts = ["a b c d e f\nmore", "a b c d e f\n<b>more</b>", "a b c d e f\n<i>more</i>  "]
    assert neardup.dedup(texts, keep="longest", strip="html").kept == [2]


def test_without_frequent_lines_the_specification_is_the_usual_one():
    result = neardup.dedup(TOPICS, strip="lines:50%")
    assert result.options.spec == Spec()
    assert "0 lines ignored" in result.summary()


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        pa.array,
        pl.Series,
        pd.Series,
        lambda texts: [{"text": text} for text in texts],
        lambda texts: pa.table({"text": texts}),
        lambda texts: pl.LazyFrame({"text": texts}),
        lambda texts: datasets.Dataset.from_dict({"text": texts}),
        lambda texts: datasets.Dataset.from_dict({"text": texts}).to_iterable_dataset(),
    ],
)
def test_every_rereadable_kind_of_data_is_counted(make):
    assert neardup.dedup(make(BANNERED), strip="lines:50%").kept == [0, 1, 2, 3, 4]


def test_stream_is_refused_where_lines_are_counted():
    table = pa.table({"text": BANNERED})
    for data in (iter(BANNERED), (text for text in BANNERED), table.to_reader()):
        with pytest.raises(UsageError, match=r"only once.* pass a list or a table"):
            neardup.dedup(data, strip="lines:50%")


lines = st.sampled_from(["a b c d e f", "A b c d e  f", "g h i j k l", "m", "", "n o p q r s t"])


@given(st.lists(st.lists(lines, max_size=4).map("\n".join), max_size=12), st.integers(1, 99))
def test_the_answer_is_that_of_the_stripped_texts(texts, percent):
    frequent = reference.frequent_lines(texts, Fraction(percent, 100), Spec())
    bare = [reference.ignore_lines(text, frequent, Spec()) for text in texts]
    result = neardup.dedup(texts, strip=f"lines:{percent}%")
    assert [line.documents for line in result.ignored_lines] == sorted(
        frequent.values(), reverse=True
    )
    plain = neardup.dedup(bare)
    assert (result.kept, result.removed) == (plain.kept, plain.removed)
    assert result.rejected == plain.rejected
