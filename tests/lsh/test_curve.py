"""The S-curve's published values, the choice of bands, and layouts of several tables."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.errors import ParameterError
from neardup.lsh.bands import Bands
from neardup.lsh.curve import (
    Curve,
    Curves,
    choose_curve,
    format_layout,
    join_curves,
    lay_bands,
    meeting_by,
    parse_layout,
)
from neardup.measure_table import MEASURES, jaccard_of_containment
from neardup.options import Options
from neardup.sketch.minhash import minhash_signatures
from neardup.spec import Spec

curves = st.lists(st.builds(Curve, st.integers(1, 30), st.integers(1, 12)), min_size=1, max_size=4)


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


def test_estimate_inflection_and_half_of_known_curves():
    curve = Curve(20, 5)
    points = (curve.estimate, curve.inflection, curve.half)
    assert [round(x, 3) for x in points] == [0.549, 0.526, 0.509]
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


@pytest.mark.parametrize(
    ("layout", "similarity"),
    [("20x5", 0.5), ("20x5,4x7", 0.6), ("20x5,10x8", 0.4), ("5x3,2x2,1x1", 0.3)],
)
def test_bands_of_several_sizes_meet_as_often_as_in_a_simulation(layout, similarity):
    """Slots agree at random with this probability; 20,000 trials, five standard errors."""
    curve, trials = parse_layout(layout), 20_000
    equal = np.random.default_rng(11).random((trials, curve.slots)) < similarity
    met, bands = np.zeros(trials, bool), Bands(curve.parts)
    for table in range(bands.count):
        met |= equal[:, bands.columns(table)].all(axis=1)
    share = curve.probability(similarity)
    assert abs(met.mean() - share) < 5 * np.sqrt(share * (1 - share) / trials)


@given(curves)
def test_a_layout_survives_formatting_and_parsing(given_curves):
    curve = join_curves(given_curves)
    assert parse_layout(format_layout(curve)) == curve
    assert curve.slots == sum(one.slots for one in given_curves)
    assert curve.probability(curve.half) == pytest.approx(0.5)


@given(curves)
def test_bands_use_consecutive_slots(given_curves):
    bands, end = Bands(join_curves(given_curves).parts), 0
    for table in range(bands.count):
        columns = bands.columns(table)
        assert columns.start == end
        end = columns.stop
    assert end == bands.slots
    assert bands.count == sum(curve.bands for curve in given_curves)


def test_a_number_of_tables_repeats_the_bands():
    assert lay_bands(128, 0.8, 0.99) == choose_curve(128, 0.8, 0.99)
    assert lay_bands(256, 0.8, 0.99, tables=2) == Curve(42, 6)
    assert lay_bands(256, 0.8, 0.99, tables="2") == Curve(42, 6)
    assert lay_bands(200, 0.8, 0.99, Curve(20, 5), tables=2) == Curve(40, 5)
    # 1 - (1 - 1/32)^40
    assert Curve(40, 5).probability(0.5) == pytest.approx(0.7192, abs=5e-5)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ("20x5,", "'20x5,' are not known: use a number, or bands and rows such as 20x5,10x8"),
        ("20*5", "are not known"),
        ("-1", "are not known"),
        ("", "are not known"),
        (0, "tables must be a whole number from 1 to 128"),
        (1.5, "tables must be a whole number"),
        ("0", "tables must be a whole number"),
        (
            "20x5,10x8",
            "20 bands of 5 and 10 of 8 rows need 180 slots, there are 128: .* --slots 180",
        ),
        ("0x5", "0 bands of 5 rows"),
    ],
)
def test_invalid_tables_are_refused(tables, message):
    with pytest.raises(ParameterError, match=message):
        lay_bands(128, 0.8, 0.99, tables=tables)


def test_bands_and_tables_together_are_refused():
    with pytest.raises(ParameterError, match="leave out bands, rows and preset"):
        lay_bands(256, 0.8, 0.99, Curve(20, 5), tables="20x5")
    with pytest.raises(ParameterError, match=r"need 300 slots, there are 256: .* --slots 300"):
        lay_bands(256, 0.8, 0.99, Curve(20, 5), tables=3)


@pytest.mark.parametrize("ratio", [1, 3])
@pytest.mark.parametrize("containment", [0.6, 0.8, 0.95])
def test_random_pairs_meet_as_often_as_predicted(containment, ratio):
    """4,000 random pairs, that share of 200 elements inside a set `ratio` times as large; the
    tolerance is five standard errors."""
    trials, size = 4_000, 200
    spec, curve = Spec(slots=180), Curves((Curve(20, 5), Curve(10, 8)))
    common, around = round(size * containment), size * ratio
    union = np.random.default_rng(7).integers(0, 2**64, (trials, size + around - common), np.uint64)

    def keys(part):
        rows = np.ascontiguousarray(union[:, part])
        offsets = np.arange(trials + 1, dtype=np.int64) * rows.shape[1]
        return Bands(curve.parts).keys(minhash_signatures(rows.reshape(-1), offsets, spec))

    met = (keys(slice(size)) == keys(slice(size - common, None))).any(axis=1).mean()
    want = curve.probability(jaccard_of_containment(containment, ratio))
    assert abs(met - want) < 5 * np.sqrt(want * (1 - want) / trials) + 0.001


@given(st.integers(1, 50), st.integers(1, 50), st.data())
def test_jaccard_of_containment_agrees_with_set_sizes(inside, around, data):
    common = data.draw(st.integers(0, min(inside, around)))
    got = jaccard_of_containment(common / inside, around / inside)
    assert got == pytest.approx(common / (inside + around - common))


def test_containment_curve_uses_the_jaccard_of_equal_sizes():
    by = meeting_by(MEASURES["containment"], Curve(20, 5))
    # 80 of 100 in a set of 100: Jaccard 80 / 120, and 1 - (1 - (2/3)^5)^20 = 0.9406.
    assert by.probability(0.8) == pytest.approx(0.9406, abs=5e-5)
    assert jaccard_of_containment(by.half) == pytest.approx(Curve(20, 5).half)
    assert str(by) == "20 bands of 5"
    assert by.condition == " for documents of equal size"


def test_a_recall_out_of_reach_is_answered_with_the_slots_that_reach_it() -> None:
    """It said: at threshold 0.025641025641025644, without a number of slots."""
    with pytest.raises(ParameterError) as raised:
        Options.of(measure="containment", threshold=0.05).curve  # noqa: B018
    message = str(raised.value)
    assert (
        "at threshold 0.05 of containment, which is a Jaccard similarity of 0.0256 for" in message
    )
    slots = int(re.search(r"--slots (\d+) or more", message)[1])
    assert Options.of(measure="containment", threshold=0.05, slots=slots).curve.rows == 1
    with pytest.raises(ParameterError, match=r"at threshold 0\.05"):
        Options.of(measure="containment", threshold=0.05, slots=slots - 1).curve  # noqa: B018
    with pytest.raises(ParameterError, match=r"0\.01, not 0\.99: use --slots 459 or"):
        choose_curve(128, 0.01, 0.99)
