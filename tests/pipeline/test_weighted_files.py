"""Weighted MinHash over files: the library's answer, whatever the pieces; as a person sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import engine
from support.command_line import dedup, edited, neardup, refused, table, write_jsonl

import neardup as package

ASKED: list[dict[str, Any]] = [
    {},
    {"weights": "tf-idf"},
    {"weights": "tf-idf", "verify": "estimate"},
    {"verify": "estimate", "limit": 2, "keep": "longest"},
    {"weights": "tf-idf", "cluster": "components"},
    {"verify": "none"},
]
OURS = {"sketch": "weighted"}


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_every_shard_size_gives_the_answer_of_the_library(tmp_path: Path, asked: Any) -> None:
    documents = engine.rows(3, 150, words=30)
    paths = engine.write(tmp_path / "in", documents)
    found = package.dedup([row["text"] for row in documents], **{**engine.SMALL, **OURS, **asked})
    want = [
        (documents[r.id]["id"], documents[r.witness]["id"], r.similarity, r.exact)
        for r in found.removed
    ]
    assert len(want) > 20
    for number, given in enumerate(
        [
            {"shard": 1 << 20, "chunk": 1 << 20},
            {"workers": 3, "shard": 900, "chunk": 300},
            {"budget": engine.Little(1 << 12), "shard": 500},
        ]
    ):
        out = tmp_path / str(number)
        got = engine.go(paths, out, **{**OURS, **asked, **given})
        assert [(r["id"], r["witness"], r["similarity"], r["exact"]) for r in got.removed] == want
        record = json.loads((out / "run.json").read_bytes())
        assert record["fingerprint"] == found.options.spec.fingerprint


PAGES = [{"id": f"{n}", "text": edited(n % 20, *range(n // 20), count=200)} for n in range(60)]


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "pages.jsonl", PAGES)


def test_command_prints_the_expected_summary(tmp_path: Path, pages: Path) -> None:
    command = ["dedup", pages, "-o", tmp_path / "out", "--sketch", "weighted"]
    ran = neardup(*command, "--weights", "tf-idf")
    assert ran.code == 0
    assert "exact weighted Jaccard >= 0.80 of word:5 shingles, 21 bands of 6" in ran.out
    record = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert record["parameters"]["weights"] == "tf-idf"
    assert (record["spec"]["sketch"], record["spec"]["family"]) == ("weighted", "darts")
    assert record["spec"]["weights"].startswith("tf-idf:")
    report = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "exact weighted Jaccard of word:5 shingles" in report


@pytest.mark.parametrize("weights", ["tf", "tf-idf"])
def test_an_earlier_corpus_keeps_its_document_frequencies(
    tmp_path: Path, pages: Path, weights: str
) -> None:
    asked = ["--sketch", "weighted", "--weights", weights]
    dedup(pages, "-o", tmp_path / "first", "--save-sketches", *asked)
    more = write_jsonl(tmp_path / "more.jsonl", [{"id": "new", "text": PAGES[0]["text"] + " end"}])
    against = tmp_path / "first"
    record = dedup(more, "-o", tmp_path / "second", "--against", against, *asked)
    first = json.loads((tmp_path / "first" / "run.json").read_bytes())
    assert record["fingerprint"] == first["fingerprint"]
    (gone,) = table(tmp_path / "second", "removed")
    assert (gone["id"], gone["witness"]) == ("new", "0")
    assert 0.8 < gone["similarity"] < 1.0
    command = ["dedup", more, "-o", tmp_path / "third", "--against", against, "-q"]
    refused(neardup(*command), 1, "sketch")
    other = "tf" if weights == "tf-idf" else "tf-idf"
    refused(neardup(*command, "--sketch", "weighted", "--weights", other), 1, "--weights")


def test_rows_of_bags_are_not_merged(tmp_path: Path, pages: Path) -> None:
    command = ["dedup", pages, "-o", tmp_path / "out", "--sketch", "weighted"]
    refused(neardup(*command, "--merge-rows", "id"), 2, "bags can't be joined")
