"""Bottom-k: the least hash values of a set, which are a uniform sample of its elements.

The sketch holds every value of the set below `_limit`, and none above. The limit starts at 2^64,
where the sketch is complete, and falls to the least value that did not fit. Below the limit the
sketch is exact after any additions and removals; above it nothing is known.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import xxhash

from neardup.errors import FormatError, StaleSketch
from neardup.keys import Key
from neardup.sketch.base import Hashes, SetSketch, mix_hashes
from neardup.spec import MAX_SLOTS, Spec, check_whole

ALL: Final = 2**64
MAX_SPARE: Final = 2**31 - 1


class BottomK(SetSketch):
    """The k least hash values of a set, and `spare` more so that elements can be removed.

    It estimates Jaccard similarity, containment and the number of elements; for a set of at most
    k + spare elements all three are exact. It is a set, not a bag: an element that was added twice
    is stored once, and one `remove` removes it. After more than `spare` removals the methods that
    need k values may raise `StaleSketch`; then sketch the remaining elements again. A merged sketch
    has the lesser of both spares.

    Args:
        k: The number of least values that estimates use, at least 2. The standard error of
            `jaccard` is sqrt(J (1 - J) / k): at most 0.031 with 256.
        spare: The number of further values to keep, so that as many elements can be removed.
        seed: The seed of the hashes; only sketches with the same seed can be compared.
        hash: The hash function: `xxh64`, `murmur3`, `fnv1a` or `siphash`.
        key: A secret key of 16 bytes, with `hash="siphash"`, so that nobody without it can make
            colliding elements; None for none.
        spec: The whole specification, instead of `k`, `seed` and `hash`.

    >>> a, b = BottomK(), BottomK()
    >>> a.update_batch(["the cat", "cat sat"])
    >>> b.update_batch(["the cat", "cat lay"])
    >>> a.jaccard(b), a.count()   # all values of small sets are kept: exact
    (0.3333333333333333, 2.0)
    >>> a.remove("cat sat"), a.remove("dog sat")
    (True, False)
    >>> a.containment(b)
    1.0
    """

    KIND = "bottomk"

    def __init__(
        self,
        k: int = 256,
        spare: int = 64,
        seed: int = 0,
        *,
        hash: str = "xxh64",
        key: bytes | Key | None = None,
        spec: Spec | None = None,
    ) -> None:
        super().__init__(spec, key, slots=k, seed=seed, hash=hash)
        self.spare = check_whole("number of spare values", spare, 0, MAX_SPARE)
        self._values = np.empty(0, np.uint64)
        self._limit = ALL

    @classmethod
    def _require(cls, spec: Spec) -> None:
        super()._require(spec)
        check_whole("k", spec.slots, 2, MAX_SLOTS)

    @property
    def k(self) -> int:
        """The number of least values that estimates use."""
        return self.spec.slots

    @property
    def values(self) -> Hashes:
        """A copy of the values that are kept, ascending."""
        with self._lock:
            return self._values.copy()

    @property
    def complete(self) -> bool:
        """Whether all of the set's values are kept: then all results are exact."""
        return self._limit == ALL

    @property
    def spare_left(self) -> int:
        """The number of removals after which k values certainly remain."""
        with self._lock:
            kept = len(self._values)
            return kept if self.complete else max(kept - self.k, 0)

    def remove(self, element: str | bytes) -> bool | None:
        """Remove an element from the set.

        Args:
            element: A string or bytes.

        Returns:
            True if the element was in the set, False if it was not, None if the sketch can't tell
            because the element's value is above the limit. In that case the sketch stays correct
            as it is.
        """
        (value,) = self._mixed(self._hash(element))
        with self._lock:
            if value >= self._limit:
                return None
            at = int(np.searchsorted(self._values, value))
            present = at < len(self._values) and self._values[at] == value
            if present:
                self._values = np.delete(self._values, at)
            return bool(present)

    def jaccard(self, other: BottomK) -> float:
        """Estimate the Jaccard similarity: the share of the union's k least values in both sets.

        Unbiased; its standard error is sqrt(J (1 - J) / k). The similarity of two empty sets is 1.

        Args:
            other: A BottomK of the same specification.
        """
        mine, theirs, limit = self._known(other)
        union = np.union1d(mine, theirs)
        if limit != ALL:
            union = self._require_k(union)
        both = np.intersect1d(mine, theirs, assume_unique=True)
        least = union[: self.k]
        return float(np.isin(least, both).sum() / len(least)) if len(least) else 1.0

    def containment(self, other: BottomK) -> float:
        """Estimate the share of this set's elements that are in the other; 1.0 if it is empty.

        Counted over all of this set's values that are below both sketches' limits.

        Args:
            other: A BottomK of the same specification.
        """
        mine, theirs, limit = self._known(other)
        if not len(mine) and limit != ALL:
            raise StaleSketch(
                "no value of this BottomK is below the limit of the other, whose set is much "
                "larger: sketch both with a greater k"
            )
        return float(np.isin(mine, theirs).mean()) if len(mine) else 1.0

    def count(self) -> float:
        """Estimate the number of elements: exact for small sets, else (k - 1) / the k-th value.

        Unbiased; its relative standard error is 1 / sqrt(k - 2).
        """
        with self._lock:
            if self.complete:
                return float(len(self._values))
            kth = int(self._require_k(self._values)[-1])
        return (self.k - 1) * ALL / (kth + 1)

    def is_empty(self) -> bool:
        """Return whether the set has no elements."""
        return self.complete and not len(self._values)

    def _known(self, other: BottomK) -> tuple[Hashes, Hashes, int]:
        """Return both sets' values below the lesser of their limits, and that limit."""
        theirs = self._snapshot(other)
        with self._lock:
            limit = min(self._limit, theirs._limit)
            return _below(self._values, limit), _below(theirs._values, limit), limit

    def _require_k(self, values: Hashes) -> Hashes:
        """Return the k least values, or raise `StaleSketch` if there are fewer."""
        if len(values) < self.k:
            raise StaleSketch(
                f"{len(values)} of {self.k} values are left after removals, which is too few to "
                "estimate: sketch the set again, or with more spare values"
            )
        return values[: self.k]

    def _mixed(self, hashes: Hashes) -> Hashes:
        return mix_hashes(hashes ^ np.uint64(_key(self._seed)))

    def _add(self, hashes: Hashes) -> None:
        self._keep(np.union1d(self._values, _below(self._mixed(hashes), self._limit)))

    def _absorb(self, other: BottomK) -> None:
        self.spare = min(self.spare, other.spare)
        self._limit = min(self._limit, other._limit)
        self._keep(_below(np.union1d(self._values, other._values), self._limit))

    def _keep(self, values: Hashes) -> None:
        """Keep the least k + spare values; the first of the others becomes the limit."""
        room = self.k + self.spare
        if len(values) > room:
            self._limit = int(values[room])
        self._values = values[:room].copy()

    def _payload(self) -> bytes:
        # The limit is at most 2^64: minus one, it fits eight bytes.
        head = self.spare.to_bytes(4, "little") + (self._limit - 1).to_bytes(8, "little")
        return head + self._values.astype("<u8").tobytes()

    def _restore(self, payload: bytes) -> None:
        if len(payload) < 12 or len(payload) % 8 != 4:
            raise FormatError(f"a BottomK can't have {len(payload)} bytes of content")
        self.spare = int.from_bytes(payload[:4], "little")
        self._limit = int.from_bytes(payload[4:12], "little") + 1
        self._values = np.frombuffer(payload[12:], "<u8").astype(np.uint64)
        ascending = bool((self._values[:-1] < self._values[1:]).all())
        if not ascending or self.spare > MAX_SPARE or len(self._values) > self.k + self.spare:
            raise FormatError("the values of a BottomK must ascend, and be at most k + spare")
        if len(self._values) and int(self._values[-1]) >= self._limit:
            raise FormatError("a BottomK can't have a value above its limit")

    def __repr__(self) -> str:
        return f"BottomK(k={self.k}, seed={self.spec.seed}, spare_left={self.spare_left})"


@cache
def _key(seed: int) -> int:
    return xxhash.xxh64_intdigest(b"bottom-k", seed)


def _below(values: Hashes, limit: int) -> Hashes:
    return values if limit == ALL else values[values < np.uint64(limit)]
