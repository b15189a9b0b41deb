"""Bloom filters in blocks of 512 bits: plain, counting (with removal) and scalable (growing).

A scalable filter is a list of plain ones, each for twice the keys of the one before.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError, SpecMismatch
from neardup.membership.filter import Arrays, Filter, Flags, Hashes, Parameters, check_array, zeros
from neardup.membership.sizing import (
    BLOCK,
    MOST_KEYS,
    MOST_PROBES,
    BloomShape,
    check_keys,
    check_rate,
)
from neardup.spec import check_whole

WORDS, COUNTER_BYTES = BLOCK // 64, BLOCK // 2
NO_LIMIT = 2**62
MOST_COUNT = 2**56
"""The most keys that a file may state: the sum over all generations still fits a `len`."""


class _Shaped(Filter):
    """A filter of blocks of 512 places: a key has `shape.probes` places in one block."""

    def __init__(self, n: int, fpr: float = 0.01, *, seed: int = 0) -> None:
        super().__init__(seed)
        self.shape, self._count = BloomShape.of(n, fpr), 0

    def __len__(self) -> int:
        return self._count

    def _parameters(self) -> Parameters:
        return {
            "seed": self.seed,
            "blocks": self.shape.blocks,
            "probes": self.shape.probes,
            "keys": self._count,
        }

    @classmethod
    def _bare(cls, parameters: Parameters) -> Self:
        """Return a filter with the parameters of a file, without its array."""
        bare = cls.__new__(cls)
        Filter.__init__(bare, parameters["seed"])
        bare.shape = BloomShape(
            check_whole("blocks", parameters["blocks"], 1, MOST_KEYS),
            check_whole("probes", parameters["probes"], 1, MOST_PROBES),
        )
        bare._count = check_whole("number of keys", parameters["keys"], 0, MOST_COUNT)
        return bare

    @property
    def estimated_fpr(self) -> float:
        """The current rate of false positives: the mean over blocks, from the places in use."""
        fills = self._fills()
        filled = np.arange(BLOCK + 1) / BLOCK
        return float(fills @ filled**self.shape.probes / self.shape.blocks)

    @property
    def fill(self) -> float:
        """The share of places in use: about 0.5 when the planned number of keys is in."""
        return float(self._fills() @ np.arange(BLOCK + 1) / self.shape.bits)

    def _fills(self) -> NDArray[np.int64]:
        """Return how many blocks have 0, 1, ... 512 places in use."""
        raise NotImplementedError


class BloomFilter(_Shaped):
    """A set of keys in few bits each (9.9 at 1 %), with a known rate of false positives.

    A key that was inserted is always found; another key seems to be present with probability
    `fpr` when n keys are in. With more keys the rate rises slowly; `estimated_fpr` is the current
    one. Keys can't be removed. Thread-safe.

    Args:
        n: The number of keys to plan for.
        fpr: The rate of false positives with n keys, between 0 and 1; a lower one takes more
            memory.
        seed: The seed of the hashes; only filters with the same seed can be merged.

    >>> seen = BloomFilter(1000, 0.01)
    >>> seen.insert("a"), seen.insert("a"), "a" in seen
    (False, True, True)
    """

    kind: ClassVar[str] = "bloom"

    def __init__(self, n: int, fpr: float = 0.01, *, seed: int = 0) -> None:
        super().__init__(n, fpr, seed=seed)
        self._words: NDArray[np.uint64] = zeros(self.shape.blocks * WORDS, np.uint64)

    @property
    def nbytes(self) -> int:
        return self._words.nbytes

    def merge(self, other: BloomFilter) -> None:
        """Insert all keys of another filter.

        Args:
            other: A filter that was made with the same n, fpr and seed; it is not changed.
        """
        if not isinstance(other, BloomFilter):
            raise ParameterError(f"the other must be a BloomFilter, not {type(other).__name__}")
        mine, theirs = (
            f"{one.shape.blocks} blocks, {one.shape.probes} bits a key, seed {one.seed}"
            for one in (self, other)
        )
        if mine != theirs:
            raise SpecMismatch(
                f"this filter has {mine}, the other {theirs}: make both with the same n, fpr and "
                "seed"
            )
        with ExitStack() as locks:
            for one in sorted((self, other), key=id):  # always in the same order
                locks.enter_context(one._lock)
            one_is_empty = not self._count or not other._count
            self._words |= other._words
            self._count = self._count + other._count if one_is_empty else self._estimated_count()

    def insert_until(self, hashes: Hashes, room: int) -> Flags:
        """Insert hashes until `room` of them were new; for `ScalableBloomFilter`.

        Args:
            hashes: A row of one uint64 a key.
            room: Stop after this many new keys.

        Returns:
            Whether each inserted key was present before; shorter than `hashes` if it stopped.
        """
        with self._lock:
            present: Flags = kernels.bloom_insert(
                self._words, self.shape.probes, hashes.reshape(-1), self._salt, room
            )
            self._count += len(present) - int(np.count_nonzero(present))
            return present

    def _insert(self, hashes: Hashes, once: bool) -> Flags:  # noqa: ARG002  # a key is in once anyway
        return self.insert_until(hashes, NO_LIMIT)

    def _contains(self, hashes: Hashes) -> Flags:
        present: Flags = kernels.bloom_contains(
            self._words, self.shape.probes, hashes.reshape(-1), self._salt
        )
        return present

    def _fills(self) -> NDArray[np.int64]:
        with self._lock:
            fills: NDArray[np.int64] = kernels.block_fills(self._words)
            return fills

    def _estimated_count(self) -> int:
        """Estimate the number of keys from the bits that are set, block by block."""
        unset = 1 - np.arange(BLOCK + 1) / BLOCK
        unset[-1] = 0.5 / BLOCK  # a full block would have infinitely many keys: half a bit is free
        return round(float(self._fills() @ -np.log(unset)) * BLOCK / self.shape.probes)

    def state(self) -> tuple[Parameters, Arrays]:
        return self._parameters(), {"words": self._words}

    @classmethod
    def restore(cls, parameters: Parameters, arrays: Arrays) -> Self:
        restored = cls._bare(parameters)
        restored._words = check_array(arrays, "words", "<u8", restored.shape.blocks * WORDS)
        return restored


class CountingBloomFilter(_Shaped):
    """A Bloom filter with a counter of four bits in each place: keys can be removed.

    A key that was inserted twice is present until it is removed twice. Remove only keys that were
    inserted: removing a false positive removes parts of other keys. A counter that reaches 15 stays
    there, and its keys stay present; `saturated` counts them. Thread-safe; four times the memory of
    a `BloomFilter`.

    Args:
        n: The number of keys to plan for.
        fpr: The rate of false positives with n keys, between 0 and 1; a lower one takes more
            memory.
        seed: The seed of the hashes.

    >>> seen = CountingBloomFilter(1000, 0.01)
    >>> seen.insert("a"), seen.remove("a"), "a" in seen, seen.remove("a")
    (False, True, False, False)
    """

    kind: ClassVar[str] = "counting"

    def __init__(self, n: int, fpr: float = 0.01, *, seed: int = 0) -> None:
        super().__init__(n, fpr, seed=seed)
        self._counters: NDArray[np.uint8] = zeros(self.shape.blocks * COUNTER_BYTES, np.uint8)

    @property
    def nbytes(self) -> int:
        return self._counters.nbytes

    @property
    def saturated(self) -> int:
        """The number of counters that have reached 15, and stay there."""
        return int(sum(np.count_nonzero(half == 15) for half in self._halves()))

    def _insert(self, hashes: Hashes, once: bool) -> Flags:
        present: Flags = kernels.counting_insert(
            self._counters, self.shape.probes, hashes.reshape(-1), self._salt, once
        )
        self._count += len(present) - (int(np.count_nonzero(present)) if once else 0)
        return present

    def _contains(self, hashes: Hashes) -> Flags:
        present: Flags = kernels.counting_contains(
            self._counters, self.shape.probes, hashes.reshape(-1), self._salt
        )
        return present

    def _remove(self, hashes: Hashes) -> Flags:
        present: Flags = kernels.counting_remove(
            self._counters, self.shape.probes, hashes.reshape(-1), self._salt
        )
        # Keys of saturated counters can be removed without end.
        self._count = max(self._count - int(np.count_nonzero(present)), 0)
        return present

    def _halves(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        with self._lock:
            return self._counters & np.uint8(15), self._counters >> np.uint8(4)

    def _fills(self) -> NDArray[np.int64]:
        used = sum(
            np.count_nonzero(half.reshape(-1, COUNTER_BYTES), axis=1) for half in self._halves()
        )
        return np.bincount(used, minlength=BLOCK + 1)

    def state(self) -> tuple[Parameters, Arrays]:
        return self._parameters(), {"counters": self._counters}

    @classmethod
    def restore(cls, parameters: Parameters, arrays: Arrays) -> Self:
        restored = cls._bare(parameters)
        size = restored.shape.blocks * COUNTER_BYTES
        restored._counters = check_array(arrays, "counters", "|u1", size)
        return restored


GROWTH: Final = 2
MOST_GENERATIONS: Final = 48


def share(generation: int) -> float:
    """Return a generation's share of the requested rate: 1/2, 1/6, 1/12, ..., which add up to 1."""
    return 1 / ((generation + 1) * (generation + 2))


