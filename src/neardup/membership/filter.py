"""What every filter can do: one interface for the exact set and all that only come near it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup.errors import ParameterError, UsageError
from neardup.membership.keys import MOST_SEED, Hashes, hash_many, hash_one
from neardup.spec import whole

Flags = NDArray[np.bool_]
Parameters = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


class Filter(ABC):
    """Keys go in; was a key put in before? Never no for one that was.

    Thread-safe: one operation at a time, others wait. A key is a string, bytes, or a number from
    0 to 2^64 - 1 that is a hash already; many keys are a list of strings or bytes, an Arrow
    column, or a NumPy array of uint64.
    """

    kind: ClassVar[str]

    def __init__(self, seed: int = 0) -> None:
        self.seed = whole("seed", seed, 0, MOST_SEED)
        self._salt = np.uint64(xxhash.xxh64_intdigest(b"filter", self.seed))
        self._lock = threading.RLock()

    # -- what people call -----------------------------------------------------------------------

    def insert(self, key: object, *, once: bool = False) -> bool:
        """Put a key in; whether it was, or seemed to be, there before."""
        return bool(self._put(hash_one(key, self.seed, self._key_words), once)[0])

    def insert_many(self, keys: Any, *, once: bool = False) -> Flags:
        """Put keys in, in order; for each, whether it was there before, in this batch or earlier.

        With `once`, what is there is left out. That makes a difference only to filters that
        count how often a key was put in, so that it can be removed as often.
        """
        return self._put(hash_many(keys, self.seed, self._key_words), once)

    def __contains__(self, key: object) -> bool:
        return bool(self._has(hash_one(key, self.seed, self._key_words))[0])

    def contains_many(self, keys: Any) -> Flags:
        """For each key, whether it is there."""
        return self._has(hash_many(keys, self.seed, self._key_words))

    def remove(self, key: object) -> bool:
        """Take a key out; False, and nothing is changed, if it is not there."""
        return bool(self._drop(hash_one(key, self.seed, self._key_words))[0])

    def remove_many(self, keys: Any) -> Flags:
        """Take keys out; for each, whether it was there."""
        return self._drop(hash_many(keys, self.seed, self._key_words))

    @abstractmethod
    def __len__(self) -> int:
        """How many keys are in it, but for those that seemed to be there when they came."""

    @property
    @abstractmethod
    def estimated_fpr(self) -> float:
        """The share of other keys that seem to be there, as the filter is now."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of memory."""

    # -- what each kind of filter does ----------------------------------------------------------

    @property
    def _key_words(self) -> int:
        return 1

    @abstractmethod
    def _insert(self, hashes: Hashes, once: bool) -> Flags: ...

    @abstractmethod
    def _contains(self, hashes: Hashes) -> Flags: ...

    def _remove(self, hashes: Hashes) -> Flags:  # noqa: ARG002  # whatever is asked for
        raise UsageError(
            f"a {type(self).__name__} can't forget a key: use CountingBloomFilter, CuckooFilter "
            "or ExactSet"
        )

    @abstractmethod
    def state(self) -> tuple[Parameters, Arrays]:
        """What a file holds of it."""

    @classmethod
    @abstractmethod
    def restore(cls, parameters: Parameters, arrays: Arrays) -> Self:
        """The filter with this state; arrays are used, and copied only if they can't be written."""

    # -- one at a time --------------------------------------------------------------------------

    def _put(self, hashes: Hashes, once: bool) -> Flags:
        with self._lock:
            return self._insert(hashes, once)

    def _has(self, hashes: Hashes) -> Flags:
        with self._lock:
            return self._contains(hashes)

    def _drop(self, hashes: Hashes) -> Flags:
        with self._lock:
            return self._remove(hashes)

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            parameters, arrays = self.state()
            held = {name: values.copy() for name, values in arrays.items()}
        return type(self).restore, (parameters, held)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} keys, {self.nbytes:,} bytes)"


def zeros(items: int, dtype: type[np.uint64] | type[np.uint8]) -> NDArray[Any]:
    """An array that begins with a line of the cache."""
    each = np.dtype(dtype).itemsize
    try:
        raw = np.zeros(items * each + 64, np.uint8)
    except (MemoryError, ValueError, OverflowError):
        raise ParameterError(
            f"a filter of {items * each:,} bytes does not fit into memory: plan for fewer keys, or "
            "a higher false-positive rate"
        ) from None
    start = -raw.ctypes.data % 64
    return raw[start : start + items * each].view(dtype)


def check_array(arrays: Arrays, name: str, dtype: str, size: int) -> NDArray[Any]:
    """An array of a saved filter, if it is what the parameters say."""
    found = arrays.get(name)
    if found is None or found.dtype != np.dtype(dtype) or found.shape != (size,):
        raise ParameterError(f"its {name} are not {size:,} values of {dtype}")
    return np.require(found, requirements=["CONTIGUOUS", "ALIGNED", "WRITEABLE"])
