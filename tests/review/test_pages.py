"""Every page shows what the run has decided."""

from __future__ import annotations

import re

import pytest
from support.command_line import table
from support.reviewer import DOCUMENTS


def test_overview_counts_documents_by_source(review):
    reviewer = review()
    page = reviewer.get("/")
    assert "9 of 12 documents were removed as duplicates" in page
    assert re.search(
        r'class="number">12</td><td class="number">9</td><td class="number">75.0%', page
    )


def test_clusters_are_listed_and_sorted(review):
    reviewer = review()
    for order in ("size", "similarity", "uncertainty", "source"):
        page = reviewer.get(f"/clusters?order={order}")
        assert sorted(re.findall(r'class="name">([abc]0)<', page)) == ["a0", "b0", "c0"]
    assert "are sorted by" in reviewer.get("/clusters?order=magic", 400)


def test_cluster_shows_its_copies_least_similar_first(review):
    reviewer = review()
    cluster = table(reviewer.desk.run, "clusters")[0]["cluster"]
    page = reviewer.get(f"/cluster/{cluster}")
    removed = [row for row in table(reviewer.desk.run, "removed") if row["cluster"] == cluster]
    ordered = [row["id"] for row in sorted(removed, key=lambda row: row["similarity"])]
    assert re.findall(r'aria-label="Removed: (\w+)"', page) == ordered
    assert "<ins>" in page and "<del>" in page


def test_differences_in_one_text_stay_until_changed_back(review):
    reviewer = review()
    assert 'class="side kept"' in reviewer.get("/pair/0")
    assert 'class="side kept"' not in reviewer.get("/pair/0?view=one")
    page = reviewer.get("/pair/1")
    assert 'class="side kept"' not in page and "<ins>" in page and "<del>" in page


def test_review_begins_with_the_least_certain_removal(review):
    reviewer = review()
    removed = table(reviewer.desk.run, "removed")
    least = min(range(len(removed)), key=lambda row: (removed[row]["similarity"], row))
    answer = reviewer.client.get("/next", follow_redirects=False)
    assert answer.headers["location"] == f"/pair/{least}"


def test_search_finds_ids_paths_and_documents_without_copies(review):
    reviewer = review()
    assert "/pair/" in reviewer.get("/clusters?q=a1")
    kept = table(reviewer.desk.run, "clusters")[0]
    assert "/cluster/" in reviewer.get(f"/clusters?q={kept['file']}:{kept['row']}")
    assert "/pair/" in reviewer.get("/clusters?q=exts")
    assert "No id, path or text" in reviewer.get("/clusters?q=nothing")


def test_search_finds_words_of_texts(review):
    reviewer = review()
    text = next(one["text"] for one in DOCUMENTS if one["id"] == "b0")
    page = reviewer.get(f"/clusters?q={' '.join(text.split()[:6]).upper()}")
    assert "Kept documents with copies: 1" in page and "Removed documents: 3" in page
    assert "Look in the texts" in reviewer.get("/clusters?q=a1")
    assert "No id, path or text" in reviewer.get("/clusters?q=a1&texts=1")
    (reviewer.desk.run.parent / "texts.jsonl").unlink()
    assert "No id, path or text" in reviewer.get(f"/clusters?q={text[:40]}")


def test_ten_thousand_documents_without_copies(make_run, review):
    documents = [{"id": f"d{n}", "text": f"alone {n} {n * 7} {n * 13}"} for n in range(10_000)]
    reviewer = review(make_run(documents))
    assert "No duplicate among 10,000 documents" in reviewer.get("/")
    assert "There is no cluster here" in reviewer.get("/clusters")
    assert "That was the last one" in reviewer.get("/next")
    assert "There is none" in reviewer.get("/bulk?least=0&most=1")
    assert "Only kept documents without copies" in reviewer.get("/clusters?q=alone")


def test_document_is_explained_and_compared(review):
    reviewer = review()
    page = reviewer.get("/document?id=a1&explain=1")
    assert "was removed" in page and "buckets that both are in" in page
    assert "What is most similar" in reviewer.get("/document?id=a0&explain=1")
    assert "a0 beside b0" in reviewer.get("/compare?a=a0&b=b0")


@pytest.mark.parametrize("number", ["9" * 16, str(1 << 53), "9" * 5_000, "x", "-1", "١"])
@pytest.mark.parametrize("page", ["pair", "cluster"])
def test_numbers_that_are_none_are_refused(review, page, number):
    answer = review().client.get(f"/{page}/{number}")
    assert answer.status_code in (400, 404) and "not possible" in answer.text


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/decide", {"action": "same", "seen": 0}),
        ("/decide", {"action": "same", "position": 0}),
        ("/decide-cluster", {"action": "keep", "seen": 0}),
        ("/bulk", {"action": "same", "least": 0, "most": 1}),
    ],
)
def test_form_that_lacks_a_field_decides_nothing(review, path, fields):
    reviewer = review()
    assert "is not a number" in reviewer.send(path, 400, **fields)
    assert reviewer.decisions() == []


def test_queue_has_each_removal_once_however_many_are_equally_certain(make_run, review):
    text = " ".join(f"w{n}" for n in range(30))
    copies = [{"id": f"copy{n}", "text": f"{text} {'other ' * (n % 3)}"} for n in range(200)]
    index = review(make_run(copies, "--threshold", "0.5")).desk.index
    (whole, last), met = (index.doubtful(None, 1_000), None), []
    while part := index.doubtful(last, 7):
        last = part[-1]
        met += part
    assert met == whole and len(met) == 199
    assert len({one.similarity for one in met}) < 5


def test_unknown_things_are_refused_with_a_cure(review):
    reviewer = review()
    assert "search by id" in reviewer.get("/pair/99", 404)
    assert "search by id" in reviewer.get("/cluster/99", 404)
    assert "follow the links" in reviewer.get("/nothing", 404)
    assert "check the id" in reviewer.get("/document?id=zz&explain=1")
    assert "give the id" in reviewer.get("/document", 400)
    assert "is not a number" in reviewer.get("/clusters?start=-1", 400)


def test_whole_text_is_plain(review):
    reviewer = review()
    place = table(reviewer.desk.run, "removed")[0]
    answer = reviewer.client.get("/text", params={"file": place["file"], "row": place["row"]})
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text == next(one["text"] for one in DOCUMENTS if one["id"] == place["id"])
    assert "can't be read" in reviewer.get("/text?file=x&row=0", 404)
