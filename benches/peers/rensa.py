"""rensa: full-set R-MinHash (never the sampled "rho" entry) and its streaming deduplicator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from harness import SLOTS, THRESHOLD, Contender, Decisions, batches, main, shingles
from rensa import RMinHash, RMinHashDeduplicator

SEED = 42


def signatures(texts: list[str]) -> None:
    for start in range(0, len(texts), 1000):
        sets = (shingles(text) for text in texts[start : start + 1000])
        RMinHash.digest_matrix_from_token_sets(sets, SLOTS, SEED)


def kernel(values: np.ndarray, offsets: np.ndarray) -> None:
    RMinHash.digest_matrix_from_flat_token_hashes(values, offsets, SLOTS, SEED)


def run(path: Path) -> Decisions:
    index = RMinHashDeduplicator(threshold=THRESHOLD, num_perm=SLOTS, use_lsh=True, seed=SEED)
    for batch in batches(path):
        kept = index.add_pairs((key, shingles(text)) for key, text in batch)
        yield from ((key, "") for (key, _), keep in zip(batch, kept) if not keep)


if __name__ == "__main__":
    main(Contender("rensa", "R-MinHash, every shingle", signatures, kernel, run))
