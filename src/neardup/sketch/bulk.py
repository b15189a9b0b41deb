"""Signatures of many documents at once, for every kind of sketch."""

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
"""Name of a sketch -> the function from shingles and offsets to one signature a document."""
MAKE_WEIGHTED: dict[str, MakeWeighted] = {
    "simhash": simhash.simhash_signatures,
    "weighted": weighted.weighted_signatures,
}
"""The same for sketches that weigh shingles: by the weights of cells (`text/frequencies.py`), or
equally if there are none."""


def make_signatures(
    shingles: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    spec: Spec,
    weights: Weights | None = None,
) -> Signatures:
    """Return one signature a document.

    Args:
        shingles: The shingles of all documents, one document after the other, unsorted and with
            repeats.
        offsets: Where each document's shingles begin, and the end.
        spec: The specification of the sketch.
        weights: The weights of cells (`text/frequencies.py`); None for equal weights.
    """
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
    """Return one signature a document, and how many slots were empty before they were filled.

    The arguments are those of `make_signatures`. With `open`, empty slots are not filled, so that
    signatures can be merged by taking the lesser value of each slot.
    """
    if spec.sketch == "oneperm":
        rows, empty = minhash.oneperm_signatures(shingles, offsets, spec, fill=not open)
        return rows, int(empty[np.diff(offsets) > 0].sum())
    return make_signatures(shingles, offsets, spec, weights), 0


def fill_merged(columns: Signatures, spec: Spec) -> Signatures:
    """Fill the empty slots of merged open signatures, which come as columns."""
    if spec.sketch != "oneperm":
        return columns
    return np.ascontiguousarray(minhash.fill_slots(columns.T).T)


def column_type(spec: Spec) -> type[np.uint32] | type[np.uint64]:
    """Return the type of a signature's columns."""
    return np.uint32 if spec.width == 32 else np.uint64


def column_count(spec: Spec) -> int:
    """Return the number of a signature's columns: one a slot, unless slots are narrower.

    The signs of vectors are in the last ones.
    """
    each = 8 * np.dtype(column_type(spec)).itemsize
    if spec.of_vectors:
        return -(-spec.slots // each)
    words = -(-spec.planes // 64)
    return spec.slots * spec.width // each + words * 64 // each


def empty_columns(spec: Spec, documents: int) -> Signatures:
    """Return the signatures of empty documents, as columns: the identity of a merge."""
    kind = column_type(spec)
    return np.full((column_count(spec), documents), np.iinfo(kind).max, kind)


def pack_signatures(rows: Signatures, spec: Spec) -> Signatures:
    """Return what is stored of signatures: all of it, or b bits of each slot, packed."""
    return bbit.pack_slots(rows, spec.bits) if spec.narrow else rows


def packed_shape(spec: Spec) -> tuple[int, type]:
    """Return the number and the type of the columns that `pack_signatures` makes."""
    if spec.narrow:
        return bbit.packed_size(spec), np.uint8
    return column_count(spec), column_type(spec)
