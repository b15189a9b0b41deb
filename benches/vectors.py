"""Measure vectors beside the libraries for similar vectors, and both signals beside each alone.

    python benches/vectors.py --data DIR --peers-python .venv-bench/bin/python
    python benches/vectors.py --data DIR --peers-python ... --small

The vectors are made of texts (`tests/support/embeddings.py`). Everyone has both cores. Results go
to `benches/results/vectors.json` and `vectors.md`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import contenders
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from contenders import HERE, US, Result, dedup, module, output, race
from corpora import plain
from harness import documents
from races import times
from suite import Suite, work_folder
from table import Figure, Row

sys.path.insert(0, str(HERE.parent / "tests"))

from support.embeddings import (
    Matrix,
    WordVectors,
    crowd,
    hashed_vectors,
    mean_cosine,
    plant_copies,
    unit,
)

DIMENSION = 384
COSINE = 0.95
RECALL = 0.99
MEAN_COSINE = 0.5
LITTLE = "600MB"
"""The memory of our second run, which has no list of pairs."""
COPIES = 10
"""One of so many vectors is a planted copy of another one."""
SAMPLED = 10_000
"""Vectors whose pairs are found by brute force."""
BLOCK = 4_096
ASKED = ("--vectors", "vector", "--cosine", str(COSINE), "--no-kept", "--quiet")
WITNESSES = f"{US}, witnesses alone, --memory {LITTLE}"
EFFORTS = {
    "faiss-ivf": (1, 2, 4, 8, 16, 32),
    "faiss-hnsw": (64, 128, 256),
    "usearch": (64, 128, 256),
    "semdedup": (1000,),
}
"""What peers are tried with, until their recall is ours."""
MOST_SECONDS = 300
"""A peer that needs longer is ended."""
SHORT_TEXT = 20


@dataclass(frozen=True)
class Bench(contenders.Bench):
    """`small` takes a tenth of the data."""

    data: Path
    small: bool


@dataclass(frozen=True)
class Vectors:
    """Vectors on disk, for us and for peers, and the true pairs of some of them.

    Attributes:
        parquet: A table of ids and vectors.
        matrix: The same vectors, as NumPy stores them.
        sampled: The vectors of which all pairs are known, ascending.
        pairs: Their pairs (lower, higher), ascending, each once.
    """

    parquet: Path
    matrix: Path
    sampled: np.ndarray
    pairs: np.ndarray


def tweet_vectors(bench: Bench) -> Vectors:
    """Vectors of different tweets, every tenth of which is a copy at a cosine of 0.9 to 1."""
    count = 100_000 if bench.small else 1_000_000
    names = (f"vectors_{count}.parquet", f"vectors_{count}.npy", f"vectors_{count}.npz")
    parquet, matrix, truth = (bench.work / name for name in names)
    if not truth.exists():
        vectors = _make_vectors(bench, count)
        np.save(matrix, vectors)
        _write_parquet(vectors, parquet)
        sampled, pairs = _true_pairs(vectors)
        np.savez(truth, sampled=sampled, pairs=pairs)
    known = np.load(truth)
    return Vectors(parquet, matrix, known["sampled"], known["pairs"])


def _make_vectors(bench: Bench, count: int) -> Matrix:
    source = plain(bench.data / "tweets_1m.jsonl.zst", bench.work / "tweets_1m.jsonl")
    texts = list(dict.fromkeys(text for _, text in documents(source) if len(text) > SHORT_TEXT))
    vectors = WordVectors.fit(texts, DIMENSION).embed(texts)
    vectors = crowd(vectors[vectors.any(axis=1)], MEAN_COSINE)
    originals = vectors[: count - count // COPIES]
    chance = np.random.default_rng(1)
    copied = chance.integers(0, len(originals), count - len(originals))
    copies = plant_copies(originals[copied], chance.uniform(0.9, 1.0, len(copied)))
    return np.concatenate([originals, copies])[chance.permutation(len(originals) + len(copies))]


def _write_parquet(vectors: Matrix, path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), DIMENSION))])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as out:
        for start in range(0, len(vectors), 1 << 16):
            part = vectors[start : start + (1 << 16)]
            column = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), DIMENSION)
            ids = pa.array(np.arange(start, start + len(part)))
            out.write_table(pa.table([ids, column], schema))


def _true_pairs(vectors: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of a sample with anyone: products of float32, those near the bound in float64."""
    vectors = unit(vectors)
    sampled = np.sort(np.random.default_rng(2).choice(len(vectors), SAMPLED, replace=False))
    found = [np.empty((0, 2), np.int64)]
    for start in range(0, len(vectors), BLOCK):
        right, left = np.nonzero(
            vectors[start : start + BLOCK] @ vectors[sampled].T > COSINE - 1e-4
        )
        left, right = sampled[left], right + start
        a, b = vectors[left].astype(np.float64), vectors[right].astype(np.float64)
        exact = (a * b).sum(axis=1) / np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
        near = (exact >= COSINE) & (left != right)
        pairs = np.stack([np.minimum(left, right), np.maximum(left, right)], axis=1)[near]
        found.append(pairs)
    return sampled, np.unique(np.concatenate(found), axis=0)


