"""Sets of 64-bit shingles to MinHash signatures: k slots, each the least value of a permutation.

`MinHash` is one set's sketch, for people; `minhash_signatures` and `oneperm_signatures` are the
bulk forms. One-permutation MinHash lets a shingle fall into one slot a round instead of trying it
in all of them, so that many slots cost little more than few. Slots that stay empty are filled
from others at the end, by a rule that is the same for every set: two sets agree in a slot as
often as they are similar.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError
from neardup.keys import Key, require_key, seeded, to_key
from neardup.sketch import base
from neardup.sketch.base import hash_element, hash_elements
from neardup.sketch.bbit import BBitMinHash, pack_slots
from neardup.spec import B_BITS, MINHASHES, Spec, check_choice

EMPTY = np.uint32(0xFFFFFFFF)
FIRST_ROUND = 1 << 31
"""Values of the first round are below it."""
ROUNDS, SHIFTS = 16, 64


@cache
def multipliers(seed: int) -> tuple[np.uint64, NDArray[np.uint64]]:
    """What shingles are mixed with first, and what they are multiplied with in each round."""
    rounds = [xxhash.xxh64_intdigest(f"r:{number}".encode(), seed) | 1 for number in range(ROUNDS)]
    return np.uint64(xxhash.xxh64_intdigest(b"oneperm", seed)), np.array(rounds, np.uint64)


@cache
def shifts(slots: int) -> NDArray[np.int64]:
    """Which slots help out, counted from the empty one. They are the same for every seed.

    The neighbour is the last of them: from any slot, all are reached.
    """
    hashes = [xxhash.xxh64_intdigest(f"s:{number}".encode(), 0) for number in range(SHIFTS - 1)]
    return np.array([*(1 + each % max(slots - 1, 1) for each in hashes), 1], np.int64)


def oneperm_signatures(
    shingles: NDArray[np.uint64], offsets: NDArray[np.int64], spec: Spec, *, fill: bool = True
) -> tuple[Slots, NDArray[np.int64]]:
    """One row of slots a document, and how many slots of each were empty before they were filled.

    Rows that are not filled can be merged by their least values.
    """
    # NumPy asks for large pages, which is faster by half for thousands of slots.
    rows = np.empty((len(offsets) - 1, spec.slots), np.uint32)
    filling = shifts(spec.slots)[: SHIFTS if fill else 0]
    empty: NDArray[np.int64] = kernels.one_permutation(
        shingles, offsets, *multipliers(spec.seed), filling, rows
    )
    return rows, empty


def fill_slots(rows: Slots) -> Slots:
    """The rows with their empty slots filled; those of empty sets stay as they are."""
    rows = np.array(rows, np.uint32, order="C")
    kernels.fill_rows(rows, shifts(rows.shape[1]))
    return rows


def estimate_count(slots: Slots) -> float:
    """The estimated size of a set, from slots that are not filled.

    A slot waits for its first value of the first round until 1; the rate is that of the values
    that came, by the time that was waited.
    """
    waited = np.minimum(slots, FIRST_ROUND) / FIRST_ROUND
    return float(len(slots) * np.count_nonzero(waited < 1) / waited.sum())


PRIME = 2**61 - 1

Slots = NDArray[Any]
"""Of uint32, or uint64 for the family affine-m61."""


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


@cache
def wide_permutations(slots: int, seed: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The same for the prime 2^61 - 1: a from 1, b from 0, both less than it."""
    a = [xxhash.xxh64_intdigest(f"a:{slot}".encode(), seed) for slot in range(slots)]
    b = [xxhash.xxh64_intdigest(f"b:{slot}".encode(), seed) for slot in range(slots)]
    return (
        np.array([1 + value % (PRIME - 1) for value in a], np.uint64),
        np.array([value % PRIME for value in b], np.uint64),
    )


def minhash_signatures(
    shingles: NDArray[np.uint64], offsets: NDArray[np.int64], spec: Spec
) -> Slots:
    """One row of slots a document. Repeated shingles change nothing."""
    rows: Slots
    if spec.family == "affine32":
        rows = kernels.minhash_m32(shingles, offsets, *permutations(spec.slots, spec.seed))
    else:
        rows = kernels.minhash_m61(shingles, offsets, *wide_permutations(spec.slots, spec.seed))
    return rows


def mergeable(shingles: NDArray[np.uint64], offsets: NDArray[np.int64], spec: Spec) -> Slots:
    """The same, with slots that may be empty and are filled when all is merged."""
    if spec.sketch == "oneperm":
        return oneperm_signatures(shingles, offsets, spec, fill=False)[0]
    return minhash_signatures(shingles, offsets, spec)


