"""Sizes of filters: published figures, the cost of blocks, and keys lost while filling."""

from __future__ import annotations

import numpy as np
import pytest

from neardup.membership.bloom import BloomFilter
from neardup.membership.sizing import (
    BloomShape,
    best_probes,
    blocked_rate,
    classic_bits,
    classic_rate,
)
from neardup.pipeline.exact_filter import estimate_lost


@pytest.mark.parametrize(
    "bits, percent",
    [
        (7, 3.46),
        (10, 0.82),
        (12, 0.31),
        (15, 0.074),
        (20, 0.0067),
    ],
)
def test_bits_against_rate_at_the_best_whole_number_of_probes(bits, percent):
    """As precise as the table is printed."""
    assert 100 * classic_rate(bits, best_probes(bits)) == pytest.approx(percent, rel=0.014)


def test_one_percent_needs_9_59_bits():
    assert round(classic_bits(0.01), 2) == 9.59


def test_ten_billion_documents_fit_into_15_gigabytes():
    bits = BloomShape.of(10**10, 0.01).bits
    assert bits / 8 < 15 * 10**9
    assert bits > 2**32, "a 32-bit hash could not address all of it"


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.01, 0.001, 1e-5, 1e-8])
def test_a_shape_has_the_rate_that_it_is_made_for(rate):
    shape = BloomShape.of(10**6, rate)
    assert shape.rate(10**6) == pytest.approx(rate, rel=0.01)
    assert shape.rate(0) == 0 and shape.rate(10**5) < rate < shape.rate(10**7)
    assert shape.bits > 10**6 * classic_bits(rate) * 0.999, "blocks take more, never less"


def test_blocks_cost_little_where_there_are_many_keys_in_each():
    assert classic_rate(4, 3) < blocked_rate(4, 3) < 1.05 * classic_rate(4, 3)
    assert blocked_rate(20, 12) > 1.5 * classic_rate(20, 12)


@pytest.mark.parametrize("rate", [0.3, 0.01])
def test_keys_lost_while_filling_are_as_predicted(rate):
    """100,000 different keys: within four standard deviations and 3 %."""
    keys = np.random.Generator(np.random.PCG64(3)).integers(0, 2**64, 100_000, np.uint64)
    expected = BloomShape.of(len(keys), rate).expected_lost(len(keys))
    lost = int(BloomFilter(len(keys), rate).insert_many(keys).sum())
    assert abs(lost - expected) <= 4 * expected**0.5 + 0.03 * expected
    assert 0 < expected < len(keys) * rate


@pytest.mark.parametrize(
    "planned, different, copies",
    [
        (1_000, 100_000, 0),
        (1_000, 3_000, 3_000),
        (1_000, 2_000, 50_000),
        (10_000, 30_000, 30_000),
        (100_000, 50_000, 50_000),
    ],
)
def test_keys_lost_are_estimated_for_a_filter_that_is_too_small(planned, different, copies):
    """From what stayed: within four standard deviations and 3 %."""
    keys = np.random.Generator(np.random.PCG64(4)).integers(0, 2**64, different, np.uint64)
    seen = BloomFilter(planned)
    lost = int(seen.insert_many(keys).sum())
    found = estimate_lost(seen.shape, len(seen), different + copies)
    assert abs(found - lost) <= 4 * lost**0.5 + 0.03 * lost
    bound = seen.shape.expected_lost(different + copies)
    assert lost <= bound + 4 * bound**0.5
