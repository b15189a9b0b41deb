"""One-permutation MinHash: what the slots mean, and what they promise on average."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import MinHash, Spec
from neardup.lsh.bands import Bands
from neardup.lsh.curve import Curve
from neardup.sketch import minhash


def spec_of(slots: int) -> Spec:
    return Spec.of(sketch="oneperm", slots=slots)


def sketched_pairs(slots, size, similarity, trials):
    """Signatures of pairs of sets of `size` elements with the similarity nearest to the wanted."""
    common = round(2 * size * similarity / (1 + similarity))
    rng = np.random.default_rng([slots, size, int(similarity * 1000)])
    union = rng.integers(0, 2**64, (trials, 2 * size - common), dtype=np.uint64)
    offsets = np.arange(trials + 1, dtype=np.int64) * size
    left, right = (
        minhash.oneperm_signatures(np.ascontiguousarray(part).reshape(-1), offsets, spec_of(slots))[
            0
        ]
        for part in (union[:, :size], union[:, size - common :])
    )
    return left, right, common / (2 * size - common)


@pytest.mark.parametrize("slots", [128, 1024, 9000])
@pytest.mark.parametrize("size", [20, 100, 1_000, 10_000])
@pytest.mark.parametrize("similarity", [0.2, 0.5, 0.8, 0.95])
def test_estimate_is_unbiased_with_at_most_the_usual_variance(slots, size, similarity):
    trials = min(1_500, 8_000_000 // (size + 4 * slots))
    left, right, truth = sketched_pairs(slots, size, similarity, trials)
    estimates = (left == right).mean(axis=1)
    floor = truth * (1 - truth) / slots
    # Five standard errors of what chance alone may add, besides what is promised.
    assert abs(estimates.mean() - truth) < min(5 * np.sqrt(1.15 * floor / trials), 0.003)
    assert estimates.var() / floor < 1.15 * (1 + 5 * np.sqrt(2 / trials))


@pytest.mark.parametrize("size", [40, 200, 2_000])
@pytest.mark.parametrize("similarity", [0.5, 0.8, 0.9])
def test_random_pairs_share_buckets_as_predicted(size, similarity):
    """Slots of small sets are not independent: 0.03 is what that may change."""
    curve, trials = Curve(21, 6), 3_000
    left, right, truth = sketched_pairs(128, size, similarity, trials)
    tables = Bands((curve,))
    met = (tables.keys(left) == tables.keys(right)).any(axis=1).mean()
    want = curve.probability(truth)
    assert abs(met - want) < 5 * np.sqrt(want * (1 - want) / trials) + 0.03


@given(st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=5), st.integers(1, 300))
def test_one_element_fills_all_slots(found, slots):
    sketch = MinHash(spec=spec_of(slots))
    sketch.update_hashes(np.array(sorted(found), np.uint64))
    assert (sketch.slots != 2**32 - 1).all()
    assert 0 <= sketch.empty_bin_rate < 1


def test_the_empty_set():
    empty = MinHash(spec=spec_of(64))
    assert empty.is_empty()
    assert empty.count() == 0
    assert empty.empty_bin_rate == 1.0
    assert (empty.slots == 2**32 - 1).all()
    assert empty.jaccard(MinHash(spec=spec_of(64))) == 1.0


@pytest.mark.parametrize("size", [1, 10, 100, 1_000, 100_000])
def test_counts_are_within_five_standard_errors(size):
    sketch = MinHash(spec=spec_of(128))
    sketch.update_hashes(np.random.default_rng(3).integers(0, 2**64, size, dtype=np.uint64))
    assert abs(sketch.count() - size) <= 5 * size / np.sqrt(128) + 1