def recall(known: Vectors, pairs: np.ndarray) -> float:
    """Return the share of the true pairs that are among the pairs (lower, higher)."""
    size = np.int64(1) << 32
    found = np.isin(known.pairs @ (size, 1), pairs.astype(np.int64) @ (size, 1))
    return float(found.mean())


def pairs(bench: Bench) -> Figure:
    known = tweet_vectors(bench)
    reached: dict[str, float] = {}
    entrants = {US: partial(_our_pairs, bench, known, reached)}
    few = (*ASKED, "--memory", LITTLE)
    entrants[WITNESSES] = partial(dedup, bench, known.parquet, len(bench.cores), *few)
    entrants |= {tool: partial(_peer_pairs, bench, known, tool, reached) for tool in EFFORTS}
    results = race(bench, entrants)
    ours = results[US]
    peers = [name for name in EFFORTS if results[name].works and reached[name] >= RECALL]
    fastest = min(peers, key=lambda name: results[name].seconds, default=None)
    rows = [_pairs_row(name, results, reached, fastest) for name in results]
    predicted = ours.report["predicted_recall"] if ours.works else None
    vectors = np.load(known.matrix, mmap_mode="r")
    crowded = mean_cosine(vectors[:20_000])
    return Figure(
        f"All pairs of {len(vectors):,} vectors of {DIMENSION} float32 with a cosine >= {COSINE}",
        f"word vectors of tweets, every tenth a planted copy, mean cosine {crowded:.2f}; recall by "
        f"{len(known.pairs):,} pairs of {len(known.sampled):,} vectors, found by brute force",
        rows,
        {
            "recall >= 0.99": ours.works and reached[US] >= RECALL,
            "recall as predicted, within 0.01": predicted and abs(reached[US] - predicted) <= 0.01,
            "at least 2 x the fastest peer of the same recall": fastest
            and results[fastest].seconds >= 2 * ours.seconds,
            "at most 600 MB besides the file": ours.peak_mb <= 600 if ours.works else None,
            "at most 600 MB, witnesses alone": results[WITNESSES].peak_mb <= 600
            if results[WITNESSES].works
            else None,
        },
    )


def _pairs_row(
    name: str, results: dict[str, Result], reached: dict[str, float], fastest: str | None
) -> Row:
    result = results[name]
    report = result.report or {}
    return {
        "tool": name,
        "seconds": result.seconds or None,
        "peak MB": result.peak_mb or None,
        "recall": reached.get(name),
        "x fastest peer": times(results[fastest], result) if fastest else None,
        "pairs": report.get("pairs"),
        "effort": report.get("effort"),
        "notes": result.error,
    }


