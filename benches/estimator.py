"""Measure how well signatures estimate Jaccard similarity: bias and variance against J(1-J)/k.

Two random sets of n shingles with an exactly known similarity, many times over: the bias is the
mean error of the estimate, the variance is compared with its floor J(1-J)/k, that of k
independent slots. Standard errors are given, because the worst of many noisy cells looks worse
than it is.

    python -m estimator ours|rensa|datasketch [--scale 0.25]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
from harness import SLOTS

SIZES = (20, 50, 100, 362, 1000, 10_000)
SIMILARITIES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
TRIALS = 16_000
SHINGLES_PER_CELL = 100_000_000
SHINGLES_PER_CALL = 4_000_000

Sketch = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Cell:
    """One size and similarity: what was seen, and how far chance alone may move it."""

    size: int
    similarity: float
    trials: int
    bias: float
    bias_error: float
    mean_error: float
    variance_ratio: float
    variance_error: float


def ours() -> Sketch:
    from ours import kernel

    return kernel


def rensa() -> Sketch:
    from rensa import RMinHash

    def sketch(shingles: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        matrix = RMinHash.digest_matrix_from_flat_token_hashes(shingles, offsets, SLOTS, 42)
        return np.array(matrix.to_rows(), dtype=np.uint32)

    return sketch


def datasketch() -> Sketch:
    from datasketch import MinHash

    def one(shingles: np.ndarray) -> np.ndarray:
        minhash = MinHash(num_perm=SLOTS, hashfunc=int)
        minhash.update_batch((shingles >> np.uint64(32)).tolist())
        return minhash.hashvalues

    def sketch(shingles: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        return np.array([one(part) for part in np.split(shingles, offsets[1:-1])])

    return sketch


SKETCHES = {"ours": ours, "rensa": rensa, "datasketch": datasketch}


def pairs_of_sets(
    rng: np.random.Generator, size: int, common: int, trials: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sets 2i and 2i+1 are a pair that shares `common` shingles. Random 64-bit values: distinct."""
    union = rng.integers(0, 2**64, (trials, 2 * size - common), dtype=np.uint64)
    rows = np.concatenate([union[:, :size], union[:, size - common :]], axis=1)
    return rows.ravel(), np.arange(2 * trials + 1, dtype=np.int64) * size


def estimates(
    sketch: Sketch, rng: np.random.Generator, size: int, common: int, trials: int
) -> Iterator[np.ndarray]:
    step = max(1, SHINGLES_PER_CALL // (2 * size))
    for start in range(0, trials, step):
        slots = sketch(*pairs_of_sets(rng, size, common, min(step, trials - start)))
        yield (slots[0::2] == slots[1::2]).mean(axis=1)


def cell(sketch: Sketch, rng: np.random.Generator, size: int, wanted: float, scale: float) -> Cell:
    common = round(2 * size * wanted / (1 + wanted))
    similarity = common / (2 * size - common)
    trials = int(scale * min(TRIALS, SHINGLES_PER_CELL // (2 * size)))
    error = np.concatenate(list(estimates(sketch, rng, size, common, trials))) - similarity
    floor = similarity * (1 - similarity) / SLOTS
    return Cell(
        size=size,
        similarity=similarity,
        trials=trials,
        bias=float(error.mean()),
        bias_error=math.sqrt(floor / trials),
        mean_error=float(np.abs(error).mean()),
        variance_ratio=float(error.var() / floor),
        variance_error=math.sqrt(2 / trials),
    )


def summary(cells: list[Cell]) -> dict[str, float]:
    """Means over the cells, and the worst cells; a variance below the floor is not a fault."""
    spread = max(cells, key=lambda cell: cell.variance_ratio)
    biased = max(cells, key=lambda cell: abs(cell.bias))
    return {
        "mean_error": float(np.mean([cell.mean_error for cell in cells])),
        "bias": float(np.mean([cell.bias for cell in cells])),
        "worst_bias": biased.bias,
        "worst_bias_error": biased.bias_error,
        "variance_ratio": float(np.mean([cell.variance_ratio for cell in cells])),
        "least_variance_ratio": min(cell.variance_ratio for cell in cells),
        "worst_variance_ratio": spread.variance_ratio,
        "worst_variance_error": spread.variance_error,
        "worst_variance_size": spread.size,
        "worst_variance_similarity": spread.similarity,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure an estimator's bias and variance.")
    parser.add_argument("sketch", choices=SKETCHES)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the trials to do")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sketch, rng = SKETCHES[args.sketch](), np.random.default_rng(args.seed)
    cells = [cell(sketch, rng, n, j, args.scale) for n in SIZES for j in SIMILARITIES]
    print(json.dumps(summary(cells) | {"cells": [asdict(each) for each in cells]}))


if __name__ == "__main__":
    main()
