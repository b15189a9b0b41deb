"""SimHash fingerprints of bags of weighted terms: f bits that estimate the angle between two bags.

The first 64 bits of a term are its hash, the next 64 a mix of it. A bit of the fingerprint is 1 if
the terms that have it weigh more than those that don't; a term of negative weight counts on the
other side. Weights are whole multiples of 2^-16: sums are exact, and the order of terms, threads
and batches does not change the result. `SimHash` is the sketch of one bag, for library users;
`simhash_signatures` makes those of many documents at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import FormatError, ParameterError
from neardup.keys import Key, require_key
from neardup.sketch.base import Sketch, require_size
from neardup.spec import Spec

ONE = 1 << 16
MOST_WEIGHT = 1 << 31
MOST_TOTAL = 1 << 62
VECTOR_SCALE = float(1 << 15)
"""The weight of the largest number of a vector."""

Words = NDArray[np.uint64]


def simhash_signatures(
    shingles: Words, offsets: NDArray[np.int64], spec: Spec, weights: NDArray[np.uint32] | None
) -> Words:
    """Return one row of 64-bit words a document, lowest bits first; repeated shingles count again.

    Args:
        shingles: The shingles of all documents, one document after the other.
        offsets: Where each document's shingles begin, and the end.
        spec: The specification; `spec.slots` is the number of bits.
        weights: The weight of a shingle by the cell of its hash (`text/frequencies.py`); None for
            equal weights.
    """
    words = spec.slots // 64
    rows: Words = (
        kernels.simhash_equal(shingles, offsets, words)
        if weights is None
        else kernels.simhash_cells(shingles, offsets, weights, words)
    )
    return rows


class SimHash(Sketch):
    """The sketch of a bag: f bits whose Hamming distance estimates the angle between two bags.

    Any thread may update or merge it. The merge of two sketches is the sketch of both bags
    together. It is a bag, not a set: adding an element twice counts it twice, and merging a sketch
    with itself doubles all weights. Weights may be negative: a bag is then any vector of weighted
    features, and `of_vector` makes the sketch of a dense one, such as an embedding.

    Args:
        bits: The number of bits of the fingerprint, 64 or 128; more bits make estimates more
            precise.
        seed: The seed of the hashes; only sketches with the same seed can be compared.
        hash: The hash function: `xxh64`, `murmur3`, `fnv1a` or `siphash`.
        key: A secret key of 16 bytes, with `hash="siphash"`, so that nobody without it can make
            colliding elements; None for none.
        spec: The whole specification, instead of `bits`, `seed` and `hash`.

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
        """The number of bits of the fingerprint."""
        return self.spec.slots

    @property
    def sums(self) -> NDArray[np.int64]:
        """For each bit, the weight of the terms that have it minus that of the others, in 2^-16."""
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
        """Return the sum of all weights without their signs, rounded to multiples of 2^-16."""
        return self._total / ONE

    def update(self, element: str | bytes, weight: float = 1) -> None:
        """Add one occurrence of an element.

        Args:
            element: A string, which is hashed as UTF-8, or bytes.
            weight: The weight of the occurrence, from -2^31 to 2^31; 0 adds nothing.
        """
        self.update_batch([element], [weight])

    def update_batch(
        self, elements: Iterable[str | bytes], weights: Iterable[float] | None = None
    ) -> None:
        """Add many elements; the same as `update` for each, and much faster.

        Args:
            elements: Strings or bytes; or a mapping to their weights, such as
                `collections.Counter`.
            weights: A weight for each element; None for 1 each.
        """
        if isinstance(elements, Mapping):
            if weights is not None:
                raise ParameterError("the mapping has the weights: leave out the argument weights")
            weights = list(elements.values())
        self.update_hashes(self._hashes(elements), weights)

    def update_hashes(self, hashes: Words, weights: Iterable[float] | None = None) -> None:
        """Add elements by their 64-bit hashes, such as shingles.

        Args:
            hashes: A one-dimensional array of uint64.
            weights: A weight for each hash; None for 1 each.
        """
        require_key(self.spec, self._key)
        terms = np.asarray(hashes)
        if terms.dtype != np.uint64 or terms.ndim != 1:
            raise ParameterError(f"hashes must be an array of uint64, not of {terms.dtype}")
        fixed = _to_fixed_point(weights, len(terms))
        size = np.abs(fixed).view(np.uint64)
        total = _exact_sum(size)
        _require_room(total)
        against = fixed < 0
        sums = self._sums_of(terms[~against], size[~against])
        if against.any():
            sums -= self._sums_of(terms[against], size[against])
        self._add(sums, total)

    @classmethod
    def of_vector(
        cls,
        vector: Sequence[float] | NDArray[Any],
        bits: int = 64,
        seed: int = 0,
        *,
        spec: Spec | None = None,
    ) -> SimHash:
        """Return the sketch of a dense vector, whose `angle` to others is that between vectors.

        The elements are "0", "1", "2", ..., the places of the numbers, and the numbers divided by
        the largest one, times 2^15, are their weights. A vector and its multiples have the same
        sketch. The vectors should have ten numbers or more that differ from 0: fewer are estimated
        worse. To find similar ones among many vectors, give them to `neardup.dedup`.

        Args:
            vector: The numbers, positive or negative, at least one of which is not 0.
            bits: The number of bits of the fingerprint, 64 or 128.
            seed: The seed of the hashes; only sketches with the same seed can be compared.
            spec: The whole specification, instead of `bits` and `seed`.

        >>> a = SimHash.of_vector([0.5, -1.0, 0.25])
        >>> a == SimHash.of_vector([2.0, -4.0, 1.0])
        True
        >>> a.hamming(SimHash.of_vector([-0.5, 1.0, -0.25]))
        64
        """
        numbers = _require_vector(vector)
        largest = np.abs(numbers).max()
        sketch = cls(bits, seed, spec=spec)
        sketch.update_batch(map(str, range(len(numbers))), numbers / largest * VECTOR_SCALE)
        return sketch

    def hamming(self, other: SimHash) -> int:
        """Return the number of bits in which the fingerprints differ.

        Args:
            other: A SimHash of the same specification.
        """
        return (self.fingerprint ^ self._snapshot(other).fingerprint).bit_count()

    def angle(self, other: SimHash) -> float:
        """Estimate the angle t between the bags as vectors of weights: pi d / f, in radians.

        Unbiased for bags of many elements; its standard error is sqrt(t (pi - t) / f).

        Args:
            other: A SimHash of the same specification.
        """
        return math.pi * self.hamming(other) / self.bits

    def cosine(self, other: SimHash) -> float:
        """Estimate the cosine similarity of the bags: the cosine of `angle`.

        Args:
            other: A SimHash of the same specification.
        """
        return math.cos(self.angle(other))

    def is_empty(self) -> bool:
        """Return whether no element with a weight above 0 was added."""
        return self._total == 0

    def _sums_of(self, terms: Words, weights: Words) -> NDArray[np.int64]:
        """For each bit, return the weight of the terms that have it minus that of the others."""
        having = kernels.simhash_sums(np.ascontiguousarray(terms), weights, self.bits // 64)
        sums: NDArray[np.int64] = 2 * having.view(np.int64) - _exact_sum(weights)
        return sums

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
        require_size(payload, 8 * (1 + self.bits))
        values = np.frombuffer(payload, "<i8").astype(np.int64)
        self._total, self._sums = int(values[0]), values[1:]
        within = (-self._total <= self._sums) & (self._sums <= self._total)
        if self._total > MOST_TOTAL or not within.all() or (self._sums - self._total & 1).any():
            raise FormatError("the sums of the SimHash don't match its total weight")

    def __len__(self) -> int:
        return self.bits

    def __repr__(self) -> str:
        return (
            f"SimHash(bits={self.bits}, seed={self.spec.seed}, "
            f"fingerprint={self.fingerprint:0{self.bits // 4}x})"
        )


def _require_vector(vector: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    """Return the numbers of a vector; an error if it has no direction."""
    try:
        numbers = np.asarray(vector)
    except ValueError:  # rows of different lengths
        numbers = np.empty((0, 0))
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf":
        raise ParameterError("a vector is a list of numbers: give those of one document")
    numbers = numbers.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ParameterError("the vector has a NaN or an infinity: leave the document out")
    if not numbers.any():
        raise ParameterError("the vector is empty or all zeros, and has no direction")
    return numbers


def _to_fixed_point(weights: Iterable[float] | None, count: int) -> NDArray[np.int64]:
    """Return each weight as a number of 2^-16, rounded to the nearest; `count` times 1 for None."""
    if weights is None:
        return np.full(count, ONE, np.int64)
    try:
        values = weights if isinstance(weights, np.ndarray) else np.array(list(weights))
        if values.ndim != 1:
            raise ValueError
    except (TypeError, ValueError):
        raise ParameterError("weights must be numbers in a list: give one for each") from None
    if len(values) != count:
        raise ParameterError(f"{count} elements have {len(values)} weights: give one for each")
    if count and values.dtype.kind not in "iuf":
        raise ParameterError(f"weights must be numbers, not {values.dtype}")
    numbers = values.astype(np.float64)
    valid = np.abs(numbers) <= MOST_WEIGHT
    if not valid.all():
        raise ParameterError(
            f"weights must be from {-MOST_WEIGHT} to {MOST_WEIGHT}, not {values[~valid][0]}"
        )
    return np.rint(numbers * ONE).astype(np.int64)


def _exact_sum(weights: Words) -> int:
    """Return the sum of the weights, which may need more than 64 bits: halves are added apart."""
    high, low = weights >> np.uint64(32), weights & np.uint64(0xFFFFFFFF)
    return (int(high.sum()) << 32) + int(low.sum())


def _require_room(total: int) -> None:
    if total > MOST_TOTAL:
        raise ParameterError(
            f"the weights add up to more than {MOST_TOTAL // ONE}: divide all of them by the same "
            "number"
        )
