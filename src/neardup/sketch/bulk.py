"""Many documents at once: shingles to signatures, whatever the sketch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.sketch import minhash, simhash, weighted
from neardup.spec import Spec

Signatures = NDArray[Any]
Weights = NDArray[np.uint32]
Make = Callable[[NDArray[np.uint64], NDArray[np.int64], Spec], Signatures]
MakeWeighted = Callable[[NDArray[np.uint64], NDArray[np.int64], Spec, Weights | None], Signatures]

MAKE: dict[str, Make] = {"minhash": minhash.signatures}
"""Sketch -> shingles and where each document's begin to one row of columns a document."""
MAKE_WEIGHTED: dict[str, MakeWeighted] = {
    "simhash": simhash.fingerprints, "weighted": weighted.signatures,
}  # fmt: skip
"""The same for sketches that weigh their shingles, by the weights of cells (`text/frequencies.py`)
or, without them, all alike."""


def signatures(
    shingles: NDArray[np.uint64], offsets: NDArray[np.int64], spec: Spec,
    weights: Weights | None = None,
) -> Signatures:  # fmt: skip
    """One row a document. Shingles come unsorted and with repeats."""
    if spec.sketch in MAKE_WEIGHTED:
        return MAKE_WEIGHTED[spec.sketch](shingles, offsets, spec, weights)
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
