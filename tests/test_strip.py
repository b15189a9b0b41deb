"""Stripping, from what people write to what is kept: specification, options, library."""

from __future__ import annotations

import json
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
from neardup.errors import FormatError, ParameterError, SpecMismatch, UsageError
from neardup.options import Options, Strip, parse_strip
from neardup.sketcher import Sketcher

DIGEST = "0123456789abcdef" * 2
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


# -- the specification --------------------------------------------------------------------------


def test_what_is_empty_is_not_in_the_canonical_form():
    assert Spec().fingerprint == "37b127fd1f8600cb62b51e38922ffc38"
    assert Spec(strip="", ignored="") == Spec()
    assert "strip" not in Spec().canonical and "ignored" not in Spec().canonical
    assert json.loads(Spec(strip="html").canonical)["strip"] == "html"
    assert "ignored" not in Spec(strip="html").canonical
    assert json.loads(Spec(ignored=DIGEST).canonical)["ignored"] == DIGEST
    made = [
        Spec(strip=strip, ignored=ignored) for strip in ("", "html") for ignored in ("", DIGEST)
    ]
    assert len({spec.fingerprint for spec in made}) == 4
    assert [Spec.from_json(spec.canonical) for spec in made] == made
    with pytest.raises(FormatError, match="not a specification of this version"):
        Spec.from_json(json.dumps({**Spec().stated, "stripped": "html"}))


@pytest.mark.parametrize(
    "wrong", [{"strip": "xml"}, {"strip": None}, {"ignored": "abc"}, {"ignored": DIGEST.upper()}]
)
def test_values_that_are_not_known(wrong):
    with pytest.raises(ParameterError, match="not known"):
        Spec(**wrong)


def test_a_mismatch_says_what_differs():
    for other, message in (
        (Spec(strip="html"), r"strip nothing against 'html': make both with the same --strip"),
        (
            Spec(ignored=DIGEST),
            rf"ignored nothing against '{DIGEST}': .* same list of ignored lines",
        ),
        (
            Spec(ignored=DIGEST, seed=1),
            r"seed 0 against 1, ignored nothing .* the same --seed and list",
        ),
    ):
        with pytest.raises(SpecMismatch, match=message):
            Spec().require_same(other, "a", "b")


# -- the options --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "strip", "written"),
    [
        (None, Strip(), ""),
        ("html", Strip(html=True), "html"),
        ("lines:0.1%", Strip(lines=Fraction(1, 1000)), "lines:0.1%"),
        (" html , lines:50%", Strip(True, Fraction(1, 2)), "html,lines:50%"),
        (["lines:7%", "html"], Strip(True, Fraction(7, 100)), "html,lines:7%"),
    ],
)
def test_strip_as_people_write_it(given_, strip, written):
    assert parse_strip(given_) == strip
    assert str(strip) == written


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "xml",
        "lines",
        "lines:",
        "lines:5",
        "lines:0%",
        "lines:100%",
        "lines:-1%",
        "lines:1e3%",
        "html,",
        "lines:1%,lines:2%",
        "lines:nan%",
        "lines:٣%",
    ],
)
def test_strip_that_is_not_known(wrong):
    with pytest.raises(ParameterError, match=r"strip .* is not known"):
        parse_strip(wrong)


def test_tokens_have_nothing_to_strip():
    for strip in ("html", "lines:1%"):
        with pytest.raises(ParameterError, match="tokens have"):
            neardup.dedup([[1, 2]], shingle="token:1", strip=strip)


def test_options_and_specification_agree():
    assert Options.of(strip="html").spec.strip == "html"
    with pytest.raises(ParameterError, match=r"Options\.of"):
        Options(strip=Strip(html=True))
    with pytest.raises(SpecMismatch, match="pass the list"):
        Sketcher(Options().ignoring(DIGEST).spec)


# -- the library --------------------------------------------------------------------------------


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


def test_nothing_vanishes():
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
    with pytest.raises(ParameterError, match="corpus"):
        neardup.similarity("a", "b", strip="lines:1%")


def test_markup_goes_before_lines():
    pages = [f"<p class=c{i}>{BANNER}<p>{topic}" for i, topic in enumerate(TOPICS)]
    result = neardup.dedup(pages, strip=["html", "lines:50%"])
    assert result.kept == [0, 1, 2, 3, 4]
    assert result.options.spec.strip == "html"
    assert [line.documents for line in result.ignored_lines] == [5]  # a block is one line


def test_the_longest_is_still_that_of_the_input():
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
def test_everything_that_can_be_read_twice(make):
    assert neardup.dedup(make(BANNERED), strip="lines:50%").kept == [0, 1, 2, 3, 4]


def test_what_can_be_read_only_once_is_refused():
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
