"""The angles between vectors as seen from a centre, measured in a sample of them.

Vectors at the angle t, seen from the centre of the planes, agree in a sign with probability
1 - t / pi. A threshold is a cosine seen from the origin; what that is from the centre depends on
how far the two vectors are from it. Both are measured: how far vectors are from the centre, and the
angles of all pairs of the sample, by which documents meet that are not similar.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

UNIT: Final = float(1 << 14)
"""The length of a quantised vector."""
BINS: Final = 4_096
"""Agreements are counted in so many steps from 0 to 1."""
TOGETHER: Final = 256
"""Rows of the sample that are multiplied with all of it at once."""
NEAREST: Final = 1_024
"""So many pairs of the sample, those nearest to the threshold, say where similar vectors are."""

Shares = NDArray[np.float64]
Rows = NDArray[np.float64]


def angle_agreement(cosine: float) -> float:
    """Return the probability that two vectors agree in the sign by a random plane.

    Args:
        cosine: Their cosine, seen from the centre of the planes.

    >>> angle_agreement(1.0), angle_agreement(0.0), angle_agreement(-1.0)
    (1.0, 0.5, 0.0)
    """
    return 1.0 - math.acos(cosine) / math.pi


@dataclass(frozen=True)
class Agreements:
    """In which share of signs pairs agree.

    Attributes:
        of: The shares that there are, ascending.
        pairs: The share of the pairs that agrees so.
    """

    of: Shares
    pairs: Shares

    @classmethod
    def count(cls, cosines: Shares) -> NDArray[np.int64]:
        """Return how many pairs agree in each of `BINS` steps.

        Args:
            cosines: The cosine of each pair from the centre; rounding may have left [-1, 1].
        """
        places = (1.0 - np.arccos(np.clip(cosines, -1.0, 1.0)) / math.pi) * BINS
        return np.bincount(np.minimum(places.astype(np.int64), BINS - 1), minlength=BINS)

    @classmethod
    def of_counts(cls, counts: NDArray[Any], total: int) -> Agreements:
        """Return the agreements of counted pairs.

        Args:
            counts: What `count` returned, or a sum of weights by the same steps.
            total: The number of all pairs.
        """
        there = np.flatnonzero(counts)
        return cls((there + 0.5) / BINS, counts[there] / max(total, 1))

    def meet(self, bands: int, rows: int) -> float:
        """Return the share of the pairs that agree in all signs of at least one band.

        Args:
            bands: The number of bands.
            rows: The signs of each.
        """
        # log1p and expm1 keep what is nearly 0.
        each = -np.expm1(bands * np.log1p(-(self.of**rows)))
        return float(np.sum(each * self.pairs))


@dataclass(frozen=True)
class Surroundings:
    """How the vectors of a sample lie around a centre.

    Where pairs at the threshold are is only known of a sample that has some. Half of them count as
    pairs of any two vectors that are equally far from the centre as one of the sample, as copies
    are, half as being where the pairs of the sample are that are nearest to the threshold.

    Attributes:
        depths: The squared distances from the centre of the two vectors of such pairs, a row a
            pair, where the length of a vector is 1: of the one half and of the other.
        others: In how many signs pairs agree that are below the threshold.
    """

    depths: tuple[Shares, ...]
    others: Agreements

    @classmethod
    def measure(
        cls, sample: NDArray[np.int16], centre: NDArray[np.int16], threshold: float
    ) -> Surroundings:
        """Measure a sample.

        Args:
            sample: Quantised vectors, a row each, none of them zero.
            centre: The centre, quantised.
            threshold: The cosine from which on vectors are similar.
        """
        # Whole numbers below 2^53: products of matrices are exact, whatever multiplies them.
        vectors = sample.astype(np.float64)
        moved = vectors - centre
        squares = (moved**2).sum(axis=1)
        counts = np.zeros(BINS, np.int64)
        near, nearest = np.empty((0, 2)), np.empty(0)
        for start in range(0, len(vectors), TOGETHER):
            u, v = np.nonzero(
                np.arange(len(vectors)) > np.arange(start, len(vectors))[:TOGETHER, None]
            )
            raw = _cosines(vectors, start)[u, v]
            cosines = _cosines(moved, start)[u, v]
            counts += Agreements.count(cosines[raw < threshold])
            nearest = np.concatenate([nearest, np.abs(raw - threshold)])
            near = np.concatenate([near, np.stack([squares[u + start], squares[v]], axis=1)])
            if len(nearest) > NEAREST:
                chosen = nearest <= np.partition(nearest, NEAREST)[NEAREST]
                near, nearest = near[chosen], nearest[chosen]
        total = len(vectors) * (len(vectors) - 1) // 2
        alone = squares if len(squares) else np.array([UNIT**2])
        halves = [np.stack([alone, alone], axis=1), *([near] if len(near) else [])]
        depths = tuple(half / UNIT**2 for half in halves)
        return cls(depths, Agreements.of_counts(counts, total))

    def at(self, cosine: float) -> Agreements:
        """Return in how many signs pairs of a cosine agree.

        Args:
            cosine: Their cosine from the origin; the law of cosines says what it is from here.
        """
        apart, found = 2.0 - 2.0 * cosine, np.zeros(BINS)
        for half in self.depths:
            one, other = half[:, 0], half[:, 1]
            lengths = np.sqrt(one * other)
            cosines = (one + other - apart) / np.where(lengths > 0.0, 2.0 * lengths, 1.0)
            found += Agreements.count(cosines) / len(half)
        return Agreements.of_counts(found, len(self.depths))


def _cosines(vectors: Rows, start: int) -> Rows:
    """Return the cosines of some vectors with all; 0 with a vector of zeros."""
    lengths = np.sqrt((vectors**2).sum(axis=1))
    lengths[lengths == 0.0] = 1.0
    rows = slice(start, start + TOGETHER)
    cosines: Rows = vectors[rows] @ vectors.T / lengths[rows, None] / lengths
    return cosines
