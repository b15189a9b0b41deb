"""The clusters of an index are reviewed on the same pages as those of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.command_line import neardup, refused
from support.redis_index import fresh_address
from support.reviewer import DOCUMENTS, PORT, Reviewer

from neardup.errors import UsageError
from neardup.index.index import Index
from neardup.review.desk import ReviewDesk
from neardup.review.index_subject import IndexSubject


@pytest.fixture
def index(tmp_path) -> Iterator[Index]:
    with Index.open(tmp_path / "posts", keep_texts=True) as opened:
        for one in DOCUMENTS:
            opened.add(one["id"], one["text"])
        yield opened


@pytest.fixture
def review_index() -> Iterator[Callable[[Index], Reviewer]]:
    desks: list[ReviewDesk] = []

    def open_review(index: Index) -> Reviewer:
        desks.append(ReviewDesk(IndexSubject(index), "ann", PORT))
        desks[-1].index.wait()
        return Reviewer(desks[-1])

    yield open_review
    for desk in desks:
        desk.close()


def test_pages_show_what_the_index_has(index, review_index):
    reviewer = review_index(index)
    overview = reviewer.get("/")
    assert "9 of 12 documents are copies" in overview and "Similarities" in overview
    for order in ("size", "similarity", "uncertainty", "source"):
        page = reviewer.get(f"/clusters?order={order}")
        assert all(f">{id}<" in page for id in ("a0", "b0", "c0"))
    assert "<ins>" in reviewer.get("/cluster/1")
    assert "9 pairs" in reviewer.get("/bulk?least=0&most=1")
    assert "/pair/" in reviewer.get("/clusters?q=a1")
    words = " ".join(DOCUMENTS[4]["text"].split()[:6])
    assert "Removed documents: 3" in reviewer.get(f"/clusters?q={words}")
    text = next(one["text"] for one in DOCUMENTS if one["id"] == "a1")
    assert text in reviewer.get("/text?file=posts&row=2")


def test_documents_are_explained_and_compared(index, review_index):
    reviewer = review_index(index)
    page = reviewer.get("/document?id=a1&explain=1")
    assert "It is a copy of a0" in page and "buckets that both are in" in page
    assert "It was kept" in reviewer.get("/document?id=a0&explain=1")
    assert "a1 beside a0" in reviewer.get("/compare?a=a1&b=a0")
    assert "check the id" in reviewer.get("/document?id=zz&explain=1")
    assert "check the id" in reviewer.get("/compare?a=a0&b=zz", 404)


def test_decisions_are_stored_beside_the_index(index, review_index, tmp_path):
    reviewer = review_index(index)
    reviewer.decide("different", 0)
    reviewer.send("/decide-cluster", cluster=5, seen=9, action="keep")
    assert len(reviewer.decisions()) == 5
    found = tmp_path / "decisions.jsonl"
    ran = neardup("review", tmp_path / "posts", "--export", found)
    assert ran.code == 0 and "5 decisions" in ran.err and found.read_text().count("\n") == 5


def test_list_is_made_again_when_the_index_has_changed(index, review_index):
    reviewer = review_index(index)
    assert "has changed since" not in reviewer.get("/")
    index.remove("a1")
    assert "has changed since" in reviewer.get("/")
    gone = reviewer.get("/pair/0")
    assert "was removed from the index" in gone
    reviewer.send("/renew")
    reviewer.desk.index._making.join()
    assert "has changed since" not in reviewer.get("/")
    assert "8 of 11 documents are copies" in reviewer.get("/")
    assert ">a1<" not in reviewer.get("/cluster/1")


def test_index_without_texts_says_so(tmp_path, review_index):
    with Index.open(tmp_path / "posts") as index:
        for one in DOCUMENTS:
            index.add(one["id"], one["text"])
        assert "does not store texts" in review_index(index).get("/pair/0")


def test_what_is_no_subject_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    refused(neardup("review", tmp_path / "empty", "--no-open"), 2, "finished run")
    on_redis = neardup("review", "redis://127.0.0.1:1?name=posts", "--no-open")
    refused(on_redis, 2, "--store FOLDER")
    refused(neardup("review", tmp_path, "--store", tmp_path), 2, "is for an index on Redis")


def test_index_on_redis_is_reviewed(tmp_path):
    address, store = fresh_address(), tmp_path / "decided"
    with Index.open(address, keep_texts=True) as index:
        for one in DOCUMENTS:
            index.add(one["id"], one["text"])
        with pytest.raises(UsageError, match="--store FOLDER"):
            IndexSubject(index)
        desk = ReviewDesk(IndexSubject(index, store), "ann", PORT)
        desk.index.wait()
        reviewer = Reviewer(desk)
        assert "9 of 12 documents are copies" in reviewer.get("/")
        assert "<ins>" in reviewer.get("/pair/0")
        assert "It is a copy of a0" in reviewer.get("/document?id=a1&explain=1")
        reviewer.decide("different", 0)
        index.remove("a1")
        assert "has changed since" in reviewer.get("/")
        desk.close()
    found = tmp_path / "decisions.jsonl"
    ran = neardup("review", address, "--store", store, "--export", found)
    assert ran.code == 0 and "1 decisions" in ran.err and '"different"' in found.read_text()


def test_service_has_the_page_itself():
    ran = neardup("review", "http://127.0.0.1:8080/", "--no-open")
    assert ran.code == 0 and ran.err.startswith("http://127.0.0.1:8080/review/\n")
