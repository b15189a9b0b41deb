"""What the sketches promise on average: bias, variance, and meeting by the S-curve.

Random sets with a fixed seed; each tolerance is five standard errors of what is measured, or
the figure that the documentation states, whichever is wider.
"""

from __future__ import annotations

import numpy as np
import pytest

from neardup.lsh.bands import Bands
from neardup.lsh.curve import Curve
from neardup.sketch.minhash import minhash_signatures
from neardup.spec import HASHES, KEYED, Spec

SLOTS = 128


def sketched_pairs(size, similarity, trials, seed=11):
    """Signatures of pairs of sets of `size` elements with the similarity nearest to the wanted."""
    common = round(2 * size * similarity / (1 + similarity))
    rng = np.random.default_rng([seed, size, int(similarity * 1000)])
    union = rng.integers(0, 2**64, (trials, 2 * size - common), dtype=np.uint64)
    offsets = np.arange(trials + 1, dtype=np.int64) * size
    left = minhash_signatures(np.ascontiguousarray(union[:, :size]).reshape(-1), offsets, Spec())
    right = minhash_signatures(
        np.ascontiguousarray(union[:, size - common :]).reshape(-1), offsets, Spec()
    )
    return left, right, common / (2 * size - common)


@pytest.mark.parametrize("size", [20, 100, 1_000, 10_000])
@pytest.mark.parametrize("similarity", [0.1, 0.5, 0.8, 0.95])
def test_minhash_estimate_is_unbiased_with_binomial_variance(size, similarity):
    trials = 2_000 if size <= 1_000 else 600
    left, right, truth = sketched_pairs(size, similarity, trials)
    estimates = (left == right).mean(axis=1)
    floor = truth * (1 - truth) / SLOTS
    assert abs(estimates.mean() - truth) < 5 * np.sqrt(floor / trials)
    # The variance of a sample variance: about 2 / trials of it, for near-normal estimates.
    assert abs(estimates.var() / floor - 1) < 0.1 + 5 * np.sqrt(2 / trials)


@pytest.mark.parametrize("similarity", [0.5, 0.7, 0.8, 0.9])
@pytest.mark.parametrize("curve", [Curve(21, 6), Curve(14, 8), Curve(25, 5)])
def test_random_pairs_share_buckets_as_the_s_curve_predicts(similarity, curve):
    trials = 4_000
    left, right, truth = sketched_pairs(200, similarity, trials)
    bands = Bands((curve,))
    met = (bands.keys(left) == bands.keys(right)).any(axis=1).mean()
    want = curve.probability(truth)
    assert abs(met - want) < 5 * np.sqrt(want * (1 - want) / trials) + 0.002


@pytest.mark.parametrize("size", [1, 10, 1_000, 100_000])
def test_counts_are_within_five_standard_errors(size):
    from neardup import MinHash

    rng = np.random.default_rng(3)
    sketch = MinHash()
    sketch.update_hashes(rng.integers(0, 2**64, size, dtype=np.uint64))
    assert abs(sketch.count() - size) <= 5 * size / np.sqrt(SLOTS) + 1


@pytest.mark.parametrize("name", HASHES)
def test_similar_words_have_different_hashes_in_every_function(name):
    """w0 ... w999 against w500 ... w1499: a third is common. Each seed, or key, is a trial."""
    from neardup import MinHash

    trials, truth, estimates = 40, 1 / 3, []
    for trial in range(trials):
        given = {"key": bytes([trial] * 16)} if name == KEYED else {"seed": trial}
        sketches = [MinHash(SLOTS, hash=name, **given) for _ in range(2)]
        for sketch, first in zip(sketches, (0, 500), strict=True):
            sketch.update_batch(f"w{number}" for number in range(first, first + 1_000))
        estimates.append(sketches[0].jaccard(sketches[1]))
    assert abs(np.mean(estimates) - truth) < 5 * np.sqrt(truth * (1 - truth) / SLOTS / trials)
