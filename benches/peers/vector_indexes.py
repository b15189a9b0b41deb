"""Libraries that find similar vectors: all pairs of at least a cosine, from a matrix on disk.

    python -m peers.vector_indexes TOOL VECTORS.npy COSINE OUT.npy [--effort N] [--most-seconds N]

The clock runs from the file on disk to the pairs on disk: reading, dividing by lengths, building
and searching. What is found is verified by nobody: it is the tool's own cosine.

- faiss-ivf: cells of k-means (`IndexIVFFlat`), a range search in the nearest `effort` cells.
- faiss-hnsw: a graph (`IndexHNSWFlat`), the 64 nearest of each vector with efSearch `effort`.
- usearch: a graph, the 64 nearest with an expansion of `effort`.
- semdedup: k-means, then all pairs inside of each cell, as SemDeDup compares; `effort` is the
  number of cells.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version

import faiss
import numpy as np
from numpy.typing import NDArray
from usearch.index import Index

Matrix = NDArray[np.float32]
Pairs = Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]

CELLS = 1024
TRAINED = 64
"""Vectors a cell that k-means is trained on."""
NEAREST = 64
BLOCK = 20_000
SLACK = 1e-6
"""Products of float32 are off by about as much: pairs at the cosine itself should be found."""


def ivf(vectors: Matrix, cosine: float, effort: int) -> Pairs:
    coarse = faiss.IndexFlatIP(vectors.shape[1])
    index = faiss.IndexIVFFlat(coarse, vectors.shape[1], CELLS, faiss.METRIC_INNER_PRODUCT)
    index.train(_sample(vectors, CELLS))
    index.add(vectors)
    index.nprobe = effort
    for start in range(0, len(vectors), BLOCK):
        limits, _, found = index.range_search(vectors[start : start + BLOCK], cosine - SLACK)
        left = np.repeat(np.arange(start, start + len(limits) - 1), np.diff(limits).astype(int))
        yield left, found


def hnsw(vectors: Matrix, cosine: float, effort: int) -> Pairs:
    index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = 80
    index.hnsw.efSearch = effort
    index.add(vectors)
    for start in range(0, len(vectors), BLOCK):
        similar, found = index.search(vectors[start : start + BLOCK], NEAREST)
        yield _reaching(start, similar, found, cosine)


def usearch(vectors: Matrix, cosine: float, effort: int) -> Pairs:
    index = Index(
        ndim=vectors.shape[1], metric="ip", dtype="f32", connectivity=32, expansion_search=effort
    )
    threads = len(os.sched_getaffinity(0))
    index.add(np.arange(len(vectors)), vectors, threads=threads)
    for start in range(0, len(vectors), BLOCK):
        matches = index.search(vectors[start : start + BLOCK], NEAREST, threads=threads)
        yield _reaching(start, 1 - matches.distances, matches.keys.astype(np.int64), cosine)


def semdedup(vectors: Matrix, cosine: float, effort: int) -> Pairs:
    means = faiss.Kmeans(vectors.shape[1], effort, niter=10, spherical=True, seed=1)
    means.train(_sample(vectors, effort))
    cell = means.index.search(vectors, 1)[1][:, 0]
    order = np.argsort(cell, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(cell[order])) + 1):
        inside = vectors[members]
        for start in range(0, len(members), BLOCK):
            similar = inside[start : start + BLOCK] @ inside.T
            left, right = np.nonzero(similar >= cosine - SLACK)
            yield members[left + start], members[right]


TOOLS: dict[str, tuple[Callable[[Matrix, float, int], Pairs], str, int]] = {
    "faiss-ivf": (ivf, "faiss-cpu", 4),
    "faiss-hnsw": (hnsw, "faiss-cpu", 64),
    "usearch": (usearch, "usearch", 64),
    "semdedup": (semdedup, "faiss-cpu", 1000),
}
"""Each tool with its distribution and its usual effort."""


def _sample(vectors: Matrix, cells: int) -> Matrix:
    chosen = np.random.default_rng(1).permutation(len(vectors))[: cells * TRAINED]
    return vectors[np.sort(chosen)]


def _reaching(
    start: int, similar: Matrix, found: NDArray[np.int64], cosine: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    row, place = np.nonzero((similar >= cosine - SLACK) & (found >= 0))
    return row + start, found[row, place]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("vectors")
    parser.add_argument("cosine", type=float)
    parser.add_argument("out")
    parser.add_argument("--effort", type=int)
    parser.add_argument("--most-seconds", type=int, default=0, help="then it is ended")
    args = parser.parse_args()
    signal.alarm(args.most_seconds)  # ends the process, also inside of a library
    find, package, usual = TOOLS[args.tool]
    effort = args.effort or usual
    faiss.omp_set_num_threads(len(os.sched_getaffinity(0)))
    start = time.perf_counter()
    vectors = np.load(args.vectors)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    parts = []
    for left, right in find(vectors, args.cosine, effort):
        low, high = np.minimum(left, right), np.maximum(left, right)
        parts.append(np.stack([low, high], axis=1)[low < high])
    pairs = np.unique(np.concatenate(parts), axis=0)
    np.save(args.out, pairs)
    report = {"seconds": time.perf_counter() - start, "pairs": len(pairs), "effort": effort}
    print(json.dumps({"peer": package, "version": version(package), **report}))


if __name__ == "__main__":
    main()
