"""Keys to 64-bit hashes: strings and bytes, one, many, or an Arrow column of them.

The hash of a string is xxHash64 of its UTF-8 bytes with the filter's seed; where a key has a
second word, that is SipHash-2-4, whose key is the seed: two texts that were made to have the same
xxHash64 differ there. A whole number, or an array of uint64, is taken for hashes already. Equal
bytes are equal keys, whatever type they came in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError
from neardup.spec import HASHES, whole

Hashes = NDArray[np.uint64]

OFFSETS = {
    pa.string(): np.int32,
    pa.binary(): np.int32,
    pa.large_string(): np.int64,
    pa.large_binary(): np.int64,
}
MOST_SEED = 2**64 - 1
SIPHASH = HASHES.index("siphash")


def hash_one(key: object, seed: int, words: int) -> Hashes:
    """One row, with as many words."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if words > 1:
            raise ParameterError(
                f"a number has 64 bits, keys here have {64 * words}: "
                "use ExactSet(bits=64), or give strings or bytes"
            )
        return np.array([[whole("a hash", key, 0, MOST_SEED)]], np.uint64)
    data = as_bytes(key)
    if words > 1:
        return _hashed(np.frombuffer(data, np.uint8), np.array([0, len(data)]), seed, words)
    # The library's function is the fastest way to a single hash.
    return np.array([[xxhash.xxh64_intdigest(data, seed)]], np.uint64)


def hash_many(keys: Any, seed: int, words: int) -> Hashes:
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
