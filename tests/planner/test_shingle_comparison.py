"""Shingles are compared with one another, because the truth of one can't say that it is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import neardup as run
from support.posts import ordinary_posts, spam_posts

import neardup
from neardup.errors import NeardupError
from neardup.evaluation.lab import as_documents
from neardup.planner.shingle_comparison import ComparedShingle, compare_shingles, parse_compared
from neardup.runtime import SILENT

WORDS, CHARS = ComparedShingle("word:5", 0.8), ComparedShingle("char:5", 0.5)
QUICK = {"slots": 128, "sketches": "minhash", "bands": "21x6"}


def test_pairs_that_only_one_shingle_finds_are_counted_by_the_exact_similarity() -> None:
    posts = [*ordinary_posts(20), *spam_posts(12)]
    ids = [f"p{n}" for n in range(len(posts))]
    found = compare_shingles(as_documents(posts), ids, [WORDS, CHARS], {}, 1, SILENT)
    pairs = [(a, b) for b in range(len(posts)) for a in range(b)]
    similar = {
        one: {
            (ids[a], ids[b])
            for a, b in pairs
            if neardup.similarity(posts[a], posts[b], shingle=one.shingle) >= one.threshold
        }
        for one in (WORDS, CHARS)
    }
    assert found.found == {one: len(pairs) for one, pairs in similar.items()}
    for difference in found.differences:
        alone = similar[difference.finds] - similar[difference.misses]
        assert difference.pairs == len(alone)
        assert {(pair.a, pair.b) for pair in difference.examples} <= alone
        for pair in difference.examples:
            texts = [posts[int(id[1:])] for id in (pair.a, pair.b)]
            assert list(pair.texts) == texts
            other = neardup.similarity(*texts, shingle=difference.misses.shingle)
            assert pair.other_similarity == pytest.approx(other)
    assert [difference.pairs > 0 for difference in found.differences] == [False, True]


def test_what_is_compared() -> None:
    assert parse_compared(None, WORDS, advised=False) == []
    assert parse_compared("auto", WORDS, advised=True) == [WORDS, CHARS]
    assert parse_compared("auto", CHARS, advised=True) == []
    assert parse_compared("none", WORDS, advised=True) == []
    assert parse_compared("char:5@0.5,word:3", WORDS, advised=False) == [
        WORDS,
        CHARS,
        ComparedShingle("word:3", 0.8),
    ]
    assert parse_compared(["word:5"], WORDS, advised=False) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("char:5@x", "no threshold"),
        ("char", "UNIT:SIZE"),
        ("char:5@2", "threshold"),
        ("token:5", "token"),
    ],
)
def test_bad_comparison_is_refused_before_documents_are_read(given: str, message: str) -> None:
    with pytest.raises(NeardupError, match=message):
        neardup.tune([], compare=given)


def test_tuning_of_short_posts_shows_pairs_that_word_shingles_miss(tmp_path: Path) -> None:
    source = tmp_path / "posts.jsonl"
    posts = [*ordinary_posts(40), *spam_posts(40)]
    lines = (json.dumps({"id": f"p{n}", "text": text}) for n, text in enumerate(posts))
    source.write_text("".join(f"{line}\n" for line in lines))
    axes = ["--slots", "128", "--sketches", "minhash", "--bands", "21x6", "--no-cache"]
    ran = run("tune", source, "-o", tmp_path / "tuned", *axes)
    assert ran.code == 0, ran.err
    plain = " ".join(ran.out.split())
    assert "are found by char:5 at 0.5 and not by word:5 at 0.8, such as p" in plain
    compared = json.loads((tmp_path / "tuned" / "tuning.json").read_text())["shingles"]
    assert [one["shingle"] for one in compared["found"]] == ["word:5", "char:5"]
    assert compared["differences"][1]["pairs"] > 100
    page = (tmp_path / "tuned" / "tuning.html").read_text()
    assert "Shingles compared" in page and "working from home" in page


def test_pages_are_not_compared_by_shingles_unless_asked() -> None:
    pages = [" ".join(ordinary_posts(10, seed)) for seed in range(20)]
    assert neardup.tune(pages, **QUICK).comparison is None
    asked = neardup.tune(pages, compare="word:3@0.5", **QUICK).comparison
    assert asked is not None and asked.documents == 20


def test_few_documents_keep_the_default_operating_point() -> None:
    """To save a millisecond, no point is worth a lost pair."""
    texts = [" ".join(ordinary_posts(5, seed)) for seed in range(40)]
    tuning = neardup.tune([*texts, *(text + " end" for text in texts)], slots="16,64")
    assert tuning.best is tuning.default
    told = str(tuning)
    assert "it stands" in told or "nothing that was tried is cheaper" in told
    assert "The sample is small, " in told
