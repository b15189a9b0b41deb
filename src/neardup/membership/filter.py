"""The interface of all filters, and the hashing of their keys.

Keys are strings or bytes: one, a list, or an Arrow column of them. The hash of a string is xxHash64
of its UTF-8 bytes with the filter's seed. The second word of a 128-bit key is SipHash-2-4, keyed
with the seed: texts that were crafted to have the same xxHash64 differ there. A whole number, or an
array of uint64, is used as hashes directly. A string and its UTF-8 bytes are the same key.
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
    """Return the hash of one key as a row of `words` words."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if words > 1:
            raise ParameterError(
                f"a number has 64 bits, keys here have {64 * words}: "
                "use ExactSet(bits=64), or give strings or bytes"
            )
        return np.array([[check_whole("a hash", key, 0, MOST_SEED)]], np.uint64)
    data = as_bytes(key)
    if words > 1:
        return _hash_rows(np.frombuffer(data, np.uint8), np.array([0, len(data)]), seed, words)
    # The library's function is the fastest way to a single hash.
    return np.array([[xxhash.xxh64_intdigest(data, seed)]], np.uint64)


def hash_keys(keys: Any, seed: int, words: int) -> Hashes:
    """Return the hashes of many keys, a row of `words` words each."""
    if isinstance(keys, (str, bytes, bytearray, memoryview)):
        raise ParameterError("many keys are expected, not a single one: use the method for one")
    if isinstance(keys, np.ndarray) and keys.dtype.kind not in "OSU":
        return _check_hashes(keys, words)
    if isinstance(keys, pa.Array):
        return _hash_column(keys, seed, words)
    if hasattr(keys, "__arrow_c_stream__"):
        parts = [_hash_column(chunk, seed, words) for chunk in pa.chunked_array(keys).chunks]
        return np.concatenate([np.empty((0, words), np.uint64), *parts])
    if hasattr(keys, "__arrow_c_array__"):
        return _hash_column(pa.array(keys), seed, words)
    if not isinstance(keys, Iterable):
        raise ParameterError(f"keys are a list or a column, not {type(keys).__name__}")
    data = [as_bytes(key) for key in keys]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int64)
    return _hash_rows(np.frombuffer(b"".join(data), np.uint8), ends, seed, words)


def _check_hashes(hashes: NDArray[Any], words: int) -> Hashes:
    """Return an array of hashes as rows of `words` words, or raise `ParameterError`."""
    shape = "(n,)" if words == 1 else f"(n, {words})"
    if hashes.dtype != np.uint64 or hashes.shape[1:] != ((words,) if words > 1 else ()):
        raise ParameterError(
            f"hashes must be an array of uint64 of shape {shape}, not of {hashes.dtype} of shape "
            f"{hashes.shape}: hash the keys, or give strings or bytes"
        )
    return np.ascontiguousarray(hashes).reshape(-1, words)


def _hash_column(column: pa.Array, seed: int, words: int) -> Hashes:
    """Return the hashes of an Arrow column of strings, bytes or uint64."""
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
        return _check_hashes(column.to_numpy(), words)
    if not len(column):
        return np.empty((0, words), np.uint64)
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, OFFSETS[column.type])[column.offset :][: len(column) + 1]
    content = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    return _hash_rows(content, ends.astype(np.int64, copy=False), seed, words)


def _as_binary(column: pa.Array) -> pa.Array:
    if isinstance(column, pa.DictionaryArray):  # its values can be null, and of any type
        return column.dictionary.cast(pa.large_binary()).take(column.indices)
    return column.cast(pa.large_binary())


def _hash_rows(data: NDArray[np.uint8], ends: NDArray[np.int64], seed: int, words: int) -> Hashes:
    """Return the hashes of rows of bytes; row i is data[ends[i] : ends[i + 1]]."""
    first: Hashes = kernels.hash_rows(data, ends, np.uint64(seed))
    if words == 1:
        return first.reshape(-1, 1)
    second = kernels.element_hashes(data, ends, (SIPHASH, np.uint64(seed), np.uint64(0)))
    return np.stack([first, second], axis=1)


def as_bytes(key: object) -> bytes:
    """Return a key as bytes: a string as UTF-8, lone surrogates included."""
    if isinstance(key, str):
        return key.encode("utf-8", "surrogatepass")
    if isinstance(key, (bytes, bytearray, memoryview)):
        return bytes(key)
    raise ParameterError(f"keys are strings or bytes, not {type(key).__name__}")


