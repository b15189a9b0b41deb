"""Predictions against simulated slots, and against the tables and files of an index."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import Index, plan
from neardup.index.postings import Postings
from neardup.lsh.curve import Curve
from neardup.options import Options
from neardup.planner.prediction import (
    chance_collision_rate,
    pass_probability,
    predict_answers,
    standard_error,
    tables_bytes,
    uniform_pairs,
)

TIMES = 20_000


def estimates(similarity: float, slots: int, bits: int) -> np.ndarray:
    """Estimates of slots that are equal by similarity, or by chance."""
    chance = 2.0**-bits if bits < 32 else 0.0
    equal = np.random.default_rng(5).binomial(slots, similarity + (1 - similarity) * chance, TIMES)
    return (equal / slots - chance) / (1 - chance)


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 32])
@pytest.mark.parametrize("similarity", [0.3, 0.85])
def test_standard_error_equals_simulation(similarity: float, bits: int) -> None:
    found = estimates(similarity, 128, bits)
    # Of 20,000 estimates the spread is known to half a percent.
    assert found.std() == pytest.approx(standard_error(similarity, 128, bits), rel=0.03)
    assert found.mean() == pytest.approx(similarity, abs=0.002)


def test_standard_error_equals_published_figures() -> None:
    assert standard_error(0.85, 128) == pytest.approx(math.sqrt(0.85 * 0.15 / 128))
    assert round(standard_error(0.85, 128), 4) == 0.0316
    assert round(standard_error(0.85, 128, 1), 4) == 0.0466


@pytest.mark.parametrize("bits", [1, 4, 32])
@pytest.mark.parametrize("similarity", [0.7, 0.8, 0.9])
def test_pass_probability_equals_simulation(similarity: float, bits: int) -> None:
    found = (estimates(similarity, 128, bits) >= 0.8 - 1e-12).mean()
    assert pass_probability(similarity, 0.8, 128, bits) == pytest.approx(found, abs=0.015)


@given(st.floats(0.01, 0.99), st.integers(1, 300), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_pass_probability_is_a_probability(threshold: float, slots: int, bits: int) -> None:
    seen = [pass_probability(step / 20, threshold, slots, bits) for step in range(21)]
    assert all(0.0 <= one <= 1.0 for one in seen)
    assert seen == sorted(seen) or np.allclose(seen, sorted(seen), atol=1e-9)
    assert seen[-1] == 1.0


def test_chance_collision_rate_equals_simulation() -> None:
    curve = Curve(16, 8)
    slots = np.random.default_rng(3).integers(0, 2, (2, TIMES, 128))
    bands = (slots[0] == slots[1])[:, :128].reshape(TIMES, 16, 8).all(axis=2)
    assert bands.any(axis=1).mean() == pytest.approx(chance_collision_rate(curve, 1), abs=0.006)


def test_exact_verification_has_precision_1_and_the_recall_of_the_curve() -> None:
    curve = Curve(20, 5)
    found = predict_answers(curve, 0.8, [(0.5, 1000.0), (0.8, 10.0), (0.9, 30.0)])
    wanted = (10 * curve.probability(0.8) + 30 * curve.probability(0.9)) / 40
    assert found.recall == pytest.approx(wanted)
    assert found.precision == 1.0


def test_estimates_lower_recall_and_precision() -> None:
    curve = Curve(100, 1)
    found = predict_answers(
        curve, 0.8, [(0.7, 100.0), (0.9, 50.0)], lambda s: 0.5 if s < 0.8 else 0.9
    )
    assert found.recall == pytest.approx(0.9, abs=1e-6)
    assert found.precision == pytest.approx(45 / (45 + 50), abs=1e-6)


def test_recall_without_similar_pairs_is_nan() -> None:
    assert math.isnan(predict_answers(Curve(20, 5), 0.8, [(0.3, 5.0)]).recall)


def test_uniform_pairs_give_the_areas_under_the_curve() -> None:
    curve = Curve(21, 6)
    found = predict_answers(curve, 0.8, uniform_pairs())
    assert 1 - found.recall == pytest.approx(curve.false_negative_rate(0.8), abs=1e-4)


@pytest.mark.parametrize("documents", [10, 1_000, 20_000, 45_000])
def test_predicted_table_bytes_equal_postings(documents: int) -> None:
    bands = 7
    postings = Postings(bands)
    chance = np.random.default_rng(documents)
    keys = chance.integers(0, 2**64, (documents, bands), np.uint64)
    for start in range(0, documents, 997):
        some = keys[start : start + 997]
        postings.put(some, np.arange(start, start + len(some), dtype=np.uint32))
    predicted = tables_bytes(documents, 0.0, bands) - tables_bytes(documents, 0.0, 0)
    assert predicted == pytest.approx(postings.nbytes, rel=0.01)


@pytest.mark.parametrize("asked", [{}, {"bits": 8}, {"bands": 8, "rows": 4}])
def test_predicted_index_bytes_equal_a_real_index(tmp_path: Path, asked: dict[str, int]) -> None:
    count, words = 3_000, 300
    chance = np.random.default_rng(1)
    texts = [" ".join(map(str, chance.integers(0, 50_000, words))) for _ in range(count)]
    texts[9::10] = texts[::10]
    options = Options.of(threshold=0.8, **asked)
    point = {"slots": options.spec.slots, "bands": options.curve.bands, "rows": options.curve.rows}
    with Index.open(tmp_path / "index", threshold=0.8, **asked) as index:
        index.add_batch([f"document-{at}" for at in range(count)], texts)
        index.compact()
        stats = index.stats()
    planned = plan(
        count, threshold=0.8, purpose="index", shingles=words - 4, calibrate=False, **point | asked
    ).predicted
    assert stats.bytes_per_document == pytest.approx(planned.tables / count, rel=0.1)
    stored = sum(stats.disk_bytes.values()) - stats.wal_bytes
    assert stored == pytest.approx(planned.disk, rel=0.1)
