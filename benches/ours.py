"""neardup's own side of the benchmark: the two timed calls, each in one small function."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from harness import Contender, main

from neardup import kernels
from neardup.sketch import minhash
from neardup.spec import Spec
from neardup.text.shingle import unit_hashes

SPEC = Spec()
BATCH = 1 << 20


def signatures(texts: pa.Array) -> list[np.ndarray]:
    """Raw texts to (documents, 128) arrays of slots, word 5-grams, default specification.

    About a megabyte of text at a time, as a run over files does it.
    """
    rows = max(len(texts) * BATCH // max(texts.nbytes, 1), 1)
    return [_sketched(texts[at : at + rows]) for at in range(0, len(texts), rows)]


def _sketched(texts: pa.Array) -> np.ndarray:
    units = unit_hashes(texts, SPEC)
    return minhash.signatures(*kernels.shingle(units.data, units.offsets, SPEC.size), SPEC)


def kernel(shingles: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Hashed shingles (uint64, flat) and row offsets (int64) to (documents, 128) slots."""
    return minhash.signatures(shingles, offsets, SPEC)


def prepare(texts: list[str]) -> pa.Array:
    """The texts as an Arrow column, and the kernels compiled: neither is sketching."""
    column = pa.array(texts, pa.large_string())
    signatures(column[:10])
    return column


if __name__ == "__main__":
    main(Contender("neardup", "every shingle", signatures, kernel, None, prepare))
