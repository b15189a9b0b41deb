"""Compare candidates: by their shingles, exactly, or by their signatures, estimated.

Similarity is one float64 division, of the intersection by the union (or, for containment, by the
one set), or of the equal slots by all slots; similar means that it reaches the threshold.

`measure_table` lists the measures; a class here holds the arrays that those of one kind compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.measure_table import MEASURES, SIGNALS, VECTORS, Measure

Integers = NDArray[np.int64]
Kept = tuple[Integers, NDArray[np.float64], int, Integers]
Connected = tuple[Integers, int]


def count_common(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> int:
    """Count the shingles that two documents share; repeats as often as both have them."""
    a, a_counts = np.unique(one, return_counts=True)
    b, b_counts = np.unique(other, return_counts=True)
    _, in_a, in_b = np.intersect1d(a, b, assume_unique=True, return_indices=True)
    return int(np.minimum(a_counts[in_a], b_counts[in_b]).sum())


class Comparison:
    """Candidates and the measure by which they are compared; row i belongs to candidate i.

    Attributes:
        measure: The row of the table that names the kernels.
        threshold: The least similarity of similar candidates.
        exact: Whether similarities are exact, not estimated.
    """

    measure: Measure
    threshold: float
    exact: ClassVar[bool]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays that the kernels compare, and what they know of them."""
        raise NotImplementedError

    @property
    def documents(self) -> int:
        """The number of candidates."""
        raise NotImplementedError

    def keep(self, buckets: Integers, room: Integers) -> Kept:
        """Decide in rank order which candidates are kept.

        Args:
            buckets: A row a candidate: its bucket in each band, -1 where it is alone.
            room: Where the leaders of each bucket are stored, ascending; one more than buckets.

        Returns:
            Each candidate's witness (-1: kept) and its similarity to it, the number of comparisons,
            and by bucket the kept candidates that did not become leaders.
        """
        kernel = getattr(kernels, self.measure.keep)
        kept: Kept = kernel(buckets, room, *self.arrays, self._bound(self.threshold))
        return kept

    def pairs(self, left: Integers, right: Integers, least: float | None = None) -> NDArray[Any]:
        """Return the similarity of each pair, -1.0 where it is below the threshold.

        Args:
            left: The better-ranked candidate of each pair.
            right: The other one.
            least: A threshold for these pairs, instead of that of the comparison.
        """
        bound = self._bound(self.threshold if least is None else least)
        kernel = getattr(kernels, self.measure.pairs)
        similarities: NDArray[Any] = kernel(*self.arrays, left, right, bound)
        return similarities

    def for_many_pairs(self) -> Comparison:
        """Return a comparison with the same results that compares faster after some preparation.

        Worth it for many more pairs than candidates, most of which are not similar.
        """
        return self

    def numbers(self, left: Integers, right: Integers) -> NDArray[np.float64]:
        """Return the similarity of the texts and the cosine of each pair, a row each.

        Args:
            left: A candidate of each pair.
            right: The other one.
        """
        raise NotImplementedError

    def connect(self, members: Integers, starts: Integers, cap: int) -> Connected:
        """Return the best-ranked candidate of each one's component, and the comparisons made.

        Args:
            members: The candidates of all buckets, bucket after bucket.
            starts: Where each bucket begins in `members`; one more than buckets.
            cap: A candidate is compared with at most the first `cap` ones of its bucket.
        """
        kernel = getattr(kernels, self.measure.components)
        bound = self._bound(self.threshold)
        connected: Connected = kernel(self.documents, members, starts, cap, *self.arrays, bound)
        return connected

    def _bound(self, threshold: float) -> float:
        """The threshold in the unit of the kernels."""
        return threshold


@dataclass(frozen=True)
class Exact(Comparison):
    """Sorted sets of 64-bit shingles, compared by a measure of sets.

    Attributes:
        shingles: The shingles of all candidates, one after another.
        offsets: Where each candidate's begin; one more than candidates.
    """

    shingles: NDArray[np.uint64]
    offsets: Integers
    threshold: float
    measure: Measure = MEASURES["jaccard"]
    exact: ClassVar[bool] = True

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.shingles, self.offsets

    @property
    def documents(self) -> int:
        return len(self.offsets) - 1

    def for_many_pairs(self) -> Comparison:
        if self.measure != MEASURES["jaccard"]:
            return self
        parities = kernels.set_parities(self.shingles, self.offsets)
        return Pruned(self.shingles, self.offsets, self.threshold, parities=parities)


@dataclass(frozen=True, kw_only=True)
class Pruned(Exact):
    """Sets that are compared by Jaccard only if their parities don't rule out that it is enough.

    Attributes:
        parities: What `kernels.set_parities` returns.
    """

    parities: NDArray[np.uint64]

    def pairs(self, left: Integers, right: Integers, least: float | None = None) -> NDArray[Any]:
        bound = self.threshold if least is None else least
        similarities: NDArray[Any] = kernels.exact_pairs_pruned(
            *self.arrays, self.parities, left, right, bound
        )
        return similarities


