"""What a Result tells: ids, verdicts, clusters, the summary, the kept rows."""

from __future__ import annotations

import pickle

import pytest

import neardup
from neardup.errors import UsageError

BASE = " ".join(f"word{i}" for i in range(50))
TEXTS = [BASE, BASE + " more", "something else entirely different here", BASE.upper(), "", "hi"]


def edited(*places: int) -> str:
    return " ".join(f"x{n}" if n in places else f"w{n}" for n in range(300))


EDITED = [edited(), edited(20), edited(*range(150)), edited().upper()]


def test_result_explains_every_decision():
    result = neardup.dedup(TEXTS)
    assert repr(result) == "Result(6 documents: 3 kept, 2 removed (1 identical), 1 rejected)"
    assert str(result.why(1)) == (
        "1 was removed: 0.9787 similar to 0, which was kept "
        "(exact Jaccard of word:5 shingles, threshold 0.8)"
    )
    assert str(result.why(0)) == "0 was kept; 2 removed because of it"
    assert str(result.why(4)) == "4 was rejected: empty"
    assert [(c.id, c.copies, c.size) for c in result.clusters] == [(0, [1, 3], 3)]
    assert [(p.a, p.b) for p in result.pairs] == [(0, 1), (0, 3), (1, 3)]
    assert result.pairs[1].similarity == 1.0
    assert result.pairs[0].similarity == result.pairs[2].similarity == 46 / 47
    assert "3 kept" in result.summary()
    assert "predicted recall at the threshold 0.9983" in result.summary()
    assert "<table>" in result._repr_html_()
    assert result.filter(TEXTS) == [TEXTS[0], TEXTS[2], TEXTS[5]]


def test_result_of_fingerprints_tells_their_distance():
    result = neardup.dedup(EDITED, sketch="simhash", hamming=8)
    assert result.kept == [0, 2]
    assert result.summary().splitlines()[1] == (
        "Hamming distance <= 8 of 64-bit SimHash of word:5 shingles, 45 tables of 10 blocks: "
        "all pairs within it meet"
    )
    near, same = result.removed
    assert near.similarity == 1 - round((1 - near.similarity) * 64) / 64 < 1
    assert not near.exact
    assert str(result.why(1)).endswith(
        "similar to 0, which was kept (64-bit SimHash of word:5 shingles, at most 8 bits differ)"
    )
    assert (same.similarity, same.exact) == (1.0, True)


def test_result_of_bags_tells_the_weighted_jaccard():
    texts = ["one two " * 10, "one two " * 3, "one two " * 9]
    plain = neardup.dedup(texts, shingle="word:1", threshold=0.7)
    assert plain.kept == [0]
    bags = neardup.dedup(texts, shingle="word:1", threshold=0.7, sketch="weighted")
    assert bags.kept == [0, 1]
    assert bags.removed[0].similarity == 18 / 20
    assert "0.9000 similar to 0, which was kept (exact weighted Jaccard of word:1" in str(
        bags.why(2)
    )
    assert "exact weighted Jaccard >= 0.70 of word:1 shingles" in bags.summary()


def test_ids_in_html_are_escaped():
    result = neardup.dedup([{"id": "<script>", "text": "a"}, {"id": "b", "text": "a"}])
    assert "<script>" not in result._repr_html_()


def test_duplicate_ids_are_told_apart_by_row():
    result = neardup.dedup([{"id": "x", "text": BASE}, {"id": "x", "text": BASE + " y"}])
    with pytest.raises(UsageError, match=r"2 documents have the id 'x', rows \[0, 1\]"):
        result.why("x")
    assert result.why(row=1).verdict == "removed"


def test_ids_keep_their_type_whatever_their_neighbours_are():
    rows = [{"id": i, "text": f"text number {i}"} for i in (1, "a", True, 2.5, None)]
    result = neardup.dedup(rows)
    assert result.kept == [1, "a", True, 2.5, 4]
    assert result.why(1).id == 1
    assert result.why(True).id is True


def test_filter_refuses_data_of_another_length():
    result = neardup.dedup(TEXTS)
    for other in (TEXTS[:2], TEXTS * 2):
        with pytest.raises(UsageError, match="6 documents"):
            result.filter(other)


def test_a_large_result_can_be_pickled():
    words = [f"w{i}" for i in range(3_000)]
    result = neardup.dedup([" ".join(words[i:]) for i in range(1_800)])
    assert pickle.loads(pickle.dumps(result)).kept == result.kept
