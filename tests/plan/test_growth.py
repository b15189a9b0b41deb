"""What a trial would cost with all documents."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from neardup.evaluate.truth import Truth
from neardup.options import Options
from neardup.plan.growth import Growth
from neardup.plan.trial import Outcome, Point
from neardup.plan.tuner import tune

REFERENCE = Point.of(Options.of(threshold=0.8))
NEVER = Truth(100, 0.4, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
ROW = Outcome(REFERENCE, t_sig=2.0, t_rest=1.5, t_compare=0.5, candidates=50)


def test_comparisons_grow_with_the_square_and_the_rest_with_the_documents() -> None:
    grown = Growth(10.0, NEVER, np.empty(0), REFERENCE)(ROW)
    assert grown.all_candidates == 50 * 100
    assert grown.t_all == pytest.approx(3.0 * 10 + 0.5 * 100)


def test_pairs_that_are_known_stand_for_as_many_as_the_sample_says() -> None:
    """Forty pairs of similarity 1, which always meet, stand for 3 each; ten others met."""
    some = np.arange(40)
    truth = Truth(100, 0.4, some, some + 1, np.ones(40))
    grown = Growth(10.0, truth, np.full(40, 3.0), REFERENCE)
    assert grown(ROW).all_candidates == pytest.approx(40 * 3 + 10 * 100)
    few = replace(ROW, candidates=30)
    assert grown(few).all_candidates == pytest.approx(40 * 3)


def test_of_other_shingles_what_was_found_stands_for_it() -> None:
    truth = Truth(100, 0.4, np.arange(2), np.arange(1, 3), np.ones(2))
    row = replace(ROW, point=replace(REFERENCE, shingle="char:9"), pairs=20)
    grown = Growth(10.0, truth, np.array([2.0, 4.0]), REFERENCE)(row)
    assert grown.all_candidates == pytest.approx(20 * 3 + 30 * 100)


def test_what_was_found_without_verification_is_near_if_it_is_true() -> None:
    """All 50 candidates are reported, a tenth of them are true: the others met by chance."""
    truth = Truth(100, 0.4, np.arange(2), np.arange(1, 3), np.ones(2))
    simhash = Point.of(Options.of(sketch="simhash", verify="none"))
    row = replace(ROW, point=simhash, pairs=50, precision=0.1)
    grown = Growth(10.0, truth, np.array([2.0, 4.0]), REFERENCE)(row)
    assert grown.all_candidates == pytest.approx(5 * 3 + 45 * 100)
    nothing = Growth(10.0, truth, np.array([2.0, 4.0]), REFERENCE)(replace(row, precision=None))
    assert nothing.all_candidates == pytest.approx(50 * 100)


def test_a_trial_that_came_to_nothing_has_no_cost() -> None:
    late = Outcome(REFERENCE, "timeout")
    assert Growth(10.0, NEVER, np.empty(0), REFERENCE)(late) == late


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
    assert of_all.all_candidates == pytest.approx(of_all.candidates)
    assert of_some.candidates < of_all.candidates / 8
    assert of_some.all_candidates == pytest.approx(of_all.candidates, rel=0.1)


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