class MinHash:
    """A set's sketch: k slots that estimate its Jaccard similarity to any other such set.

    Updates and merges may come from several threads. The sketch of a union is the merge of the
    sketches, whatever the order; adding an element twice changes nothing.

    Args:
        slots: The number k of slots; the standard error is at most 1 / (2 sqrt(k)).
        seed: The seed of the hashes; only sketches with the same seed can be compared.
        hash: The hash function: `xxh64`, `murmur3`, `fnv1a` or `siphash`.
        key: A secret that makes the hashes unpredictable to others; None for none.
        spec: The whole specification, instead of the arguments above.

    >>> a, b = MinHash(), MinHash()
    >>> a.update_batch(["the cat", "cat sat"])
    >>> b.update_batch(["the cat", "cat lay"])
    >>> 0.1 < a.jaccard(b) < 0.6   # the truth is 1/3
    True
    """

    def __init__(
        self,
        slots: int = 128,
        seed: int = 0,
        *,
        hash: str = "xxh64",
        key: bytes | Key | None = None,
        spec: Spec | None = None,
    ) -> None:
        self._key = to_key(key)
        if spec is None:
            spec = Spec(slots=slots, seed=seed, hash=hash, key=self._key.id if self._key else "")
        if self._key is not None:
            require_key(spec, self._key)
        _require(spec)
        self.spec = spec
        kind = np.uint32 if self.spec.width == 32 else np.uint64
        self._slots: Slots = np.full(self.spec.slots, np.iinfo(kind).max, kind)
        self._lock = threading.Lock()

    @property
    def slots(self) -> Slots:
        """The slots as they are compared; all have the greatest value for the empty set."""
        found = self._snapshot()
        return fill_slots(found[None])[0] if self._fills else found

    @property
    def empty_bin_rate(self) -> float:
        """The share of slots that no element fell into; `slots` has them filled."""
        return float(np.count_nonzero(_is_empty(self._snapshot())) / self.spec.slots)

    def _snapshot(self) -> Slots:
        with self._lock:
            return self._slots.copy()

    @property
    def _fills(self) -> bool:
        return self.spec.sketch == "oneperm"

    def update(self, element: str | bytes) -> None:
        """Add one element to the set."""
        self._add(hash_element(element, self.spec, self._key))

    def update_batch(self, elements: Iterable[str | bytes]) -> None:
        """Add many elements; the same as `update` for each, and much faster."""
        self._add(hash_elements(elements, self.spec, self._key))

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
        theirs = other._snapshot()
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
        slots = self._snapshot()
        if self._fills:
            return max(estimate_count(slots), 1.0)
        values = 2**32 if self.spec.family == "affine32" else PRIME
        mean = float(np.mean((slots.astype(np.float64) + 1) / values))
        return max(1 / mean - 1, 1.0)

    def is_empty(self) -> bool:
        return bool(_is_empty(self._snapshot()).all())

    def copy(self) -> MinHash:
        twin = type(self)(spec=self.spec, key=self._key)
        twin._slots = self._snapshot()
        return twin

    def b_bit(self, bits: int) -> BBitMinHash:
        """The sketch with b bits a slot (1, 2, 4, 8, 16), to be stored and compared."""
        check_choice("bits of a slot", bits, B_BITS)
        return BBitMinHash(
            replace(self.spec, bits=bits), pack_slots(self.slots[None], bits).tobytes()
        )

    def to_bytes(self) -> bytes:
        """The sketch with its specification and a checksum; `from_bytes` reads it."""
        slots = self._snapshot()
        return base.pack_sketch(self.spec, slots.astype(slots.dtype.newbyteorder("<")).tobytes())

    @classmethod
    def from_bytes(cls, data: bytes, key: bytes | Key | None = None) -> MinHash:
        """The sketch that `to_bytes` wrote; anything truncated or altered is an error.

        A keyed sketch can be compared and merged without its key, but not updated.
        """
        spec, payload = base.unpack_sketch(data, _require, lambda spec: spec.slots * spec.bits // 8)
        sketch = cls(spec=spec, key=key)
        kind = sketch._slots.dtype
        sketch._slots = np.frombuffer(payload, kind.newbyteorder("<")).astype(kind)
        return sketch

    def _add(self, hashes: NDArray[np.uint64]) -> None:
        offsets = np.array([0, len(hashes)], np.int64)
        fresh = mergeable(hashes, offsets, seeded(self.spec, self._key))[0]
        with self._lock:
            np.minimum(self._slots, fresh, out=self._slots)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MinHash):
            return NotImplemented
        return self.spec == other.spec and bool((self._snapshot() == other._snapshot()).all())

    __hash__ = None  # type: ignore[assignment]  # it changes with every update

    def __len__(self) -> int:
        return self.spec.slots

    def __getstate__(self) -> dict[str, Any]:
        return {"bytes": self.to_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        twin = MinHash.from_bytes(state["bytes"])
        self.__dict__.update(twin.__dict__)

    def __repr__(self) -> str:
        return f"MinHash(slots={self.spec.slots}, seed={self.spec.seed}, count≈{self.count():.0f})"


def _require(spec: Spec) -> None:
    """Refuse a specification that a MinHash can't have, whether given or read."""
    check_choice("sketch of a MinHash", spec.sketch, MINHASHES)
    if spec.narrow:
        raise ParameterError(
            f"a MinHash has slots of {spec.width} bits: make it without bits, then call "
            f"b_bit({spec.bits})"
        )


def _is_empty(slots: Slots) -> NDArray[np.bool_]:
    empty: NDArray[np.bool_] = slots == np.iinfo(slots.dtype).max
    return empty


def _check(other: object) -> None:
    if not isinstance(other, MinHash):
        raise ParameterError(f"the other must be a MinHash, not {type(other).__name__}")
