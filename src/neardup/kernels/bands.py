"""Signatures to band keys: xxHash64, seeded with the band's number, of the band's slots."""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import I64, U8, U32_ROWS, U64_ROWS, int64, kernel, kernel_for
from neardup.kernels.hashing import xxh64


@kernel(U8, int64, I64, I64)
def band_keys(signature_bytes, row_bytes, starts, sizes):
    """One row of keys a document, from its signature's little-endian bytes.

    A document has `row_bytes` of them; band j has sizes[j] from starts[j] on.
    """
    documents = signature_bytes.size // row_bytes
    out = np.empty((documents, starts.size), np.uint64)
    for i in range(documents):
        for band in range(starts.size):
            start = i * row_bytes + starts[band]
            out[i, band] = xxh64(signature_bytes, start, sizes[band], np.uint64(band))
    return out


@kernel_for((U32_ROWS, int64), (U64_ROWS, int64))
def column_keys(slots, band):
    """The keys of one band, from its slots as columns: slots[i, d] is slot i of document d."""
    rows, documents = slots.shape
    out = np.empty(documents, np.uint64)
    here = np.empty(rows, slots.dtype)
    here_bytes = here.view(np.uint8)
    for d in range(documents):
        for i in range(rows):
            here[i] = slots[i, d]
        out[d] = xxh64(here_bytes, 0, here_bytes.size, np.uint64(band))
    return out


@kernel_for((U32_ROWS,), (U64_ROWS,))
def transposed(signatures):
    """Rows to columns, in tiles that fit into the processor's cache."""
    documents, slots = signatures.shape
    out = np.empty((slots, documents), signatures.dtype)
    for first in range(0, documents, 16):
        last = min(first + 16, documents)
        for slot in range(slots):
            for d in range(first, last):
                out[slot, d] = signatures[d, slot]
    return out
