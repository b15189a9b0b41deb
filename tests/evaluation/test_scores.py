"""Scores, intervals, thresholds and the adjusted Rand index: published values, and slow twins."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.evaluation.results import format_as_good
from neardup.evaluation.scores import (
    LOWEST,
    Scores,
    adjusted_rand,
    components,
    note_easy_labels,
    sweep_thresholds,
)
from neardup.evaluation.shares import Share

labelled = st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=60)
clusterings = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=30)


@pytest.mark.parametrize(
    "part, whole, low, high",
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_intervals_equal_published_ones(part, whole, low, high):
    """Newcombe, Two-sided confidence intervals for the single proportion, 1998, table I."""
    share = Share.of(part, whole)
    assert (round(share.low, 4), round(share.high, 4)) == (low, high)
    assert share.low <= share.value <= share.high


def test_share_of_nothing_is_undefined():
    assert Share.of(0, 0) == Share(None, None, None)
    assert str(Share.of(0, 0)) == "undefined"
    empty = Scores.of(np.zeros(0, bool), np.zeros(0, bool))
    assert [empty.recall.value, empty.precision.value, empty.f1.value] == [None] * 3
    assert Scores(0, 0, 3, 1).precision.value is None
    assert Scores(0, 0, 3, 1).f1.value == 0.0


def test_f1_interval_has_its_coverage():
    """Of 2,000 sets of 60 pairs: 95 %, and three standard errors are 1.5 %."""
    chances = np.array([0.5, 0.08, 0.12, 0.3])
    true = 2 * chances[0] / (2 * chances[0] + chances[1] + chances[2])
    drawn = np.random.default_rng(1).multinomial(60, chances, 2_000)
    shares = [Scores(*row).f1 for row in drawn.tolist()]
    held = np.mean([share.low <= true <= share.high for share in shares])
    assert abs(held - 0.95) < 0.015


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=50))
def test_scores_equal_counting_one_by_one(rows):
    predicted, truth = (np.array([row[n] for row in rows], bool) for n in (0, 1))
    scores = Scores.of(predicted, truth)
    naive = [
        rows.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False))
    ]
    assert [scores.tp, scores.fp, scores.fn, scores.tn] == naive
    if scores.recall.value and scores.precision.value:
        r, p = scores.recall.value, scores.precision.value
        assert scores.f1.value == pytest.approx(2 * r * p / (r + p))


@given(labelled)
def test_sweep_equals_scores_at_every_threshold(rows):
    similarity = np.array([row[0] for row in rows])
    label = np.array([row[1] for row in rows], bool)
    found = sweep_thresholds(similarity, label)
    assert found.thresholds[0] == 0.01 and found.thresholds[-1] == 1.0
    for place, threshold in enumerate(found.thresholds):
        scores = Scores.of(similarity >= threshold, label)
        assert found.recall[place] == scores.recall.value
        assert found.precision[place] == scores.precision.value
        assert found.f1[place] == scores.f1.value
    if 0 < label.sum() < len(label):
        assert found.at_best[2] == max(value or 0.0 for value in found.f1)
    else:
        assert found.best is None and found.at_best == (None, None, None)


def test_best_threshold_is_the_middle_of_equals():
    found = sweep_thresholds(np.array([0.2, 0.305, 0.8, 0.9]), np.array([False, False, True, True]))
    assert found.best == pytest.approx((0.31 + 0.80) / 2, abs=0.01)


def test_few_labels_make_a_wide_range_of_thresholds_as_good_as_the_best():
    few = sweep_thresholds(np.array([0.2, 0.3, 0.8, 0.9]), np.array([False, False, True, True]))
    assert few.as_good == [0.01, 1.0], "two pairs of a kind show nothing"
    similarity = np.concatenate((np.full(40, 0.3), np.full(40, 0.8)))
    many = sweep_thresholds(similarity, similarity > 0.5)
    assert many.as_good == [0.31, 0.8], "at any other threshold forty pairs are wrong"


def test_a_threshold_below_03_is_never_advised():
    """By these labels 0.11 to 0.2 are best; of what may be used, 0.3 to 0.35."""
    label = np.array([True] * 400 + [False] * 400)
    similarity = np.r_[np.full(100, 0.2), np.full(300, 0.35), np.full(400, 0.1)]
    found = sweep_thresholds(similarity, label)
    assert found.as_good == [0.11, 0.2] and found.best is not None and found.best < LOWEST
    assert found.advised == 0.35 and found.advised_as_good == [LOWEST, 0.35]
    assert found.at(found.advised)[0] == 0.75


def test_of_thresholds_that_are_as_good_the_highest_is_advised_because_it_removes_least():
    label = np.array([True] * 40 + [False] * 40)
    found = sweep_thresholds(np.r_[np.full(36, 0.6), np.full(4, 0.4), np.full(40, 0.2)], label)
    assert found.best == pytest.approx(0.31, abs=0.01) and found.as_good == [0.21, 0.6]
    assert found.advised == 0.6 and found.advised_as_good == [LOWEST, 0.6]
    assert format_as_good(found) == [
        "0.21 to 0.6 are as good, as far as these labels can tell; 0.6 removes the least"
    ]


@pytest.mark.parametrize(("alike", "warned"), [(0, True), (29, True), (30, False)])
def test_easy_labels_are_warned_of(alike: int, warned: bool):
    label = np.array([True] * 40 + [False] * (100 + alike))
    similarity = np.r_[np.full(40, 0.9), np.full(100, 0.1), np.full(alike, 0.7)]
    notes = note_easy_labels(similarity, label, "char:5", threshold=0.8, few=30)
    assert bool(notes) == warned
    assert all(f"label {30 - alike} or more" in note for note in notes)
    assert note_easy_labels(similarity[:50], label[:50], "char:5", 0.8, 30) == [], (
        "few labels, said elsewhere"
    )


def test_threshold_that_is_wrong_about_five_pairs_in_a_row_is_worse():
    labels = np.array([False] * 20 + [True] * 20)
    four = sweep_thresholds(np.r_[np.full(20, 0.2), np.full(4, 0.6), np.full(16, 0.9)], labels)
    five = sweep_thresholds(np.r_[np.full(20, 0.2), np.full(5, 0.6), np.full(15, 0.9)], labels)
    assert four.as_good == [0.21, 0.9] and five.as_good == [0.21, 0.6]


@pytest.mark.parametrize(
    "mine, theirs, value",
    [
        ([0, 0, 1, 1], [1, 1, 0, 0], 1.0),
        ([0, 0, 1, 2], [0, 0, 1, 1], 4 / 7),
        ([0, 0, 0, 0], [0, 1, 2, 3], 0.0),
        ([0, 1, 2], [0, 1, 2], None),
        ([0, 0], [3, 3], None),
        ([], [], None),
    ],
)
def test_adjusted_rand_index(mine, theirs, value):
    found = adjusted_rand(np.array(mine, np.int64), np.array(theirs, np.int64))
    assert found == (None if value is None else pytest.approx(value))


@given(clusterings)
def test_adjusted_rand_index_by_counting_pairs(rows):
    pairs = list(combinations(rows, 2))
    together = [(x[0] == y[0], x[1] == y[1]) for x, y in pairs]
    both = sum(a and b for a, b in together)
    mine, theirs = sum(a for a, _ in together), sum(b for _, b in together)
    chance = mine * theirs / len(pairs) if pairs else 0.0
    most = (mine + theirs) / 2
    a, b = (np.array([row[n] for row in rows], np.int64) for n in (0, 1))
    found = adjusted_rand(a, b)
    assert found == (None if most == chance else pytest.approx((both - chance) / (most - chance)))


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=30))
def test_components_equal_joining_groups(pairs):
    group = {n: {n} for n in range(21)}
    for a, b in pairs:
        joined = group[a] | group[b]
        group.update(dict.fromkeys(joined, joined))
    a, b = (np.array([pair[n] for pair in pairs], np.int64) for n in (0, 1))
    assert components(21, a, b).tolist() == [min(group[n]) for n in range(21)]


def test_a_long_chain_is_one_component():
    """In any order of its pairs: not a round for each of them."""
    chain = np.random.default_rng(1).permutation(200_000)
    assert not components(200_000, chain[:-1], chain[1:]).any()


def test_pairs_of_one_cluster_are_not_taken_as_independent():
    """Clusters are found or missed whole: their number decides how wide the interval is."""
    rng, held, by_pairs = np.random.default_rng(5), 0, 0
    for _ in range(400):
        sizes = rng.integers(1, 30, 80)
        found = np.repeat(rng.random(80) < 0.8, sizes)
        truth, unit = np.ones(len(found), bool), np.repeat(np.arange(80), sizes)
        share, alone = Scores.of(found, truth, unit).recall, Scores.of(found, truth).recall
        held += (share.low or 0) <= 0.8 <= (share.high or 0)
        by_pairs += (alone.low or 0) <= 0.8 <= (alone.high or 0)
    assert held >= 0.92 * 400
    assert by_pairs < 0.7 * 400, "what an interval over pairs would hold"


def test_a_few_clusters_that_are_all_right_prove_little():
    """Three clusters of a thousand pairs are three, not three thousand."""
    truth, unit = np.ones(3000, bool), np.repeat(np.arange(3), 1000)
    scores = Scores.of(truth, truth, unit)
    assert scores.recall == scores.precision == Share.of(3, 3)
    one_wrong = truth.copy()
    one_wrong[0] = False
    assert (Scores.of(one_wrong, truth, unit).recall.low or 0) < (scores.recall.low or 0)
    assert Scores.of(truth, truth, np.zeros(3000, np.int64)).recall == Share.of(1, 1)
    assert Scores.of(~truth, ~truth, unit).recall == Share.of(0, 0)


def test_pairs_that_are_units_alone_are_counted_as_pairs():
    rng = np.random.default_rng(8)
    truth, predicted = rng.random(300) < 0.5, rng.random(300) < 0.5
    alone = Scores.of(predicted, truth, np.arange(300))
    assert alone.recall.low == pytest.approx(Scores.of(predicted, truth).recall.low, abs=1e-3)
    assert alone.record.keys() == Scores.of(predicted, truth).record.keys()
