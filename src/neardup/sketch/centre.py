"""The centre of vectors: the vector that is subtracted from all before they are sketched.

As bytes, little-endian:

    0    8  magic "ndc1" and four zeros
    8    2n the numbers of the centre
    8+2n 8  XXH3-64 of everything before
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError, SpecMismatch
from neardup.framing import seal, unseal
from neardup.sketch.hyperplane import digest_centre
from neardup.spec import Spec

MAGIC = b"ndc1" + bytes(4)


@dataclass(frozen=True, eq=False)
class VectorCentre:
    """A centre, in the whole numbers of `kernels/vectors.py`; without numbers there are no vectors.

    Attributes:
        numbers: A number for each of a vector.
    """

    numbers: NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, np.int16))

    def __bool__(self) -> bool:
        return self.numbers.size > 0

    @property
    def digest(self) -> str:
        """The digest by which a specification states it."""
        return digest_centre(self.numbers)

    def to_bytes(self) -> bytes:
        """Return the bytes that `from_bytes` reads."""
        return seal(MAGIC + self.numbers.astype("<i2").tobytes())

    @classmethod
    def from_bytes(cls, data: bytes) -> VectorCentre:
        """Return the centre of bytes that `to_bytes` made; raise `FormatError` for others."""
        body = unseal(data, MAGIC, "a centre of vectors", len(MAGIC))
        if len(body) % 2:
            raise FormatError("the bytes of a centre of vectors are truncated: make them again")
        return cls(np.frombuffer(body[len(MAGIC) :], "<i2").astype(np.int16))


def require_centre(spec: Spec, centre: VectorCentre) -> None:
    """Raise `SpecMismatch` if the centre is not that of the specification."""
    stated = spec.vectors.partition(":")[2]
    if spec.planes and (len(centre.numbers) != spec.dimension or centre.digest != stated):
        raise SpecMismatch(
            f"the specification has vectors {spec.vectors}, the centre is "
            f"{len(centre.numbers)} numbers, {centre.digest}: pass the one that it was made with"
        )
