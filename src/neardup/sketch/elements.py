"""What people put into a set, to 64-bit hashes, as the specification has it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError
from neardup.keys import Key, hasher
from neardup.spec import Spec

Hashes = NDArray[np.uint64]


def element_hash(element: str | bytes, spec: Spec, key: Key | None = None) -> Hashes:
    """One element's hash, as an array."""
    if spec.hash != "xxh64":
        return element_hashes([element], spec, key)
    # The library's function is the fastest way to a single hash.
    return np.array([xxhash.xxh64_intdigest(as_bytes(element), spec.seed)], np.uint64)


def element_hashes(elements: Iterable[str | bytes], spec: Spec, key: Key | None = None) -> Hashes:
    """The elements' hashes, in order."""
    if isinstance(elements, (str, bytes)):
        raise ParameterError("update_batch takes many elements: use update for a single one")
    data = [as_bytes(element) for element in elements]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int64)
    joined = np.frombuffer(b"".join(data), np.uint8)
    found: Hashes = kernels.element_hashes(joined, ends, hasher(spec, key))
    return found


def as_bytes(element: str | bytes) -> bytes:
    if isinstance(element, str):
        return element.encode("utf-8", "surrogatepass")
    if isinstance(element, (bytes, bytearray, memoryview)):
        return bytes(element)
    raise ParameterError(f"elements are strings or bytes, not {type(element).__name__}")