def _our_pairs(bench: Bench, known: Vectors, reached: dict[str, float]) -> Result:
    result = dedup(bench, known.parquet, len(bench.cores), *ASKED, "--pairs")
    found = pq.read_table(output(bench) / "pairs.parquet", columns=["a", "b"])
    rows = np.stack([found[name].cast(pa.int64()).to_numpy() for name in ("a", "b")], axis=1)
    rows.sort(axis=1)
    reached[US] = recall(known, rows)
    report = {
        "pairs": len(rows),
        "predicted_recall": result.report["predicted"]["recall_at_threshold"],
    }
    return Result(result.seconds, result.peak_mb, report)


def _peer_pairs(bench: Bench, known: Vectors, tool: str, reached: dict[str, float]) -> Result:
    """Run a peer with more and more effort, until its recall is enough."""
    out = bench.work / f"{tool}.npy"
    for effort in EFFORTS[tool]:
        begun, limit = time.perf_counter(), ("--most-seconds", str(MOST_SECONDS))
        try:
            result = module(
                bench,
                bench.peers_python,
                "peers.vector_indexes",
                *(tool, known.matrix, str(COSINE), out, "--effort", str(effort), *limit),
                cores=len(bench.cores),
            )
        except RuntimeError:
            if time.perf_counter() - begun < MOST_SECONDS:
                raise
            return Result(error=f"ended after {MOST_SECONDS} s, effort {effort}")
        reached[tool] = recall(known, np.load(out))
        print(f"  {tool} {effort}: {reached[tool]:.4f}", file=sys.stderr, flush=True)
        if reached[tool] >= RECALL:
            break
    return result


def both(bench: Bench) -> Figure:
    """One run with both signals beside a run with each alone."""
    name = "rfc_10k" if bench.small else "rfc_100k"
    source = plain(bench.data / f"{name}.jsonl.zst", bench.work / f"{name}.jsonl")
    corpus = bench.work / f"{name}_vectors.parquet"
    if not corpus.exists():
        rows = list(documents(source))
        vectors = hashed_vectors([text for _, text in rows], DIMENSION)
        vectors[~vectors.any(axis=1), 0] = 1
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION)
        ids, texts = (pa.array(values) for values in zip(*rows, strict=True))
        pq.write_table(pa.table({"id": ids, "text": texts, "vector": column}), corpus)
    alone: dict[str, tuple[str, ...]] = {
        "text alone": (),
        "vectors alone": ("--vectors", "vector", "--cosine", str(COSINE)),
        "text or vectors": ("--also", f"vector:{COSINE}"),
        "text and vectors": ("--unless", "vector:0.6"),
    }
    entrants: dict[str, Callable[[], Result]] = {
        title: partial(dedup, bench, corpus, len(bench.cores), "--no-kept", "--quiet", *options)
        for title, options in alone.items()
    }
    results = race(bench, entrants)
    rows = [
        {
            "run": title,
            "seconds": result.seconds or None,
            "peak MB": result.peak_mb or None,
            "removed": result.report and result.report["counts"]["removed"],
            "notes": result.error,
        }
        for title, result in results.items()
    ]
    one, other = (results[title] for title in ("text alone", "vectors alone"))
    bound = 1.5 * (one.seconds + other.seconds)
    return Figure(
        "Text and vectors in one run",
        f"{corpus.name}, {corpus.stat().st_size / 1e6:,.0f} MB; hashed tf-idf, both cores",
        rows,
        {
            f"{title}: at most 1.5 x the sum of both alone": results[title].works
            and results[title].seconds <= bound
            for title in ("text or vectors", "text and vectors")
        },
    )


SUITE = Suite("vectors", "Vectors, measured", {"pairs": pairs, "both": both})


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=1)
    parser.add_argument("--small", action="store_true", help="a tenth of everything")
    args = SUITE.parse(parser)
    cores = tuple(sorted(os.sched_getaffinity(0)))
    heads = {"cores used": len(cores), "data": "small" if args.small else "full"}
    with work_folder(args.work) as work:
        bench = Bench(args.peers_python, cores, args.repeat, work, args.data, args.small)
        print(SUITE.measure(args, bench, heads))


if __name__ == "__main__":
    main()
