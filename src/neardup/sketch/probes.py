"""A MinHash for queries that look into more buckets: it knows each slot's second least value."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError
from neardup.keys import Key, seeded
from neardup.sketch import wire
from neardup.sketch.minhash import MinHash, signatures
from neardup.spec import Spec

AT_ONCE = 4_096
"""Elements whose values are in memory at the same time."""


class ProbeMinHash(MinHash):
    """A MinHash that also keeps the second least value of each slot, for `MinHashLSH.query`.

    Twice the size of a MinHash, and one in every other respect: it can be compared with, merged
    into and inserted like any other. Only a ProbeMinHash can be merged into it.

    >>> query = ProbeMinHash()
    >>> query.update_batch(["the cat", "cat sat"])
    >>> bool((query.slots < query.seconds).all())
    True
    """

    def __init__(self, slots: int = 128, seed: int = 0, *, hash: str = "xxh64",
                 key: bytes | Key | None = None, spec: Spec | None = None) -> None:  # fmt: skip
        super().__init__(slots, seed, hash=hash, key=key, spec=spec)
        self._set(np.stack([self._slots, self._slots]))

    @property
    def seconds(self) -> NDArray[Any]:
        """Each slot's value if the element that made its least one were not there; the largest
        possible value where there is no other element."""
        with self._lock:
            return np.array(self._two[1])

    def merge(self, other: MinHash) -> None:
        """Make this the sketch of the union of both sets."""
        if not isinstance(other, ProbeMinHash):
            raise ParameterError(
                f"a {type(other).__name__} has no second values: merge a ProbeMinHash, or merge "
                "this one into a MinHash"
            )
        self.spec.require_same(other.spec, "this ProbeMinHash", "the other")
        with other._lock:
            theirs = other._two.copy()
        self._take(theirs)

    def copy(self) -> ProbeMinHash:
        twin = type(self)(spec=self.spec, key=self._key)
        with self._lock:
            twin._set(self._two.copy())
        return twin

    def to_bytes(self) -> bytes:
        """The sketch with its specification and a checksum; `from_bytes` reads it."""
        with self._lock:
            little = self._two.astype(self._two.dtype.newbyteorder("<"))
        return wire.pack(self.spec, little.tobytes())

    @classmethod
    def from_bytes(cls, data: bytes, key: bytes | Key | None = None) -> ProbeMinHash:
        """The sketch that `to_bytes` wrote; anything truncated or altered is an error."""
        spec, payload = wire.unpack(data, lambda spec: 2 * spec.slots * spec.width // 8)
        sketch = cls(spec=spec, key=key)
        kind = sketch._two.dtype
        values = np.frombuffer(payload, kind.newbyteorder("<")).astype(kind)
        sketch._set(values.reshape(sketch._two.shape))
        return sketch

    def _add(self, hashes: NDArray[np.uint64]) -> None:
        spec = seeded(self.spec, self._key)
        for start in range(0, len(hashes), AT_ONCE):
            some = hashes[start : start + AT_ONCE]
            self._take(signatures(some, np.arange(len(some) + 1), spec))

    def _take(self, values: NDArray[Any]) -> None:
        """Keep the two least of these values, row by row, and of those that are there."""
        with self._lock:
            self._set(kernels.two_least(np.concatenate([self._two, values])))

    def _set(self, two: NDArray[Any]) -> None:
        self._two = two
        self._slots = two[0]

    def __setstate__(self, state: dict[str, Any]) -> None:
        twin = ProbeMinHash.from_bytes(state["bytes"])
        self.spec, self._key, self._lock = twin.spec, None, threading.Lock()
        self._set(twin._two)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProbeMinHash):
            return super().__eq__(other)
        return self.spec == other.spec and np.array_equal(self.copy()._two, other.copy()._two)

    __hash__ = None  # it changes with every update

    def __repr__(self) -> str:
        return f"Probe{super().__repr__()}"
