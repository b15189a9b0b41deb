"""Weighted MinHash: k slots that estimate the weighted Jaccard similarity of two bags.

That is the sum over all elements of the lesser weight, divided by the sum of the greater one; for
equal weights it is Jaccard. `WeightedMinHash` is the sketch of one bag, for library users;
`weighted_signatures` makes those of many documents at once. A slot is the least rank of its darts
(`kernels/darts.py`), as the bits of a float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import FormatError, ParameterError
from neardup.keys import Key, seeded
from neardup.sketch.base import Hashes, Sketch, require_size
from neardup.spec import MAX_SLOTS, Spec, check_whole

EMPTY: Final = np.uint32(0x7F800000)
"""The bits of infinity: the slot has no dart."""
UNIT: Final = 2**16
"""Weights are whole multiples of 1 / UNIT."""
MOST: Final = 2**32


def weighted_signatures(
    shingles: Hashes,
    offsets: NDArray[np.int64],
    spec: Spec,
    weights: NDArray[np.uint32] | None = None,
) -> NDArray[np.uint32]:
    """Return one row of slots a document. A shingle weighs the sum over its occurrences.

    Args:
        shingles: The shingles of all documents, one document after the other.
        offsets: Where each document's shingles begin, and the end.
        spec: The specification: number of slots and seed.
        weights: The weight of an occurrence by the cell of its hash (`text/frequencies.py`); None
            for 1 each.
    """
    return _throw_darts(shingles, occurrence_weights(shingles, weights), offsets, spec)


def occurrence_weights(shingles: Hashes, weights: NDArray[np.uint32] | None) -> Hashes:
    """Return the weight of each occurrence, in 1 / UNIT, from the weights of all cells."""
    if weights is None:
        return np.full(len(shingles), UNIT, np.uint64)
    bits = len(weights).bit_length() - 1
    each: Hashes = weights[shingles >> np.uint64(64 - bits)].astype(np.uint64)
    return each


def _throw_darts(
    shingles: Hashes, weights: Hashes, offsets: NDArray[np.int64], spec: Spec
) -> NDArray[np.uint32]:
    key = np.uint64(_key(spec.seed))
    rows: NDArray[np.uint32] = kernels.throw_darts(shingles, weights, offsets, spec.slots, key)
    return rows


@cache
def _key(seed: int) -> int:
    return xxhash.xxh64_intdigest(b"darts", seed)


class WeightedMinHash(Sketch):
    """The sketch of a bag: k slots that estimate its weighted Jaccard similarity to another bag.

    An element's weight is the greatest that it was added with: adding it again with the same
    weight changes nothing, the order does not matter, and the merge of two sketches has the greater
    weights. Count first (`collections.Counter`) where repetitions should add up. Weights are
    rounded to multiples of 1/65536.

    Args:
        slots: The number k of slots, at least 2; the standard error of `jaccard` is
            sqrt(J (1 - J) / k), at most 0.044 with 128.
        seed: The seed of the hashes; only sketches with the same seed can be compared.
        hash: The hash function: `xxh64`, `murmur3`, `fnv1a` or `siphash`.
        key: A secret key of 16 bytes, with `hash="siphash"`, so that nobody without it can make
            colliding elements; None for none.
        spec: The whole specification, instead of `slots`, `seed` and `hash`.

    >>> a, b = WeightedMinHash(), WeightedMinHash()
    >>> a.update_batch({"cat": 3.0, "sat": 1.0})
    >>> b.update_batch({"cat": 3.0, "lay": 1.0})
    >>> 0.4 < a.jaccard(b) < 0.8   # the truth is 3 / 5
    True
    """

    KIND = "weighted"

    def __init__(
        self,
        slots: int = 128,
        seed: int = 0,
        *,
        hash: str = "xxh64",
        key: bytes | Key | None = None,
        spec: Spec | None = None,
    ) -> None:
        super().__init__(spec, key, slots=slots, seed=seed, hash=hash)
        self._slots = np.full(self.spec.slots, EMPTY)

    @classmethod
    def _require(cls, spec: Spec) -> None:
        super()._require(spec)
        check_whole("number of slots", spec.slots, 2, MAX_SLOTS)  # `total` divides by slots - 1

    @property
    def slots(self) -> NDArray[np.uint32]:
        """A copy of the slots; all are the bits of infinity for an empty bag."""
        with self._lock:
            return self._slots.copy()

    def update(self, element: str | bytes, weight: float = 1.0) -> None:
        """Add one element.

        Args:
            element: A string, which is hashed as UTF-8, or bytes.
            weight: Its weight: 0, which adds nothing, or from 1/65536 to 2^32.
        """
        self._add(self._hash(element), to_fixed_point([weight]))

    def update_batch(self, weights: Mapping[str, float] | Mapping[bytes, float]) -> None:
        """Add many elements; the same as `update` for each, and much faster.

        Args:
            weights: The weight of each element, `{element: weight}`, such as a
                `collections.Counter`.
        """
        if not isinstance(weights, Mapping):
            raise ParameterError(
                "update_batch takes elements with their weights, {element: weight}: "
                "use collections.Counter to count"
            )
        self._add(self._hashes(weights), to_fixed_point(list(weights.values())))

    def jaccard(self, other: WeightedMinHash) -> float:
        """Estimate the weighted Jaccard similarity of the two bags: the share of equal slots.

        Unbiased; its standard error is sqrt(J (1 - J) / k).

        Args:
            other: A WeightedMinHash of the same specification.
        """
        return float(np.mean(self.slots == self._snapshot(other).slots))

    def total(self) -> float:
        """Estimate the sum of all weights; the relative standard error is 1 / sqrt(k - 2)."""
        ranks = self.slots.view(np.float32).astype(np.float64)
        return (self.spec.slots - 1) * self.spec.slots / float(ranks.sum()) / UNIT

    def is_empty(self) -> bool:
        """Return whether no element with a weight above 0 was added."""
        return bool((self.slots == EMPTY).all())

    def _add(self, hashes: Hashes, weights: Hashes) -> None:
        # An element may occur twice, as text and as bytes. Then each gets a row of its own,
        # because the weights of one row would be added up.
        repeated = np.unique(hashes).size != hashes.size
        ends = np.arange(len(hashes) + 1) if repeated else np.array([0, len(hashes)])
        fresh = _throw_darts(hashes, weights, ends, seeded(self.spec, self._key))
        with self._lock:
            np.minimum(self._slots, fresh.min(axis=0), out=self._slots)

    def _absorb(self, other: WeightedMinHash) -> None:
        np.minimum(self._slots, other._slots, out=self._slots)

    def _payload(self) -> bytes:
        return self._slots.astype("<u4").tobytes()

    def _restore(self, payload: bytes) -> None:
        require_size(payload, 4 * self.spec.slots)
        self._slots = np.frombuffer(payload, "<u4").astype(np.uint32)
        all_ranks = bool((self._slots < EMPTY).all() and self._slots.any())
        if not all_ranks and not self.is_empty():
            raise FormatError("a WeightedMinHash must have a rank in every slot, or in none")

    def __len__(self) -> int:
        return self.spec.slots

    def __repr__(self) -> str:
        return (
            f"WeightedMinHash(slots={self.spec.slots}, seed={self.spec.seed}, "
            f"total≈{self.total():.3g})"
        )


def to_fixed_point(weights: list[float]) -> Hashes:
    """Return weights as numbers of 1/65536, rounded to the nearest, halves to even."""
    return np.array([round(_check_weight(weight) * UNIT) for weight in weights], np.uint64)


def _check_weight(weight: float) -> float:
    if isinstance(weight, np.floating):
        weight = float(weight)  # 2^32 overflows a float16 in the comparison below
    number = isinstance(weight, (int, float, np.integer))
    if number and (weight == 0 or 0.5 / UNIT < weight < MOST):
        return float(weight)
    raise ParameterError(
        f"weight {weight!r} is neither 0 nor from 1/65536 to 2^32: multiply all weights by the "
        "same number"
        if number and 0 < weight < math.inf
        else f"weight {weight!r} is not a number that is 0 or more"
    )
