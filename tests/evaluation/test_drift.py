"""What has moved between two corpora, and what is only noise."""

from __future__ import annotations

import json

import pytest
from support.golden_set import planted

from neardup.errors import FormatError
from neardup.evaluation.drift import NOTHING, EvaluationRecord, describe_drift, read_baseline
from neardup.evaluation.evaluation import evaluate
from neardup.evaluation.profile import CorpusProfile

COUNT = 300


def record(corpus=None, golden=None, **point):
    corpus = corpus or planted(COUNT)
    return evaluate(golden or corpus.golden, corpus=corpus.rows, **point).record


def said(now, before) -> list[str]:
    # As from a file: only what JSON holds is compared.
    pair = (json.loads(json.dumps(one)) for one in (now, before))
    return describe_drift(*(EvaluationRecord.of(one, "here") for one in pair))


BEFORE = record()


def test_same_evaluation_has_no_drift():
    assert said(record(), BEFORE) == [NOTHING]


@pytest.mark.parametrize("seed", range(1, 13))
def test_another_sample_of_the_same_kind_has_no_drift(seed):
    """Twelve corpora from the same source: none has moved, by any figure."""
    assert said(record(planted(COUNT, seed=seed)), BEFORE) == [NOTHING]


def only(lines: list[str], begin: str) -> str:
    (line,) = [line for line in lines if line.startswith(begin)]
    return line


def test_longer_documents_are_reported():
    lines = said(record(planted(COUNT, length=112)), BEFORE)
    line = only(lines, "documents are ")
    assert " % longer (bytes: " in line and "changes neither recall nor candidates" in line
    assert "shingles per document up by" in only(lines, "shingles")
    shorter = said(BEFORE, record(planted(COUNT, length=112)))
    assert "shorter" in only(shorter, "documents are")


def test_more_candidates_and_changed_similarities_are_reported():
    # Copies with nearly no edits, and the fivefold of them.
    corpus = planted(COUNT, most=0.02, seed=3)
    rows = [
        {"id": f"{row['id']}.{n}", "text": f"{row['text']} once more {n}"}
        for row in corpus.rows
        for n in range(5)
    ]
    now = evaluate([("a0.0", "b0.0", 1)], corpus=rows).record
    lines = said(now, BEFORE)
    line = only(lines, "candidates per document up from ")
    ratio = now["profile"]["candidates"] / BEFORE["profile"]["candidates"]
    assert f"about {ratio:.2g} times the comparisons; most of the difference are duplicates" in line
    assert "more rows" not in line
    assert only(lines, "pairs between 0.9 and 1")
    assert only(lines, "the largest hundredth of the buckets went from 2 to 10")
    assert only(lines, "the golden sets differ: recall is not compared")


def test_more_pairs_below_the_threshold_are_reported():
    # Of the same few words: many pairs of little similarity meet in bands of one row.
    point = {"shingle": "word:1", "bands": 20, "rows": 1}
    now = record(planted(COUNT, words=[f"mot{number}" for number in range(300)]), **point)
    before = record(**point)
    line = only(said(now, before), "candidates per document up from ")
    some = before["profile"]["candidates"], now["profile"]["candidates"]
    assert f" from {some[0]:,.0f} to {some[1]:,.0f}: " in line and min(some) > 10
    assert line.endswith("most of the difference is below the threshold: consider more rows")
    line = only(said(before, now), "candidates per document down from ")
    assert line.endswith("below the threshold: fewer rows would cost little")


def test_changed_vocabulary_is_reported():
    other = planted(COUNT, words=[f"mot{number}" for number in range(2_000)])
    line = only(said(record(other), BEFORE), "0% of the words are common to both corpora")
    assert "new kinds of texts came" in line


def test_recall_is_compared_only_for_the_same_golden_set():
    corpus = planted(COUNT, most=0.4)
    lines = said(record(corpus, planted(COUNT).golden), BEFORE)
    assert "look at the false negatives" in only(lines, "recall went from")


def test_changed_empty_bins_are_reported():
    point = {"sketch": "oneperm", "slots": 128}
    lines = said(record(planted(COUNT, length=40), **point), record(**point))
    assert "estimates are noisier" in only(lines, "empty bins went from")


