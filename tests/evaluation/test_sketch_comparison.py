"""Edited copies, the baseline, and the contest of sketches."""

from __future__ import annotations

import json
import random

import pytest
from support.command_line import neardup, write_jsonl

from neardup.evaluation.sample import add_edited_copies, edit_text
from neardup.evaluation.sketch_comparison import VARIANTS, SketchComparison, neighbours

WORDS = [f"word{number}" for number in range(500)]


def texts(count: int, length: int = 80, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=length)) for _ in range(count)]


def test_copies_are_edited_by_words_or_by_characters():
    chance = random.Random(1)
    text = texts(1, 1_000)[0]
    changed = edit_text(text, "other", 0.1, chance).split()
    share = sum(a != b for a, b in zip(text.split(), changed, strict=True)) / 1_000
    assert 0.05 < share < 0.15
    dense = "汉" * 1_000
    assert 50 < edit_text(dense, "字", 0.1, chance).count("字") < 150
    assert add_edited_copies(texts(5), 7) == add_edited_copies(texts(5), 7)


def test_neighbours_are_near_by_their_beginning_or_their_end():
    found = neighbours(["alpha one", "zulu two", "alpha ONE", "beta two"], window=2)
    pairs = set(zip(*(side.tolist() for side in found), strict=True))
    assert (0, 2) in pairs, "the same beginning"
    assert (1, 3) in pairs, "the same end"
    assert (1, 2) not in pairs


def test_figures_of_all_sketches_are_plausible():
    contest = SketchComparison.of(add_edited_copies(texts(150), 1), 0.7, workers=1)
    rows = {row.name: row for row in contest.results()}
    plain = rows["minhash 128 x 32"]
    assert plain.size == 512
    assert plain.found > 0.95
    assert plain.recall is not None and plain.precision is not None and plain.error is not None
    assert plain.recall <= plain.found
    assert 0.7 < plain.precision <= 1
    # sqrt(J (1 - J) / 128) is at most 0.044, and a mean distance 0.8 of that.
    assert plain.error < 0.04
    assert rows["sorted neighbourhood"].recall is None


def test_command_prints_and_writes_the_figures(tmp_path):
    write_jsonl(tmp_path / "in.jsonl", [{"text": text} for text in texts(60)])
    page = tmp_path / "page.html"
    arguments = ("compare-sketches", tmp_path / "in.jsonl", "--sample", 40, "--plot", page)
    done = neardup(*arguments, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["about"].startswith("80 documents")
    assert "minhash 128 x 32" in page.read_text()
    shown = neardup(*arguments)
    assert "minhash 128 x 32" in shown.out and "precision" in shown.out


@pytest.mark.parametrize("sample", ["1", "100000"])
def test_sample_size_out_of_range_is_refused(tmp_path, sample):
    write_jsonl(tmp_path / "in.jsonl", [{"text": text} for text in texts(3)])
    done = neardup("compare-sketches", tmp_path / "in.jsonl", "--sample", sample)
    assert done.code == 2
    assert "--sample must be a whole number" in done.err


def test_unwritable_page_is_refused_before_the_work(tmp_path):
    write_jsonl(tmp_path / "in.jsonl", [{"text": text} for text in texts(3)])
    for plot in (tmp_path / "none" / "x.html", tmp_path / "x.png"):
        done = neardup("compare-sketches", tmp_path / "in.jsonl", "--plot", plot)
        assert done.code == 2
        assert "--plot" in done.err and "reading" not in done.err


def test_all_pairs_of_a_hot_bucket_count():
    template = texts(1, 50)[0]
    contest = SketchComparison.of(
        [f"{template} {number}" for number in range(2_300)], 0.7, workers=2
    )
    assert contest.measure(VARIANTS[0]).found == 1.0


def test_documents_without_similar_pairs_have_no_recall():
    contest = SketchComparison.of(texts(30), 1.0, workers=1)
    row = contest.measure(VARIANTS[0])
    assert (row.found, row.recall) == (None, None)
