"""Signs of vectors: bit k says on which side of a random plane through the centre a vector is.

Two vectors at the angle t, seen from the centre, agree in a bit with probability 1 - t / pi. Real
embeddings crowd around a direction; from their mean they are seen apart. All is computed in whole
numbers, so that every machine gives the same bits.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError

Vectors = NDArray[np.float32]
Centre = NDArray[np.int16]
Words = NDArray[np.uint64]

NO_CENTRE = "none"
"""The digest of the origin as the centre."""
UNIT = 1 << 14
"""The length of a quantised vector."""
LENGTH_ERROR = 1e-3
"""What the length of a mean of vectors of length 1 may be above 1, by rounding."""


def sign_words(vectors: Vectors, centre: Centre, planes: int, seed: int) -> Words:
    """Return a row of 64-bit words a vector, the sign by the first plane in the lowest bit.

    Args:
        vectors: A row a document; the sign of a vector of zeros is that of the centre's opposite.
        centre: The centre, in whole numbers (`quantise_centre`); zeros for the origin.
        planes: The number of planes, which is the number of bits.
        seed: The seed of the planes' directions.
    """
    dimension = vectors.shape[1]
    if centre.shape != (dimension,):
        raise ParameterError(
            f"the centre has {centre.size} numbers, the vectors have {dimension}: give the centre "
            "of these vectors"
        )
    rows, packed = directions(planes, dimension, seed), _packed(planes, dimension, seed)
    words: Words = kernels.plane_signs(vectors, centre, rows, packed)
    return words


@lru_cache(8)
def directions(planes: int, dimension: int, seed: int) -> NDArray[np.int16]:
    """Return the direction of each plane, a row each, in whole numbers from -1020 to 1020.

    Args:
        planes: The number of planes; fewer have the same directions as the first of more.
        dimension: The numbers of a vector.
        seed: The seed of the specification.
    """
    start = xxhash.xxh64_intdigest(b"planes", seed)
    rows: NDArray[np.int16] = kernels.plane_directions(planes, dimension, start)
    rows.flags.writeable = False
    return rows


@lru_cache(8)
def _packed(planes: int, dimension: int, seed: int) -> NDArray[np.int16]:
    """The directions again, in the order in which they are multiplied."""
    packed: NDArray[np.int16] = kernels.packed_directions(directions(planes, dimension, seed))
    packed.flags.writeable = False
    return packed


def quantise_centre(mean: NDArray[np.float64]) -> Centre:
    """Return a centre in whole numbers.

    Args:
        mean: The mean of vectors of length 1, so that its own length is at most 1.
    """
    length = float(np.sqrt(np.sum(mean**2)))
    if length > 1.0 + LENGTH_ERROR:
        raise ParameterError(
            f"the centre has the length {length:.6g}, more than 1: give the mean of vectors of "
            "length 1"
        )
    return np.rint(mean * UNIT).astype(np.int16)


def digest_centre(centre: Centre) -> str:
    """Return the 16 hexadecimal digits that name a centre in a specification; "none" for zeros.

    Args:
        centre: The centre, in whole numbers.
    """
    if not centre.any():
        return NO_CENTRE
    return xxhash.xxh3_64_hexdigest(centre.astype("<i2").tobytes())
