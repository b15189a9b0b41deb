"""What a trial would cost with all documents."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from neardup.evaluation.truth import Truth
from neardup.options import Options
from neardup.planner.recommendation import Growth
from neardup.planner.trial import TrialOutcome, TrialPoint
from neardup.planner.tuner import tune

REFERENCE = TrialPoint.of(Options.of(threshold=0.8))
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


def test_chance_meetings_grow_with_the_square_and_the_rest_with_the_documents() -> None:
    grown = growth()(ROW)
    assert grown.all_candidates == 50 * 100
    assert grown.t_all == pytest.approx(3.0 * 10 + 0.5 * 100)


def test_a_removed_document_is_compared_with_one() -> None:
    """Forty are similar to the first; half of the pairs met."""
    row = replace(ROW, candidates=20, far=0, recall=0.5)
    assert growth(pairs(*[0.9] * 40), 3.0)(row).all_candidates == pytest.approx(20 * 10)


def test_known_pairs_that_met_in_vain_stand_for_as_many_as_the_sample_says() -> None:
    row = replace(ROW, candidates=30, far=20, recall=1.0)
    found = growth(pairs(*[0.9] * 4, *[0.7] * 40), 3.0)(row)
    assert found.all_candidates == pytest.approx(4 * 10 + 6 * 3 + 20 * 100)


def test_what_meets_more_often_stands_for_itself() -> None:
    """12 bands of 10 find 0.29 of the pairs at 0.7 and hardly any at 0.4."""
    truth = pairs(0.7, 0.4)
    row = replace(ROW, point=replace(REFERENCE, bands=12, rows=10), candidates=10, far=0)
    chances = [row.point.meeting.probability(value) for value in (0.7, 0.4)]
    found = replace(growth(truth), weights=np.array([2.0, 9.0]))(row)
    each = (2 * chances[0] + 9 * chances[1]) / sum(chances)
    assert found.all_candidates == pytest.approx(10 * each)
    other = replace(row, point=replace(row.point, shingle="char:9"))
    found = replace(growth(truth), weights=np.array([2.0, 9.0]))(other)
    assert found.all_candidates == pytest.approx(10 * 5.5)


def test_a_trial_that_came_to_nothing_has_no_cost() -> None:
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


def test_pairs_of_a_sample_foretell_those_of_all() -> None:
    """3,000 of 12,000 documents; one in a hundred pairs that are unrelated meets."""
    everything = texts(12_000)
    asked = {"shingle": "word:1", "slots": 16, "bands": "4x4", "sketches": "minhash", "recall": 0.9}
    of_all = tune(everything, **asked, sample=12_000, workers=2).rows[1]
    of_some = tune(everything, **asked, sample=3_000, workers=2).rows[1]
    assert of_some.candidates < of_all.candidates / 8
    assert of_all.all_candidates == pytest.approx(of_all.candidates, rel=0.05)
    assert of_some.all_candidates == pytest.approx(of_all.all_candidates, rel=0.1)


def test_for_more_documents_steeper_bands_are_cheaper() -> None:
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
