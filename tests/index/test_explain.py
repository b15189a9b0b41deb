"""An explanation lists the steps of `query` and has the same answer."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
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
            "page-3",
            neardup.similarity(PAGES[3], NEAR),
        )
        assert set(found.seconds) == {
            "query",
            "shingles",
            "slots",
            "identical",
            "look-ups",
            "candidates",
        }
        assert "the only similar one" in found.rule
        assert "duplicate of page-3" in str(found) and "w1 " not in str(found)


def test_nearest_candidates_below_the_threshold_are_shown(tmp_path):
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


@pytest.mark.parametrize("point", POINTS)
def test_a_stored_document_is_compared_with_its_witness(tmp_path, point):
    with opened(tmp_path / "index", **point) as index:
        index.add("near", NEAR)
        index.add("same", PAGES[3].upper())
        for id in ("near", "same", "page-3", "page-7"):
            found, stored = index.explain_document(id), index.get(id)
            assert found.document == stored
            assert json.loads(json.dumps(found.as_dict))["rule"] == found.rule
            assert (found.witness is None) == (stored.status == "new")
            assert id not in [other.id for other in found.others]
            assert str(found).splitlines()[-1].startswith("decision")
            if found.witness is not None:
                assert found.witness.id == stored.duplicate_of
                assert found.witness.exact == stored.exact or found.identical
                assert found.witness.similarity == pytest.approx(stored.similarity)
                assert found.witness.buckets and max(found.witness.buckets) <= found.tables
        assert index.explain_document("same").identical
        assert index.explain_document("none") is None


def test_shingles_and_buckets_that_two_documents_share(tmp_path):
    with opened(tmp_path / "index", threshold=0.8, bands=42, rows=3) as index:
        index.add("near", NEAR)
        found = index.explain_document("near")
        words = PAGES[3].split()
        shared = len({tuple(words[at : at + 5]) for at in range(len(words) - 4)})
        assert (found.witness.shared, found.witness.shingles) == (shared, shared)
        assert found.shingles == len(NEAR.split()) - 4
        assert found.witness.similarity == shared / found.shingles
        slots = [
            np.frombuffer(
                index._opened.generation.store.blobs("signatures", [one.number])[one.number],
                np.uint32,
            )
            for one in (found.document, found.witness)
        ]
        equal = [
            at + 1
            for at in range(42)
            if (slots[0][3 * at : 3 * at + 3] == slots[1][3 * at : 3 * at + 3]).all()
        ]
        assert list(found.witness.buckets) == equal


def test_repeated_shingles_count_as_often_as_both_have_them(tmp_path):
    with neardup.Index.open(
        tmp_path / "index", sketch="weighted", shingle="word:1", threshold=0.5, bands=42, rows=3
    ) as index:
        index.add("a", "one one one two three four five")
        index.add("b", "one one two two three four five")
        found = index.explain_document("b")
        assert (found.shingles, found.witness.shingles, found.witness.shared) == (7, 7, 6)


def test_explained_while_documents_come_and_go(tmp_path):
    with opened(tmp_path / "index", threshold=0.8) as index, ThreadPoolExecutor(1) as pool:

        def come_and_go():
            for at in range(30):
                index.add(f"near-{at}", f"{NEAR} {at}")
                index.add("far", f"{FAR} {at}", replace=True)
                index.remove("page-3" if at == 20 else f"near-{at - 1}")

        going = pool.submit(come_and_go)
        while not going.done():
            for id in ("page-3", "far", "near-5"):
                found = index.explain_document(id)
                assert found is None or found.document.id == id
        going.result()
        assert index.explain_document("page-3") is None


def test_a_kept_document_beside_what_is_near(tmp_path):
    with opened(tmp_path / "index", threshold=0.8, bands=42, rows=3) as index:
        index.add("far", FAR)
        found = index.explain_document("far")
        assert found.witness is None and "similar enough" in found.rule
        assert (found.others[0].id, found.others[0].similarity) == (
            "page-3",
            neardup.similarity(PAGES[3], FAR),
        )
        assert index.explain_document("page-3").others[0].id == "far"


def test_documents_without_shingles_are_explained_by_signatures(tmp_path):
    with opened(tmp_path / "index", threshold=0.8, bands=42, rows=3) as index:
        index.add("near", NEAR)
        with index._opened.generation.store.transaction():
            index._opened.generation.store._writer.execute("DELETE FROM shingles")
        found = index.explain_document("near")
        assert found.shingles is None and found.witness.shared is None
        assert not found.witness.exact and "(estimated)" in str(found)


def test_stored_texts(tmp_path):
    with neardup.Index.open(tmp_path / "kept", keep_texts=True) as index:
        index.add("a", PAGES[0])
        assert (index.text("a"), index.text("none")) == (PAGES[0], None)
    with opened(tmp_path / "index") as index:
        assert index.text("page-0") is None
    with neardup.Index.open(tmp_path / "tokens", keep_texts=True, shingle="token:2") as index:
        index.add("a", [5, 6, 7])
        assert index.text("a") == [5, 6, 7]


def test_verify_drop_rate_is_zero_without_comparisons(tmp_path):
    with neardup.Index.open(tmp_path / "index") as index:
        assert index.stats().verify_drop_rate == 0.0
