"""The figures of hash functions: what is measured is what it says, and theory fits."""

from __future__ import annotations

import numpy as np
import pytest

from neardup.evaluation.hash_functions import (
    MESSAGE,
    Messages,
    avalanche,
    collisions,
    expect_of_random,
    flip_bits,
    hash_functions,
    longest_chain,
)

KEYS = 200_000


def random_hashes(many: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, many, np.uint64)


@pytest.fixture(scope="module")
def messages() -> Messages:
    return Messages.of(flip_bits(np.random.default_rng(1).bytes(2_000 * MESSAGE)))


def test_each_message_is_followed_by_those_that_differ_in_one_bit():
    found = flip_bits(b"abcdefgh")
    numbers = [int.from_bytes(message, "little") for message in found]
    assert found[0] == b"abcdefgh"
    assert [number ^ numbers[0] for number in numbers[1:]] == [1 << bit for bit in range(64)]


def test_avalanche_of_functions_that_turn_all_bits_or_one(messages):
    numbers = np.frombuffer(b"".join(messages.messages), np.uint64)
    mean, worst = avalanche(numbers)  # a bit turns itself over, and no other
    assert mean == pytest.approx(0.5 - 1 / 64)
    assert worst == 0.5


@pytest.mark.parametrize("name", [name for name in hash_functions() if name != "fnv1a"])
def test_good_functions_are_as_random_as_theory_says(name, messages):
    mean, worst = avalanche(hash_functions()[name](messages))
    assert mean < 0.002  # 128,000 flips: three standard deviations are 0.0005 at most
    assert worst < 1.4 * expect_of_random().avalanche_worst


def test_fnv1a_has_a_weak_avalanche(messages):
    mean, worst = avalanche(hash_functions()["fnv1a"](messages))
    assert mean > 0.05
    assert worst == 0.5


def test_expected_figures_equal_simulated_random_hashes():
    """Means of 20 tables; collisions are within four standard errors, chains within half a key."""
    tables = [random_hashes(KEYS, seed) for seed in range(20)]
    expected = expect_of_random(KEYS)
    error = (expected.collisions / len(tables)) ** 0.5
    assert abs(np.mean([collisions(one) for one in tables]) - expected.collisions) < 4 * error
    chains = [longest_chain(one, KEYS // 2) for one in tables]
    assert abs(np.mean(chains) - expected.longest_chain) < 0.5


def test_collisions_and_chains_are_counted():
    same_low = np.array([1, 2, 1 | 5 << 32, 3, 1 | 9 << 32], np.uint64)
    assert collisions(same_low) == 2
    assert longest_chain(np.array([0, 4, 8, 1, 5, 2], np.uint64), 4) == 3


def test_functions_equal_their_references():
    import hashlib

    found = {
        name: function(Messages.of([b"word"]))[0] for name, function in hash_functions().items()
    }
    assert int(found["sha256"]).to_bytes(8, "little") == hashlib.sha256(b"word").digest()[:8]
    assert (
        int(found["blake2b"]).to_bytes(8, "little")
        == hashlib.blake2b(b"word", digest_size=8).digest()
    )
    assert int(found["Python hash"]) == hash(b"word") % 2**64