@dataclass(frozen=True)
class Weighed(Comparison):
    """Sorted bags of shingles, with repeats, compared by weighted Jaccard.

    All occurrences of a shingle weigh the same.

    Attributes:
        shingles: The occurrences of all candidates, one after another.
        offsets: Where each candidate's begin; one more than candidates.
        sums: The running sum of the weights, from 0: sums[i + 1] - sums[i] is that of i.
    """

    shingles: NDArray[np.uint64]
    offsets: Integers
    sums: Integers
    threshold: float
    measure: Measure = MEASURES["weighted"]
    exact: ClassVar[bool] = True

    @classmethod
    def of(
        cls,
        shingles: NDArray[np.uint64],
        offsets: Integers,
        weights: NDArray[Any],
        threshold: float,
    ) -> Weighed:
        """Make the comparison from the weight of each occurrence."""
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
class Signals(Comparison):
    """Vectors, alone or behind sorted sets of shingles, compared by a measure of vectors.

    Attributes:
        shingles: The words of all candidates, one after another: the shingles of one, if there are
            any, and then its vector, two float32 numbers a word, the last one filled with 0.
        offsets: Where each candidate's begin; one more than candidates.
        dimension: The numbers of a vector.
        threshold: The least similarity: the least cosine of vectors alone, else that of shingles.
        cosine_threshold: The least cosine, if shingles are compared, too.
    """

    shingles: NDArray[np.uint64]
    offsets: Integers
    dimension: int
    threshold: float
    cosine_threshold: float = 0.0
    measure: Measure = MEASURES["cosine"]
    exact: ClassVar[bool] = True

    @property
    def arrays(self) -> tuple[Any, ...]:
        arrays = self.shingles, self.offsets, self.dimension, self._rests
        return arrays if self.measure.compares == VECTORS else (*arrays, self.cosine_threshold)

    @cached_property
    def _rests(self) -> NDArray[np.float64]:
        """What rules out most pairs that are not similar after a part of their numbers."""
        rests: NDArray[np.float64] = kernels.vector_rests(
            self.shingles, self.offsets, self.dimension
        )
        return rests

    @property
    def documents(self) -> int:
        return len(self.offsets) - 1

    def pairs(self, left: Integers, right: Integers, least: float | None = None) -> NDArray[Any]:
        """Return the similarity of each pair, -1.0 where it is below the threshold.

        Args:
            left: The better-ranked candidate of each pair.
            right: The other one.
            least: A threshold for these pairs, instead of that of the comparison; then no cosine
                is too low beside a Jaccard similarity.
        """
        if least is None or self.measure.compares != SIGNALS:
            return super().pairs(left, right, least)
        kernel = getattr(kernels, self.measure.pairs)
        similarities: NDArray[Any] = kernel(*self.arrays[:-1], -1.0, left, right, least)
        return similarities

    def numbers(self, left: Integers, right: Integers) -> NDArray[np.float64]:
        """Return the Jaccard similarity and the cosine of each pair, a row each.

        Args:
            left: A candidate of each pair.
            right: The other one.
        """
        found: NDArray[np.float64] = kernels.signal_numbers(
            self.shingles, self.offsets, self.dimension, left, right
        )
        return found


@dataclass(frozen=True)
class SignatureComparison(Comparison):
    """Signatures, a row each."""

    signatures: NDArray[Any]
    threshold: float
    exact: ClassVar[bool] = False

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return (self.signatures,)

    @property
    def documents(self) -> int:
        return len(self.signatures)


@dataclass(frozen=True)
class Near(SignatureComparison):
    """Fingerprints, a row each, compared by the share of equal bits."""

    measure: Measure = MEASURES["hamming"]


@dataclass(frozen=True)
class Estimated(SignatureComparison):
    """MinHash signatures, a row each, that estimate the Jaccard similarity.

    With threshold 0.0 every candidate counts as similar.

    Attributes:
        chance: How often slots of different values are equal. If a share P of the slots is equal,
            the similarity is (P - chance) / (1 - chance), at least 0.
    """

    chance: float = 0.0
    measure: Measure = MEASURES["slots"]

    def keep(self, buckets: Integers, room: Integers) -> Kept:
        witness, shares, compared, turned_away = super().keep(buckets, room)
        removed = witness >= 0
        shares[removed] = self._similarity(shares[removed])
        return witness, shares, compared, turned_away

    def pairs(self, left: Integers, right: Integers, least: float | None = None) -> NDArray[Any]:
        shares = super().pairs(left, right, least)
        return np.where(shares < 0, -1.0, self._similarity(shares))

    def _bound(self, threshold: float) -> float:
        """The least share of equal slots whose similarity reaches the threshold."""
        if not self.chance or threshold <= 0.0:
            return threshold
        slots = self.signatures.shape[1]
        shares = np.arange(slots + 1) / slots
        return float(shares[np.searchsorted(self._similarity(shares), threshold)])

    def _similarity(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum((shares - self.chance) / (1 - self.chance), 0.0)
