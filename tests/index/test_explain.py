"""An explanation tells what `query` did, step by step, and gives the same answer."""

from __future__ import annotations

import json
import random

import pytest

import neardup

WORDS = [f"w{n}" for n in range(400)]


def page(seed: int, count: int = 60) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=count))


PAGES = [page(seed) for seed in range(20)]
NEAR = PAGES[3] + " and a few more"
FAR = PAGES[3] + " " + page(99, 20)
POINTS = [
    {"threshold": 0.8, "bands": 42, "rows": 3},
    {"threshold": 0.8, "bands": 42, "rows": 3, "verify": "estimate"},
    {"threshold": 0.8, "bands": 42, "rows": 3, "verify": "none"},
    {"threshold": 0.8, "bands": 42, "rows": 3, "bits": 8, "verify": "estimate"},
    {"threshold": 0.8, "bands": 42, "rows": 3, "sketch": "weighted"},
    {"threshold": 0.8, "bands": 42, "rows": 3, "measure": "containment"},
    {"sketch": "simhash", "shingle": "word:1", "hamming": 4},
]


def opened(folder, **point):
    index = neardup.Index.open(folder, **point)
    index.add_batch([f"page-{n}" for n in range(len(PAGES))], PAGES)
    return index


@pytest.mark.parametrize("point", POINTS)
def test_the_answer_is_that_of_query(tmp_path, point):
    with opened(tmp_path / "index", **point) as index:
        for text in (PAGES[7], NEAR, FAR, page(1_000), "two words", " "):
            found = index.explain(text)
            assert found.answer == index.query(text)
            assert json.loads(json.dumps(found.as_dict))["rule"] == found.rule
            assert found.full == 0 and found.candidates >= found.similar
            assert str(found).splitlines()[-2].startswith("decision")


def test_steps_of_a_near_copy(tmp_path):
    with opened(tmp_path / "index", threshold=0.8, bands=42, rows=3) as index:
        found = index.explain(NEAR)
        assert found.identical is None
        assert found.shingles == len(NEAR.split()) - 4
        assert index.explain(f"{NEAR} {NEAR}").shingles == len(NEAR.split())  # four span both
        assert (found.slots, found.look_ups) == (128, 42)
        assert found.candidates >= 1 and found.exactly == found.candidates
        assert set(found.buckets) == {1} and found.candidates <= len(found.buckets) <= 42
        assert (found.nearest[0].id, found.nearest[0].similarity) == (
            "page-3", neardup.similarity(PAGES[3], NEAR),
        )  # fmt: skip
        assert set(found.seconds) == {
            "query", "shingles", "slots", "identical", "look-ups", "candidates",
        }  # fmt: skip
        assert "the only similar one" in found.rule
        assert "duplicate of page-3" in str(found) and "w1 " not in str(found)


def test_what_is_near_but_not_enough_is_shown(tmp_path):
    with opened(tmp_path / "index", threshold=0.8, bands=42, rows=3) as index:
        found = index.explain(FAR)
        assert (found.answer.status, found.similar) == ("new", 0)
        assert found.nearest[0].similarity == neardup.similarity(PAGES[3], FAR)
        assert found.rule == "no kept document that shares a bucket is similar enough"
        nothing = index.explain(page(1_000))
        assert (nothing.candidates, nothing.nearest) == (0, ())
        assert nothing.rule == "no kept document shares a bucket"


def test_identical_and_rejected(tmp_path):
    with opened(tmp_path / "index", threshold=0.8) as index:
        found = index.explain(PAGES[7].upper())
        assert found.identical == found.answer.duplicate_of == "page-7"
        assert "same content" in found.rule
        empty = index.explain(" \n")
        assert empty.answer.reason == "empty" and empty.shingles == 0


def test_buckets_that_are_full(tmp_path):
    point = {"threshold": 1.0, "shingle": "word:1", "bands": 128, "rows": 1, "limit": 2}
    base = PAGES[0]
    with neardup.Index.open(tmp_path / "index", **point) as index:
        index.add_batch(list("abcd"), [f"{base} {n}" for n in range(4)])
        found = index.explain(f"{base} 5")
        assert found.buckets[0] == 4 and found.full > 0
        assert found.candidates < 4 or len(found.buckets) > found.full
