"""MinHash signatures of sets of 64-bit shingles: k slots, each the minimum of a permutation.

`MinHash` is the sketch of one set, for library users; `minhash_signatures` and
`oneperm_signatures` make signatures of many sets at once. One-permutation MinHash puts a shingle
into one slot a round instead of trying it in all of them, so that thousands of slots cost little
more than a hundred. Slots that stay empty are filled from others at the end, by a rule that is the
same for every set, so that two sets agree in a slot with the probability of their similarity.
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
"""Values of the first round are below this one."""
ROUNDS, SHIFTS = 16, 64


@cache
def multipliers(seed: int) -> tuple[np.uint64, NDArray[np.uint64]]:
    """Return the constant that shingles are XORed with, and the odd multiplier of each round."""
    rounds = [xxhash.xxh64_intdigest(f"r:{number}".encode(), seed) | 1 for number in range(ROUNDS)]
    return np.uint64(xxhash.xxh64_intdigest(b"oneperm", seed)), np.array(rounds, np.uint64)


@cache
def shifts(slots: int) -> NDArray[np.int64]:
    """Return the distances from an empty slot to the slots that it is filled from, in order.

    They are the same for every seed. The last distance is 1: by repeating it, every slot is
    reached.
    """
    hashes = [xxhash.xxh64_intdigest(f"s:{number}".encode(), 0) for number in range(SHIFTS - 1)]
    return np.array([*(1 + each % max(slots - 1, 1) for each in hashes), 1], np.int64)


def oneperm_signatures(
    shingles: NDArray[np.uint64], offsets: NDArray[np.int64], spec: Spec, *, fill: bool = True
) -> tuple[Slots, NDArray[np.int64]]:
    """Return one row of slots a document, and each document's number of empty slots.

    Args:
        shingles: The shingles of all documents, one document after the other.
        offsets: Where each document's shingles begin, and the end.
        spec: The specification: number of slots and seed.
        fill: Fill empty slots from others. Rows that are not filled can be merged by taking the
            lesser value of each slot.
    """
    # NumPy asks for large pages, which is faster by half for thousands of slots.
    rows = np.empty((len(offsets) - 1, spec.slots), np.uint32)
    filling = shifts(spec.slots)[: SHIFTS if fill else 0]
    empty: NDArray[np.int64] = kernels.one_permutation(
        shingles, offsets, *multipliers(spec.seed), filling, rows
    )
    return rows, empty


def fill_slots(rows: Slots) -> Slots:
    """Return a copy of the rows with empty slots filled; rows of empty sets stay empty."""
    rows = np.array(rows, np.uint32, order="C")
    kernels.fill_rows(rows, shifts(rows.shape[1]))
    return rows


def estimate_count(slots: Slots) -> float:
    """Estimate the size of a set from one-permutation slots that are not filled.

    The least value of a slot in the first round is an exponential waiting time, observed until 1:
    the maximum likelihood estimate of its rate is the number of arrivals by the time observed.
    """
    waited = np.minimum(slots, FIRST_ROUND) / FIRST_ROUND
    return float(len(slots) * np.count_nonzero(waited < 1) / waited.sum())


PRIME = 2**61 - 1

Slots = NDArray[Any]
"""An array of uint32, or of uint64 for the family affine-m61."""


@cache
def permutations(slots: int, seed: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the constants a (odd) and b of each slot, by the rule in docs/format.md."""
    a = [xxhash.xxh64_intdigest(f"a:{slot}".encode(), seed) for slot in range(slots)]
    b = [xxhash.xxh64_intdigest(f"b:{slot}".encode(), seed) for slot in range(slots)]
    low = np.uint64(0xFFFFFFFF)
    return (
        (np.array(a, np.uint64) & low).astype(np.uint32) | np.uint32(1),
        (np.array(b, np.uint64) & low).astype(np.uint32),
    )


