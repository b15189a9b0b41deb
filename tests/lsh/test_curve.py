"""The S-curve's values, as published (and corrected), and the choice of bands."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.errors import ParameterError
from neardup.lsh.curve import Curve, choose_curve


@pytest.mark.parametrize(
    ("bands", "rows", "similarity", "probability"),
    [
        (14, 8, 0.8, 0.9236),
        (14, 8, 0.5, 0.0533),
        (20, 5, 0.3, 0.0475),
        (20, 5, 0.8, 0.9996),
        (8, 16, 0.85, 0.46),
        (16, 8, 0.85, 0.994),
        (14, 9, 0.85, 0.975),
        (1, 12, 0.9, 0.28),
        (1, 16, 0.9, 0.19),
        (2, 6, 0.9, 0.78),
        (3, 4, 0.9, 0.96),
    ],
)
def test_published_probabilities(bands, rows, similarity, probability):
    digits = len(str(probability)) - 2
    assert Curve(bands, rows).probability(similarity) == pytest.approx(
        probability, abs=0.6 * 10**-digits
    )


def test_three_points_of_the_curve():
    curve = Curve(20, 5)
    found = (curve.estimate, curve.inflection, curve.half)
    assert [round(x, 3) for x in found] == [0.549, 0.526, 0.509]
    assert round(Curve(14, 8).estimate, 3) == 0.719
    assert round(Curve(50, 2).estimate, 3) == 0.141
    assert round(Curve(16, 8).estimate, 3) == 0.707
    assert round(Curve(8, 16).estimate, 3) == 0.878


def test_recall_at_the_estimate_tends_to_63_percent():
    curve = Curve(10_000, 5)
    assert curve.probability(curve.estimate) == pytest.approx(1 - 1 / math.e, abs=1e-4)


@given(st.integers(1, 60), st.integers(1, 20), st.floats(0.05, 0.95))
def test_half_and_inflection_and_areas_agree_with_the_curve(bands, rows, threshold):
    curve = Curve(bands, rows)
    assert curve.probability(curve.half) == pytest.approx(0.5)
    steep = curve.inflection
    if rows > 1 and 0.01 < steep < 0.99:
        slope = lambda s: (curve.probability(s + 1e-5) - curve.probability(s - 1e-5)) / 2e-5  # noqa: E731
        assert slope(steep) >= slope(steep - 0.01) - 1e-6
        assert slope(steep) >= slope(steep + 0.005) - 1e-6
    whole = curve.false_positive_area(1.0)
    parts = curve.false_positive_area(threshold) + (
        (1 - threshold) - curve.false_negative_area(threshold)
    )
    assert parts == pytest.approx(whole, abs=1e-6)
    assert 0 <= curve.false_positive_rate(threshold) <= 1
    assert 0 <= curve.false_negative_rate(threshold) <= 1


def test_areas_against_the_exact_integral():
    # One band of r rows: P is s^r, whose integral is known.
    assert Curve(1, 3).false_positive_area(0.8) == pytest.approx(0.8**4 / 4)
    assert Curve(1, 3).false_negative_area(0.8) == pytest.approx(0.2 - (1 - 0.8**4) / 4)


@given(st.integers(8, 300), st.floats(0.3, 0.99), st.floats(0.5, 0.999))
def test_chosen_bands_reach_the_recall_and_no_steeper_ones_do(slots, threshold, recall):
    try:
        curve = choose_curve(slots, threshold, recall)
    except ParameterError:
        assert Curve(slots, 1).probability(threshold) < recall
        return
    assert curve.slots <= slots
    assert curve.probability(threshold) >= recall
    if curve.rows < slots:
        steeper = Curve(slots // (curve.rows + 1), curve.rows + 1)
        assert steeper.probability(threshold) < recall


@pytest.mark.parametrize("threshold", [0.0, -0.1, 1.1, math.nan])
def test_invalid_thresholds_are_refused(threshold):
    with pytest.raises(ParameterError, match="threshold"):
        choose_curve(128, threshold, 0.99)


@pytest.mark.parametrize("recall", [0.0, 1.0, -1, math.nan])
def test_invalid_recalls_are_refused(recall):
    with pytest.raises(ParameterError, match="recall"):
        choose_curve(128, 0.8, recall)
