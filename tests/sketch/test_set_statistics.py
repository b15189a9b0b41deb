"""What bottom-k, HyperLogLog and weighted MinHash promise on average: bias and error.

Random sets with a fixed seed; each tolerance is five standard errors of what is measured.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.sizes import full

from neardup import BottomK, HyperLogLog, WeightedMinHash, kernels

TRIALS = 400


def agrees(estimates, truth, deviation):
    """Whether there is no bias, and the error is as stated (within a tenth, and chance)."""
    found = np.asarray(estimates)
    assert abs(found.mean() - truth) < 5 * deviation / np.sqrt(len(found))
    assert abs(found.std() / deviation - 1) < 0.1 + 5 / np.sqrt(2 * len(found))
    return True


def bottom(values, k=64, spare=16):
    sketch = BottomK(k, spare)
    sketch.update_hashes(values)
    return sketch


def pairs(size_a, size_b, common):
    rng = np.random.default_rng([7, size_a, size_b, common])
    for _ in range(TRIALS):
        union = rng.integers(0, 2**64, size_a + size_b - common, dtype=np.uint64)
        yield union[:size_a], union[size_a - common :]


@pytest.mark.parametrize("common", [100, 500, 900])
def test_bottom_k_estimates_jaccard(common):
    truth = common / (2_000 - common)
    found = [bottom(a).jaccard(bottom(b)) for a, b in pairs(1_000, 1_000, common)]
    # A sample without replacement: a little better than with it.
    union = 2_000 - common
    assert agrees(found, truth, np.sqrt(truth * (1 - truth) / 64 * (union - 64) / (union - 1)))


def test_bottom_k_estimates_jaccard_after_removals():
    found = []
    for a, b in pairs(1_000, 1_000, 500):
        sketch, other = BottomK(64, 64), bottom(b)
        names = [x.tobytes() for x in a[:100]]
        sketch.update_batch(names)
        sketch.update_hashes(a)
        for name in names:
            sketch.remove(name)
        found.append(sketch.jaccard(other))
    assert agrees(found, 1 / 3, np.sqrt(2 / 9 / 64))


@pytest.mark.parametrize("size", [1_000, full(20_000)])
def test_bottom_k_counts(size):
    found = [bottom(a).count() for a, _ in pairs(size, 1, 0)]
    assert agrees(found, size, size / np.sqrt(62) * np.sqrt(1 - 64 / size))


@pytest.mark.parametrize(("size_b", "common"), [(1_000, 300), (4_000, 900)])
def test_bottom_k_estimates_containment(size_b, common):
    truth = common / 1_000
    found = [bottom(a).containment(bottom(b)) for a, b in pairs(1_000, size_b, common)]
    # What is looked at: this set's values below the lesser limit, which has 80 of its own set.
    looked_at = 80 * 1_000 / max(1_000, size_b) - (size_b == 1_000) * np.sqrt(80 / np.pi)
    assert agrees(found, truth, np.sqrt(truth * (1 - truth) / looked_at))


@pytest.mark.parametrize("size", [10, 1_000, 30_000])
def test_hyperloglog_is_within_its_error(size):
    rng = np.random.default_rng(size)
    found, enclosed = [], 0
    for _ in range(100):
        sketch = HyperLogLog(1_024)
        sketch.update_hashes(rng.integers(0, 2**64, size, dtype=np.uint64))
        found.append(sketch.count())
        low, high = sketch.bounds(2)
        enclosed += low <= size <= high
    assert abs(np.mean(found) / size - 1) < 5 * 1.04 / np.sqrt(1_024 * 100)
    assert np.std(found) / size < 1.04 / np.sqrt(1_024) * (1 + 5 / np.sqrt(200))
    assert enclosed >= 90


def weighted_pairs(size, similarity, seed):
    """Two bags a trial, whose weights differ and overlap, and their true similarities."""
    rng = np.random.default_rng([seed, size, int(similarity * 1_000)])
    shape = (TRIALS * 2, size)
    shingles = rng.integers(0, 2**64, shape, dtype=np.uint64)
    a = np.exp(rng.normal(1.0, 1.0, shape))
    b = np.where(rng.random(shape) < similarity, a * rng.uniform(0.8, 1.25, shape), 0.0)
    a, b = (np.round(values * 2**16).astype(np.uint64) for values in (a, b))
    truth = np.minimum(a, b).sum(axis=1) / np.maximum(a, b).sum(axis=1)
    return shingles, a, b, truth


@pytest.mark.parametrize("size", [3, 20, 400])
@pytest.mark.parametrize("similarity", [0.3, 0.7, 0.95])
def test_weighted_minhash_estimates_weighted_jaccard(size, similarity):
    shingles, a, b, truth = weighted_pairs(size, similarity, 5)
    offsets = np.arange(len(shingles) + 1, dtype=np.int64) * size
    left, right = (
        kernels.throw_darts(shingles.reshape(-1), weights.reshape(-1), offsets, 128, np.uint64(9))
        for weights in (a, b)
    )
    errors = (left == right).mean(axis=1) - truth
    variance = truth * (1 - truth) / 128
    assert abs(errors.mean()) < 5 * np.sqrt(variance.mean() / len(errors))
    assert abs((errors**2).mean() / variance.mean() - 1) < 0.1 + 5 * np.sqrt(2 / len(errors))


def test_weighted_minhash_sums():
    found = []
    for seed in range(TRIALS):
        sketch = WeightedMinHash(64, seed)
        sketch.update_batch({"a": 3.5, "b": 0.25, "c": 100.0})
        found.append(sketch.total())
    assert agrees(found, 103.75, 103.75 / np.sqrt(62))
