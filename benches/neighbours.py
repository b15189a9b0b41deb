"""The Hamming index: random fingerprints, queries with planted neighbours, and a linear scan.

    python -m neighbours index|scan [--count 10000000] [--queries 1000000]

Half of the queries are a known fingerprint with 0 to 3 bits flipped, which must be found with their
distance; half are random. A sample of all is compared with the scan, match by match.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from neardup import HammingIndex, kernels

DISTANCE = 3
SAMPLE = 500


def planted(
    rng: np.random.Generator, known: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Queries, and of which fingerprint the first half are neighbours."""
    whose = rng.integers(0, len(known), count // 2)
    flips = np.zeros(len(whose), np.uint64)
    for flip in range(DISTANCE):
        wanted = rng.integers(0, DISTANCE + 1, len(whose)) > flip
        bits = rng.integers(0, 64, len(whose)).astype(np.uint64)
        flips |= np.where(wanted, np.uint64(1) << bits, np.uint64(0))
    others = rng.integers(0, 2**64, count - len(whose), dtype=np.uint64)
    return np.concatenate([known[whose] ^ flips, others]), whose


def scan(known: np.ndarray, queries: np.ndarray) -> dict[str, float]:
    """Every fingerprint for every query, of a sample."""
    kernels.search_all(queries[:1, None], known[:10, None], DISTANCE)
    start = time.perf_counter()
    kernels.search_all(queries[:SAMPLE, None], known[:, None], DISTANCE)
    each = (time.perf_counter() - start) / SAMPLE
    return {"seconds": each * len(queries), "microseconds_each": each * 1e6, "bytes": known.nbytes}


def index(known: np.ndarray, queries: np.ndarray, whose: np.ndarray) -> dict[str, object]:
    built = HammingIndex(64, DISTANCE)
    built.insert_many([0], known[:1])
    built.query(int(known[0]))  # compiles the kernels
    start = time.perf_counter()
    built = HammingIndex(64, DISTANCE)
    built.insert_many(np.arange(len(known)), known)
    building = time.perf_counter() - start
    start = time.perf_counter()
    query, id, distance = built.query_many(queries)
    seconds = time.perf_counter() - start
    found = set(zip(query.tolist(), id.tolist(), distance.tolist(), strict=True))
    apart = np.bitwise_count(queries[: len(whose)] ^ known[whose])
    wanted = zip(range(len(whose)), whose.tolist(), apart.tolist(), strict=True)
    missed = sum(match not in found for match in wanted)
    return {
        "seconds": seconds,
        "building_seconds": building,
        "microseconds_each": seconds / len(queries) * 1e6,
        "bytes": built.nbytes,
        "tables": str(built.blocks),
        "missed": missed,
        "differ_from_scan": len(_sampled(found, len(queries)) ^ _scanned(known, queries)),
    }


def _places(count: int) -> np.ndarray:
    return np.linspace(0, count - 1, SAMPLE).astype(np.int64)


def _sampled(found: set[tuple[int, int, int]], count: int) -> set[tuple[int, int, int]]:
    places = set(_places(count).tolist())
    return {match for match in found if match[0] in places}


def _scanned(known: np.ndarray, queries: np.ndarray) -> set[tuple[int, int, int]]:
    places = _places(len(queries))
    matches = kernels.search_all(queries[places][:, None], known[:, None], DISTANCE)
    return {(int(places[q]), int(row), int(apart)) for q, row, apart in matches.tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the Hamming index.")
    parser.add_argument("how", choices=("index", "scan"))
    parser.add_argument("--count", type=int, default=10_000_000)
    parser.add_argument("--queries", type=int, default=1_000_000)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    known = rng.integers(0, 2**64, args.count, dtype=np.uint64)
    queries, whose = planted(rng, known, args.queries)
    report = scan(known, queries) if args.how == "scan" else index(known, queries, whose)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
