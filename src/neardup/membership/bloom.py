"""Bloom filters in blocks of 512 bits: of fixed size, with counters instead of bits, and growing.

The growing one has generations, each twice as large as the one before.
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
"""More than anybody puts in; the sum of all generations of such filters is still a length."""


class _Shaped(Filter):
    """A filter of blocks in which each key has some places."""

    def __init__(self, n: int, fpr: float = 0.01, *, seed: int = 0) -> None:
        super().__init__(seed)
        self._take(BloomShape.of(n, fpr), 0)

    def _take(self, shape: BloomShape, count: int) -> None:
        self.shape, self._count = shape, count

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
        """The filter with these parameters, without its array."""
        found = cls.__new__(cls)
        Filter.__init__(found, parameters["seed"])
        shape = BloomShape(
            check_whole("blocks", parameters["blocks"], 1, MOST_KEYS),
            check_whole("probes", parameters["probes"], 1, MOST_PROBES),
        )
        found._take(shape, check_whole("number of keys", parameters["keys"], 0, MOST_COUNT))
        return found

    @property
    def estimated_fpr(self) -> float:
        """From what is filled now: the mean over blocks."""
        fills = self._fills()
        filled = np.arange(BLOCK + 1) / BLOCK
        return float(fills @ filled**self.shape.probes / self.shape.blocks)

    @property
    def fill(self) -> float:
        """The share of places that are used; 0.5 or a little more when the planned keys are in."""
        return float(self._fills() @ np.arange(BLOCK + 1) / self.shape.bits)

    def _fills(self) -> NDArray[np.int64]:
        """How many blocks have 0, 1, ... 512 places in use."""
        raise NotImplementedError


class BloomFilter(_Shaped):
    """A set of keys in few bits each, 9.9 at 1 %, that sometimes says yes wrongly.

    Made for `n` keys and a rate of false positives `fpr` when they are all in. Thread-safe. The
    rate goes up, slowly, when more come: `estimated_fpr` says what it is.

    Args:
        n: The number of keys to make room for.
        fpr: The rate of false positives when n keys are in it.
        seed: The seed of the hashes; filters are merged only if it is the same.

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
        """Take in all keys of a filter that was made with the same n, fpr and seed."""
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
            alone = not self._count or not other._count
            self._words |= other._words
            self._count = self._count + other._count if alone else self._estimated_count()

    def insert_until(self, hashes: Hashes, room: int) -> Flags:
        """Insert rows of hashes until so many were new; an answer for each that was taken."""
        with self._lock:
            there: Flags = kernels.bloom_insert(
                self._words, self.shape.probes, hashes.reshape(-1), self._salt, room
            )
            self._count += len(there) - int(np.count_nonzero(there))
            return there

    def _insert(self, hashes: Hashes, once: bool) -> Flags:  # noqa: ARG002  # a key is in once anyway
        return self.insert_until(hashes, NO_LIMIT)

    def _contains(self, hashes: Hashes) -> Flags:
        there: Flags = kernels.bloom_contains(
            self._words, self.shape.probes, hashes.reshape(-1), self._salt
        )
        return there

    def _fills(self) -> NDArray[np.int64]:
        with self._lock:
            fills: NDArray[np.int64] = kernels.block_fills(self._words)
            return fills

    def _estimated_count(self) -> int:
        """How many different keys leave so many bits set, block by block."""
        unset = 1 - np.arange(BLOCK + 1) / BLOCK
        unset[-1] = 0.5 / BLOCK  # a full block has at least so many
        return round(float(self._fills() @ -np.log(unset)) * BLOCK / self.shape.probes)

    def state(self) -> tuple[Parameters, Arrays]:
        return self._parameters(), {"words": self._words}

    @classmethod
    def restore(cls, parameters: Parameters, arrays: Arrays) -> Self:
        found = cls._bare(parameters)
        found._words = check_array(arrays, "words", "<u8", found.shape.blocks * WORDS)
        return found


