"""Rule out pairs of vectors that are certainly not similar, by short codes in memory.

Planes make many candidates of which few are similar, and their vectors don't fit into memory. A
code is the vector, of length 1, along the directions in which vectors differ most: there two
vectors are at most as far apart as they are. How far rounding moved a code is known. So no similar
pair is ruled out, and most others are, before they are sorted and read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.pipeline.merge_rows import MergedSets
from neardup.pipeline.set_files import CandidateSets
from neardup.runtime import map_in_order
from neardup.text.arrays import Ragged

LEAST_SCREENED = 4_096
"""Of fewer candidates all vectors are in memory."""
SAMPLED = 2_048
"""Vectors whose directions are found."""
CODES = 32
"""A code has a multiple of so many numbers, as the kernel compares them."""
MOST_NUMBERS = 128
"""Numbers of a code: two lines of a processor's cache, of which the first is mostly enough."""
SHARE_LEFT = 0.05
"""About the share of the pairs that planes find, and codes don't rule out; measured."""
LARGEST = 127
READ_AT_ONCE = 16 << 20
"""Bytes of vectors in float64 that a thread makes codes of."""
ROUNDING = 1e-6
"""More than float64 can be wrong in a distance of vectors of length 1."""
PAIRS_PER_CALL = 1 << 16

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.float64]


@dataclass(frozen=True)
class VectorScreen:
    """Codes of the candidates' vectors.

    Attributes:
        codes: A row a candidate.
        errors: How far each code is from its vector, at most.
        rows: The row of each document, -1 where it has none.
        step: What 1 in a code stands for.
        farthest: How far vectors of length 1 are apart at the threshold.
        threads: How many threads compare.
    """

    codes: NDArray[np.int8]
    errors: NDArray[np.float32]
    rows: NDArray[np.int32]
    step: float
    farthest: float
    threads: int

    @classmethod
    def of(
        cls,
        sets: CandidateSets | MergedSets,
        dimension: int,
        threshold: float,
        memory: int,
        threads: int,
    ) -> VectorScreen | None:
        """Read the vectors of all candidates; return None if it is not worth it, or has no room.

        Args:
            sets: The vectors of the candidates, alone.
            dimension: The numbers of a vector.
            threshold: The least cosine of similar vectors.
            memory: The bytes that the codes may take.
            threads: How many threads make the codes, and compare them.
        """
        count = len(sets)
        if count < LEAST_SCREENED:
            return None
        documents = sets.documents()
        room = (memory - 4 * int(documents[-1]) - 4 * count) // count
        numbers = min(room, MOST_NUMBERS, -(-dimension // CODES) * CODES) // CODES * CODES
        if numbers <= 0:
            return None
        sampled = documents[:: -(-count // SAMPLED)]
        sample = _unit_vectors(sets.gather(sampled), dimension)
        middle = sample.mean(axis=0)
        directions = find_directions(sample - middle, numbers)
        step = float(np.abs((sample - middle) @ directions).max()) / LARGEST or 1.0
        rows = np.full(int(documents[-1]) + 1, -1, np.int32)
        rows[documents] = np.arange(count, dtype=np.int32)
        codes, errors = np.zeros((count, numbers), np.int8), np.empty(count, np.float32)
        each = max(READ_AT_ONCE // (8 * dimension), 1)

        def fill(start: int) -> None:
            part = slice(start, start + each)
            vectors = _unit_vectors(sets.gather(documents[part]), dimension) - middle
            codes[part, : directions.shape[1]], errors[part] = encode(vectors @ directions, step)

        for _ in map_in_order(range(0, count, each), fill, threads):
            pass
        farthest = math.sqrt(max(2.0 - 2.0 * threshold, 0.0)) + ROUNDING
        return cls(codes, errors, rows, step, farthest, threads)

    def may_be_similar(self, left: Integers, right: Integers) -> Mask:
        """Return which pairs of documents are not ruled out.

        Args:
            left: A candidate of each pair.
            right: The other one.
        """

        def compare(start: int) -> Mask:
            part = slice(start, start + PAIRS_PER_CALL)
            near: Mask = kernels.near_codes(
                self.codes,
                self.errors,
                self.rows,
                self.step,
                self.farthest,
                left[part],
                right[part],
            )
            return near

        parts = map_in_order(range(0, len(left), PAIRS_PER_CALL), compare, self.threads)
        return np.concatenate([np.empty(0, bool), *(part for _, part in parts)])


def find_directions(vectors: Rows, count: int) -> Rows:
    """Return directions at right angles along which vectors differ most, a column each.

    Args:
        vectors: A sample of vectors, moved by their mean.
        count: The number of directions; no more than a vector has numbers are returned.
    """
    dimension = vectors.shape[1]
    if count >= dimension:
        return np.eye(dimension)
    found = np.random.default_rng(0).normal(size=(dimension, count))
    for _ in range(3):  # powers of the covariance turn them to where it is largest
        found = np.linalg.qr(vectors.T @ (vectors @ found))[0]
    turned = np.linalg.eigh(found.T @ (vectors.T @ (vectors @ found)))[1][:, ::-1]
    directions: Rows = np.linalg.qr(found @ turned)[0]
    return directions


def encode(along: Rows, step: float) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return codes, and how far each is at most from what it stands for.

    Args:
        along: Vectors along the directions, a row each.
        step: What 1 in a code stands for.
    """
    codes = np.clip(np.rint(along / step), -LARGEST, LARGEST)
    errors = np.sqrt(((along - step * codes) ** 2).sum(axis=1))
    return codes.astype(np.int8), np.nextafter(errors.astype(np.float32), np.float32(np.inf))


def _unit_vectors(rows: Ragged, dimension: int) -> Rows:
    """Return vectors with length 1.

    Args:
        rows: Vectors of float32 numbers in words, alone.
        dimension: The numbers of a vector.
    """
    words = rows.data.reshape(-1, (dimension + 1) // 2)
    vectors = words.view(np.float32)[:, :dimension].astype(np.float64)
    lengths = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    return vectors / np.where(lengths > 0.0, lengths, 1.0)
