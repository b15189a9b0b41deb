"""`neardup why` shows how two documents of a connected component are connected, or why it can't."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.command_line import dedup, neardup, write_jsonl

import neardup as library
from neardup.report import run_explanation

WORDS = [f"w{number}" for number in range(300)]
LEAST = 0.7


def text(start: int) -> str:
    """A hundred words; two that start eight words apart are 0.85 similar, 16 apart 0.71."""
    return " ".join(WORDS[start : start + 100])


ROWS = [
    *({"id": f"c{n}", "text": text(8 * n), "lang": "en"} for n in range(8)),
    {"id": "twin", "text": text(56).upper(), "lang": "en"},
    {"id": "german", "text": text(56), "lang": "de"},
    {"id": "alone", "text": "nothing in common with any of them", "lang": "en"},
    {"id": "single", "text": "and this has nothing in common either", "lang": "en"},
]
TEXTS = {row["id"]: row["text"] for row in ROWS}


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "pages.jsonl", ROWS)


def made(pages: Path, *options: object) -> Path:
    run = pages.with_name("run")
    asked = ("--cluster", "components", "--threshold", LEAST, "--within", "lang", *options)
    dedup(pages, "-o", run, *asked)
    return run


def explained(run: Path, *ids: str) -> dict[str, Any]:
    ran = neardup("why", run, *ids, "--json")
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def check_links(chain: list[dict[str, Any]], first: str, last: str) -> None:
    """Each link is a pair that reaches the threshold, with its similarity."""
    assert (chain[0]["id"], chain[-1]["id"]) == (first, last)
    assert chain[0]["similarity"] is None
    for before, link in pairwise(chain):
        similarity = library.similarity(TEXTS[before["id"]], TEXTS[link["id"]])
        assert link["similarity"] == pytest.approx(similarity) and similarity >= LEAST


@pytest.mark.parametrize("options", [(), ("--pairs",)], ids=["texts", "pairs"])
def test_the_chain_to_the_kept_document_is_shown(pages, options):
    run = made(pages, *options)
    found = explained(run, "c7")
    assert found["similarity"] < LEAST
    check_links(found["chain"], "c7", "c0")
    assert len(found["chain"]) == 5, "a shortest one: two steps at a time, and one"
    shown = neardup("why", run, "c7").out
    assert "chain         c7\n              0.7143 similar to c5\n" in shown
    assert "similar to c0\n" in shown


def test_a_document_that_is_similar_to_the_kept_one_needs_no_chain(pages):
    run = made(pages)
    assert explained(run, "c1")["chain"] == explained(run, "c0")["chain"] == []
    assert "chain" not in neardup("why", run, "c1").out


@pytest.mark.parametrize("options", [(), ("--pairs",)], ids=["texts", "pairs"])
def test_the_chain_between_two_of_a_component(pages, options):
    run = made(pages, *options)
    found = explained(run, "twin", "c3")
    assert found["verdict"]["verdict"] == "same cluster"
    assert "both are in the component of 'c0'" in found["verdict"]["sentence"]
    check_links(found["chain"], "twin", "c3")
    assert explained(run, "c6", "c7")["chain"] == []
    assert explained(run, "twin", "c7")["chain"] == []


def test_others_have_no_chain(pages):
    run = made(pages)
    for ids in (("c7", "german"), ("c7", "alone"), ("alone", "single")):
        found = explained(run, *ids)
        assert found["chain"] == [] and found["notes"] == []


def test_links_that_a_run_has_written_need_no_texts(pages):
    run = made(pages, "--pairs")
    pages.unlink()
    check_links(explained(run, "c7")["chain"], "c7", "c0")
    check_links(explained(run, "c7", "c3")["chain"], "c7", "c3")


def test_a_chain_that_is_not_known_is_said_with_the_reason(pages, monkeypatch):
    run = made(pages)
    monkeypatch.setattr(run_explanation, "MOST_MEMBERS", 5)
    (note,) = explained(run, "c7")["notes"]
    assert "their component has 9 documents, at most 5 are compared again" in note
    assert "a run with --pairs writes all links" in note
    monkeypatch.setattr(run_explanation, "MOST_MEMBERS", 5_000)
    monkeypatch.setattr(run_explanation, "READ_UNASKED", 10)
    (note,) = explained(run, "c7", "c2")["notes"]
    assert "give --nearest" in note
    check_links(explained(run, "c7", "c2", "--nearest")["chain"], "c7", "c2")
    pages.unlink()
    notes = explained(run, "c7")["notes"]
    assert "the chain between them is not known" in notes[-1]
    assert "the chain between them is not known" in explained(run, "c7", "c3")["notes"][-1]


def test_stars_have_no_chains(pages):
    run = pages.with_name("stars")
    dedup(pages, "-o", run, "--threshold", LEAST)
    assert explained(run, "c1")["chain"] == []


def test_a_shared_bucket_is_a_link_where_nothing_is_verified(pages):
    run = made(pages, "--verify", "none")
    found = explained(run, "c7")
    assert found["buckets"][0] == 0 and len(found["chain"]) > 2


def test_what_is_said_of_buckets_agrees_if_documents_are_kept_apart(pages: Path) -> None:
    """Two documents had "met", and one of them had met no other."""
    run = pages.with_name("run")
    asked = ("--cluster", "components", "--threshold", LEAST)
    dedup(pages, "-o", run, *asked, "--distinguish", "lang")
    vetoed = neardup("why", run, "c7", "german").out
    assert "kept apart by --distinguish lang; 1.0000 similar" in vetoed
    assert "without it in " in vetoed
    distant = neardup("why", run, "german", "c4").out  # 24 words apart: they share buckets
    assert "kept apart by --distinguish lang, and are not similar enough: 0.6" in distant
    assert "they met" not in distant and "without it in " in distant
    alone = neardup("why", run, "german").out
    assert "0 documents share a bucket with it" in alone
    assert "shared without --distinguish\n" in alone
