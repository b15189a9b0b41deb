"""The exact set: hashes of all keys, in a hash table."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from neardup.errors import ParameterError
from neardup.membership.filter import Arrays, Filter, Flags, Parameters, check_array
from neardup.membership.keys import Hashes
from neardup.membership.table import HashTable
from neardup.spec import one_of, whole


class ExactSet(Filter):
    """All keys, by a hash of 128 bits, or 64: 32 bytes a key and more, no false positives.

    Two different keys have the same 128 bits with a chance of n^2 / 2^129; of 64 bits, with a
    billion keys, it is 3 %. Keys that somebody made for it may have the same: no hash here is a
    cryptographic one. Thread-safe. It grows as needed, without a pause that grows with it.

    >>> seen = ExactSet()
    >>> seen.insert_many(["a", "b", "a"]).tolist()
    [False, False, True]
    >>> seen.remove("a"), "a" in seen, len(seen)
    (True, False, 1)
    """

    kind: ClassVar[str] = "set"

    def __init__(self, n: int = 0, *, bits: int = 128, seed: int = 0) -> None:
        super().__init__(seed)
        one_of("bits of a hash", bits, (64, 128))
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
        found = cls(bits=parameters["bits"], seed=parameters["seed"])
        entries = arrays.get("entries", np.empty(0, np.uint64))
        if not entries.size:
            raise ParameterError("it has no entries")
        entries = check_array(arrays, "entries", "<u8", entries.size)
        keys = whole("number of keys", parameters["keys"], 0, entries.size)
        found._table = HashTable.of_entries(entries, keys, found.bits // 64)
        return found