@cache
def wide_permutations(slots: int, seed: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return a and b of each slot modulo the prime 2^61 - 1; a is not 0."""
    a = [xxhash.xxh64_intdigest(f"a:{slot}".encode(), seed) for slot in range(slots)]
    b = [xxhash.xxh64_intdigest(f"b:{slot}".encode(), seed) for slot in range(slots)]
    return (
        np.array([1 + value % (PRIME - 1) for value in a], np.uint64),
        np.array([value % PRIME for value in b], np.uint64),
    )


def minhash_signatures(
    shingles: NDArray[np.uint64], offsets: NDArray[np.int64], spec: Spec
) -> Slots:
    """Return one row of slots a document. Repeated shingles change nothing."""
    rows: Slots
    if spec.family == "affine32":
        rows = kernels.minhash_m32(shingles, offsets, *permutations(spec.slots, spec.seed))
    else:
        rows = kernels.minhash_m61(shingles, offsets, *wide_permutations(spec.slots, spec.seed))
    return rows


def mergeable(shingles: NDArray[np.uint64], offsets: NDArray[np.int64], spec: Spec) -> Slots:
    """Return signatures that can be merged: one-permutation slots are not filled yet."""
    if spec.sketch == "oneperm":
        return oneperm_signatures(shingles, offsets, spec, fill=False)[0]
    return minhash_signatures(shingles, offsets, spec)


class MinHash:
    """The sketch of a set: k slots that estimate its Jaccard similarity to another set.

    Any thread may update or merge it. The merge of two sketches is the sketch of the union; adding
    an element twice changes nothing.

    Args:
        slots: The number k of slots, called `num_perm` elsewhere. More slots make estimates more
            precise and the sketch larger, 4 bytes a slot: the standard error of `jaccard` is
            sqrt(J (1 - J) / k), at most 0.044 with 128.
        seed: The seed of the hashes; only sketches with the same seed can be compared.
        hash: The hash function of elements: `xxh64`, `murmur3`, `fnv1a` or `siphash`.
        key: A secret key of 16 bytes, with `hash="siphash"`, so that nobody without it can make
            colliding elements; None for none.
        spec: The whole specification, instead of `slots`, `seed` and `hash`; for example
            `Spec.of(sketch="oneperm", slots=1024)` for one-permutation MinHash.

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
        held = self._snapshot()
        return fill_slots(held[None])[0] if self._fills else held

    @property
    def empty_bin_rate(self) -> float:
        """The share of slots that have no element; in `slots` they are filled from others."""
        return float(np.count_nonzero(_is_empty(self._snapshot())) / self.spec.slots)

    def _snapshot(self) -> Slots:
        with self._lock:
            return self._slots.copy()

    @property
    def _fills(self) -> bool:
        return self.spec.sketch == "oneperm"

    def update(self, element: str | bytes) -> None:
        """Add one element to the set.

        Args:
            element: A string, which is hashed as UTF-8, or bytes.
        """
        self._add(hash_element(element, self.spec, self._key))

    def update_batch(self, elements: Iterable[str | bytes]) -> None:
        """Add many elements; the same as `update` for each, and much faster.

        Args:
            elements: Strings or bytes, in any order.
        """
        self._add(hash_elements(elements, self.spec, self._key))

    def update_hashes(self, hashes: NDArray[np.uint64]) -> None:
        """Add elements by their 64-bit hashes, such as shingles.

        Args:
            hashes: A one-dimensional array of uint64.
        """
        values = np.asarray(hashes)
        if values.dtype != np.uint64 or values.ndim != 1:
            raise ParameterError(f"hashes must be an array of uint64, not of {values.dtype}")
        self._add(np.ascontiguousarray(values))

    def merge(self, other: MinHash) -> None:
        """Merge another sketch into this one, which then is the sketch of the union.

        Args:
            other: A MinHash of the same specification; it is not changed.
        """
        _check(other)
        self.spec.require_same(other.spec, "this MinHash", "the other")
        theirs = other._snapshot()
        with self._lock:
            np.minimum(self._slots, theirs, out=self._slots)

    def jaccard(self, other: MinHash) -> float:
        """Estimate the Jaccard similarity of the two sets: the share of equal slots.

        Unbiased; its standard error is sqrt(J (1 - J) / k).

        Args:
            other: A MinHash of the same specification.
        """
        _check(other)
        self.spec.require_same(other.spec, "this MinHash", "the other")
        return float(np.count_nonzero(self.slots == other.slots) / self.spec.slots)

    def count(self) -> float:
        """Estimate the number of distinct elements."""
        if self.is_empty():
            return 0.0
        slots = self._snapshot()
        if self._fills:
            return max(estimate_count(slots), 1.0)
        values = 2**32 if self.spec.family == "affine32" else PRIME
        mean = float(np.mean((slots.astype(np.float64) + 1) / values))
        return max(1 / mean - 1, 1.0)

    def is_empty(self) -> bool:
        """Return whether the set has no elements."""
        return bool(_is_empty(self._snapshot()).all())

    def copy(self) -> MinHash:
        """Return an independent copy."""
        twin = type(self)(spec=self.spec, key=self._key)
        twin._slots = self._snapshot()
        return twin

    def b_bit(self, bits: int) -> BBitMinHash:
        """Return the sketch cut to b bits a slot, which is small to store and can be compared.

        Args:
            bits: The bits to keep of each slot: 1, 2, 4, 8 or 16.
        """
        check_choice("bits of a slot", bits, B_BITS)
        return BBitMinHash(
            replace(self.spec, bits=bits), pack_slots(self.slots[None], bits).tobytes()
        )

    def to_bytes(self) -> bytes:
        """Return the sketch, its specification and a checksum as bytes for `from_bytes`."""
        slots = self._snapshot()
        return base.pack_sketch(self.spec, slots.astype(slots.dtype.newbyteorder("<")).tobytes())

    @classmethod
    def from_bytes(cls, data: bytes, key: bytes | Key | None = None) -> MinHash:
        """Return the sketch of bytes that `to_bytes` made.

        Args:
            data: The bytes; truncated, altered or other bytes raise `FormatError`.
            key: The secret key of a keyed sketch. Without it the sketch can be compared and
                merged, but not updated.
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
    """Raise `ParameterError` for a specification that a MinHash can't have."""
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
