"""Compare a tuned operating point with the default, on a million tweets at 0.9.

    python benches/tuned.py --data DIR [--work DIR]

`neardup tune` looks at a sample, then `neardup dedup` runs over all documents on one core, as by
default and as tuned. Recall is against all pairs that are 0.9 similar, by an exact join. Results
go to `benches/results/tuned.json` and `tuned.md`. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from corpora import count_of, plain
from measure import measured
from predicted import joined, neardup, recall
from startup import command
from suite import Suite, work_folder
from table import Figure, Row

THRESHOLD = 0.9
WANTED = (0.99, 0.999)
APART = 0.005


@dataclass(frozen=True)
class Bench:
    corpus: Path
    work: Path
    repeat: int


def tweets(bench: Bench) -> Figure:
    exact = joined(bench.corpus, THRESHOLD)
    rows = [_row("default", bench, exact, "--threshold", THRESHOLD)]
    for wanted in WANTED:
        folder = bench.work / f"tuned-{wanted}"
        neardup(
            "tune",
            bench.corpus,
            "--threshold",
            THRESHOLD,
            "--recall",
            wanted,
            "--no-cache",
            "-o",
            folder,
        )
        rows.append(_row(f"tuned for {wanted}", bench, exact, "--config", folder / "tuned.toml"))
    default, *tuned = rows
    targets = {
        f"{row['']}: recall within {APART} of the default, and cheaper": abs(
            row["recall"] - default["recall"]
        )
        <= APART
        and row["seconds"] < default["seconds"]
        for row in tuned
    }
    data = f"{count_of(bench.corpus):,} tweets, {len(exact[1][0]):,} pairs at {THRESHOLD}, one core"
    return Figure("Tuned against default", data, rows, targets)


def _row(name: str, bench: Bench, exact: tuple, *options: object) -> Row:
    out, core = bench.work / "out", sorted(os.sched_getaffinity(0))[:1]
    words = [
        command(),
        "dedup",
        bench.corpus,
        "-o",
        out,
        "--no-kept",
        "--force",
        "--quiet",
        *options,
    ]
    best = min(
        (measured(list(map(str, words)), core, {}) for _ in range(bench.repeat)),
        key=lambda one: one.seconds,
    )
    record = json.loads((out / "run.json").read_text())
    return {
        "": name,
        "slots": record["spec"]["slots"],
        "bands": record["parameters"]["tables"],
        "seconds": best.seconds,
        "memory MB": best.peak_mb,
        "compared a document": record["metrics"]["candidate_pairs_per_doc"],
        "removed": record["counts"]["removed"],
        "recall": recall(bench.work / "pairs", bench.corpus, exact, *options),
    }


SUITE = Suite("tuned", "Tuned against default", {"tweets": tweets})


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=3)
    parser.set_defaults(peers_python="")  # no peer tunes anything
    args = SUITE.parse(parser)
    with work_folder(args.work) as work:
        corpus = plain(Path(args.data) / "tweets_1m.jsonl.zst", work / "tweets_1m.jsonl")
        print(SUITE.measure(args, Bench(corpus, work, args.repeat), {}))


if __name__ == "__main__":
    sys.exit(main())
