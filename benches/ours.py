"""neardup's own side of the benchmark: the two timed calls, each in one small function."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from harness import Contender, main

from neardup import kernels
from neardup.sketch import bulk, minhash
from neardup.spec import Spec
from neardup.text.shingle import hash_units

SPEC = Spec()
BITS = Spec.of(sketch="simhash")
BATCH = 1 << 20


def signatures(texts: pa.Array) -> list[np.ndarray]:
    """Raw texts to (documents, 128) arrays of slots, word 5-grams, default specification.

    About a megabyte of text at a time, as a run over files does it.
    """
    return _in_batches(texts, SPEC)


def fingerprints(texts: pa.Array) -> list[np.ndarray]:
    """The same to SimHash fingerprints of 64 bits."""
    return _in_batches(texts, BITS)


def _in_batches(texts: pa.Array, spec: Spec) -> list[np.ndarray]:
    rows = max(len(texts) * BATCH // max(texts.nbytes, 1), 1)
    return [_sketched(texts[at : at + rows], spec) for at in range(0, len(texts), rows)]


def _sketched(texts: pa.Array, spec: Spec) -> np.ndarray:
    units = hash_units(texts, spec)
    return bulk.make_signatures(*kernels.shingle(units.data, units.offsets, spec.size), spec)


def kernel(shingles: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Hashed shingles (uint64, flat) and row offsets (int64) to (documents, 128) slots."""
    return minhash.minhash_signatures(shingles, offsets, SPEC)


def prepare(texts: list[str]) -> pa.Array:
    """The texts as an Arrow column, and the kernels compiled: neither is sketching."""
    column = pa.array(texts, pa.large_string())
    signatures(column[:10])
    fingerprints(column[:10])
    return column


if __name__ == "__main__":
    main(Contender("neardup", "every shingle", signatures, kernel, None, prepare, fingerprints))
