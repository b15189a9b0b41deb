"""Points and outcomes of trials, and their JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from neardup.errors import FormatError
from neardup.options import Options
from neardup.planner.tuning import TrialOutcome, TrialPoint

SMALL = TrialPoint(shingle="word:2", slots=8, bands=4, rows=2, threshold=0.5)


def test_outcome_survives_json():
    point = replace(SMALL, buckets=7)
    row = TrialOutcome(point, "timeout", bucket_sizes={1: 5, 10: 2}, recall=0.5, error="too long")
    assert TrialOutcome.from_json(json.loads(json.dumps(row.to_json()))) == row


@pytest.mark.parametrize(
    "change",
    [{"status": "lost"}, {"point": {"slots": 3, "other": 4}}, {"bucket_sizes": {"x": 1}}, {"a": 1}],
)
def test_invalid_outcomes_are_refused(change):
    with pytest.raises(FormatError, match="run it again"):
        TrialOutcome.from_json(TrialOutcome(SMALL).to_json() | change)


def test_point_gives_the_options_it_was_made_of():
    for options in (
        Options.of(threshold=0.9),
        Options.of(sketch="simhash"),
        Options.of(sketch="simhash", verify="exact", threshold=0.7),
        Options.of(bits=1, verify="estimate", seed=5, shingle="char:9"),
    ):
        point = TrialPoint.of(options)
        again = point.options()
        assert again.spec == options.spec
        assert again.hash_tables == options.hash_tables
        assert (again.threshold, again.verify) == (options.threshold, options.verify)
        assert TrialPoint(**json.loads(json.dumps(point.stated))) == point
