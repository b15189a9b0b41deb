"""What answers so far say; and how far two people agree."""

from __future__ import annotations

import numpy as np
import pytest

from neardup.evaluation.drawn_pairs import StratumSize
from neardup.evaluation.label_figures import DrawnPair, LabelAgreement, LabelFigures, weigh_answers

PAIRS = [
    DrawnPair(n, f"a{n}", f"b{n}", "found" if n % 2 else "missed", 0.5 + n / 200)
    for n in range(100)
]
SIZES = {"found": StratumSize(1_000), "missed": StratumSize(5_000)}
FOUND = np.array([pair.stratum == "found" for pair in PAIRS])


def test_pairs_stand_for_those_of_their_stratum() -> None:
    answers = {0: "same", 1: "same", 2: "different", 3: "same", 4: "unsure"}
    found = weigh_answers(PAIRS, SIZES, answers)
    assert [(one.pair.number, one.label) for one in found] == [
        (0, True),
        (1, True),
        (2, False),
        (3, True),
    ]
    assert [one.weight for one in found] == pytest.approx([5_000 / 3, 500, 5_000 / 3, 500])


def test_more_answers_narrow_the_figures_as_told() -> None:
    """By how many more answers the next width is reached is told, roughly."""
    wide = LabelFigures.of(PAIRS, SIZES, dict.fromkeys(range(20), "same"), FOUND)
    narrow = LabelFigures.of(PAIRS, SIZES, dict.fromkeys(range(80), "same"), FOUND)
    assert wide.scores is not None
    assert narrow.scores is not None
    assert (narrow.scores.precision.low or 0) > (wide.scores.precision.low or 1)
    assert wide.aim is not None
    assert wide.aim[1] == 0.05
    assert 10 < wide.aim[0] < 150
    assert "too narrow" in str(wide)
    assert "too narrow" not in str(narrow)


def test_a_threshold_is_asked_for_by_ten_answers_of_each_kind() -> None:
    def asked(same: int) -> float | None:
        answers = {
            pair.number: "same" if pair.number >= 100 - same else "different" for pair in PAIRS
        }
        return LabelFigures.of(PAIRS, SIZES, answers, FOUND).threshold

    assert asked(9) is None
    assert asked(30) == pytest.approx(0.86, abs=0.02)
    assert asked(95) is None


def test_random_pairs_that_are_different_are_counted() -> None:
    pairs = [*PAIRS[:20], *(DrawnPair(n, "x", f"y{n}", "random", 0.0) for n in range(20, 25))]
    sizes, found = SIZES | {"random": StratumSize(1e9)}, FOUND[:25]
    answers = dict.fromkeys(range(20), "same") | dict.fromkeys(range(20, 25), "different")
    assert LabelFigures.of(pairs, sizes, answers, found).random == 5
    one = LabelFigures.of(pairs, sizes, answers | {20: "same"}, found)
    assert one.random == 0
    assert one.scores is not None
    assert (one.scores.recall.value or 0) < 0.01


def test_kappa_is_the_agreement_beyond_chance() -> None:
    """A textbook example: 45, 15, 25 and 15 of 100: kappa 0.13."""
    given = (
        [("same", "same")] * 45
        + [("same", "different")] * 15
        + [("different", "same")] * 25
        + [("different", "different")] * 15
    )
    found = LabelAgreement.of([*given, ("unsure", "same")])
    assert (found.pairs, found.agreed) == (100, 60)
    assert found.kappa.value == pytest.approx(0.1304, abs=1e-4)
    assert (found.kappa.low or 0) < 0 < (found.kappa.high or 0)
    assert str(found).startswith("60 of 100 pairs alike; kappa 0.13 (")


def test_full_agreement_in_few_pairs_is_not_certainty() -> None:
    given = [("same", "same")] * 10 + [("different", "different")] * 10
    kappa = LabelAgreement.of(given).kappa
    assert kappa.value == kappa.high == 1
    assert 0.5 < (kappa.low or 0) < 0.8


@pytest.mark.parametrize("given", [[], [("same", "same")] * 5, [("unsure", "same")]])
def test_kappa_of_one_answer_is_undefined(given: list[tuple[str, str]]) -> None:
    found = LabelAgreement.of(given)
    assert found.kappa.value is None
    assert str(found).endswith("kappa is undefined")