def test_different_operating_points_are_reported_first():
    lines = said(record(planted(COUNT, length=160), shingle="word:3"), BEFORE)
    assert lines[0].startswith("the specifications differ (size 5 to 3): shingles, similarities")
    assert not [line for line in lines if line.startswith(("shingles", "candidates", "recall"))]
    assert only(lines, "documents are")
    lines = said(record(threshold=0.7), BEFORE)
    assert lines[0].startswith("the operating points differ (threshold 0.8 to 0.7, tables 21x6 to")
    assert len(lines) == 1


@pytest.mark.parametrize(
    "point",
    [
        {"slots": 256},
        {"seed": 7},
        {"hash": "murmur3"},
        {"sketch": "oneperm", "slots": 256},
        {"bits": 8},
    ],
    ids=str,
)
def test_shingles_and_similarities_don_t_depend_on_the_sketch(point):
    first, *others = said(record(**point), BEFORE)
    assert first.startswith("the operating points differ (")
    assert first.endswith("): buckets, candidates and recall are not compared") and not others
    corpus = planted(COUNT, length=300, most=0.01)
    lines = said(record(corpus, **point), BEFORE)
    assert only(lines, "shingles per document up by")
    assert only(lines, "pairs between 0.9 and 1 went from").endswith("are 0.8 similar or more")


@pytest.mark.parametrize("point", [{"bands": 2, "rows": 30}, {"measure": "containment"}], ids=str)
def test_pairs_that_met_by_chance_are_not_compared(point):
    """Two bands of 30 find more of the very similar pairs: no figure of the corpus has moved."""
    (line,) = said(record(**point), BEFORE)
    assert line.endswith("similarities, buckets, candidates and recall are not compared")


def test_differently_normalised_texts_are_not_compared():
    """Stripped lines and other profiles make other words and shingles: that is no drift."""
    corpus = planted(COUNT)
    for row in corpus.rows:
        row["text"] = f"Every Page Has This Line In It, And This Is How It Goes\n{row['text']}"
    for point in ({"strip": "lines:10%"}, {"text_profile": "conservative"}):
        (line,) = said(record(corpus, **point), record(corpus))
        assert "words, shingles, similarities, buckets, candidates and recall are not" in line


def test_candidates_of_a_sample_scale_to_the_corpus():
    """Of 4,000 documents with 2,000 pairs, half are looked at: within 4 standard errors."""
    corpus = planted(2_000, length=40, most=0.02)
    whole = evaluate(corpus.golden[:2], corpus=corpus.rows).profile
    some = evaluate(corpus.golden[:2], corpus=corpus.rows, sample=2_000).profile
    assert (whole.documents, whole.sampled, some.sampled) == (4_000, 4_000, 2_000)
    assert abs(some.candidates / whole.candidates - 1) < 4 / some.effective**0.5
    assert abs(some.bytes.mean / whole.bytes.mean - 1) < 0.03


def damaged():
    for name in ("labels", "golden", "operating_point", "profile", "judged"):
        yield {key: value for key, value in BEFORE.items() if key != name}
    profile = BEFORE["profile"]
    for change in (
        {"vocabulary": "AAAA"},
        {"vocabulary": 3},
        {"similarity": [1]},
        {"met": -1},
        {"bytes": {"mean": 1}},
        {"sampled": "1"},
        {"halves": float("nan")},
        {"effective": 0.0},
        {"candidates": 0},
        {"met": 0},
        {"similarity": []},
        {"documents": 10**400},
        {"sampled": 0},
    ):
        yield BEFORE | {"profile": profile | change}
    for value in (float("nan"), 1.5, True):
        yield BEFORE | {"labels": {"recall": {"value": value, "low": 0.0, "high": 1.0}}}
    yield BEFORE | {"operating_point": {"spec": [], "parameters": {}}}
    yield BEFORE | {"labels": {"recall": {"value": "1"}}}


@pytest.mark.parametrize("broken", [*damaged()])
def test_damaged_baseline_is_refused(tmp_path, broken):
    (tmp_path / "evaluation.json").write_text(json.dumps(broken))
    with pytest.raises(FormatError, match=r"evaluation\.json is damaged .*again"):
        read_baseline(tmp_path / "evaluation.json")


def test_profile_survives_json():
    profile = evaluate([("a0", "b0", 1)], corpus=planted(20).rows).profile
    again = CorpusProfile.from_record(json.loads(json.dumps(profile.record)), "here")
    assert again == profile


def test_without_a_profile_only_figures_are_compared(tmp_path):
    bare = BEFORE | {"profile": None}
    assert said(bare, BEFORE) == [
        "without a corpus on both sides there is no profile: texts are not compared"
    ]