Flags = NDArray[np.bool_]
Parameters = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


class Filter(ABC):
    """A set of keys that answers whether a key was inserted; no inserted key is ever missing.

    Thread-safe: one operation at a time, others wait. A key is a string, bytes, or a whole number
    from 0 to 2^64 - 1, which is used as the hash; many keys are a list of strings or bytes, an
    Arrow column, or a NumPy array of uint64.
    """

    kind: ClassVar[str]
    """The name of the filter in its file."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = check_whole("seed", seed, 0, MOST_SEED)
        self._salt = np.uint64(xxhash.xxh64_intdigest(b"filter", self.seed))
        self._lock = threading.RLock()

    # -- for callers ----------------------------------------------------------------------------

    def insert(self, key: object, *, once: bool = False) -> bool:
        """Insert a key and return whether it was, or seemed to be, present before.

        Args:
            key: A string, bytes, or a whole number from 0 to 2^64 - 1 that is a hash already.
            once: Leave the filter as it is if the key is present. This matters only for filters
                that count how often a key was inserted, so that it can be removed as often
                (`CountingBloomFilter`, `CuckooFilter`).
        """
        return bool(self._put(hash_key(key, self.seed, self._key_words), once)[0])

    def insert_many(self, keys: Any, *, once: bool = False) -> Flags:
        """Insert keys in order; return for each whether it was present, earlier or in this batch.

        Args:
            keys: A list of strings or bytes, an Arrow column of strings, bytes or uint64, or a
                NumPy array of uint64, which are hashes already.
            once: Skip keys that are present, as in `insert`.
        """
        return self._put(hash_keys(keys, self.seed, self._key_words), once)

    def __contains__(self, key: object) -> bool:
        return bool(self._has(hash_key(key, self.seed, self._key_words))[0])

    def contains_many(self, keys: Any) -> Flags:
        """Return for each key whether it is present.

        Args:
            keys: A list, an Arrow column or a NumPy array, as in `insert_many`.
        """
        return self._has(hash_keys(keys, self.seed, self._key_words))

    def remove(self, key: object) -> bool:
        """Remove a key; return False, and change nothing, if it is not present.

        Args:
            key: A string, bytes or a number, as in `insert`. Remove only keys that were inserted:
                `CountingBloomFilter` and `CuckooFilter` can't tell them from false positives.
        """
        return bool(self._drop(hash_key(key, self.seed, self._key_words))[0])

    def remove_many(self, keys: Any) -> Flags:
        """Remove keys; return for each whether it was present.

        Args:
            keys: A list, an Arrow column or a NumPy array, as in `insert_many`.
        """
        return self._drop(hash_keys(keys, self.seed, self._key_words))

    @abstractmethod
    def __len__(self) -> int:
        """The number of keys, without those that seemed to be present when they were inserted."""

    @property
    @abstractmethod
    def estimated_fpr(self) -> float:
        """The current rate of false positives: the share of other keys that seem present."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The bytes of memory that the filter takes."""

    # -- for subclasses -------------------------------------------------------------------------

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
        """Return the parameters and arrays that a file of the filter contains."""

    @classmethod
    @abstractmethod
    def restore(cls, parameters: Parameters, arrays: Arrays) -> Self:
        """Return the filter with the state that `state` returned; `load_filter` calls it.

        Args:
            parameters: The parameters; invalid ones raise `ParameterError`.
            arrays: The arrays, which the filter then owns; read-only arrays are copied.
        """

    # -- with the lock held ---------------------------------------------------------------------

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
            copies = {name: values.copy() for name, values in arrays.items()}
        return type(self).restore, (parameters, copies)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} keys, {self.nbytes:,} bytes)"


def zeros(items: int, dtype: type[np.uint64] | type[np.uint8]) -> NDArray[Any]:
    """Return an array of zeros that begins at a multiple of 64 bytes, a cache line."""
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
    """Return an array of a saved filter, or raise if its type or size is not the expected one."""
    values = arrays.get(name)
    if values is None or values.dtype != np.dtype(dtype) or values.shape != (size,):
        raise ParameterError(f"its {name} are not {size:,} values of {dtype}")
    return np.require(values, requirements=["CONTIGUOUS", "ALIGNED", "WRITEABLE"])
