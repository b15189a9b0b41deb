"""Measure the exact truth: its time, beside comparing every pair, and the estimate of a sample.

    python benches/truth.py --data DIR

All cores; the best of two counts. Results go to `benches/results/truth.json` and `truth.md`.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from contenders import Bench, Result, module, race
from corpora import plain
from our_truth import sets_of
from suite import Suite, work_folder
from table import Figure, Row

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.evaluation.lab import as_documents
from neardup.evaluation.sample import choose_from_files
from neardup.evaluation.truth import brute_force
from neardup.pipeline.set_files import sort_sets
from neardup.sketcher import Sketcher
from neardup.spec import Spec

DOCUMENTS = 20_000
SEEDS = 5
EDGES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.01)


@dataclass(frozen=True)
class TruthBench(Bench):
    documents: Path
    tweets: Path


def pairs(bench: TruthBench) -> Figure:
    """Every pair of 20,000 documents."""
    entrants = {
        ("neardup", "word:5"): "join",
        ("every pair merged, all cores", "word:5"): "merge",
        ("Python sets, one core", "word:5"): "sets",
        ("neardup", "char:5"): "join",
        ("every pair merged, all cores", "char:5"): "merge",
    }
    found = race(
        bench,
        {
            f"{name}, {shingle}": partial(
                run, bench, bench.documents, way, shingle, "0.1", str(DOCUMENTS)
            )
            for (name, shingle), way in entrants.items()
        },
    )
    ours = [result for name, result in found.items() if name.startswith("neardup")]
    return Figure(
        "Brute force of 20,000 documents of 3 KB",
        f"the first of {bench.documents.name}, all pairs of at least 0.1; the time of the others "
        "is that of a share of the pairs at the same rate",
        [row(name, result) for name, result in found.items()],
        {
            "under 60 s": all(result.seconds < 60 for result in ours),
            "expected within 25 % or a second": all(map(foreseen, ours)),
        },
    )


def large(bench: TruthBench) -> Figure:
    """A million tweets."""
    found = race(
        bench,
        {
            shingle: partial(run, bench, bench.tweets, "join", shingle, "0.9")
            for shingle in ("word:3", "char:5")
        },
    )
    return Figure(
        "Exact join of a million tweets at 0.9",
        bench.tweets.name,
        [row(name, result) for name, result in found.items()],
        {"under 5 minutes": all(result.seconds < 300 for result in found.values())},
    )


def samples(bench: TruthBench) -> Figure:
    """What weighted samples say of all pairs."""
    cores = len(bench.cores)
    truth = brute_force(sets_of(bench.documents, "word:5", None), EDGES[0], cores)
    want = np.histogram(truth.similarity, EDGES)[0]
    rows = [shown("the truth", want, want)]
    totals = []
    for seed in range(SEEDS):
        begun = time.perf_counter()
        files = find_inputs([str(bench.documents)], "auto")
        chosen = choose_from_files(files, Columns(), DOCUMENTS, seed, Spec(), workers=cores)
        took = time.perf_counter() - begun
        cut = Sketcher(Spec()).cut(as_documents(chosen.texts)).shingles
        found = brute_force(sort_sets(cut), EDGES[0], cores)
        told = np.histogram(found.similarity, EDGES, weights=chosen.weights(found))[0]
        rows.append({**shown(f"seed {seed}", told, want), "seconds": took, "in_it": len(found.a)})
        totals.append(told.sum() / want.sum())
    return Figure(
        "What a sample of 20,000 documents says of all pairs",
        f"{bench.documents.name}, {truth.documents:,} documents, {len(truth.a):,} pairs of at "
        "least 0.5, most of them in a few large clusters; below, the sample's weighted pairs as a "
        "share of those",
        rows,
        {"mean of the ratios within 10 %": bool(abs(np.mean(totals) - 1) < 0.1)},
    )


def shown(name: str, told: np.ndarray, want: np.ndarray) -> Row:
    bins = {
        f"{a:g} to {min(b, 1):g}": float(t / w) if name != "the truth" else int(w)
        for a, b, t, w in zip(EDGES, EDGES[1:], told, want)
    }
    total = int(want.sum()) if name == "the truth" else float(told.sum() / want.sum())
    return {"sample": name, **bins, "all": total}


def run(bench: TruthBench, path: Path, *arguments: str) -> Result:
    return module(bench, sys.executable, "our_truth", path, *arguments, cores=len(bench.cores))


def foreseen(result: Result) -> bool:
    apart = abs(result.report["expected_s"] - result.seconds)
    return apart <= max(0.25 * result.seconds, 1.0)


def row(name: str, result: Result) -> Row:
    report = result.report or {}
    figures = {key: report.get(key) for key in ("expected_s", "pairs", "share")}
    return {
        "way": name,
        "seconds": result.seconds,
        "peak_mb": result.peak_mb,
        **figures,
        "error": result.error or None,
    }


SUITE = Suite("truth", "The exact truth", {"pairs": pairs, "large": large, "samples": samples})


def main() -> None:
    args = SUITE.parse(SUITE.parser(__doc__.splitlines()[0], repeat=2))
    with work_folder(args.work) as work:
        data = Path(args.data)
        documents = plain(data / "rfc_100k.jsonl.zst", work / "rfc_100k.jsonl")
        tweets = plain(data / "tweets_1m.jsonl.zst", work / "tweets_1m.jsonl")
        cores = tuple(sorted(os.sched_getaffinity(0)))
        bench = TruthBench(args.peers_python, cores, args.repeat, work, documents, tweets)
        print(SUITE.measure(args, bench, {"cores used": len(cores)}))


if __name__ == "__main__":
    main()
