"""Measures how fast and how random hash functions are on this machine.

Every function gives 64 bits, the first 64 of longer digests. The four functions for elements run in
compiled loops, the others in one Python call per key. Python's `hash` is measured but never used:
its seed changes with every process.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.evaluation.lab import time_best
from neardup.spec import HASHES

KEYS = 500_000
LONG = 3_000
MESSAGES = 2_000
MESSAGE = 8

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Messages:
    """Messages as one array of bytes, and as a list of Python bytes."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    messages: list[bytes]

    @classmethod
    def of(cls, messages: list[bytes]) -> Messages:
        """Join messages into one array."""
        ends = np.cumsum([0, *map(len, messages)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(messages), np.uint8), ends, messages)

    @property
    def megabytes(self) -> float:
        """The size of all messages."""
        return len(self.data) / 1e6


@dataclass(frozen=True)
class HashFigures:
    """The figures of one function.

    words_mb_s        MB per second, for short words
    long_mb_s         MB per second, for rows of 3,000 bytes
    avalanche_mean    distance of the mean share of flipped output bits from one half
    avalanche_worst   the same for the worst pair of an input and an output bit
    collisions        keys whose lower 32 bits an earlier key has, too
    longest_chain     most keys in one bucket of a hash table
    """

    name: str
    words_mb_s: float
    long_mb_s: float
    avalanche_mean: float
    avalanche_worst: float
    collisions: int
    longest_chain: int


@dataclass(frozen=True)
class RandomFunction:
    """The expected figures of a random function."""

    avalanche_worst: float
    collisions: float
    longest_chain: float


def hash_functions() -> dict[str, Callable[[Messages], Hashes]]:
    """Return all functions by name. SipHash gets a fixed key: only its speed is of interest."""
    compiled: dict[str, Callable[[Messages], Hashes]] = {
        name: partial(_compiled, kind) for kind, name in enumerate(HASHES)
    }
    return compiled | {
        "sha256": partial(_called, _sha256),
        "blake2b": partial(_called, _blake2b),
        "Python hash": partial(_called, _python_hash),
    }


def _compiled(kind: int, rows: Messages) -> Hashes:
    hasher = (kind, np.uint64(0), np.uint64(0))
    hashes: Hashes = kernels.element_hashes(rows.data, rows.offsets, hasher)
    return hashes


def _called(function: Callable[[bytes], int], rows: Messages) -> Hashes:
    return np.fromiter(map(function, rows.messages), np.uint64, len(rows.messages))


def _sha256(message: bytes) -> int:
    return int.from_bytes(hashlib.sha256(message).digest()[:8], "little")


def _blake2b(message: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(message, digest_size=8).digest(), "little")


def _python_hash(message: bytes) -> int:
    return hash(message) & 0xFFFFFFFFFFFFFFFF


def measure_hashes(keys: int = KEYS) -> list[HashFigures]:
    """Measure all functions on the words w0, w1, w2, ... and on rows of 3,000 bytes."""
    words = Messages.of([b"w%d" % number for number in range(keys)])
    random = np.random.default_rng(4)
    long = Messages.of([random.bytes(LONG) for _ in range(max(1, keys // 200))])
    flips = Messages.of(flip_bits(random.bytes(MESSAGES * MESSAGE)))
    return [
        _figures(name, function, words, long, flips) for name, function in hash_functions().items()
    ]


def _figures(
    name: str,
    function: Callable[[Messages], Hashes],
    words: Messages,
    long: Messages,
    flips: Messages,
) -> HashFigures:
    # A Python bytes object caches its hash: a second attempt would measure nothing.
    attempts = 3 if name in HASHES else 1
    hashes, words_mb_s = _measure_speed(function, words, attempts)
    _, long_mb_s = _measure_speed(function, long, attempts)
    mean, worst = avalanche(function(flips))
    return HashFigures(
        name,
        words_mb_s,
        long_mb_s,
        mean,
        worst,
        collisions(hashes),
        longest_chain(hashes, buckets_for(len(hashes))),
    )


def _measure_speed(
    function: Callable[[Messages], Hashes], rows: Messages, attempts: int
) -> tuple[Hashes, float]:
    """Return the hashes, and the best speed in MB per second."""
    hashes, seconds = time_best(lambda: function(rows), attempts)
    return hashes, rows.megabytes / seconds


def flip_bits(data: bytes) -> list[bytes]:
    """Return messages of eight bytes, each followed by the 64 that differ from it in one bit."""
    messages = []
    for at in range(0, len(data), MESSAGE):
        number = int.from_bytes(data[at : at + MESSAGE], "little")
        changed = [number, *(number ^ 1 << bit for bit in range(8 * MESSAGE))]
        messages += [message.to_bytes(MESSAGE, "little") for message in changed]
    return messages


def avalanche(hashes: Hashes) -> tuple[float, float]:
    """Return how far the chance that an input bit flips an output bit is from one half.

    The hashes are those of `flip_bits` messages; the result is the mean over all pairs of bits, and
    the worst pair.
    """
    of_messages = hashes.reshape(-1, 8 * MESSAGE + 1)
    turned = of_messages[:, :1] ^ of_messages[:, 1:]
    shares = np.array([(turned >> np.uint64(bit) & np.uint64(1)).mean(axis=0) for bit in range(64)])
    return float(abs(shares.mean() - 0.5)), float(np.abs(shares - 0.5).max())


def collisions(hashes: Hashes) -> int:
    """Return the number of keys whose lower 32 bits an earlier key has, too."""
    return len(hashes) - len(np.unique(hashes.astype(np.uint32)))


def buckets_for(keys: int) -> int:
    """Return the size of the hash table for this many keys: two keys a bucket."""
    return max(1, keys // 2)


def longest_chain(hashes: Hashes, buckets: int) -> int:
    """Return the most keys in one bucket, if a key goes into bucket hash modulo `buckets`."""
    return int(np.bincount((hashes % np.uint64(buckets)).astype(np.int64)).max())


def expect_of_random(keys: int = KEYS) -> RandomFunction:
    """Return the expected figures of a random function for this many different keys."""
    # The largest deviation of 64 x 64 shares, each of MESSAGES coin tosses.
    worst = math.sqrt(2 * math.log(2 * 64 * 8 * MESSAGE)) * 0.5 / math.sqrt(MESSAGES)
    same = keys + 2**32 * math.expm1(keys * math.log1p(-(2.0**-32)))
    return RandomFunction(worst, same, _expected_longest(keys, buckets_for(keys)))


def _expected_longest(keys: int, buckets: int) -> float:
    """Return the sum over k of the chance that a bucket has k keys or more; loads are Poisson."""
    load = keys / buckets
    share = math.exp(-load)
    fewer, total = 0.0, 0.0
    for size in range(1, 200):
        fewer += share
        share *= load / size
        total += -math.expm1(buckets * math.log1p(-max(1 - fewer, 0.0)))
    return total
