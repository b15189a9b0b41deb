"""Bags of weighted terms to SimHash fingerprints: f bits that know the angle between two bags.

A term's 64-bit hash is its first 64 bits, a mix of it the next 64. A bit of the fingerprint is 1 if
the terms that have it weigh more than those that have not. Weights are whole multiples of 2^-16, so
that sums are exact and the order of the terms, the threads and the batches change nothing.
`SimHash` is one bag's sketch, for people; `fingerprints` is the bulk form, for the compositions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import FormatError, ParameterError
from neardup.keys import Key, require_key
from neardup.sketch.base import Sketch
from neardup.spec import Spec

ONE = 1 << 16
MOST_WEIGHT = 1 << 31
MOST_TOTAL = 1 << 62

Words = NDArray[np.uint64]


def simhash_signatures(
    shingles: Words, offsets: NDArray[np.int64], spec: Spec, weights: NDArray[np.uint32] | None
) -> Words:
    """One row of 64-bit words a document, lowest bits first; repeated shingles count again.

    Without weights each occurrence weighs the same; with them, what the cell of its hash says.
    """
    places = spec.slots // 64
    found: Words = (
        kernels.simhash_equal(shingles, offsets, places)
        if weights is None
        else kernels.simhash_cells(shingles, offsets, weights, places)
    )
    return found


class SimHash(Sketch):
    """A bag's sketch: f bits whose distance to another's estimates the angle between the bags.

    Updates and merges may come from several threads. The sketch of two bags thrown together is the
    merge of their sketches, whatever the order. It is a bag, not a set: adding an element twice
    counts it twice, and merging a sketch with itself doubles all weights.

    Args:
        bits: The bits of a fingerprint, 64 or 128.
        seed: The seed of the hashes; only sketches with the same seed can be compared.
        hash: The hash function: `xxh64`, `murmur3`, `fnv1a` or `siphash`.
        key: A secret that makes the hashes unpredictable to others; None for none.
        spec: The whole specification, instead of the arguments above.

    >>> a, b = SimHash(), SimHash()
    >>> a.update_batch(["cat", "sat", "mat"], [3, 2, 2])
    >>> b.update_batch(["cat", "sat", "rat"], [3, 2, 2])
    >>> 0.4 < a.cosine(b) < 1.0   # the truth is 13/17
    True
    """

    KIND = "simhash"

    def __init__(
        self,
        bits: int = 64,
        seed: int = 0,
        *,
        hash: str = "xxh64",
        key: bytes | Key | None = None,
        spec: Spec | None = None,
    ) -> None:
        super().__init__(spec, key, slots=bits, seed=seed, hash=hash)
        self._sums = np.zeros(self.spec.slots, np.int64)
        self._total = 0

    @property
    def bits(self) -> int:
        return self.spec.slots

    @property
    def sums(self) -> NDArray[np.int64]:
        """A copy of V, in 2^-16: the weights that have a bit, less those that have not."""
        with self._lock:
            return self._sums.copy()

    @property
    def words(self) -> Words:
        """The fingerprint as 64-bit words, lowest bits first."""
        return np.packbits(self.sums > 0, bitorder="little").view("<u8").astype(np.uint64)

    @property
    def fingerprint(self) -> int:
        """The fingerprint as one number; 0 for the empty bag."""
        return int.from_bytes(self.words.astype("<u8").tobytes(), "little")

    def total(self) -> float:
        """The sum of all weights, as they were rounded."""
        return self._total / ONE

    def update(self, element: str | bytes, weight: float = 1) -> None:
        """Add an element once, with its weight; a weight of 0 adds nothing."""
        self.update_batch([element], [weight])

    def update_batch(
        self, elements: Iterable[str | bytes], weights: Iterable[float] | None = None
    ) -> None:
        """Add many elements; the same as `update` for each, and much faster.

        A mapping such as `collections.Counter` has elements and weights.
        """
        if isinstance(elements, Mapping):
            if weights is not None:
                raise ParameterError("the mapping has the weights: give no others")
            weights = list(elements.values())
        self.update_hashes(self._hashes(elements), weights)

    def update_hashes(self, hashes: Words, weights: Iterable[float] | None = None) -> None:
        """Add elements that are 64-bit hashes already, such as shingles."""
        require_key(self.spec, self._key)
        terms = np.asarray(hashes)
        if terms.dtype != np.uint64 or terms.ndim != 1:
            raise ParameterError(f"hashes must be an array of uint64, not of {terms.dtype}")
        fixed = _fixed(weights, len(terms))
        total = _exact_sum(fixed)
        _require_room(total)
        having = kernels.simhash_sums(np.ascontiguousarray(terms), fixed, self.bits // 64)
        self._add(2 * having.view(np.int64) - total, total)

    def hamming(self, other: SimHash) -> int:
        """In how many bits the fingerprints differ."""
        return (self.fingerprint ^ self._snapshot(other).fingerprint).bit_count()

    def angle(self, other: SimHash) -> float:
        """The estimated angle between the bags, as vectors of weights: pi d / f.

        Without bias for bags of many elements; its standard error is sqrt(t (pi - t) / f).
        """
        return math.pi * self.hamming(other) / self.bits

    def cosine(self, other: SimHash) -> float:
        """The estimated cosine similarity of the bags: that of the angle."""
        return math.cos(self.angle(other))

    def is_empty(self) -> bool:
        """Whether nothing of any weight was added."""
        return self._total == 0

    def _add(self, sums: NDArray[np.int64], total: int) -> None:
        with self._lock:
            _require_room(self._total + total)
            self._sums += sums
            self._total += total

    def _absorb(self, other: SimHash) -> None:
        self._add(other._sums, other._total)

    def _payload(self) -> bytes:
        return np.array([self._total, *self._sums], "<i8").tobytes()

    def _restore(self, payload: bytes) -> None:
        if len(payload) != 8 * (1 + self.bits):
            raise FormatError(
                f"the sketch holds {len(payload)} bytes, its specification says "
                f"{8 * (1 + self.bits)}"
            )
        values = np.frombuffer(payload, "<i8").astype(np.int64)
        self._total, self._sums = int(values[0]), values[1:]
        within = (-self._total <= self._sums) & (self._sums <= self._total)
        if self._total > MOST_TOTAL or not within.all() or (self._sums - self._total & 1).any():
            raise FormatError("a SimHash holds sums that its total weight can't have")

    def __len__(self) -> int:
        return self.bits

    def __repr__(self) -> str:
        return (
            f"SimHash(bits={self.bits}, seed={self.spec.seed}, "
            f"fingerprint={self.fingerprint:0{self.bits // 4}x})"
        )


def _fixed(weights: Iterable[float] | None, count: int) -> Words:
    """Weights as multiples of 2^-16, the nearest ones."""
    if weights is None:
        return np.full(count, ONE, np.uint64)
    try:
        given = weights if isinstance(weights, np.ndarray) else np.array(list(weights))
        if given.ndim != 1:
            raise ValueError
    except (TypeError, ValueError):
        raise ParameterError("weights must be numbers in a list: give one for each") from None
    if len(given) != count:
        raise ParameterError(f"{count} elements have {len(given)} weights: give one for each")
    if count and given.dtype.kind not in "iuf":
        raise ParameterError(f"weights must be numbers, not {given.dtype}")
    numbers = given.astype(np.float64)
    possible = (numbers >= 0) & (numbers <= MOST_WEIGHT)
    if not possible.all():
        wrong = given[~possible][0]
        raise ParameterError(f"weights must be from 0 to {MOST_WEIGHT}, not {wrong}")
    return np.rint(numbers * ONE).astype(np.uint64)


def _exact_sum(weights: Words) -> int:
    """Halves are added apart, because the sum of many large weights has more than 64 bits."""
    high, low = weights >> np.uint64(32), weights & np.uint64(0xFFFFFFFF)
    return (int(high.sum()) << 32) + int(low.sum())


def _require_room(total: int) -> None:
    if total > MOST_TOTAL:
        raise ParameterError(
            f"the weights add up to more than {MOST_TOTAL // ONE}: make them smaller, all alike"
        )
