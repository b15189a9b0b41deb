"""Daft: its normalise and MinHash expressions, then bands and a union-find in Python.

Daft has no deduplicator of its own. The bands are datasketch's choice for 0.8 and 128 slots,
9 of 13; a component keeps its first document, as scripts for Daft usually do.
"""

from __future__ import annotations

from pathlib import Path

import daft
import numpy as np
from daft import DataFrame, Expression, col
from daft.functions import minhash, normalize, simhash
from harness import SLOTS, Contender, Decisions, main

BANDS, ROWS = 9, 13


def sketch(text: Expression) -> Expression:
    plain = normalize(text, remove_punct=True, lowercase=True, white_space=True)
    return minhash(plain, num_hashes=SLOTS, ngram_size=5, hash_function="xxhash3_64")


def prepare(texts: list[str]) -> DataFrame:
    """The texts as Daft's own columns, and its engine started: neither is sketching."""
    frame = daft.from_pydict({"text": texts}).collect()
    signatures(frame.limit(10))
    return frame


def signatures(frame: DataFrame) -> None:
    frame.select(sketch(col("text"))).collect()


def fingerprints(frame: DataFrame) -> None:
    """Daft's SimHash has characters for shingles, here of five."""
    plain = normalize(col("text"), remove_punct=True, lowercase=True, white_space=True)
    frame.select(simhash(plain, ngram_size=5)).collect()


def components(rows: np.ndarray) -> np.ndarray:
    """The first row of each row's component; rows that agree in a band are joined."""
    parent = list(range(len(rows)))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for band in range(BANDS):
        first: dict[bytes, int] = {}
        part = np.ascontiguousarray(rows[:, band * ROWS : (band + 1) * ROWS])
        for row, key in enumerate(part.view(f"V{part.strides[0]}").ravel().tolist()):
            low, high = sorted((root(row), root(first.setdefault(key, row))))
            parent[high] = low
    return np.array([root(node) for node in range(len(rows))])


def run(path: Path) -> Decisions:
    table = daft.read_json(str(path)).select("id", sketch(col("text")).alias("sketch")).to_arrow()
    keys = table["id"].to_pylist()
    flat = np.concatenate([chunk.flatten().to_numpy() for chunk in table["sketch"].chunks])
    firsts = components(flat.reshape(-1, SLOTS))
    return ((str(keys[i]), str(keys[j])) for i, j in enumerate(firsts) if i != j)


if __name__ == "__main__":
    notes = "white-space words, punctuation removed; components, not verified"
    main(Contender("daft", notes, signatures, None, run, prepare, fingerprints))
