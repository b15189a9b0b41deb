"""The size of a filter for a number of keys and a rate of false positives.

The classic formulas are for one large array of bits. In a filter of 512-bit blocks some blocks get
more keys than others, which raises the rate; `BloomShape.of` adds the bits that make up for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import ParameterError
from neardup.spec import check_number, check_whole

BLOCK: Final = 512
MOST_PROBES: Final = 32
MOST_BITS: Final = BLOCK
MOST_KEYS: Final = 10**13
STEPS: Final = 64
"""Steps of the sum over a filter's filling (`filling`); they are shorter at the beginning, where
the rate of a filter that is too small rises."""


def classic_rate(bits_per_key: float, probes: int) -> float:
    """Return the rate of false positives of a Bloom filter that is one array of bits.

    >>> f"{classic_rate(10, 7):.2%}"
    '0.82%'
    """
    return (1 - exp(-probes / bits_per_key)) ** probes


def best_probes(bits_per_key: float) -> int:
    """Return the number of probes, a whole number, with the lowest classic rate."""
    around = max(int(bits_per_key * log(2)), 1)
    return min((around, around + 1), key=lambda probes: classic_rate(bits_per_key, probes))


def classic_bits(rate: float) -> float:
    """Return the bits per key for a rate, at the best real number of probes.

    >>> round(classic_bits(0.01), 2)
    9.59
    """
    return -log(rate) / log(2) ** 2


def blocked_rate(bits_per_key: float, probes: int) -> float:
    """Return the rate of a filter in blocks: the mean over the Poisson number of a block's keys."""
    mean = BLOCK / bits_per_key
    keys = np.arange(int(mean + 12 * mean**0.5 + 30))
    share = np.exp(keys * log(mean) - mean - _log_factorials(len(keys)))
    throws = keys * probes
    unset = (1 - 1 / BLOCK) ** throws
    filled = 1 - unset
    # The variance of a block's fill raises the mean of its power.
    variance = (1 - 1 / BLOCK) * (1 - 2 / BLOCK) ** throws + unset / BLOCK - unset**2
    rates = filled**probes + probes * (probes - 1) / 2 * filled ** max(probes - 2, 0) * variance
    return float(share @ np.minimum(rates, 1))


def _log_factorials(count: int) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count)))])


@dataclass(frozen=True)
class BloomShape:
    """The number of 512-bit blocks, and of bits (probes) that a key sets in its block."""

    blocks: int
    probes: int

    @classmethod
    def of(cls, keys: int, rate: float) -> BloomShape:
        """Return the smallest shape whose rate of false positives with `keys` keys is `rate`."""
        keys, rate = check_keys(keys), check_rate(rate)
        bits, probes = _best(rate)
        return cls(ceil(keys * bits / BLOCK), probes)

    @property
    def bits(self) -> int:
        return self.blocks * BLOCK

    def rate(self, keys: int) -> float:
        """Return the expected rate of false positives with a number of keys."""
        return blocked_rate(self.bits / keys, self.probes) if keys else 0.0

    def expected_lost(self, keys: int) -> float:
        """Return how many of `keys` distinct keys will seem present when they are inserted."""
        return filling(self.rate, keys)


PLACES: Final = 4
FINGERPRINTS: Final = 4095
CUCKOO_LOAD: Final = 0.94
SPARE_BUCKETS: Final = 2
"""Extra buckets, for small cuckoo filters, whose load varies more."""


@dataclass(frozen=True)
class CuckooShape:
    """Buckets of four places for fingerprints of 12 bits."""

    buckets: int

    @classmethod
    def of(cls, keys: int) -> CuckooShape:
        """Return the shape with room for a number of keys."""
        return cls(ceil(check_keys(keys) / CUCKOO_LOAD / PLACES) + SPARE_BUCKETS)

    @property
    def places(self) -> int:
        return self.buckets * PLACES

    @property
    def bits(self) -> int:
        return self.places * 12

    def rate(self, keys: int) -> float:
        """Return the rate of false positives with a number of keys; a key has eight places.

        >>> f"{CuckooShape.of(10**6).rate(10**6):.2%}"
        '0.18%'
        """
        return float(1 - (1 - 1 / FINGERPRINTS) ** (2 * PLACES * keys / self.places))

    def expected_lost(self, keys: int) -> float:
        """Return how many of `keys` distinct keys will seem present when they are inserted."""
        return filling(self.rate, keys)


def filling(rate: Callable[[int], float], keys: int) -> float:
    """Return the sum of the rates of a filter while `keys` keys are inserted one by one."""
    steps = (keys * np.linspace(0, 1, STEPS + 1) ** 2).astype(np.int64)
    return float(np.trapezoid([rate(step) for step in steps.tolist()], steps))


@lru_cache(maxsize=64)
def _best(rate: float) -> tuple[float, int]:
    """Return bits per key and probes: the fewest bits that reach the rate in blocks."""
    able = [
        (bits, probes)
        for probes in range(1, MOST_PROBES + 1)
        if (bits := _bits_for(rate, probes)) < MOST_BITS
    ]
    if not able:
        raise ParameterError(
            f"a Bloom filter in blocks has no rate as low as {rate}: use ExactSet, or a higher rate"
        )
    return min(able)


def _bits_for(rate: float, probes: int) -> float:
    """Return the bits per key at which a filter of `probes` probes has the rate, by bisection."""
    low, high = 0.1, float(MOST_BITS)
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        if blocked_rate(middle, probes) > rate:
            low = middle
        else:
            high = middle
    return high


def check_keys(keys: object) -> int:
    return check_whole("number of keys", keys, 1, MOST_KEYS)


def check_rate(rate: object) -> float:
    """Return the rate as a float, or raise if it is not between 0 and 1, both excluded."""
    value = check_number("false-positive rate", rate)
    if not 0 < value < 1:
        raise ParameterError(f"false-positive rate must be above 0 and below 1, not {rate!r}")
    return value
