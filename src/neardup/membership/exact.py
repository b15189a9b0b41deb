"""The exact set, and the hash table under it.

The table maps hashes to numbers and grows without a pause: open addressing with linear probing.
docs/decisions/012-hash-table.md has the reasons.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError
from neardup.membership.filter import Arrays, Filter, Flags, Hashes, Parameters, check_array, zeros
from neardup.spec import check_choice, check_whole

LEAST_SLOTS: Final = 1024
MOST_LOAD: Final = 0.75
MOST_KEYS: Final = 2**40
MOST_VALUE: Final = 2**63
"""The greatest content of a slot, which is a value + 1."""

Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]


class HashTable:
    """Maps keys of 64 or 128 bits to numbers from 0 on. Not thread-safe.

    Keys are rows of one or two uint64. The number of slots doubles when three quarters are used;
    every insert then moves at most 16 slots of the old array, which takes half as much memory
    again until all are moved.

    Args:
        keys: The number of keys to plan for.
        words: The 64-bit words of a key, 1 or 2.
    """

    def __init__(self, keys: int = 0, words: int = 1) -> None:
        keys = check_whole("number of keys", keys, 0, MOST_KEYS)
        self.words = check_whole("words of a key", words, 1, 2)
        self._new = self._array(max(int(keys / MOST_LOAD) + 1, LEAST_SLOTS))
        self._old = np.empty(0, np.uint64)
        self._state = np.zeros(2, np.int64)

    def __len__(self) -> int:
        return int(self._state[1])

    @property
    def slots(self) -> int:
        return len(self._new) // (self.words + 1)

    @property
    def nbytes(self) -> int:
        return self._new.nbytes + self._old.nbytes

    def put_many(self, keys: Keys, values: Integers, *, replace: bool = False) -> Integers:
        """Insert keys in order; return the value that each had before, -1 for a new one.

        Args:
            keys: A row of `words` uint64 a key.
            values: The value of each key, 0 or more.
            replace: Also replace the values of keys that are present.
        """
        keys = self._check_keys(keys)
        values = np.ascontiguousarray(values, np.int64)
        if values.shape != (len(keys),) or (len(values) and values.min() < 0):
            raise ParameterError("there must be a value for each key, 0 or more")
        previous: list[Integers] = [np.empty(0, np.int64)]
        done = 0
        while done < len(keys):
            if len(self) >= self._limit:
                self._grow()
            batch = kernels.table_put(
                self._old, self._new, self._state, keys[done:], values[done:], replace, self._limit
            )
            previous.append(batch)
            done += len(batch)
        self._forget_old()
        return previous[-1] if len(previous) == 2 else np.concatenate(previous)

    def get_many(self, keys: Keys) -> Integers:
        """Return the value of each key, -1 for a missing one."""
        values: Integers = kernels.table_get(
            self._old, self._new, self._state, self._check_keys(keys)
        )
        return values

    def remove_many(self, keys: Keys) -> Integers:
        """Remove keys; return the value that each had, -1 for a missing one."""
        values: Integers = kernels.table_remove(
            self._old, self._new, self._state, self._check_keys(keys)
        )
        return values

    @property
    def entries(self) -> NDArray[np.uint64]:
        """All slots, for a file; the rest of the old array is moved first."""
        kernels.table_settle(self._old, self._new, self._state, self.words)
        self._forget_old()
        return self._new

    @classmethod
    def of_entries(cls, entries: NDArray[np.uint64], keys: int, words: int) -> HashTable:
        """Return the table with the slots and the number of keys that a file states."""
        table = cls(words=words)
        table._new = entries
        values = entries[words :: words + 1]
        used = int(np.count_nonzero(values))
        if (
            len(entries) % (words + 1)
            or used != keys
            or keys > table._limit
            or (values.max() > MOST_VALUE)
        ):
            raise ParameterError(f"{keys} keys are not what {len(entries)} words of a table hold")
        table._state[1] = keys
        return table

    @property
    def _limit(self) -> int:
        return int(self.slots * MOST_LOAD)

    def _array(self, slots: int) -> NDArray[np.uint64]:
        return zeros(slots * (self.words + 1), np.uint64)

    def _grow(self) -> None:
        self._forget_old()
        self._old, self._new = self._new, self._array(2 * self.slots)
        self._state[0] = 0

    def _forget_old(self) -> None:
        if self._state[0] * (self.words + 1) >= len(self._old):
            self._old = np.empty(0, np.uint64)

    def _check_keys(self, keys: Any) -> Keys:
        if (
            not isinstance(keys, np.ndarray)
            or keys.dtype != np.uint64
            or keys.ndim != 2
            or (keys.shape[1] != self.words)
        ):
            raise ParameterError(f"keys must be rows of {self.words} uint64")
        return np.ascontiguousarray(keys)


class ExactSet(Filter):
    """An exact set of keys, each stored as a hash of 128 or 64 bits, with removal.

    It takes 32 bytes a key or more and grows as needed, without long pauses. Two of n keys have
    the same 128-bit hash with probability n^2 / 2^129; with 64 bits and a billion keys it is 3 %.
    The hashes are not cryptographic: an attacker can craft keys that collide. Thread-safe.

    Args:
        n: The number of keys to plan for; the set grows beyond it.
        bits: The bits of a key's hash, 64 or 128.
        seed: The seed of the hashes.

    >>> seen = ExactSet()
    >>> seen.insert_many(["a", "b", "a"]).tolist()
    [False, False, True]
    >>> seen.remove("a"), "a" in seen, len(seen)
    (True, False, 1)
    """

    kind: ClassVar[str] = "set"

    def __init__(self, n: int = 0, *, bits: int = 128, seed: int = 0) -> None:
        super().__init__(seed)
        check_choice("bits of a hash", bits, (64, 128))
        self.bits = bits
        self._table = HashTable(n, bits // 64)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def estimated_fpr(self) -> float:
        return float(len(self) / 2**self.bits)

    @property
    def nbytes(self) -> int:
        return self._table.nbytes

    @property
    def _key_words(self) -> int:
        return self.bits // 64

    def _insert(self, hashes: Hashes, once: bool) -> Flags:  # noqa: ARG002  # a key is in once anyway
        return self._table.put_many(hashes, np.zeros(len(hashes), np.int64)) >= 0

    def _contains(self, hashes: Hashes) -> Flags:
        return self._table.get_many(hashes) >= 0

    def _remove(self, hashes: Hashes) -> Flags:
        return self._table.remove_many(hashes) >= 0

    def state(self) -> tuple[Parameters, Arrays]:
        with self._lock:
            parameters = {"seed": self.seed, "bits": self.bits, "keys": len(self)}
            return parameters, {"entries": self._table.entries}

    @classmethod
    def restore(cls, parameters: Parameters, arrays: Arrays) -> Self:
        restored = cls(bits=parameters["bits"], seed=parameters["seed"])
        entries = arrays.get("entries", np.empty(0, np.uint64))
        if not entries.size:
            raise ParameterError("it has no entries")
        entries = check_array(arrays, "entries", "<u8", entries.size)
        keys = check_whole("number of keys", parameters["keys"], 0, entries.size)
        restored._table = HashTable.of_entries(entries, keys, restored.bits // 64)
        return restored
