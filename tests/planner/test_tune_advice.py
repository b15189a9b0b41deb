"""Which trial is recommended, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from neardup.evaluation.truth import Truth
from neardup.options import Options
from neardup.planner.recommendation import Target, advise
from neardup.planner.trial import TrialOutcome, TrialPoint

REFERENCE = TrialPoint.of(Options.of(threshold=0.8))
GOOD = TrialOutcome(
    REFERENCE,
    t_sig=1.0,
    t_rest=1.0,
    t_all=2.0,
    candidates=150,
    pairs=100,
    true_pairs=100,
    recall=1.0,
    precision=1.0,
    memory=1_000,
)


def wanted(
    similarity: list[float], recall: float = 0.99, sample: int = 1_000, corpus: int = 1_000_000
) -> Target:
    some = np.arange(len(similarity), dtype=np.int64)
    truth = Truth(1_000, 0.4, some, some + 1, np.array(similarity, np.float64))
    return Target(recall, 0.99, REFERENCE, truth, 1_000, sample=sample, corpus=corpus)


MANY = wanted([1.0] * 100)


def other(**changes: object) -> TrialOutcome:
    """A trial with twice the rows, which identical sets share all the same."""
    row = replace(GOOD, **{"point": replace(REFERENCE, bands=10, rows=12), **changes})
    return replace(row, t_all=row.seconds)


def test_the_cheapest_that_finds_enough():
    cheap = other(t_rest=0.1)
    advice = advise([GOOD, cheap, other(t_rest=0.01, recall=0.98)], MANY)
    assert (advice.best, advice.met) == (cheap, True)
    assert "1.82 times the time" in advice.reasons[-1]
    assert "The default for a recall of 0.99, minhash, 128 slots" in advice.reasons[-1]


def test_the_default_stands_if_nothing_is_cheaper_by_a_fifth():
    cheap = other(t_rest=0.61)
    advice = advise([GOOD, cheap], MANY)
    assert (advice.best, advice.met) == (GOOD, True)
    assert "stands: nothing that finds enough is cheaper by a fifth" in advice.reasons[-1]
    assert "The cheapest is minhash, 128 slots, 10 bands of 12 with" in advice.reasons[-1]
    assert advise([GOOD, other(t_rest=0.59)], MANY).best == other(t_rest=0.59)
    assert advise([replace(GOOD, recall=0.9), cheap], MANY).best == cheap


def test_a_default_that_is_the_cheapest_is_said():
    assert (
        "nothing that was tried is cheaper" in advise([GOOD, other(t_rest=3.0)], MANY).reasons[-1]
    )


@pytest.mark.parametrize(
    ("pairs", "sample", "corpus", "said"),
    [
        (100, 1_000, 10**6, "--sample 4000 would narrow it."),  # 381 pairs are needed
        (10, 5_000, 10**6, "--sample 100000 would narrow it, not enough."),
        (100, 1_000, 1_500, "--sample 1500 would narrow it, not enough."),
        (100, 900, 900, "only more documents than these 900 would narrow it."),
        (100, 100_000, 10**9, "only more documents than these 100,000 would narrow it."),
    ],
)
def test_an_interval_that_reaches_below_is_said_with_what_to_do(pairs, sample, corpus, said):
    row = replace(GOOD, true_pairs=pairs, pairs=pairs)
    advice = advise([row], wanted([1.0] * pairs, sample=sample, corpus=corpus))
    assert advice.met
    assert advice.reasons[1] == f"The interval reaches below 0.99: {said}"


def test_an_interval_that_does_not_reach_below_is_left_alone():
    row = replace(GOOD, true_pairs=400, pairs=400)
    assert not any("reaches below" in why for why in advise([row], wanted([1.0] * 400)).reasons)


def test_times_and_pairs_are_said_as_people_read_them():
    row = replace(GOOD, t_all=6_000.0, all_candidates=108_300.0)
    said = advise([row], MANY).reasons[0]
    assert "all 1,000 documents takes about 100 min of one core (a run also reads" in said
    assert "108 pairs compared and 1 bytes a document" in said


def test_what_is_found_must_be_right():
    assert advise([GOOD, other(t_rest=0.1, precision=0.98)], MANY).best == GOOD


def test_of_equal_times_the_one_with_less_memory():
    small, large = other(t_rest=0.501, memory=10), other(t_rest=0.5)
    assert advise([GOOD, large, small], MANY).best == small


def test_luck_is_not_enough():
    """10 bands of 12 find 0.51 of the pairs at 0.8, whatever was measured."""
    at_threshold = wanted([0.8] * 100)
    assert at_threshold.expected(other().point) == pytest.approx(0.509, abs=1e-3)
    assert advise([GOOD, other(t_rest=0.1)], at_threshold).best == GOOD


def test_theory_has_no_say_where_pairs_meet_by_something_else():
    for change in ({"shingle": "char:9"}, {"sketch": "weighted"}, {"verify": "estimate"}):
        assert MANY.expected(replace(REFERENCE, **change)) is None


def test_nothing_finds_enough():
    best = other(recall=0.7, t_rest=9.0)
    advice = advise([replace(GOOD, recall=0.6), best, other(recall=0.8, precision=0.2)], MANY)
    assert (advice.best, advice.met) == (best, False)
    assert "No trial reaches a recall of 0.99" in advice.reasons[0]


def test_a_default_without_figures_is_said():
    late = replace(GOOD, status="timeout", error="took more than 1 s", recall=None)
    advice = advise([late, other()], MANY)
    assert advice.best == other()
    assert "took more than 1 s" in advice.reasons[-1]


def test_no_trial_came_to_its_end():
    late = replace(GOOD, status="timeout", recall=None)
    advice = advise([late, late], MANY)
    assert (advice.best, advice.met) == (late, None)
    assert "--time-limit" in advice.reasons[0]


def test_a_point_for_sweeps_only_is_not_recommended():
    modulo = other(point=replace(REFERENCE, buckets=100), t_sig=0.0, t_rest=0.0)
    assert advise([GOOD, modulo], MANY).best == GOOD


def test_without_a_true_pair_theory_decides():
    none = wanted([0.5])
    rows = [replace(row, recall=None, precision=None) for row in (GOOD, other(t_rest=0.1))]
    advice = advise(rows, none)
    assert (advice.best, advice.met) == (rows[0], None)
    assert "no recall to measure" in advice.reasons[0]
    assert "0.9983" in advice.reasons[1]
