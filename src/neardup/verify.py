"""Compare candidates: by their shingles, exactly, or by their signatures, estimated.

Similarity is one float64 division, of the intersection by the union (or, for containment, by the
one set), or of the equal slots by all slots; similar means that it reaches the threshold.

`MEASURES` lists the measures. A new one is a row there, a comparison in `kernels/measures.py` with
its kernels in `kernels/verification.py`, and a class here that says which arrays it compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neardup import kernels

Integers = NDArray[np.int64]
Kept = tuple[Integers, NDArray[np.float64], int, Integers]
Connected = tuple[Integers, int]


class Measure(NamedTuple):
    """A measure: what it compares, and the kernels that do it.

    Args:
        compares: What a document is for it.
        pairs: The kernel for pairs: arrays, left, right, threshold to similarities.
        keep: The kernel for the keep list: buckets, room, arrays, threshold.
        components: The kernel for components: documents, members, starts, cap, arrays, threshold.
    """

    compares: str
    pairs: str
    keep: str
    components: str


MEASURES: Final = {
    "jaccard": Measure("sorted shingles", "exact_pairs", "keep_exact", "components_exact"),
    "containment": Measure(
        "sorted shingles", "contained_pairs", "keep_contained", "components_exact"
    ),
    "weighted": Measure("sorted bags of shingles", "bag_pairs", "keep_bags", "components_bags"),
    "slots": Measure("MinHash slots", "slot_pairs", "keep_slots", "components_slots"),
    "hamming": Measure("SimHash fingerprints", "near_pairs", "keep_near", "components_near"),
}


class Comparison:
    """Candidates and the measure that they are compared by; row i belongs to candidate i."""

    measure: ClassVar[Measure]
    threshold: float
    exact: bool

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What the kernels compare."""
        raise NotImplementedError

    @property
    def documents(self) -> int:
        """The number of candidates."""
        raise NotImplementedError

    def keep(self, buckets: Integers, room: Integers) -> Kept:
        """The keep list of `kernels/verification.py`."""
        kernel = getattr(kernels, self.measure.keep)
        kept: Kept = kernel(buckets, room, *self.arrays, self._bound(self.threshold))
        return kept

    def pairs(self, left: Integers, right: Integers, least: float | None = None) -> NDArray[Any]:
        """The similarity of each pair; -1.0 below the threshold (or `least`, when given)."""
        bound = self._bound(self.threshold if least is None else least)
        kernel = getattr(kernels, self.measure.pairs)
        found: NDArray[Any] = kernel(*self.arrays, left, right, bound)
        return found

    def connect(self, members: Integers, starts: Integers, cap: int) -> Connected:
        """The components of `kernels/verification.py`."""
        kernel = getattr(kernels, self.measure.components)
        bound = self._bound(self.threshold)
        found: Connected = kernel(self.documents, members, starts, cap, *self.arrays, bound)
        return found

    def _bound(self, threshold: float) -> float:
        """What the kernels take for the threshold."""
        return threshold


@dataclass(frozen=True)
class Exact(Comparison):
    """Jaccard of sorted sets of 64-bit shingles."""

    shingles: NDArray[np.uint64]
    offsets: Integers
    threshold: float
    exact: bool = True
    measure: ClassVar[Measure] = MEASURES["jaccard"]

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.shingles, self.offsets

    @property
    def documents(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class Contained(Exact):
    """Containment: how much of the later candidate is inside the earlier one."""

    measure: ClassVar[Measure] = MEASURES["containment"]


@dataclass(frozen=True)
class Weighed(Comparison):
    """Weighted Jaccard of sorted bags of shingles, repeats among them.

    `sums` are the weights of all occurrences, added up: sums[i + 1] - sums[i] is that of i. All
    occurrences of a shingle weigh the same.
    """

    shingles: NDArray[np.uint64]
    offsets: Integers
    sums: Integers
    threshold: float
    exact: bool = True
    measure: ClassVar[Measure] = MEASURES["weighted"]

    @classmethod
    def of(
        cls,
        shingles: NDArray[np.uint64],
        offsets: Integers,
        weights: NDArray[Any],
        threshold: float,
    ) -> Weighed:
        """With one weight an occurrence."""
        sums = np.zeros(len(shingles) + 1, np.int64)
        np.cumsum(weights, out=sums[1:])
        return cls(shingles, offsets, sums, threshold)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.shingles, self.offsets, self.sums

    @property
    def documents(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class Near(Comparison):
    """The share of equal bits of fingerprints."""

    signatures: NDArray[Any]
    threshold: float
    exact: bool = False
    measure: ClassVar[Measure] = MEASURES["hamming"]

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return (self.signatures,)

    @property
    def documents(self) -> int:
        return len(self.signatures)


@dataclass(frozen=True)
class Estimated(Comparison):
    """Jaccard as signatures estimate it; with threshold 0.0 every candidate counts as similar.

    `chance` is how often slots of different values are equal: the share of equal slots is P, the
    similarity is (P - chance) / (1 - chance), and 0 if that is less.
    """

    signatures: NDArray[Any]
    threshold: float
    chance: float = 0.0
    exact: bool = False
    measure: ClassVar[Measure] = MEASURES["slots"]

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return (self.signatures,)

    @property
    def documents(self) -> int:
        return len(self.signatures)

    def keep(self, buckets: Integers, room: Integers) -> Kept:
        """The keep list of `kernels/verification.py`."""
        witness, shares, compared, turned_away = super().keep(buckets, room)
        removed = witness >= 0
        shares[removed] = self._similar(shares[removed])
        return witness, shares, compared, turned_away

    def pairs(self, left: Integers, right: Integers, least: float | None = None) -> NDArray[Any]:
        """The similarity of each pair; -1.0 below the threshold (or `least`, when given)."""
        shares = super().pairs(left, right, least)
        return np.where(shares < 0, -1.0, self._similar(shares))

    def _bound(self, threshold: float) -> float:
        """The least share of equal slots that is similar enough."""
        if not self.chance or threshold <= 0.0:
            return threshold
        slots = self.signatures.shape[1]
        shares = np.arange(slots + 1) / slots
        return float(shares[np.searchsorted(self._similar(shares), threshold)])

    def _similar(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum((shares - self.chance) / (1 - self.chance), 0.0)
