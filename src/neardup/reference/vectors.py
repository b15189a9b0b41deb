"""Vectors: the exact cosine, the signs of random directions, and the keys of bands of signs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import sqrt

from neardup.reference.hashes import MASK, mix, xxh64

LANES = 8
UNIT = 2**14


def dot(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the scalar product, summed in eight lanes by the index modulo 8, and then these."""
    lanes = [0.0] * LANES
    for i, (a, b) in enumerate(zip(x, y, strict=True)):
        lanes[i % LANES] += a * b
    s0, s1, s2, s3, s4, s5, s6, s7 = lanes
    return ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))


def cosine(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the cosine of two vectors of float32 numbers; with a vector of zeros it is 0."""
    squares = dot(x, x) * dot(y, y)
    if squares == 0.0:
        return 0.0
    return min(max(dot(x, y) / sqrt(squares), -1.0), 1.0)


def cosine_similarity(x: Sequence[float], y: Sequence[float], threshold: float) -> float:
    """Return the cosine, at least 0, or -1.0 if it is below the threshold."""
    similarity = max(cosine(x, y), 0.0)
    return similarity if similarity >= threshold else -1.0


TextAndVector = tuple[Collection[int], Sequence[float]]
"""The shingles and the vector of a document."""


def lexical(one: TextAndVector, other: TextAndVector) -> float:
    """Return the Jaccard similarity of the shingles; of two empty sets it is 1."""
    a, b = set(one[0]), set(other[0])
    return len(a & b) / len(a | b) if a or b else 1.0


def either(one: TextAndVector, other: TextAndVector, threshold: float, least: float) -> float:
    """Return the Jaccard similarity if it reaches the threshold, else the cosine if that is at
    least `least`; -1.0 if neither is enough."""
    similarity = lexical(one, other)
    return similarity if similarity >= threshold else cosine_similarity(one[1], other[1], least)


def both(one: TextAndVector, other: TextAndVector, threshold: float, least: float) -> float:
    """Return the Jaccard similarity if it and the cosine are enough, else -1.0."""
    similarity = lexical(one, other)
    return similarity if similarity >= threshold and cosine(one[1], other[1]) >= least else -1.0


def quantised(vector: Sequence[float]) -> list[int]:
    """Return the vector of length 2^14, rounded to whole numbers, halves to the even one."""
    length = sqrt(dot(vector, vector))
    return [round(x / length * UNIT) if length else 0 for x in vector]


def centre(vectors: Sequence[Sequence[float]]) -> list[int]:
    """Return the mean of the quantised vectors that are not zero, rounded, halves up."""
    rows = [quantised(vector) for vector in vectors if any(vector)]
    count = len(rows)
    return [(2 * sum(column) + count) // (2 * count) for column in zip(*rows, strict=True)]


def direction(plane: int, dimension: int, seed: int) -> list[int]:
    """Return the direction of a plane: for each place the sum of eight random bytes, from 1020."""
    of_plane = mix((xxh64(b"planes", seed) + plane * 0x9E3779B97F4A7C15) & MASK)
    places = [mix((of_plane + i * 0xD1B54A32D192ED03) & MASK) for i in range(dimension)]
    return [sum(h.to_bytes(8, "little")) - 1020 for h in places]


def signs(vector: Sequence[float], middle: Sequence[int], planes: int, seed: int) -> list[int]:
    """Return for each plane 1 if the quantised vector is along its direction, from the centre."""
    moved = [q - c for q, c in zip(quantised(vector), middle, strict=True)]
    along = (direction(plane, len(vector), seed) for plane in range(planes))
    return [int(sum(a * b for a, b in zip(moved, one, strict=True)) >= 0) for one in along]


def plane_keys(bits: Sequence[int], bands: int, rows: int) -> list[int]:
    """Return a key for each band of `rows` consecutive signs.

    It is the xxHash64, with seed 2^32 and the number of the band, of its bits as eight bytes, the
    first bit the lowest.
    """
    keys = []
    for band in range(bands):
        number = sum(bit << i for i, bit in enumerate(bits[band * rows : (band + 1) * rows]))
        keys.append(xxh64(number.to_bytes(8, "little"), 2**32 + band))
    return keys
