"""neardup's own side of the benchmark: the two timed calls, each in one small function."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from harness import Contender, main


def signatures(texts: pa.Array) -> np.ndarray:
    """Raw texts to a (documents, 128) array of slots, word 5-grams, default specification."""
    raise NotImplementedError


def kernel(shingles: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Hashed shingles (uint64, flat) and row offsets (int64) to (documents, 128) slots."""
    raise NotImplementedError


def prepare(texts: list[str]) -> pa.Array:
    """The texts as an Arrow column, and the kernels compiled: neither is sketching."""
    column = pa.array(texts, pa.large_string())
    signatures(column[:10])
    return column


if __name__ == "__main__":
    main(Contender("neardup", "every shingle", signatures, kernel, None, prepare))