class CountingBloomFilter(_Shaped):
    """A Bloom filter with a counter of four bits in each place: keys can be removed again.

    A key that was put in twice is there until it is removed twice. Removing one that is not there
    is answered with False; but one that only seems to be there can't be told from one that is, so
    remove only what was put in. A counter that has reached 15 stays, and its keys with it:
    `saturated` says how many there are. Thread-safe; four times the memory of a Bloom filter.

    Args:
        n: The number of keys to make room for.
        fpr: The rate of false positives when n keys are in it.
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
        """How many counters have reached 15, and stay there."""
        return int(sum(np.count_nonzero(half == 15) for half in self._halves()))

    def _insert(self, hashes: Hashes, once: bool) -> Flags:
        there: Flags = kernels.counting_insert(
            self._counters, self.shape.probes, hashes.reshape(-1), self._salt, once
        )
        self._count += len(there) - (int(np.count_nonzero(there)) if once else 0)
        return there

    def _contains(self, hashes: Hashes) -> Flags:
        there: Flags = kernels.counting_contains(
            self._counters, self.shape.probes, hashes.reshape(-1), self._salt
        )
        return there

    def _remove(self, hashes: Hashes) -> Flags:
        there: Flags = kernels.counting_remove(
            self._counters, self.shape.probes, hashes.reshape(-1), self._salt
        )
        # What only seems to be there, as keys of full counters do, can be removed without end.
        self._count = max(self._count - int(np.count_nonzero(there)), 0)
        return there

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
        found = cls._bare(parameters)
        found._counters = check_array(arrays, "counters", "|u1", found.shape.blocks * COUNTER_BYTES)
        return found


GROWTH: Final = 2
MOST_GENERATIONS: Final = 48


def share(generation: int) -> float:
    """Of the rate that was asked for: 1/2, 1/6, 1/12, ..., all together never more than 1."""
    return 1 / ((generation + 1) * (generation + 2))


class ScalableBloomFilter(Filter):
    """A Bloom filter that keeps its rate `fpr` however many keys come; `n` is a first guess.

    Each generation is for twice the keys of the one before, and takes more bits a key: at 1 %,
    11.5, 14.2, 16.0, 17.4 and so on, 21.7 in the ninth. The last one may be nearly empty: a guess
    that is far too low ends at 20 to 40 bits a key. Every question goes to all generations. A
    good guess saves memory and time. Thread-safe.

    Args:
        n: The number of keys that the first generation has room for.
        fpr: The rate of false positives, however many keys come.
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
        return len(self._filters)

    @property
    def estimated_fpr(self) -> float:
        with self._lock:
            right = [1 - one.estimated_fpr for one in self._filters]
        return float(1 - np.prod(right))

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
        there = self._in(self._filters[:-1], hashes)
        waiting = np.flatnonzero(~there)
        while len(waiting):
            room = self._planned(self.generations - 1) - len(self._filters[-1])
            if room <= 0:
                before = self._filters[-1]
                there[waiting] = before._contains(hashes[waiting])
                waiting = waiting[~there[waiting]]
                self._add_generation()
                continue
            found = self._filters[-1].insert_until(hashes[waiting], room)
            there[waiting[: len(found)]] = found
            waiting = waiting[len(found) :]
        return there

    def _contains(self, hashes: Hashes) -> Flags:
        return self._in(self._filters, hashes)

    @staticmethod
    def _in(filters: list[BloomFilter], hashes: Hashes) -> Flags:
        """Which keys are in one of the filters; each sees only what the others don't have."""
        there = np.zeros(len(hashes), bool)
        for one in reversed(filters):
            waiting = np.flatnonzero(~there)
            there[waiting] = one._contains(hashes[waiting])
        return there

    def state(self) -> tuple[Parameters, Arrays]:
        with self._lock:
            states = [one.state() for one in self._filters]
        arrays = {f"words {number}": held["words"] for number, (_, held) in enumerate(states)}
        parameters = {
            "seed": self.seed,
            "n": self.n,
            "fpr": self.fpr,
            "generations": [described for described, _ in states],
        }
        return parameters, arrays

    @classmethod
    def restore(cls, parameters: Parameters, arrays: Arrays) -> Self:
        found = cls.__new__(cls)
        Filter.__init__(found, parameters["seed"])
        found.n, found.fpr = check_keys(parameters["n"]), _check_rate(parameters["fpr"])
        described: list[dict[str, Any]] = parameters["generations"]
        check_whole("generations", len(described), 1, MOST_GENERATIONS)
        if any(one["seed"] != found.seed for one in described):
            raise ParameterError("its generations have other seeds")
        found._filters = [
            BloomFilter.restore(one, {"words": arrays[f"words {number}"]})
            for number, one in enumerate(described)
        ]
        return found


def _check_rate(rate: object) -> float:
    """The rate, if even the last generation can have its share of it."""
    asked = check_rate(rate)
    BloomShape.of(1, asked * share(MOST_GENERATIONS - 1))
    return asked
