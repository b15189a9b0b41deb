"""Planes that are planned without any vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from neardup.errors import ParameterError
from neardup.lsh.angle_plan import MOST_BANDS, MOST_MET, plan_by_angle
from neardup.lsh.plane_curve import PlaneCurve
from neardup.sketch.hyperplane import sign_words


@pytest.mark.parametrize("threshold", [0.8, 0.85, 0.9, 0.95, 0.99, 1.0])
@pytest.mark.parametrize("recall", [0.9, 0.99])
def test_plan_reaches_the_recall_with_no_more_bands_than_it_needs(
    threshold: float, recall: float
) -> None:
    planes = plan_by_angle(threshold, recall)
    assert PlaneCurve(planes).probability(threshold) >= recall
    assert planes.bands <= MOST_BANDS and planes.bands * 0.5**planes.rows <= MOST_MET
    if planes.bands > 1:
        fewer = replace(planes, bands=planes.bands - 1)
        assert PlaneCurve(fewer).probability(threshold) < recall


def test_pairs_at_the_threshold_meet_as_often_as_planned() -> None:
    rng, cosine, pairs = np.random.default_rng(3), 0.95, 2_000
    one = rng.normal(size=(pairs, 64))
    one /= np.linalg.norm(one, axis=1, keepdims=True)
    other = rng.normal(size=one.shape)
    other -= (other * one).sum(axis=1, keepdims=True) * one
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    near = cosine * one + np.sqrt(1 - cosine**2) * other
    planes = plan_by_angle(cosine, 0.99)
    keys = [
        planes.keys(sign_words(v.astype(np.float32), np.zeros(64, np.int16), planes.bits, 0))
        for v in (one, near)
    ]
    met = (keys[0] == keys[1]).any(axis=1).mean()
    assert abs(met - 0.99) < 0.01


@pytest.mark.parametrize(("threshold", "recall"), [(0.5, 0.99), (0.95, 1.0), (0.95, 0.0)])
def test_plans_that_are_refused(threshold: float, recall: float) -> None:
    with pytest.raises(ParameterError):
        plan_by_angle(threshold, recall)
