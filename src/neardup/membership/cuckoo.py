"""The cuckoo filter: a set of keys as 12-bit fingerprints, with removal."""

from __future__ import annotations

from typing import ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import FilterFull, ParameterError
from neardup.membership.filter import Arrays, Filter, Flags, Hashes, Parameters, check_array, zeros
from neardup.membership.sizing import MOST_KEYS, CuckooShape
from neardup.spec import check_whole

BUCKET_BYTES: Final = 6
SPARE_BYTES: Final = 2
"""Bytes after the last bucket, because a bucket is read and written as eight bytes."""


class CuckooFilter(Filter):
    """A set of keys in 12.8 bits each, with removal; its rate of false positives is 0.18 %.

    Every insert counts: a key that was inserted twice is present until it is removed twice, and
    none fits more than eight times; insert with `once=True` to skip keys that are present. A filter
    that is full raises `FilterFull`, keeps the keys it has, and can still be used. Thread-safe.

    Args:
        n: The number of keys to plan for.
        seed: The seed of the hashes.

    >>> seen = CuckooFilter(1000)
    >>> seen.insert("a"), seen.remove("a"), "a" in seen, seen.remove("a")
    (False, True, False, False)
    """

    kind: ClassVar[str] = "cuckoo"

    def __init__(self, n: int, *, seed: int = 0) -> None:
        super().__init__(seed)
        self.shape, self._count = CuckooShape.of(n), 0
        self._table: NDArray[np.uint8] = zeros(self._bytes, np.uint8)

    def __len__(self) -> int:
        return self._count

    @property
    def load(self) -> float:
        """The share of places in use."""
        return self._count / self.shape.places

    @property
    def estimated_fpr(self) -> float:
        return self.shape.rate(self._count)

    @property
    def nbytes(self) -> int:
        return self._table.nbytes

    @property
    def _bytes(self) -> int:
        return self.shape.buckets * BUCKET_BYTES + SPARE_BYTES

    def _insert(self, hashes: Hashes, once: bool) -> Flags:
        present: Flags = kernels.cuckoo_insert(
            self._table, self.shape.buckets, hashes.reshape(-1), self._salt, once
        )
        self._count += len(present) - (int(np.count_nonzero(present)) if once else 0)
        if len(present) < len(hashes):
            raise FilterFull(
                f"the cuckoo filter is full at {self._count:,} of {self.shape.places:,} places, "
                f"after {len(present):,} of {len(hashes):,} keys, which are in it: remove some, or "
                "make one for more keys; a key fits eight times at most",
                taken=len(present),
            )
        return present

    def _contains(self, hashes: Hashes) -> Flags:
        present: Flags = kernels.cuckoo_contains(
            self._table, self.shape.buckets, hashes.reshape(-1), self._salt
        )
        return present

    def _remove(self, hashes: Hashes) -> Flags:
        present: Flags = kernels.cuckoo_remove(
            self._table, self.shape.buckets, hashes.reshape(-1), self._salt
        )
        self._count -= int(np.count_nonzero(present))
        return present

    def state(self) -> tuple[Parameters, Arrays]:
        parameters = {"seed": self.seed, "buckets": self.shape.buckets, "keys": self._count}
        return parameters, {"table": self._table}

    @classmethod
    def restore(cls, parameters: Parameters, arrays: Arrays) -> Self:
        restored = cls.__new__(cls)
        Filter.__init__(restored, parameters["seed"])
        restored.shape = CuckooShape(check_whole("buckets", parameters["buckets"], 1, MOST_KEYS))
        keys = check_whole("number of keys", parameters["keys"], 0, restored.shape.places)
        restored._count = keys
        restored._table = check_array(arrays, "table", "|u1", restored._bytes)
        if restored._used_places() != keys:
            raise ParameterError(f"its table does not hold {keys:,} keys")
        return restored

    def _used_places(self) -> int:
        low, middle, high = self._table[:-SPARE_BYTES].reshape(-1, 3).T  # two fingerprints a row
        first, second = low | (middle & 15), high | (middle >> 4)
        return int(np.count_nonzero(first) + np.count_nonzero(second))
