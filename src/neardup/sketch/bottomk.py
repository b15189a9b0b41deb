"""Bottom-k: the least hash values of a set, which are a uniform sample of its elements.

The sketch holds every value of the set below `_limit`, and none above. The limit starts at 2^64,
where nothing is missing; it comes down to the least value that had no room. Whatever is added or
removed, what is said about values below the limit is exact; above it nothing is known.
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

    A set, not a bag: an element that was added twice is there once, and `remove` takes it out.
    With spare values that many removals do no harm; after that the methods which need k values
    raise `StaleSketch`, and only a new sketch of what is left helps. A merged sketch has the lesser
    of both spares.

    Args:
        k: The number of least values that estimates use.
        spare: Further values, so that as many elements can be removed.
        seed: The seed of the hashes; only sketches with the same seed can be compared.
        hash: The hash function: `xxh64`, `murmur3`, `fnv1a` or `siphash`.
        key: A secret that makes the hashes unpredictable to others; None for none.
        spec: The whole specification, instead of the arguments above.

    >>> a, b = BottomK(), BottomK()
    >>> a.update_batch(["the cat", "cat sat"])
    >>> b.update_batch(["the cat", "cat lay"])
    >>> a.jaccard(b), a.count()   # small sets are kept whole: nothing is estimated
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
        return self.spec.slots

    @property
    def values(self) -> Hashes:
        """A copy of the values that are kept, ascending."""
        with self._lock:
            return self._values.copy()

    @property
    def complete(self) -> bool:
        """Whether all of the set's values are kept: then nothing is estimated."""
        return self._limit == ALL

    @property
    def spare_left(self) -> int:
        """How many removals are certain to do no harm."""
        with self._lock:
            left = len(self._values)
            return left if self.complete else max(left - self.k, 0)

    def remove(self, element: str | bytes) -> bool | None:
        """Take an element out of the set. True if it was there, False if it was not.

        None if that can't be known: its value is beyond those that are kept. Nothing changes then,
        and nothing has to.
        """
        (value,) = self._mixed(self._hash(element))
        with self._lock:
            if value >= self._limit:
                return None
            at = int(np.searchsorted(self._values, value))
            there = at < len(self._values) and self._values[at] == value
            if there:
                self._values = np.delete(self._values, at)
            return bool(there)

    def jaccard(self, other: BottomK) -> float:
        """The Jaccard similarity of the two sets: the share of the union's k least values in both.

        Without bias; its standard error is sqrt(J (1 - J) / k).
        """
        mine, theirs, limit = self._known(other)
        union = np.union1d(mine, theirs)
        if limit != ALL:
            union = self._vouched(union)
        both = np.intersect1d(mine, theirs, assume_unique=True)
        least = union[: self.k]
        return float(np.isin(least, both).sum() / len(least)) if len(least) else 1.0

    def containment(self, other: BottomK) -> float:
        """The share of this set's elements that are in the other; 1.0 if this set is empty.

        Counted among all of this set's values that both sketches know about.
        """
        mine, theirs, limit = self._known(other)
        if not len(mine) and limit != ALL:
            raise StaleSketch(
                "no value of this BottomK is among those that the other knows about: the other set "
                "is much larger; sketch both with a greater k"
            )
        return float(np.isin(mine, theirs).mean()) if len(mine) else 1.0

    def count(self) -> float:
        """The number of elements: exact for small sets, else (k - 1) / the k-th value.

        Without bias; its standard error is 1 / sqrt(k - 2) of it.
        """
        with self._lock:
            if self.complete:
                return float(len(self._values))
            kth = int(self._vouched(self._values)[-1])
        return (self.k - 1) * ALL / (kth + 1)

    def is_empty(self) -> bool:
        return self.complete and not len(self._values)

    def _known(self, other: BottomK) -> tuple[Hashes, Hashes, int]:
        """Both sets' values below the limit up to which both are known, and that limit."""
        theirs = self._snapshot(other)
        with self._lock:
            limit = min(self._limit, theirs._limit)
            return _below(self._values, limit), _below(theirs._values, limit), limit

    def _vouched(self, values: Hashes) -> Hashes:
        """The k least, if they are there."""
        if len(values) < self.k:
            raise StaleSketch(
                f"{len(values)} of {self.k} values are left after removals and nothing is known "
                "beyond them: sketch the set again, or with more spare values"
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
        """Those that there is room for; the first of the others is the new limit."""
        room = self.k + self.spare
        if len(values) > room:
            self._limit = int(values[room])
        self._values = values[:room].copy()

    def _payload(self) -> bytes:
        # The limit is 2^64 at most, so one less is what eight bytes hold.
        head = self.spare.to_bytes(4, "little") + (self._limit - 1).to_bytes(8, "little")
        return head + self._values.astype("<u8").tobytes()

    def _restore(self, payload: bytes) -> None:
        if len(payload) < 12 or len(payload) % 8 != 4:
            raise FormatError(f"a BottomK does not hold {len(payload)} bytes")
        self.spare = int.from_bytes(payload[:4], "little")
        self._limit = int.from_bytes(payload[4:12], "little") + 1
        self._values = np.frombuffer(payload[12:], "<u8").astype(np.uint64)
        ascending = bool((self._values[:-1] < self._values[1:]).all())
        if not ascending or self.spare > MAX_SPARE or len(self._values) > self.k + self.spare:
            raise FormatError("a BottomK holds ascending values, at most k and the spare ones")
        if len(self._values) and int(self._values[-1]) >= self._limit:
            raise FormatError("a BottomK holds no value beyond its limit")

    def __repr__(self) -> str:
        return f"BottomK(k={self.k}, seed={self.spec.seed}, spare_left={self.spare_left})"


@cache
def _key(seed: int) -> int:
    return xxhash.xxh64_intdigest(b"bottom-k", seed)


def _below(values: Hashes, limit: int) -> Hashes:
    return values if limit == ALL else values[values < np.uint64(limit)]
