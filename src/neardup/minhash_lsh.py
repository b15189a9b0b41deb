"""`MinHashLSH`: an index of MinHash sketches in memory that can be queried while it changes."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from neardup.errors import ParameterError
from neardup.lsh.bands import Bands, probe_keys
from neardup.lsh.buckets import LiveBuckets
from neardup.lsh.curve import Curve, lay_bands
from neardup.spec import MINHASHES, Spec, check_number, check_whole

SLOTTED = (*MINHASHES, "weighted")
"""Sketches whose slots are compared one by one."""


class Slotted(Protocol):
    """A `MinHash`, or another sketch whose slots are compared one by one.

    Queries with probes also need its `seconds`, the second least value of each slot.
    """

    @property
    def spec(self) -> Spec: ...
    @property
    def slots(self) -> NDArray[Any]: ...


class Match(NamedTuple):
    """A key of the index, and the estimated similarity of its set to the query."""

    key: Any
    similarity: float


class MinHashLSH:
    """An index of sets, in memory, that finds those similar to a query by their MinHash sketches.

    `threshold` and `recall` choose the bands: of the sets that are exactly as similar as the
    threshold, at least the share `recall` is found. Keys may be any hashable values. The sketches
    are copied, so that matches can be ordered by similarity: 4 bytes a slot, and about 100 bytes a
    band.

    Safe for several threads: one lock, and each call takes effect as a whole.

    Args:
        threshold: The similarity at which `recall` is reached.
        slots: The number of slots of the sketches.
        recall: The share of sets exactly at the threshold that a query finds, at least.
        params: The bands and rows, instead of those chosen for threshold and recall.
        tables: The number of groups of bands, or the bands themselves: `20x5,10x8`.
        seed: The seed of the sketches.
        spec: The whole specification of the sketches, instead of slots and seed.

    >>> from neardup import MinHash
    >>> one, other = MinHash(), MinHash()
    >>> one.update_batch(["a cat", "sat on", "the mat", "at noon"])
    >>> other.update_batch(["a cat", "sat on", "the mat", "at night"])
    >>> index = MinHashLSH(threshold=0.5)
    >>> index.insert("one", one)
    >>> index.query(other)
    ['one']
    """

    def __init__(
        self,
        threshold: float = 0.9,
        slots: int = 128,
        *,
        recall: float = 0.99,
        params: tuple[int, int] | None = None,
        tables: int | str = 1,
        seed: int = 0,
        spec: Spec | None = None,
    ) -> None:
        self.spec = spec if spec is not None else Spec(slots=slots, seed=seed)
        if self.spec.sketch not in SLOTTED or self.spec.narrow:
            raise ParameterError(
                f"MinHashLSH takes whole slots of {', '.join(SLOTTED)}, not {self.spec.bits}-bit "
                f"{self.spec.sketch}: use Spec.of(sketch=...) with one of them, without bits"
            )
        curve = None
        if params is not None:
            if not isinstance(params, (tuple, list)) or len(params) != 2:
                raise ParameterError(f"params are (bands, rows), two whole numbers, not {params!r}")
            bands, rows = (
                check_whole("bands and rows", number, 1, self.spec.slots) for number in params
            )
            curve = Curve(bands, rows)
        self.curve = lay_bands(self.spec.slots, threshold, recall, curve, tables)
        self._clear()

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._bands = Bands(self.curve.parts)
        self._buckets = LiveBuckets(self._bands.count)
        self._numbers: dict[Hashable, int] = {}
        self._sets: dict[int, tuple[Hashable, NDArray[Any]]] = {}
        self._next = 0

    def insert(self, key: Hashable, minhash: Slotted) -> None:
        """Add a set under a new key.

        Args:
            key: The name of the set; `ParameterError` if the index has it already.
            minhash: The sketch of the set, of the index's specification.

        >>> from neardup import MinHash
        >>> index = MinHashLSH()
        >>> index.insert("empty", MinHash())
        >>> "empty" in index
        True
        """
        self._insert([(key, self._slots_of(minhash))])

    def remove(self, key: Hashable) -> None:
        """Remove the set of a key.

        Args:
            key: The name of the set; `ParameterError` if the index does not have it.

        >>> from neardup import MinHash
        >>> index = MinHashLSH()
        >>> index.insert("empty", MinHash())
        >>> index.remove("empty")
        >>> len(index)
        0
        """
        with self._lock:
            if key not in self._numbers:
                raise ParameterError(f"the key {key!r} is not in the index: nothing was removed")
            number = self._numbers.pop(key)
            _, slots = self._sets.pop(number)
            self._buckets.remove(number, self._keys_of(slots))

    def query(
        self, minhash: Slotted, *, min_jaccard: float | None = None, probes: int = 0
    ) -> list[Any]:
        """Return the keys of the sets that share a bucket with a query, the most similar first.

        Args:
            minhash: The sketch of the query.
            min_jaccard: Only sets whose estimated similarity reaches it; by default all.
            probes: The number of further buckets to look into; see `matches`.

        >>> from neardup import MinHash
        >>> index = MinHashLSH()
        >>> index.insert("empty", MinHash())
        >>> index.query(MinHash())
        ['empty']
        """
        return [
            match.key for match in self.matches(minhash, min_jaccard=min_jaccard, probes=probes)
        ]

    def matches(
        self, minhash: Slotted, *, min_jaccard: float | None = None, probes: int = 0
    ) -> list[Match]:
        """Return the sets that share a bucket with a query, the most similar first.

        Equally similar ones are in the order in which they were inserted.

        Args:
            minhash: The sketch of the query.
            min_jaccard: Only sets whose estimated similarity reaches it; by default all.
            probes: The number of further buckets to look into, the likeliest first. The query must
                then be a `RemovableMinHash` with a spare value.

        >>> from neardup import MinHash
        >>> index = MinHashLSH()
        >>> index.insert("empty", MinHash())
        >>> index.matches(MinHash())
        [Match(key='empty', similarity=1.0)]
        """
        least = 0.0 if min_jaccard is None else check_number("min_jaccard", min_jaccard)
        slots = self._slots_of(minhash)
        places = list(enumerate(self._keys_of(slots))) + self._probes(minhash, slots, probes)
        with self._lock:
            sets = [self._sets[number] for number in sorted(self._buckets.members(places))]
        if not sets:
            return []
        equal = np.count_nonzero(
            np.stack([other_slots for _, other_slots in sets]) == slots, axis=1
        )
        similarity = equal / len(slots)
        return [
            Match(sets[place][0], float(similarity[place]))
            for place in np.argsort(-equal, kind="stable").tolist()
            if similarity[place] >= least
        ]

    def merge(self, other: MinHashLSH) -> None:
        """Add all sets of another index, or none of them if a key is in both.

        Args:
            other: An index of the same specification, which stays as it is.

        >>> from neardup import MinHash
        >>> index, other = MinHashLSH(), MinHashLSH()
        >>> other.insert("empty", MinHash())
        >>> index.merge(other)
        >>> index.keys()
        ['empty']
        """
        if not isinstance(other, MinHashLSH):
            raise ParameterError(f"the other must be a MinHashLSH, not {type(other).__name__}")
        self.spec.require_same(other.spec, "this MinHashLSH", "the other")
        self._insert(other._all_sets())

    def keys(self) -> list[Any]:
        """Return the keys, in the order in which they were inserted.

        >>> MinHashLSH().keys()
        []
        """
        with self._lock:
            return list(self._numbers)

    def is_empty(self) -> bool:
        """Return whether the index has no sets.

        >>> MinHashLSH().is_empty()
        True
        """
        return not self._numbers

    def get_counts(self) -> list[dict[int, int]]:
        """Return, for each band, the number of sets in each bucket: bucket key -> sets.

        >>> from neardup import MinHash
        >>> index = MinHashLSH()
        >>> index.insert("empty", MinHash())
        >>> [list(sizes.values()) for sizes in index.get_counts()][:2]
        [[1], [1]]
        """
        with self._lock:
            return self._buckets.sizes()

    def _insert(self, sets: Iterable[tuple[Hashable, NDArray[Any]]]) -> None:
        """Insert all sets, or none of them if the index has one of the keys."""
        keyed = [(key, slots, self._keys_of(slots)) for key, slots in sets]
        with self._lock:
            existing = next((key for key, *_ in keyed if key in self._numbers), None)
            if existing is not None:
                raise ParameterError(
                    f"the key {existing!r} is in the index already: remove it first, or choose "
                    "another"
                )
            for key, slots, keys in keyed:
                self._numbers[key] = self._next
                self._sets[self._next] = key, slots
                self._buckets.add(self._next, keys)
                self._next += 1

    def _slots_of(self, minhash: Slotted) -> NDArray[Any]:
        spec = getattr(minhash, "spec", None)
        if not isinstance(spec, Spec):
            raise ParameterError(f"the sketch must be a MinHash, not {type(minhash).__name__}")
        if spec != self.spec:
            self.spec.require_same(spec, "this MinHashLSH", "the sketch")
        return minhash.slots

    def _keys_of(self, slots: NDArray[Any]) -> list[int]:
        return self._bands.keys(slots[None, :])[0].tolist()  # type: ignore[no-any-return]

    def _probes(self, minhash: Slotted, slots: NDArray[Any], count: int) -> list[tuple[int, int]]:
        if not check_whole("probes", count, 0, 2**31 - 1):
            return []
        seconds = getattr(minhash, "seconds", None)
        if seconds is None:
            raise ParameterError(
                "probes need each slot's second least value: make the query with "
                "RemovableMinHash(spare=1)"
            )
        return probe_keys(slots, seconds, self._bands, count)

    def _all_sets(self) -> list[tuple[Hashable, NDArray[Any]]]:
        with self._lock:
            return list(self._sets.values())

    def __contains__(self, key: Hashable) -> bool:
        return key in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __getstate__(self) -> dict[str, Any]:
        return {"spec": self.spec, "curve": self.curve, "sets": self._all_sets()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.spec, self.curve = state["spec"], state["curve"]
        self._clear()
        self._insert(state["sets"])

    def __repr__(self) -> str:
        return f"MinHashLSH({len(self):,} sets of {self.spec.slots} slots, {self.curve})"
