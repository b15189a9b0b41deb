"""Many documents at once: shingles to signatures, whatever the sketch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.sketch import bbit, minhash, simhash, weighted
from neardup.spec import Spec

Signatures = NDArray[Any]
Weights = NDArray[np.uint32]
Make = Callable[[NDArray[np.uint64], NDArray[np.int64], Spec], Signatures]
MakeWeighted = Callable[[NDArray[np.uint64], NDArray[np.int64], Spec, Weights | None], Signatures]

MAKE: dict[str, Make] = {
    "minhash": minhash.minhash_signatures,
    "oneperm": lambda shingles, offsets, spec: minhash.oneperm_signatures(shingles, offsets, spec)[
        0
    ],
}
"""Sketch -> shingles and where each document's begin to one row of columns a document."""
MAKE_WEIGHTED: dict[str, MakeWeighted] = {
    "simhash": simhash.simhash_signatures,
    "weighted": weighted.weighted_signatures,
}
"""The same for sketches that weigh their shingles, by the weights of cells (`text/frequencies.py`)
or, without them, all alike."""


def make_signatures(
    shingles: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    spec: Spec,
    weights: Weights | None = None,
) -> Signatures:
    """One row a document. Shingles come unsorted and with repeats."""
    if spec.sketch in MAKE_WEIGHTED:
        return MAKE_WEIGHTED[spec.sketch](shingles, offsets, spec, weights)
    return MAKE[spec.sketch](shingles, offsets, spec)


def sketch_sets(
    shingles: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    spec: Spec,
    weights: Weights | None = None,
    *,
    open: bool = False,
) -> tuple[Signatures, int]:
    """The same, and how many slots were empty before they were filled.

    Open ones stay empty, so that signatures can be merged by their least values.
    """
    if spec.sketch == "oneperm":
        rows, empty = minhash.oneperm_signatures(shingles, offsets, spec, fill=not open)
        return rows, int(empty[np.diff(offsets) > 0].sum())
    return make_signatures(shingles, offsets, spec, weights), 0


def fill_merged(columns: Signatures, spec: Spec) -> Signatures:
    """Merged open signatures, as columns, with their empty slots filled."""
    if spec.sketch != "oneperm":
        return columns
    return np.ascontiguousarray(minhash.fill_slots(columns.T).T)


def column_type(spec: Spec) -> type[np.uint32] | type[np.uint64]:
    """What a column of a signature holds."""
    return np.uint32 if spec.width == 32 else np.uint64


def column_count(spec: Spec) -> int:
    """How many columns a signature has: a slot each, unless slots are narrower than a column."""
    return spec.slots * spec.width // (8 * np.dtype(column_type(spec)).itemsize)


def empty_columns(spec: Spec, documents: int) -> Signatures:
    """Signatures of nothing, as columns: what any others are merged into by the least value."""
    kind = column_type(spec)
    return np.full((column_count(spec), documents), np.iinfo(kind).max, kind)


def pack_signatures(rows: Signatures, spec: Spec) -> Signatures:
    """What is kept of signatures to compare them: all, or some bits of each slot, packed."""
    return bbit.pack_slots(rows, spec.bits) if spec.narrow else rows


def packed_shape(spec: Spec) -> tuple[int, type]:
    """How many columns that has, and what they hold."""
    if spec.narrow:
        return bbit.packed_size(spec), np.uint8
    return column_count(spec), column_type(spec)
