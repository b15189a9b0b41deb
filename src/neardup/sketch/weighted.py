"""Weighted MinHash: k slots that estimate the weighted Jaccard similarity of two bags.

That is the sum over all elements of the lesser weight, divided by the sum of the greater one; for
equal weights it is Jaccard. `WeightedMinHash` is one bag's sketch, for people;
`weighted_signatures` is the bulk form. A slot is the least rank of its darts
(`kernels/darts.py`), the bits of a float32.
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
from neardup.sketch.base import Hashes, Sketch
from neardup.spec import MAX_SLOTS, Spec, check_whole

EMPTY: Final = np.uint32(0x7F800000)
"""Infinity: no dart."""
UNIT: Final = 2**16
"""Weights are whole multiples of 1 / UNIT."""
MOST: Final = 2**32


def weighted_signatures(
    shingles: Hashes,
    offsets: NDArray[np.int64],
    spec: Spec,
    weights: NDArray[np.uint32] | None = None,
) -> NDArray[np.uint32]:
    """One row of slots a document. A shingle weighs the sum over its occurrences.

    Without weights each occurrence weighs 1; with them, what the cell of its hash says.
    """
    return _thrown(shingles, occurrence_weights(shingles, weights), offsets, spec)


def occurrence_weights(shingles: Hashes, weights: NDArray[np.uint32] | None) -> Hashes:
    """What each occurrence of a shingle weighs, in 1 / UNIT, from the weights of all cells."""
    if weights is None:
        return np.full(len(shingles), UNIT, np.uint64)
    bits = len(weights).bit_length() - 1
    found: Hashes = weights[shingles >> np.uint64(64 - bits)].astype(np.uint64)
    return found


def _thrown(
    shingles: Hashes, weights: Hashes, offsets: NDArray[np.int64], spec: Spec
) -> NDArray[np.uint32]:
    key = np.uint64(_key(spec.seed))
    rows: NDArray[np.uint32] = kernels.throw_darts(shingles, weights, offsets, spec.slots, key)
    return rows


@cache
def _key(seed: int) -> int:
    return xxhash.xxh64_intdigest(b"darts", seed)


class WeightedMinHash(Sketch):
    """A bag's sketch: k slots that estimate its weighted Jaccard similarity to any other bag.

    An element's weight is the greatest that it was given, so adding it again changes nothing and
    the order does not matter; the merge of two sketches is that of the greater weights. Count
    first (`collections.Counter`) where repetitions should add up. Weights are rounded to 1/65536.

    Args:
        slots: The number of slots.
        seed: The seed of the hashes; only sketches with the same seed can be compared.
        hash: The hash function: `xxh64`, `murmur3`, `fnv1a` or `siphash`.
        key: A secret that makes the hashes unpredictable to others; None for none.
        spec: The whole specification, instead of the arguments above.

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
        check_whole("number of slots", spec.slots, 2, MAX_SLOTS)  # one says nothing of the total

    @property
    def slots(self) -> NDArray[np.uint32]:
        """A copy of the slots; all are the bits of infinity for an empty bag."""
        with self._lock:
            return self._slots.copy()

    def update(self, element: str | bytes, weight: float = 1.0) -> None:
        """Add one element with its weight."""
        self._add(self._hash(element), to_fixed_point([weight]))

    def update_batch(self, weights: Mapping[str, float] | Mapping[bytes, float]) -> None:
        """Add many elements, each with its weight; the same as `update` for each."""
        if not isinstance(weights, Mapping):
            raise ParameterError(
                "update_batch takes elements with their weights, {element: weight}: "
                "use collections.Counter to count"
            )
        self._add(self._hashes(weights), to_fixed_point(list(weights.values())))

    def jaccard(self, other: WeightedMinHash) -> float:
        """The estimated weighted Jaccard similarity of the two bags: the share of equal slots.

        Without bias; its standard error is sqrt(J (1 - J) / k).
        """
        return float(np.mean(self.slots == self._snapshot(other).slots))

    def total(self) -> float:
        """The estimated sum of all weights; its standard error is 1 / sqrt(k - 2) of it."""
        ranks = self.slots.view(np.float32).astype(np.float64)
        return (self.spec.slots - 1) * self.spec.slots / float(ranks.sum()) / UNIT

    def is_empty(self) -> bool:
        return bool((self.slots == EMPTY).all())

    def _add(self, hashes: Hashes, weights: Hashes) -> None:
        # An element may come twice, as text and as bytes: each is a row, lest weights add up.
        rows = np.unique(hashes).size != hashes.size
        ends = np.arange(len(hashes) + 1) if rows else np.array([0, len(hashes)])
        fresh = _thrown(hashes, weights, ends, seeded(self.spec, self._key))
        with self._lock:
            np.minimum(self._slots, fresh.min(axis=0), out=self._slots)

    def _absorb(self, other: WeightedMinHash) -> None:
        np.minimum(self._slots, other._slots, out=self._slots)

    def _payload(self) -> bytes:
        return self._slots.astype("<u4").tobytes()

    def _restore(self, payload: bytes) -> None:
        if len(payload) != 4 * self.spec.slots:
            raise FormatError(
                f"the sketch holds {len(payload)} bytes, its specification says "
                f"{4 * self.spec.slots}"
            )
        self._slots = np.frombuffer(payload, "<u4").astype(np.uint32)
        ranks = bool((self._slots < EMPTY).all() and self._slots.any())
        if not ranks and not self.is_empty():
            raise FormatError("a WeightedMinHash holds a rank in each slot, or in none")

    def __len__(self) -> int:
        return self.spec.slots

    def __repr__(self) -> str:
        return (
            f"WeightedMinHash(slots={self.spec.slots}, seed={self.spec.seed}, "
            f"total≈{self.total():.3g})"
        )


def to_fixed_point(weights: list[float]) -> Hashes:
    """Weights as whole multiples of 1/65536, rounded to the nearest, halves to even."""
    found = [round(_checked(weight) * UNIT) for weight in weights]
    return np.array(found, np.uint64)


def _checked(weight: float) -> float:
    if isinstance(weight, np.floating):
        weight = float(weight)  # 2^32 is too large for some, to be compared with
    number = isinstance(weight, (int, float, np.integer))
    if number and (weight == 0 or 0.5 / UNIT < weight < MOST):
        return float(weight)
    raise ParameterError(
        f"weight {weight!r} is neither 0 nor from 1/65536 to 2^32: multiply all weights by the "
        "same number"
        if number and 0 < weight < math.inf
        else f"weight {weight!r} is not a number that is 0 or more"
    )
