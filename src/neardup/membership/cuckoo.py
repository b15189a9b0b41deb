"""The cuckoo filter: fingerprints of 12 bits that can be removed again."""

from __future__ import annotations

from math import ceil
from typing import ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import FilterFull
from neardup.membership.filter import Arrays, Filter, Flags, Parameters, check_array, zeros
from neardup.membership.keys import Hashes
from neardup.membership.sizing import MOST_KEYS, check_keys, filling
from neardup.spec import whole

PLACES: Final = 4
BUCKET_BYTES: Final = 6
SPARE_BYTES: Final = 2
"""After the last bucket: a bucket is read and written as eight bytes."""
PLANNED_LOAD: Final = 0.95
SPARE_BUCKETS: Final = 2
"""For small ones, in which chance has more to say."""
FINGERPRINTS: Final = 4095
MOST_BUCKETS: Final = MOST_KEYS


def cuckoo_rate(load: float) -> float:
    """The rate of false positives: eight places in two buckets, each full with this chance.

    >>> f"{cuckoo_rate(0.95):.2%}"
    '0.19%'
    """
    return float(1 - (1 - 1 / FINGERPRINTS) ** (2 * PLACES * load))


class CuckooFilter(Filter):
    """A set of keys in 12.6 bits each, of which 0.19 % of others seem to be there; with removal.

    Made for `n` keys, of which each insert counts: a key that was put in twice is there until it
    is removed twice, and more than eight times does not fit; `once` leaves out what is there.
    Whatever was put in can be removed, and nothing else goes with it. A filter that is full says
    so with `FilterFull`, stays as it was, and works on. Thread-safe.

    >>> seen = CuckooFilter(1000)
    >>> seen.insert("a"), seen.remove("a"), "a" in seen, seen.remove("a")
    (False, True, False, False)
    """

    kind: ClassVar[str] = "cuckoo"

    def __init__(self, n: int, *, seed: int = 0) -> None:
        super().__init__(seed)
        self.buckets = ceil(check_keys(n) / PLANNED_LOAD / PLACES) + SPARE_BUCKETS
        self._count = 0
        self._table: NDArray[np.uint8] = zeros(self._bytes, np.uint8)

    def __len__(self) -> int:
        return self._count

    @property
    def capacity(self) -> int:
        """The places for keys; about 97 of 100 can be used."""
        return self.buckets * PLACES

    @property
    def load(self) -> float:
        """The share of places that are used."""
        return self._count / self.capacity

    @property
    def estimated_fpr(self) -> float:
        return cuckoo_rate(self.load)

    def expected_lost(self, keys: int) -> float:
        """How many of so many different keys will seem to be there when they come."""
        return filling(lambda count: cuckoo_rate(count / self.capacity), keys)

    @property
    def nbytes(self) -> int:
        return self._table.nbytes

    @property
    def _bytes(self) -> int:
        return self.buckets * BUCKET_BYTES + SPARE_BYTES

    def _insert(self, hashes: Hashes, once: bool) -> Flags:
        there: Flags = kernels.cuckoo_insert(
            self._table, self.buckets, hashes.reshape(-1), self._salt, once
        )
        self._count += len(there) - (int(np.count_nonzero(there)) if once else 0)
        if len(there) < len(hashes):
            raise FilterFull(
                f"the cuckoo filter is full at {self._count:,} of {self.capacity:,} places, after "
                f"{len(there):,} of {len(hashes):,} keys, which are in it: remove some, or make "
                "one for more keys; a key fits eight times at most",
                taken=len(there),
            )
        return there

    def _contains(self, hashes: Hashes) -> Flags:
        there: Flags = kernels.cuckoo_contains(
            self._table, self.buckets, hashes.reshape(-1), self._salt
        )
        return there

    def _remove(self, hashes: Hashes) -> Flags:
        there: Flags = kernels.cuckoo_remove(
            self._table, self.buckets, hashes.reshape(-1), self._salt
        )
        self._count -= int(np.count_nonzero(there))
        return there

    def state(self) -> tuple[Parameters, Arrays]:
        parameters = {"seed": self.seed, "buckets": self.buckets, "keys": self._count}
        return parameters, {"table": self._table}

    @classmethod
    def restore(cls, parameters: Parameters, arrays: Arrays) -> Self:
        found = cls.__new__(cls)
        Filter.__init__(found, parameters["seed"])
        found.buckets = whole("buckets", parameters["buckets"], 1, MOST_BUCKETS)
        found._count = whole("number of keys", parameters["keys"], 0, found.capacity)
        found._table = check_array(arrays, "table", "|u1", found._bytes)
        return found
