"""Blocks of fingerprints: the predicted chance to meet is that of trials."""

from __future__ import annotations

import random

import numpy as np

from neardup.lsh.blocks import Blocks, ByJaccard
from neardup.sketch.simhash import simhash_signatures
from neardup.spec import Spec


def test_chance_to_meet_is_that_of_random_bit_flips():
    """d random bits of 64 lie in at most 3 of 6 blocks; the share in 20,000 trials, +- 0.015."""
    rng, blocks = random.Random(4), Blocks(64, 3, 6)
    for differing in (3, 4, 6, 9):
        met = 0
        for _ in range(20_000):
            flipped = sum(1 << bit for bit in rng.sample(range(64), differing))
            met += any(not flipped & mask for mask in blocks.whole_masks)
        assert abs(met / 20_000 - blocks.probability(1 - differing / 64)) < 0.015


def test_chance_to_meet_by_jaccard_is_that_of_random_sets():
    """Pairs of sets of 300 that share 95 %: their share that meets, of 3,000, +- 0.03."""
    rng, blocks, pairs = np.random.default_rng(8), Blocks(64, 3, 6), 3_000
    rows = rng.integers(0, 2**64, (pairs, 308), dtype=np.uint64)
    both = np.concatenate([rows[:, :300], rows[:, 8:]], axis=1)
    found = simhash_signatures(
        both.ravel(), np.arange(2 * pairs + 1) * 300, Spec.of("word:2", sketch="simhash"), None
    )
    keys = blocks.keys(found)
    met = (keys[0::2] == keys[1::2]).any(axis=1).mean()
    assert abs(met - ByJaccard(blocks).probability(292 / 308)) < 0.03
