"""The recommendation of a sweep, and the cost of a trial for all documents."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from neardup.evaluation.truth import Truth
from neardup.options import Options
from neardup.planner.recommendation import Growth, Target, advise
from neardup.planner.tuner import tune
from neardup.planner.tuning import TrialOutcome, TrialPoint

REFERENCE = TrialPoint.of(Options.of(threshold=0.8))
GOOD = TrialOutcome(
    REFERENCE,
    t_sig=10.0,
    t_rest=10.0,
    t_all=20.0,
    candidates=150,
    pairs=100,
    true_pairs=100,
    recall=1.0,
    precision=1.0,
    memory=1_000,
)


def wanted(
    similarity: list[float],
    recall: float = 0.99,
    sample: int = 1_000,
    largest_sample: int = 100_000,
) -> Target:
    some = np.arange(len(similarity), dtype=np.int64)
    truth = Truth(1_000, 0.4, some, some + 1, np.array(similarity, np.float64))
    return Target(
        recall, 0.99, REFERENCE, truth, 1_000, sample=sample, largest_sample=largest_sample
    )


MANY = wanted([1.0] * 100)


def other(**changes: object) -> TrialOutcome:
    """A trial with twice the rows, which identical sets share all the same."""
    row = replace(GOOD, **{"point": replace(REFERENCE, bands=10, rows=12), **changes})
    return replace(row, t_all=row.seconds)


def test_cheapest_trial_with_enough_recall_is_recommended():
    cheap = other(t_rest=1.0)
    advice = advise([GOOD, cheap, other(t_rest=0.1, recall=0.98)], MANY)
    assert (advice.best, advice.met) == (cheap, True)
    assert "1.82 times the time" in advice.reasons[-1]
    assert "The default for a recall of 0.99, minhash, 128 slots" in advice.reasons[-1]


def test_default_is_kept_unless_a_trial_is_cheaper_by_a_fifth():
    cheap = other(t_rest=6.1)
    advice = advise([GOOD, cheap], MANY)
    assert (advice.best, advice.met) == (GOOD, True)
    assert "stands: nothing that finds enough is cheaper by a fifth" in advice.reasons[-1]
    assert "The cheapest is minhash, 128 slots, 10 bands of 12 with" in advice.reasons[-1]
    assert advise([GOOD, other(t_rest=5.9)], MANY).best == other(t_rest=5.9)
    assert advise([replace(GOOD, recall=0.9), cheap], MANY).best == cheap


def test_default_is_kept_if_a_trial_saves_less_than_a_second():
    default = replace(GOOD, t_sig=0.001, t_rest=0.001, t_all=0.002)
    risky = other(t_sig=0.0005, t_rest=0.0005)
    assert advise([default, risky], MANY).best == default
    slow = replace(GOOD, t_sig=1.0, t_rest=1.0, t_all=2.0)
    assert advise([slow, other(t_sig=0.5, t_rest=0.4)], MANY).best != slow
    assert advise([slow, other(t_sig=0.5, t_rest=0.6)], MANY).best == slow


def test_reason_states_that_the_default_is_cheapest():
    assert (
        "nothing that was tried is cheaper" in advise([GOOD, other(t_rest=30.0)], MANY).reasons[-1]
    )


@pytest.mark.parametrize(
    ("pairs", "sample", "largest_sample", "said"),
    [
        (100, 1_000, 100_000, "--sample 4000 would narrow it."),  # 381 pairs are needed
        (10, 5_000, 100_000, "--sample 100000 would narrow it, not enough."),
        (100, 1_000, 1_500, "--sample 1500 would narrow it, not enough."),
        (100, 900, 900, "only more documents than these 900 would narrow it."),
        (100, 100_000, 100_000, "only more documents than these 100,000 would narrow it."),
    ],
)
def test_wide_interval_is_reported_with_a_sample_size(pairs, sample, largest_sample, said):
    row = replace(GOOD, true_pairs=pairs, pairs=pairs)
    advice = advise([row], wanted([1.0] * pairs, sample=sample, largest_sample=largest_sample))
    assert advice.met
    small = f"The sample is small, {pairs} true pairs. " if pairs < 100 else ""
    assert advice.reasons[1] == f"{small}The interval reaches below 0.99: {said}"


def test_narrow_interval_is_not_reported():
    row = replace(GOOD, true_pairs=400, pairs=400)
    assert not any("reaches below" in why for why in advise([row], wanted([1.0] * 400)).reasons)


def test_reasons_format_times_and_pairs():
    row = replace(GOOD, t_all=6_000.0, all_candidates=108_300.0)
    said = advise([row], MANY).reasons[0]
    assert "all 1,000 documents takes about 100 min of one core (a run also reads" in said
    assert "108 pairs compared and 1 bytes a document" in said


def test_trial_below_the_precision_is_not_recommended():
    assert advise([GOOD, other(t_rest=1.0, precision=0.98)], MANY).best == GOOD


def test_less_memory_wins_at_equal_time():
    small, large = other(t_rest=5.01, memory=10), other(t_rest=5.0)
    assert advise([GOOD, large, small], MANY).best == small


def test_measured_recall_above_the_s_curve_is_not_enough():
    """10 bands of 12 find 0.51 of the pairs at 0.8, whatever was measured."""
    at_threshold = wanted([0.8] * 100)
    assert at_threshold.expected(other().point) == pytest.approx(0.509, abs=1e-3)
    assert advise([GOOD, other(t_rest=0.1)], at_threshold).best == GOOD


def test_s_curve_is_ignored_for_other_shingles_sketches_and_verification():
    for change in ({"shingle": "char:9"}, {"sketch": "weighted"}, {"verify": "estimate"}):
        assert MANY.expected(replace(REFERENCE, **change)) is None


def test_nearest_trial_is_recommended_if_none_reaches_the_recall():
    best = other(recall=0.7, t_rest=9.0)
    advice = advise([replace(GOOD, recall=0.6), best, other(recall=0.8, precision=0.2)], MANY)
    assert (advice.best, advice.met) == (best, False)
    assert "No trial reaches a recall of 0.99" in advice.reasons[0]


def test_default_without_figures_is_reported():
    late = replace(GOOD, status="timeout", error="took more than 1 s", recall=None)
    advice = advise([late, other()], MANY)
    assert advice.best == other()
    assert "took more than 1 s" in advice.reasons[-1]


def test_no_finished_trial_gives_no_recommendation():
    late = replace(GOOD, status="timeout", recall=None)
    advice = advise([late, late], MANY)
    assert (advice.best, advice.met) == (late, None)
    assert "--time-limit" in advice.reasons[0]


def test_experimental_point_is_not_recommended():
    modulo = other(point=replace(REFERENCE, buckets=100), t_sig=0.0, t_rest=0.0)
    assert advise([GOOD, modulo], MANY).best == GOOD


def test_s_curve_decides_without_a_true_pair():
    none = wanted([0.5])
    rows = [replace(row, recall=None, precision=None) for row in (GOOD, other(t_rest=0.1))]
    advice = advise(rows, none)
    assert (advice.best, advice.met) == (rows[0], None)
    assert "no recall to measure" in advice.reasons[0]
    assert "0.9983" in advice.reasons[1]


NEVER = Truth(100, 0.4, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
ROW = TrialOutcome(REFERENCE, t_sig=2.0, t_rest=1.5, t_compare=0.5, candidates=50, far=50)


def growth(truth: Truth = NEVER, weights: float = 1.0) -> Growth:
    """From 100 documents to a thousand."""
    return Growth(10.0, truth, np.full(len(truth.a), weights), REFERENCE)


def pairs(*similarities: float) -> Truth:
    """The first document with each of the others."""
    count = len(similarities)
    return Truth(
        100, 0.4, np.zeros(count, np.int64), np.arange(1, count + 1), np.array(similarities)
    )


def test_chance_candidates_grow_quadratically_other_work_linearly() -> None:
    grown = growth()(ROW)
    assert grown.all_candidates == 50 * 100
    assert grown.t_all == pytest.approx(3.0 * 10 + 0.5 * 100)


def test_removed_document_counts_one_comparison() -> None:
    """Forty are similar to the first; half of the pairs met."""
    row = replace(ROW, candidates=20, far=0, recall=0.5)
    assert growth(pairs(*[0.9] * 40), 3.0)(row).all_candidates == pytest.approx(20 * 10)


def test_false_candidates_of_the_truth_count_by_their_weight() -> None:
    row = replace(ROW, candidates=30, far=20, recall=1.0)
    found = growth(pairs(*[0.9] * 4, *[0.7] * 40), 3.0)(row)
    assert found.all_candidates == pytest.approx(4 * 10 + 6 * 3 + 20 * 100)


def test_weights_are_averaged_by_the_chance_to_meet() -> None:
    """12 bands of 10 find 0.29 of the pairs at 0.7 and hardly any at 0.4."""
    truth = pairs(0.7, 0.4)
    row = replace(ROW, point=replace(REFERENCE, bands=12, rows=10), candidates=10, far=0)
    found = replace(growth(truth), weights=np.array([2.0, 9.0]))(row)
    # (2 * 0.2910 + 9 * 0.00126) / (0.2910 + 0.00126) = 2.0301 for each of ten candidates
    assert found.all_candidates == pytest.approx(20.301, abs=0.001)
    other = replace(row, point=replace(row.point, shingle="char:9"))
    found = replace(growth(truth), weights=np.array([2.0, 9.0]))(other)
    assert found.all_candidates == pytest.approx(10 * 5.5)


def test_failed_trial_has_no_cost() -> None:
    late = TrialOutcome(REFERENCE, "timeout")
    assert growth()(late) == late


def texts(count: int) -> list[str]:
    """Documents that have a little in common, and a few edited copies."""
    chance = random.Random(5)
    words = [f"w{n}" for n in range(60)]
    found = []
    while len(found) < count:
        found.append(chance.choices(words, k=40))
        if chance.random() < 0.1:
            found.append([*found[-1][:-1], "end"])
    return [" ".join(text) for text in found[:count]]


def test_candidates_of_a_sample_predict_those_of_all_documents() -> None:
    """1,500 of 6,000 documents; one in a hundred pairs that are unrelated meets."""
    everything = texts(6_000)
    asked = {"shingle": "word:1", "slots": 16, "bands": "4x4", "sketches": "minhash", "recall": 0.9}
    of_all = tune(everything, **asked, sample=6_000, workers=2).rows[1]
    of_some = tune(everything, **asked, sample=1_500, workers=2).rows[1]
    assert of_some.candidates < of_all.candidates / 8
    assert of_all.all_candidates == pytest.approx(of_all.candidates, rel=0.05)
    assert of_some.all_candidates == pytest.approx(of_all.all_candidates, rel=0.1)


def test_steeper_bands_are_cheaper_for_more_documents() -> None:
    asked = {"shingle": "word:1", "bands": "8x2,16x8", "sketches": "minhash", "slots": 128}
    few, many = (
        tune(texts(1_000), **asked, recall=0.8, workers=1, documents=documents)
        for documents in (1_000, 10**9)
    )
    assert (few.documents, many.documents) == (1_000, 10**9)
    flat, steep = many.rows[1:]
    assert (flat.point.rows, steep.point.rows) == (2, 8)
    assert flat.t_all > 10 * steep.t_all
    assert many.best.point.rows >= 8
