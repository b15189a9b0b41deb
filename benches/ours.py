"""neardup's own side of the benchmark: the two timed calls, each in one small function."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from harness import Contender, main

from neardup.sketch import minhash
from neardup.spec import Spec
from neardup.text.shingle import shingled

SPEC = Spec()
BATCH = 1 << 20


def signatures(texts: pa.Array) -> np.ndarray:
    """Raw texts to a (documents, 128) array of slots, word 5-grams, default specification.

    About a megabyte at a time, as a run over files does it.
    """
    rows = max(len(texts) * BATCH // max(texts.nbytes, 1), 1)
    parts = [texts[at : at + rows] for at in range(0, len(texts), rows)]
    return np.concatenate([_sketched(part) for part in parts])


def _sketched(texts: pa.Array) -> np.ndarray:
    cut = shingled(texts, SPEC).shingles
    return minhash.signatures(cut.data, cut.offsets, SPEC)


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
