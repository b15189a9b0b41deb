"""The angles between vectors as seen from a centre, measured in a sample of them.

Vectors at the angle t, seen from the centre of the planes, agree in a sign with probability
1 - t / pi. A threshold is a cosine seen from the origin; what that is from the centre depends on
how far the two vectors are from it. Both are measured: how far vectors are from the centre, and the
angles of all pairs of the sample, by which documents meet that are not similar.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

UNIT: Final = float(1 << 14)
"""The length of a quantised vector."""
BINS: Final = 4_096
"""Agreements are counted in so many steps from 0 to 1."""
TOGETHER: Final = 256
"""Rows of the sample that are multiplied with all of it at once."""
NEAR: Final = 0.1
"""Pairs are near the threshold if their cosine is within this share of its distance from 1."""
LEAST_NEAR: Final = 500
"""With fewer near pairs all sampled vectors count as likely to be in one."""

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
    def of_counts(cls, counts: NDArray[np.int64], total: int) -> Agreements:
        """Return the agreements of counted pairs.

        Args:
            counts: What `count` returned.
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

    Attributes:
        depths: The squared distances from the centre of the two vectors of a pair near the
            threshold, a row a pair, where the length of a vector is 1.
        others: In how many signs pairs agree that are below the threshold.
    """

    depths: Shares
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
        counts, depths = np.zeros(BINS, np.int64), [np.empty((0, 2))]
        for start in range(0, len(vectors), TOGETHER):
            u, v = np.nonzero(
                np.arange(len(vectors)) > np.arange(start, len(vectors))[:TOGETHER, None]
            )
            raw = _cosines(vectors, start)[u, v]
            cosines = _cosines(moved, start)[u, v]
            counts += Agreements.count(cosines[raw < threshold])
            near = np.abs(raw - threshold) <= NEAR * (1.0 - threshold)
            depths.append(np.stack([squares[u[near] + start], squares[v[near]]], axis=1))
        found = np.concatenate(depths)
        if len(found) < LEAST_NEAR:
            alone = squares if len(squares) else np.array([UNIT**2])
            found = np.stack([alone, alone], axis=1)
        total = len(vectors) * (len(vectors) - 1) // 2
        return cls(found / UNIT**2, Agreements.of_counts(counts, total))

    def at(self, cosine: float) -> Agreements:
        """Return in how many signs pairs of a cosine agree.

        Args:
            cosine: Their cosine from the origin; the law of cosines says what it is from here.
        """
        one, other = self.depths[:, 0], self.depths[:, 1]
        lengths = np.sqrt(one * other)
        apart = 2.0 - 2.0 * cosine
        cosines = (one + other - apart) / np.where(lengths > 0.0, 2.0 * lengths, 1.0)
        return Agreements.of_counts(Agreements.count(cosines), len(cosines))


def _cosines(vectors: Rows, start: int) -> Rows:
    """Return the cosines of some vectors with all; 0 with a vector of zeros."""
    lengths = np.sqrt((vectors**2).sum(axis=1))
    lengths[lengths == 0.0] = 1.0
    rows = slice(start, start + TOGETHER)
    cosines: Rows = vectors[rows] @ vectors.T / lengths[rows, None] / lengths
    return cosines
