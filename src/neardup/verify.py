"""Are two documents similar enough? By their shingles, exactly, or by their slots, estimated.

Similarity is one float64 division, of the intersection by the union (or, for containment, by the
one set), or of the equal slots by all slots; similar means that it reaches the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup import kernels

Integers = NDArray[np.int64]
Kept = tuple[Integers, NDArray[np.float64], int, Integers]
Connected = tuple[Integers, int]


@dataclass(frozen=True)
class Exact:
    """Verification by sorted sets of 64-bit shingles; row i belongs to candidate i."""

    shingles: NDArray[np.uint64]
    offsets: Integers
    threshold: float
    exact: bool = True

    def keep(self, buckets: Integers, room: Integers) -> Kept:
        """The pass of `kernels/verification.py`."""
        kept: Kept = kernels.keep_exact(buckets, room, self.shingles, self.offsets, self.threshold)
        return kept

    def pairs(self, left: Integers, right: Integers, least: float | None = None) -> NDArray[Any]:
        """The similarity of each pair; -1.0 below the threshold (or `least`, when given)."""
        bound = self.threshold if least is None else least
        found: NDArray[Any] = kernels.exact_pairs(self.shingles, self.offsets, left, right, bound)
        return found

    def connect(self, members: Integers, starts: Integers, cap: int) -> Connected:
        """The pass of `kernels/verification.py`."""
        documents = len(self.offsets) - 1
        found: Connected = kernels.components_exact(
            documents, members, starts, cap, self.shingles, self.offsets, self.threshold
        )
        return found


@dataclass(frozen=True)
class Contained(Exact):
    """The same by containment: how much of the later candidate is inside the earlier one."""

    def keep(self, buckets: Integers, room: Integers) -> Kept:
        """The pass of `kernels/verification.py`."""
        kept: Kept = kernels.keep_contained(
            buckets, room, self.shingles, self.offsets, self.threshold
        )
        return kept

    def pairs(self, left: Integers, right: Integers, least: float | None = None) -> NDArray[Any]:
        """The share of each of `right` that is inside the one of `left`; -1.0 below the bound."""
        bound = self.threshold if least is None else least
        found: NDArray[Any] = kernels.contained_pairs(
            self.shingles, self.offsets, left, right, bound
        )
        return found


@dataclass(frozen=True)
class Estimated:
    """Verification by signatures; with threshold 0.0 every candidate counts as similar.

    `chance` is how often slots of different values are equal: the share of equal slots is P, the
    similarity is (P - chance) / (1 - chance), and 0 if that is less.
    """

    signatures: NDArray[Any]
    threshold: float
    chance: float = 0.0
    exact: bool = False

    def keep(self, buckets: Integers, room: Integers) -> Kept:
        """The pass of `kernels/verification.py`."""
        kept: Kept = kernels.keep_slots(buckets, room, self.signatures, self._share(self.threshold))
        witness, shares, compared, turned_away = kept
        removed = witness >= 0
        shares[removed] = self._similar(shares[removed])
        return witness, shares, compared, turned_away

    def pairs(self, left: Integers, right: Integers, least: float | None = None) -> NDArray[Any]:
        """The similarity of each pair; -1.0 below the threshold (or `least`, when given)."""
        bound = self.threshold if least is None else least
        shares = kernels.slot_pairs(self.signatures, left, right, self._share(bound))
        return np.where(shares < 0, -1.0, self._similar(shares))

    def connect(self, members: Integers, starts: Integers, cap: int) -> Connected:
        """The pass of `kernels/verification.py`."""
        found: Connected = kernels.components_slots(
            len(self.signatures),
            members,
            starts,
            cap,
            self.signatures,
            self._share(self.threshold),
        )
        return found

    def _share(self, threshold: float) -> float:
        """The least share of equal slots that is similar enough."""
        if not self.chance or threshold <= 0.0:
            return threshold
        slots = self.signatures.shape[1]
        shares = np.arange(slots + 1) / slots
        return float(shares[np.searchsorted(self._similar(shares), threshold)])

    def _similar(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum((shares - self.chance) / (1 - self.chance), 0.0)


@dataclass(frozen=True)
class Near(Estimated):
    """Verification by fingerprints: similarity is the share of equal bits."""

    def keep(self, buckets: Integers, room: Integers) -> Kept:
        """The pass of `kernels/verification.py`."""
        kept: Kept = kernels.keep_near(buckets, room, self.signatures, self.threshold)
        return kept

    def pairs(self, left: Integers, right: Integers, least: float | None = None) -> NDArray[Any]:
        """The similarity of each pair; -1.0 below the threshold (or `least`, when given)."""
        bound = self.threshold if least is None else least
        found: NDArray[Any] = kernels.near_pairs(self.signatures, left, right, bound)
        return found

    def connect(self, members: Integers, starts: Integers, cap: int) -> Connected:
        """The pass of `kernels/verification.py`."""
        found: Connected = kernels.components_near(
            len(self.signatures), members, starts, cap, self.signatures, self.threshold
        )
        return found


@dataclass(frozen=True)
class Weighed:
    """Verification by sorted bags of shingles, repeats among them, each occurrence with its weight.

    `sums` are the weights of all occurrences, added up: sums[i + 1] - sums[i] is that of i. All
    occurrences of a shingle weigh the same.
    """

    shingles: NDArray[np.uint64]
    offsets: Integers
    sums: Integers
    threshold: float
    exact: bool = True

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

    def keep(self, buckets: Integers, room: Integers) -> Kept:
        """The pass of `kernels/verification.py`."""
        kept: Kept = kernels.keep_bags(
            buckets, room, self.shingles, self.offsets, self.sums, self.threshold
        )
        return kept

    def pairs(self, left: Integers, right: Integers, least: float | None = None) -> NDArray[Any]:
        """The similarity of each pair; -1.0 below the threshold (or `least`, when given)."""
        bound = self.threshold if least is None else least
        found: NDArray[Any] = kernels.bag_pairs(
            self.shingles, self.offsets, self.sums, left, right, bound
        )
        return found

    def connect(self, members: Integers, starts: Integers, cap: int) -> Connected:
        """The pass of `kernels/verification.py`."""
        found: Connected = kernels.components_bags(
            len(self.offsets) - 1,
            members,
            starts,
            cap,
            self.shingles,
            self.offsets,
            self.sums,
            self.threshold,
        )
        return found
