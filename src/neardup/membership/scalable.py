"""A Bloom filter that grows: generations, each twice as large as the one before."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Self

import numpy as np

from neardup.errors import ParameterError
from neardup.membership.bloom import BloomFilter
from neardup.membership.filter import Arrays, Filter, Flags, Parameters
from neardup.membership.keys import Hashes
from neardup.membership.sizing import BloomShape, check_keys, check_rate
from neardup.spec import whole

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
        whole("generations", len(described), 1, MOST_GENERATIONS)
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
