"""Sets of 64-bit shingles to MinHash signatures: k slots, each the least value of a permutation.

`MinHash` is one set's sketch, for people; `signatures` is the bulk form, for the compositions.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError
from neardup.keys import Key, key_of, require_key, seeded
from neardup.sketch import wire
from neardup.sketch.elements import element_hash, element_hashes
from neardup.spec import Spec, one_of

EMPTY = np.uint32(0xFFFFFFFF)


@cache
def permutations(slots: int, seed: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The constants a (odd) and b of each slot, from the seed alone, by the rule in the docs."""
    a = [xxhash.xxh64_intdigest(f"a:{slot}".encode(), seed) for slot in range(slots)]
    b = [xxhash.xxh64_intdigest(f"b:{slot}".encode(), seed) for slot in range(slots)]
    low = np.uint64(0xFFFFFFFF)
    return (
        (np.array(a, np.uint64) & low).astype(np.uint32) | np.uint32(1),
        (np.array(b, np.uint64) & low).astype(np.uint32),
    )


def signatures(
    shingles: NDArray[np.uint64], offsets: NDArray[np.int64], spec: Spec
) -> NDArray[np.uint32]:
    """One row of slots a document. Repeated shingles change nothing."""
    rows: NDArray[np.uint32] = kernels.minhash(
        shingles, offsets, *permutations(spec.slots, spec.seed)
    )
    return rows


class MinHash:
    """A set's sketch: k slots that estimate its Jaccard similarity to any other such set.

    Updates and merges may come from several threads. The sketch of a union is the merge of the
    sketches, whatever the order; adding an element twice changes nothing.

    >>> a, b = MinHash(), MinHash()
    >>> a.update_batch(["the cat", "cat sat"])
    >>> b.update_batch(["the cat", "cat lay"])
    >>> 0.1 < a.jaccard(b) < 0.6   # the truth is 1/3
    True
    """

    def __init__(self, slots: int = 128, seed: int = 0, *, hash: str = "xxh64",
                 key: bytes | Key | None = None, spec: Spec | None = None) -> None:  # fmt: skip
        self._key = key_of(key)
        if spec is None:
            spec = Spec(slots=slots, seed=seed, hash=hash, key=self._key.id if self._key else "")
        if self._key is not None:
            require_key(spec, self._key)
        one_of("sketch of a MinHash", spec.sketch, ("minhash",))
        self.spec = spec
        self._slots = np.full(self.spec.slots, EMPTY, np.uint32)
        self._lock = threading.Lock()

    @property
    def slots(self) -> NDArray[np.uint32]:
        """A copy of the slots; all are 2^32 - 1 for the empty set."""
        with self._lock:
            return self._slots.copy()

    def update(self, element: str | bytes) -> None:
        """Add one element to the set."""
        self._add(element_hash(element, self.spec, self._key))

    def update_batch(self, elements: Iterable[str | bytes]) -> None:
        """Add many elements; the same as `update` for each, and much faster."""
        self._add(element_hashes(elements, self.spec, self._key))

    def update_hashes(self, hashes: NDArray[np.uint64]) -> None:
        """Add elements that are 64-bit hashes already, such as shingles."""
        values = np.asarray(hashes)
        if values.dtype != np.uint64 or values.ndim != 1:
            raise ParameterError(f"hashes must be an array of uint64, not of {values.dtype}")
        self._add(np.ascontiguousarray(values))

    def merge(self, other: MinHash) -> None:
        """Make this the sketch of the union of both sets."""
        _check(other)
        self.spec.require_same(other.spec, "this MinHash", "the other")
        theirs = other.slots
        with self._lock:
            np.minimum(self._slots, theirs, out=self._slots)

    def jaccard(self, other: MinHash) -> float:
        """The estimated Jaccard similarity of the two sets: the share of equal slots."""
        _check(other)
        self.spec.require_same(other.spec, "this MinHash", "the other")
        return float(np.count_nonzero(self.slots == other.slots) / self.spec.slots)

    def count(self) -> float:
        """The estimated number of distinct elements."""
        if self.is_empty():
            return 0.0
        mean = float(np.mean((self.slots.astype(np.float64) + 1) / 2**32))
        return max(1 / mean - 1, 1.0)

    def is_empty(self) -> bool:
        return bool((self.slots == EMPTY).all())

    def copy(self) -> MinHash:
        twin = type(self)(spec=self.spec, key=self._key)
        twin._slots = self.slots
        return twin

    def to_bytes(self) -> bytes:
        """The sketch with its specification and a checksum; `from_bytes` reads it."""
        return wire.pack(self.spec, self.slots.astype("<u4").tobytes())

    @classmethod
    def from_bytes(cls, data: bytes, key: bytes | Key | None = None) -> MinHash:
        """The sketch that `to_bytes` wrote; anything truncated or altered is an error.

        A keyed sketch can be compared and merged without its key, but not updated.
        """
        spec, payload = wire.unpack(data, lambda spec: spec.slots * 4)
        sketch = cls(spec=spec, key=key)
        sketch._slots = np.frombuffer(payload, "<u4").astype(np.uint32)
        return sketch

    def _add(self, hashes: NDArray[np.uint64]) -> None:
        offsets = np.array([0, len(hashes)], np.int64)
        fresh = signatures(hashes, offsets, seeded(self.spec, self._key))[0]
        with self._lock:
            np.minimum(self._slots, fresh, out=self._slots)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MinHash):
            return NotImplemented
        return self.spec == other.spec and bool((self.slots == other.slots).all())

    __hash__ = None  # type: ignore[assignment]  # it changes with every update

    def __len__(self) -> int:
        return self.spec.slots

    def __getstate__(self) -> dict[str, Any]:
        return {"bytes": self.to_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        twin = MinHash.from_bytes(state["bytes"])
        self.spec, self._key, self._slots = twin.spec, None, twin._slots
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"MinHash(slots={self.spec.slots}, seed={self.spec.seed}, count≈{self.count():.0f})"


def _check(other: object) -> None:
    if not isinstance(other, MinHash):
        raise ParameterError(f"the other must be a MinHash, not {type(other).__name__}")
