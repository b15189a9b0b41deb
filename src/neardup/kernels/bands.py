"""Signatures to band keys: xxHash64, seeded with the band's number, of the band's slots."""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import U8, int64, kernel
from neardup.kernels.hashing import xxh64


@kernel(U8, int64, int64, int64, int64)
def band_keys(signature_bytes, documents, slots, bands, rows):
    """One row of keys a document, from its signature's little-endian bytes."""
    out = np.empty((documents, bands), np.uint64)
    for i in range(documents):
        for band in range(bands):
            start = (i * slots + band * rows) * 4
            out[i, band] = xxh64(signature_bytes, start, rows * 4, np.uint64(band))
    return out
