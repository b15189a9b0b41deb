"""The axes of a sweep: which points are tried, which are not, and why."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.errors import ParameterError
from neardup.lsh.curve import Curve
from neardup.options import Options
from neardup.planner.sweep import RULES, SweepSpace, nearby_curves
from neardup.planner.tuning import TrialPoint

REFERENCE = TrialPoint.of(Options.of(threshold=0.9))


def points(**axes: object) -> list[TrialPoint]:
    return SweepSpace.of(REFERENCE, **axes).points(REFERENCE, 0.99)[0][1:]


def pruned(**axes: object) -> dict[str, int]:
    return dict(SweepSpace.of(REFERENCE, **axes).points(REFERENCE, 0.99)[1])


def test_default_sweep_is_small_and_begins_with_the_reference():
    tried, left_out = SweepSpace.of(REFERENCE).points(REFERENCE, 0.99)
    assert tried[0] == REFERENCE
    assert 20 <= len(tried) <= 40
    assert len(set(tried)) == len(tried)
    assert not left_out


def test_help_shows_the_default_axes():
    from neardup.cli.tune import tune

    shown = inspect.signature(tune).parameters
    axes = {each.name: shown[each.name].default for each in fields(SweepSpace)}
    assert SweepSpace.of(REFERENCE, **axes) == SweepSpace.of(REFERENCE)


def test_every_combination_is_tried():
    tried = points(slots="32,64", bands="4x4,8x2", sketches="minhash,oneperm", verify="exact,none")
    assert len(tried) == 2 * 2 * 2 * 2
    assert {(point.bands, point.rows) for point in tried} == {(4, 4), (8, 2)}
    assert {point.threshold for point in tried} == {0.9}


def test_axes_parse_lists_numbers_and_texts_alike():
    assert points(slots="32, 64") == points(slots=[32, 64]) == points(slots=(32, 64, 32))
    assert points(bands="4x4") == points(bands=Curve(4, 4)) == points(bands=["4x4"])
    assert points(thresholds=0.8) == points(thresholds="0.8")


@pytest.mark.parametrize(
    ("axes", "why", "many"),
    [
        ({"slots": "16,32", "bands": "4x5"}, "bands x rows need more slots than there are", 1),
        ({"sketches": "simhash", "slots": 64, "bands": "4x4,auto"}, "a simhash has no bands", 1),
        ({"sketches": "simhash", "slots": "32,64,256"}, "a simhash has 64 or 128 bits", 2),
        (
            {"slots": 64, "bands": "4x4", "bits": "64,8,32", "verify": "estimate"},
            "this sketch has no slots of that width",
            1,
        ),
        (
            {"slots": 64, "bands": "4x4", "bits": "8,32"},
            "exact verification does not look at slots, whatever their width",
            1,
        ),
    ],
)
def test_impossible_combinations_are_counted_by_reason(axes, why, many):
    assert pruned(**({"sketches": "minhash"} | axes)) == {why: many}


def test_simhash_is_tried_once_for_all_thresholds():
    tried = points(sketches="simhash", slots=64, thresholds="0.7,0.8", verify="estimate")
    assert [point.threshold for point in tried] == [0.9]


axes = st.fixed_dictionaries(
    {},
    optional={
        "slots": st.lists(st.sampled_from([1, 7, 64, 128, 300]), min_size=1, max_size=2),
        "bands": st.lists(st.sampled_from(["auto", "1x1", "4x4", "20x5"]), min_size=1, max_size=2),
        "sketches": st.sampled_from(["minhash", "oneperm,simhash", "weighted"]),
        "shingles": st.sampled_from(["word:1", "char:4,line:1"]),
        "thresholds": st.sampled_from(["0.05", "0.5,1.0"]),
        "verify": st.sampled_from(["exact", "estimate,none"]),
        "bits": st.sampled_from([1, 8, 32, 64]),
        "buckets": st.just(100),
        "vocabulary": st.just("50,1000"),
    },
)


@given(axes)
def test_every_point_has_valid_options(given_axes):
    space = SweepSpace.of(REFERENCE, **given_axes)
    tried, left_out = space.points(REFERENCE, 0.99)
    for point in tried:
        assert TrialPoint.of(point.options()).slots == point.slots
        assert not any(breaks(point) for breaks in RULES.values())
    assert set(left_out) <= set(RULES)


@given(st.integers(1, 500), st.floats(0.05, 1.0), st.floats(0.5, 0.999))
def test_bands_around_a_recall_fit_into_the_slots(slots, threshold, recall):
    near = nearby_curves(slots, threshold, recall)
    assert near
    assert all(curve.slots <= slots for curve in near)
    reaching = [curve for curve in near if curve.probability(threshold) >= recall]
    could = any(
        Curve(slots // rows, rows).probability(threshold) >= recall for rows in range(1, slots + 1)
    )
    assert bool(reaching) == could


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"slots": "0"}, "slots must be a whole number"),
        ({"slots": "many"}, "slots must be a whole number"),
        ({"slots": []}, "at least one value"),
        ({"bands": "14"}, "such as 20x5"),
        ({"bands": "0x5"}, "both must be at least 1"),
        ({"sketches": "hyperloglog"}, "choose one of minhash"),
        ({"shingles": "word"}, "UNIT:SIZE"),
        ({"shingles": "token:5"}, "tokens can't be tuned"),
        ({"thresholds": "high"}, "not a number"),
        ({"thresholds": "0"}, "above 0"),
        ({"verify": "maybe"}, "choose one of exact"),
        ({"slots": list(range(1, 3000))}, "give fewer values"),
    ],
)
def test_invalid_axis_values_are_refused(axes, message):
    with pytest.raises(ParameterError, match=message):
        SweepSpace.of(REFERENCE, **axes).points(REFERENCE, 0.99)
