"""The interface of all filters, and keys to 64-bit hashes.

Keys are strings and bytes: one, many, or an Arrow column of them. The hash of a string is xxHash64
of its UTF-8 bytes with the filter's seed; where a key has a second word, that is SipHash-2-4, whose
key is the seed: two texts that were made to have the same xxHash64 differ there. A whole number, or
an array of uint64, is taken for hashes already. Equal bytes are equal keys, whatever type they came
in.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError, UsageError
from neardup.spec import HASHES, check_whole

Hashes = NDArray[np.uint64]

OFFSETS = {
    pa.string(): np.int32,
    pa.binary(): np.int32,
    pa.large_string(): np.int64,
    pa.large_binary(): np.int64,
}
MOST_SEED = 2**64 - 1
SIPHASH = HASHES.index("siphash")


def hash_key(key: object, seed: int, words: int) -> Hashes:
    """One row, with as many words."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if words > 1:
            raise ParameterError(
                f"a number has 64 bits, keys here have {64 * words}: "
                "use ExactSet(bits=64), or give strings or bytes"
            )
        return np.array([[check_whole("a hash", key, 0, MOST_SEED)]], np.uint64)
    data = as_bytes(key)
    if words > 1:
        return _hashed(np.frombuffer(data, np.uint8), np.array([0, len(data)]), seed, words)
    # The library's function is the fastest way to a single hash.
    return np.array([[xxhash.xxh64_intdigest(data, seed)]], np.uint64)


def hash_keys(keys: Any, seed: int, words: int) -> Hashes:
    """A row for each key, with as many words."""
    if isinstance(keys, (str, bytes, bytearray, memoryview)):
        raise ParameterError("many keys are expected, not a single one: use the method for one")
    if isinstance(keys, np.ndarray) and keys.dtype.kind not in "OSU":
        return _given(keys, words)
    if isinstance(keys, pa.Array):
        return _of_arrow(keys, seed, words)
    if hasattr(keys, "__arrow_c_stream__"):
        parts = [_of_arrow(chunk, seed, words) for chunk in pa.chunked_array(keys).chunks]
        return np.concatenate([np.empty((0, words), np.uint64), *parts])
    if hasattr(keys, "__arrow_c_array__"):
        return _of_arrow(pa.array(keys), seed, words)
    if not isinstance(keys, Iterable):
        raise ParameterError(f"keys are a list or a column, not {type(keys).__name__}")
    data = [as_bytes(key) for key in keys]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int64)
    return _hashed(np.frombuffer(b"".join(data), np.uint8), ends, seed, words)


def _given(hashes: NDArray[Any], words: int) -> Hashes:
    shape = "(n,)" if words == 1 else f"(n, {words})"
    if hashes.dtype != np.uint64 or hashes.shape[1:] != ((words,) if words > 1 else ()):
        raise ParameterError(
            f"hashes must be an array of uint64 of shape {shape}, not of {hashes.dtype} of shape "
            f"{hashes.shape}: hash the keys, or give strings or bytes"
        )
    return np.ascontiguousarray(hashes).reshape(-1, words)


def _of_arrow(column: pa.Array, seed: int, words: int) -> Hashes:
    if column.type != pa.uint64() and column.type not in OFFSETS:
        try:
            column = _as_binary(column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise ParameterError(
                f"keys are strings, bytes or uint64, not a column of {column.type}"
            ) from None
    if column.null_count:
        raise ParameterError(f"{column.null_count:,} keys are null: fill or drop them first")
    if column.type == pa.uint64():
        return _given(column.to_numpy(), words)
    if not len(column):
        return np.empty((0, words), np.uint64)
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, OFFSETS[column.type])[column.offset :][: len(column) + 1]
    content = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    return _hashed(content, ends.astype(np.int64, copy=False), seed, words)


def _as_binary(column: pa.Array) -> pa.Array:
    if isinstance(column, pa.DictionaryArray):  # its words can be null, and of any type
        return column.dictionary.cast(pa.large_binary()).take(column.indices)
    return column.cast(pa.large_binary())


def _hashed(data: NDArray[np.uint8], ends: NDArray[np.int64], seed: int, words: int) -> Hashes:
    first: Hashes = kernels.hash_rows(data, ends, np.uint64(seed))
    if words == 1:
        return first.reshape(-1, 1)
    second = kernels.element_hashes(data, ends, (SIPHASH, np.uint64(seed), np.uint64(0)))
    return np.stack([first, second], axis=1)


def as_bytes(key: object) -> bytes:
    if isinstance(key, str):
        return key.encode("utf-8", "surrogatepass")
    if isinstance(key, (bytes, bytearray, memoryview)):
        return bytes(key)
    raise ParameterError(f"keys are strings or bytes, not {type(key).__name__}")


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
        self.seed = check_whole("seed", seed, 0, MOST_SEED)
        self._salt = np.uint64(xxhash.xxh64_intdigest(b"filter", self.seed))
        self._lock = threading.RLock()

    # -- what people call -----------------------------------------------------------------------

    def insert(self, key: object, *, once: bool = False) -> bool:
        """Put a key in; whether it was, or seemed to be, there before."""
        return bool(self._put(hash_key(key, self.seed, self._key_words), once)[0])

    def insert_many(self, keys: Any, *, once: bool = False) -> Flags:
        """Put keys in, in order; for each, whether it was there before, in this batch or earlier.

        With `once`, what is there is left out. That makes a difference only to filters that
        count how often a key was put in, so that it can be removed as often.
        """
        return self._put(hash_keys(keys, self.seed, self._key_words), once)

    def __contains__(self, key: object) -> bool:
        return bool(self._has(hash_key(key, self.seed, self._key_words))[0])

    def contains_many(self, keys: Any) -> Flags:
        """For each key, whether it is there."""
        return self._has(hash_keys(keys, self.seed, self._key_words))

    def remove(self, key: object) -> bool:
        """Take a key out; False, and nothing is changed, if it is not there."""
        return bool(self._drop(hash_key(key, self.seed, self._key_words))[0])

    def remove_many(self, keys: Any) -> Flags:
        """Take keys out; for each, whether it was there."""
        return self._drop(hash_keys(keys, self.seed, self._key_words))

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