class ScalableBloomFilter(Filter):
    """A Bloom filter that grows: it keeps its rate of false positives for any number of keys.

    Each generation is for twice the keys of the one before, and takes more bits a key: at 1 %,
    11.5, 14.2, 16.0, 17.4 and so on, 21.7 in the ninth. The last one may be nearly empty: with an
    n that is far too low the filter takes 20 to 40 bits a key. A query looks into all generations,
    so that a good n saves memory and time. Thread-safe.

    Args:
        n: The number of keys of the first generation: a guess of how many there will be.
        fpr: The rate of false positives that is never exceeded, between 0 and 1.
        seed: The seed of the hashes.

    >>> seen = ScalableBloomFilter(100, 0.01)
    >>> int(seen.insert_many([f"key {i}" for i in range(10_000)]).sum()) < 100
    True
    >>> seen.generations
    7
    """

    kind: ClassVar[str] = "scalable"

    def __init__(self, n: int, fpr: float = 0.01, *, seed: int = 0) -> None:
        super().__init__(seed)
        self.n, self.fpr = check_keys(n), _check_rate(fpr)
        self._filters: list[BloomFilter] = []
        self._add_generation()

    def __len__(self) -> int:
        return sum(map(len, self._filters))

    @property
    def generations(self) -> int:
        """The number of generations."""
        return len(self._filters)

    @property
    def estimated_fpr(self) -> float:
        with self._lock:
            correct = [1 - one.estimated_fpr for one in self._filters]
        return float(1 - np.prod(correct))

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in self._filters)

    def _planned(self, generation: int) -> int:
        return self.n * int(GROWTH**generation)

    def _add_generation(self) -> None:
        number = len(self._filters)
        rate = self.fpr * share(number)
        self._filters.append(BloomFilter(self._planned(number), rate, seed=self.seed))

    def _insert(self, hashes: Hashes, once: bool) -> Flags:  # noqa: ARG002  # a key is in once anyway
        present = self._in(self._filters[:-1], hashes)
        remaining = np.flatnonzero(~present)
        while len(remaining):
            room = self._planned(self.generations - 1) - len(self._filters[-1])
            if room <= 0:
                full = self._filters[-1]
                present[remaining] = full._contains(hashes[remaining])
                remaining = remaining[~present[remaining]]
                self._add_generation()
                continue
            inserted = self._filters[-1].insert_until(hashes[remaining], room)
            present[remaining[: len(inserted)]] = inserted
            remaining = remaining[len(inserted) :]
        return present

    def _contains(self, hashes: Hashes) -> Flags:
        return self._in(self._filters, hashes)

    @staticmethod
    def _in(filters: list[BloomFilter], hashes: Hashes) -> Flags:
        """Return which keys are in one of the filters; a key is looked up until it is found."""
        present = np.zeros(len(hashes), bool)
        for one in reversed(filters):
            remaining = np.flatnonzero(~present)
            present[remaining] = one._contains(hashes[remaining])
        return present

    def state(self) -> tuple[Parameters, Arrays]:
        with self._lock:
            states = [one.state() for one in self._filters]
        arrays = {f"words {number}": one["words"] for number, (_, one) in enumerate(states)}
        parameters = {
            "seed": self.seed,
            "n": self.n,
            "fpr": self.fpr,
            "generations": [generation for generation, _ in states],
        }
        return parameters, arrays

    @classmethod
    def restore(cls, parameters: Parameters, arrays: Arrays) -> Self:
        restored = cls.__new__(cls)
        Filter.__init__(restored, parameters["seed"])
        restored.n, restored.fpr = check_keys(parameters["n"]), _check_rate(parameters["fpr"])
        generations: list[dict[str, Any]] = parameters["generations"]
        check_whole("generations", len(generations), 1, MOST_GENERATIONS)
        if any(one["seed"] != restored.seed for one in generations):
            raise ParameterError("its generations have other seeds")
        restored._filters = [
            BloomFilter.restore(one, {"words": arrays[f"words {number}"]})
            for number, one in enumerate(generations)
        ]
        return restored


def _check_rate(rate: object) -> float:
    """Return the rate, or raise if the last generation's share of it is too low for a filter."""
    checked = check_rate(rate)
    BloomShape.of(1, checked * share(MOST_GENERATIONS - 1))
    return checked
