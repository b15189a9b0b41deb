"""MinHash from which elements can be removed: each slot keeps spare values beside its least one.

`MinHash` keeps only the least value of a slot, so that no element can be removed. Here a slot's
next values are kept too. A slot whose values were all removed while the set had more of them is
*stale*: its value is unknown until the set is sketched again, and it is an error to read it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import FormatError, ParameterError, StaleSketch
from neardup.keys import Key
from neardup.sketch.base import Hashes, SetSketch
from neardup.sketch.minhash import MinHash, permutations
from neardup.spec import Spec, check_whole

NONE = np.uint64(2**64 - 1)
MAX_SPARE = 1_023


class RemovableMinHash(SetSketch):
    """A MinHash from which elements can be removed.

    Its slots are those of the `MinHash` of the same set. It can remove at least `spare` elements,
    usually far more, because most removals touch few slots; after that reading it raises
    `StaleSketch`. It is a set, not a bag: an element that was added twice is stored once, and one
    `remove` removes it. A merged sketch has the lesser of both spares.

    Args:
        slots: The number of slots, as for `MinHash`.
        spare: The number of further values that each slot keeps, 8 bytes each.
        seed: The seed of the hashes; only sketches with the same seed can be compared.
        hash: The hash function: `xxh64`, `murmur3`, `fnv1a` or `siphash`.
        key: A secret key of 16 bytes, with `hash="siphash"`, so that nobody without it can make
            colliding elements; None for none.
        spec: The whole specification, instead of `slots`, `seed` and `hash`.

    >>> a, b = RemovableMinHash(), RemovableMinHash()
    >>> a.update_batch(["the cat", "cat sat", "sat down"])
    >>> b.update_batch(["the cat", "cat sat"])
    >>> a.remove("sat down"), a.remove("no such thing")
    (True, False)
    >>> a.jaccard(b)
    1.0
    """

    KIND = "minhash"

    def __init__(
        self,
        slots: int = 128,
        spare: int = 8,
        seed: int = 0,
        *,
        hash: str = "xxh64",
        key: bytes | Key | None = None,
        spec: Spec | None = None,
    ) -> None:
        super().__init__(spec, key, slots=slots, seed=seed, hash=hash)
        width = check_whole("number of spare values", spare, 0, MAX_SPARE) + 1
        self._rows = np.full((self.spec.slots, width), NONE)
        self._limits = np.full(self.spec.slots, NONE)

    @classmethod
    def _require(cls, spec: Spec) -> None:
        super()._require(spec)
        if (spec.family, spec.bits) != ("affine32", 32):
            raise ParameterError(
                f"elements are removed from 32-bit slots of the family affine32, not from "
                f"{spec.bits}-bit {spec.family}: leave bits and family as they are"
            )

    @property
    def spare(self) -> int:
        """The number of values that each slot keeps beside its least one."""
        return self._rows.shape[1] - 1

    @property
    def slots(self) -> NDArray[np.uint32]:
        """The slots of the set's `MinHash`; all are 2^32 - 1 for the empty set."""
        with self._lock:
            if stale := self.stale_slots:
                raise StaleSketch(
                    f"{stale} of {self.spec.slots} slots have lost all their values to removals: "
                    "sketch the set again, or with more spare values"
                )
            return (self._rows[:, 0] >> np.uint64(32)).astype(np.uint32)

    @property
    def seconds(self) -> NDArray[np.uint32]:
        """Each slot's second least value, 2^32 - 1 where it is unknown; probes of `MinHashLSH`
        need it."""
        if not self.spare:
            raise ParameterError("second values are spare values: use RemovableMinHash(spare=1)")
        with self._lock:
            return (self._rows[:, 1] >> np.uint64(32)).astype(np.uint32)

    @property
    def stale_slots(self) -> int:
        """The number of slots whose value is unknown after removals."""
        with self._lock:
            return int(np.count_nonzero((self._rows[:, 0] == NONE) & (self._limits != NONE)))

    @property
    def spare_left(self) -> int:
        """The number of removals, of any elements, that certainly make no slot stale."""
        with self._lock:
            held = np.count_nonzero(self._rows != NONE, axis=1)
            return max(int((held - (self._limits != NONE)).min()), 0)

    def remove(self, element: str | bytes) -> bool | None:
        """Remove an element from the set.

        Args:
            element: A string or bytes.

        Returns:
            True if the element was in the set, False if it was not, None if the sketch can't tell
            because no slot keeps values as large as the element's. In that case the sketch stays
            correct as it is.
        """
        (hashed,) = self._hash(element)
        with self._lock:
            removed, absent = kernels.remove_key(self._rows, self._limits, hashed, *self._constants)
        return removed > 0 if removed or absent else None

    def jaccard(self, other: RemovableMinHash) -> float:
        """Estimate the Jaccard similarity of the two sets: the share of equal slots.

        Unbiased; its standard error is sqrt(J (1 - J) / k).

        Args:
            other: A RemovableMinHash of the same specification.
        """
        return float(np.mean(self.slots == self._snapshot(other).slots))

    def minhash(self) -> MinHash:
        """Return the `MinHash` of the set."""
        sketch = MinHash(spec=self.spec, key=self._key)
        sketch._slots = self.slots
        return sketch

    def count(self) -> float:
        """Estimate the number of distinct elements."""
        return self.minhash().count()

    def is_empty(self) -> bool:
        """Return whether the set has no elements."""
        return bool((self._rows == NONE).all() and (self._limits == NONE).all())

    @property
    def _constants(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        return permutations(self.spec.slots, self._seed)

    def _add(self, hashes: Hashes) -> None:
        kernels.add_keys(self._rows, self._limits, hashes, *self._constants)

    def _absorb(self, other: RemovableMinHash) -> None:
        self._narrow(min(self.spare, other.spare) + 1)
        kernels.merge_keys(self._rows, self._limits, other._rows, other._limits)

    def _narrow(self, width: int) -> None:
        if width < self._rows.shape[1]:
            self._limits = np.minimum(self._limits, self._rows[:, width])
            self._rows = np.ascontiguousarray(self._rows[:, :width])

    def _payload(self) -> bytes:
        rows, limits = self._rows.astype("<u8"), self._limits.astype("<u8")
        return self.spare.to_bytes(4, "little") + limits.tobytes() + rows.tobytes()

    def _restore(self, payload: bytes) -> None:
        slots, spare = self.spec.slots, int.from_bytes(payload[:4], "little")
        if spare > MAX_SPARE or len(payload) != 4 + 8 * slots * (spare + 2):
            raise FormatError(
                f"a RemovableMinHash of {slots} slots with {spare} spare values can't have "
                f"{len(payload)} bytes of content"
            )
        numbers = np.frombuffer(payload[4:], "<u8").astype(np.uint64)
        self._limits, self._rows = numbers[:slots], numbers[slots:].reshape(slots, spare + 1)
        ascending = (self._rows[:, :-1] < self._rows[:, 1:]) | (self._rows[:, 1:] == NONE)
        known = (self._rows < self._limits[:, None]) | (self._rows == NONE)
        if not (ascending.all() and known.all()):
            raise FormatError("the values of a RemovableMinHash slot must ascend, below its limit")

    def __repr__(self) -> str:
        return (
            f"RemovableMinHash(slots={self.spec.slots}, seed={self.spec.seed}, "
            f"spare_left={self.spare_left}, stale_slots={self.stale_slots})"
        )
