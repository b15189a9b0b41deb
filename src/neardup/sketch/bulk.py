"""Many documents at once: shingles to signatures, whatever the sketch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.sketch import minhash
from neardup.spec import Spec

Signatures = NDArray[Any]
Make = Callable[[NDArray[np.uint64], NDArray[np.int64], Spec], Signatures]

MAKE: dict[str, Make] = {"minhash": minhash.signatures}
"""Sketch -> shingles and where each document's begin to one row of columns a document."""


def signatures(shingles: NDArray[np.uint64], offsets: NDArray[np.int64], spec: Spec) -> Signatures:
    """One row a document. Shingles come unsorted and with repeats."""
    return MAKE[spec.sketch](shingles, offsets, spec)


def column_type(spec: Spec) -> type[np.uint32] | type[np.uint64]:
    """What a column of a signature holds."""
    return np.uint32 if spec.width == 32 else np.uint64


def columns(spec: Spec) -> int:
    """How many columns a signature has: a slot each, unless slots are narrower than a column."""
    return spec.slots * spec.width // (8 * np.dtype(column_type(spec)).itemsize)


def empty_columns(spec: Spec, documents: int) -> Signatures:
    """Signatures of nothing, as columns: what any others are merged into by the least value."""
    kind = column_type(spec)
    return np.full((columns(spec), documents), np.iinfo(kind).max, kind)
